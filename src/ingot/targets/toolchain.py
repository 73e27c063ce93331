"""Everything that compiles, links and packs: C text -> object -> shared library, archive or static program.

In: C text and a `Target`. Out: bytes. Called by the driver (objects of bundles), `bundle` (load and run) and
tests. The compiler is the clang of the `ziglang` wheel unless the caller names one, called as `zig clang`:
`zig cc` changes -O levels, adds debug information and needs a writable cache.

Objects for hosted targets are position-independent with hidden visibility, and are linked as they are, into
programs, kernel modules and shared libraries alike. `link_shared` therefore exports aliases (`exported`).
"""

from __future__ import annotations

import re
import shlex
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Literal

from ingot.binary.objects import undefined_symbols
from ingot.binary.read import read_object

from ..errors import InputError, ToolchainError
from .process import Content, machine_of, produce, remembered, run, tool_version, zig, zig_home, zig_version
from .record import Target
from .records import cpu_features
from .userland import KERNEL32, START

Relocation = Literal["static", "pic"]
PROGRAM = "unit.exe"
JOINERS = {"elf": "ld.lld", "wasm": "wasm-ld"}
"""What makes one object of several, by their format; COFF and Mach-O have no such linker."""
STRANGERS = frozenset(
    ("EM_XTENSA", "EM_68K", "EM_SH", "EM_ARC_COMPACT2", "EM_CSKY", "EM_MICROBLAZE", "EM_OPENRISC")
)
"""Of whose objects the pinned linker knows nothing: the compiler that made them joins them."""
LINKERS = {
    "elf": (
        *("ld.lld", "-static", "-e", "_start", "-z", "noexecstack", "--gc-sections", "--build-id=none"),
        *("-o", PROGRAM),
    ),
    "coff": ("lld-link", "/subsystem:console", "/entry:_start", "/nodefaultlib", f"/out:{PROGRAM}"),
    "wasm": (
        *("wasm-ld", "--no-entry", "--export=main", "--export-memory", "--gc-sections", "--allow-undefined"),
        *("-z", "stack-size=1048576", "-o", PROGRAM),
    ),
}
"""What links programs, and how."""
NO_PROGRAMS = {
    "elf": "the pinned linker does not know the processor",
    "coff": "nothing here runs them",
    "macho": "link its objects with macOS' own linker",
}

# No contraction: an FMA is where the emitter spelled one, so every compiler rounds alike. No jump tables:
# control flow can be read back from the code, which the stack bound needs.
COMMON = (
    "-std=gnu99",
    "-ffreestanding",
    "-fno-math-errno",
    "-fno-strict-aliasing",  # the arena holds floats now and integers a kernel later
    "-ffp-contract=off",
    "-fno-stack-protector",
    "-fno-asynchronous-unwind-tables",
    "-fno-unwind-tables",
    "-fno-ident",
    "-fno-common",
    "-fno-jump-tables",
    "-fomit-frame-pointer",
    "-fvisibility=hidden",
    "-ffunction-sections",
    "-fdata-sections",
    "-Wa,--noexecstack",
)
# Predictive commoning undoes register tiles; scheduling before allocation copies accumulators (Arm: 56, not
# 32 instructions for a term of an 8x2 tile); loop distribution makes calls of memset and memcpy.
GCC = (
    "-fno-predictive-commoning",
    "-fno-schedule-insns",
    "-fno-tree-loop-distribute-patterns",
    "-fno-stack-clash-protection",
)
# clang 22 makes wrong vectors for AVX2 of loops with conditional reads inside other conditions
# (tests/test_toolchain.py); tiles are vectors already, and no model of the benchmark suite changes.
CLANG = ("-mllvm", "-enable-if-conversion=false")
# Where a tile fills the vector registers: reordered once more, LeNet takes 12 % longer than clang's; of what
# redundancy elimination keeps for later, tiles of 13x2 spill (a transformer's product: 1.39 times clang's).
FULL_REGISTERS = ("-fno-schedule-insns2", "-fno-tree-pre", "-fno-gcse")
EXPORT_PREFIX = "ingot_export_"


def compile_c(
    source: str | Mapping[str, Content],
    target: Target,
    *,
    name: str = "unit.c",
    optimize: str = "-O3",
    flags: Sequence[str] = (),
    cc: str | Sequence[str] | None = None,
    relocation: Relocation | None = None,
    cache: Path | None = None,
    kind: Literal["object", "assembly"] = "object",
) -> bytes:
    """Object file of `source`: the text of `name`, or all files by relative name, `name` among them.

    A `.S` is assembled; of `kind` "assembly" the text that becomes the object is answered. `cc` is the user's
    own compiler, which gets the flags of the target's gcc.
    """
    files = {name: source} if isinstance(source, str) else source
    how, version = _compiler(target, cc)
    position = ("-fPIC",) if (relocation or target.relocation) == "pic" else ("-fno-pic",)
    what, made = ("-c", "unit.o") if kind == "object" else ("-S", "unit.s")
    options = (*how, *COMMON, *position, optimize, *flags)
    words = (*options, what, name, "-o", made)
    faster = partial(_parsed_header, options, files, target, cache) if cc is None else tuple
    return produce(words, files, made, version=version, cache_dir=cache, prefix_map=True, faster=faster)


def _parsed_header(
    options: Sequence[str], files: Mapping[str, Content], target: Target, cache: Path | None
) -> tuple[str, ...]:
    """Options by which clang takes the target's header as it was parsed once, if there is a cache to keep it.

    Parsing x86's takes twice as long as compiling a small kernel. The texts are in the result, so that clang
    need not find them again: its name in the cache says which options and which clang it is of.
    """
    texts = (f.encode() if isinstance(f, str) else f for n, f in files.items() if n.endswith(".c"))
    if not target.header or not any(isinstance(t, bytes) and target.header.encode() in t for t in texts):
        return ()
    command = (*options, "-Xclang", "-fmodules-embed-all-files", "-x", "c-header", "unit.h", "-o", "unit.pch")
    header = {"unit.h": target.header}
    found = remembered(command, header, "unit.pch", version=zig_version(), cache_dir=cache)
    return () if found is None else ("-Xclang", "-fno-validate-pch", "-include-pch", str(found))


def _compiler(target: Target, cc: str | Sequence[str] | None) -> tuple[tuple[str, ...], str]:
    """Command with target flags and what this compiler needs beyond `COMMON`; its version."""
    if cc is None:
        include = ("-nostdinc", "-isystem", str(zig_home() / "lib" / "include"))
        return (
            *zig("clang", "-target", target.triple),
            *target.flags,
            *include,
            "-fno-addrsig",
            *CLANG,
        ), zig_version()
    try:
        command = tuple(shlex.split(cc) if isinstance(cc, str) else cc)
    except ValueError as error:
        raise ToolchainError(f"the C compiler command {cc!r} is no command: {error}") from None
    if not command:
        raise ToolchainError("the C compiler command is empty")
    version = tool_version(command)
    _require_architecture(command, target)
    machine = target.gcc[1:] if target.gcc else target.flags
    return (*command, *machine, *_more(target, version)), f"{command[0]} {version}"


KINDS = {"i386": "x86", "i686": "x86", "x86": "x86", "thumb": "arm", "arm64": "aarch", "ppc": "powerpc"}

SMALL = ("avr", "msp")
"""Kinds of processors whose int is too small."""


def _require_architecture(command: tuple[str, ...], target: Target) -> None:
    """InputError for a compiler of the user's that makes code for other processors, as far as it says so."""
    made_for = machine_of(command)
    if _kind(made_for) in SMALL:
        raise InputError(
            f"--cc {command[0]} compiles for {made_for}, whose int has 16 bits; the C of bundles needs 32",
            remedy="choose a processor of 32 bits",
        )
    if target.is_portable or not made_for or _kind(made_for) == _kind(target.triple):
        return
    fits = f"--cc {target.gcc[0]}" if target.gcc else "leave --cc out"
    raise InputError(f"--cc {command[0]} compiles for {made_for}, not for {target.name}", remedy=fits)


def _kind(triple: str) -> str:
    """x86, arm, riscv: what one compiler builds for, by what its triples begin with."""
    named = (kind for begin, kind in KINDS.items() if triple.startswith(begin))
    found = re.match(r"[a-z]+", triple)
    return next(named, found[0] if found else triple)


def _more(target: Target, version: str) -> tuple[str, ...]:
    """What a compiler of the user's needs, told by the first line of its `--version`."""
    if is_gcc(version):
        return (*GCC, *(FULL_REGISTERS if target.vector_bytes else ()))
    return CLANG if "clang" in version else ()


def is_gcc(version: str) -> bool:
    """Whether the first line of `--version` is gcc's, whatever its name: "cc (Debian 12.2.0-14) 12.2.0"."""
    return "clang" not in version and ("gcc" in version or "cc (" in version or "Free Software" in version)


def exported(symbol: str) -> str:
    """Name under which a library made by `link_shared` exports `symbol`."""
    return EXPORT_PREFIX + symbol


def link_shared(objects: Sequence[bytes], exports: Sequence[str], *, cache: Path | None = None) -> bytes:
    """Shared library of objects linked unchanged.

    Their symbols are hidden, and no version script makes a hidden symbol visible again, so each export is an
    alias with default visibility: `ingot_export_NAME` = `NAME`. Look it up by `exported(name)`.
    """
    files = _numbered(objects)
    aliases = tuple(f"--defsym={exported(name)}={name}" for name in exports)
    options = ("-shared", "-Bsymbolic", "-z", "noexecstack", "-z", "defs", "--gc-sections", "--build-id=none")
    command = zig("ld.lld", *options, *aliases, *files, "-o", "unit.so")
    return produce(command, files, "unit.so", version=zig_version(), cache_dir=cache)


def relocatable(objects: Sequence[bytes], cc: str | None = None) -> bytes:
    """One object of several (code and weights), sections kept apart; `cc` is the user's compiler, if any."""
    files, first = _numbered(objects), read_object(objects[0])
    if cc is not None and first.machine in STRANGERS:
        command = (*shlex.split(cc), "-r", "-nostdlib", *files, "-o", "unit.o")
        return produce(command, files, "unit.o", version=tool_version(tuple(shlex.split(cc))))
    command = zig(JOINERS[first.format], "-r", *files, "-o", "unit.o")
    return produce(command, files, "unit.o", version=zig_version())


def archive(objects: Mapping[str, bytes]) -> bytes:
    """Static library; members by name, without dates and owners."""
    return produce(zig("ar", "rcsD", "unit.a", *objects), objects, "unit.a", version=zig_version())


def link_executable(objects: Sequence[bytes], target: Target) -> bytes:
    """Program without libc around `int main(void)`, for a run under `target.runner`: static, or a module.

    Its start code also defines `ingot_read`, `ingot_write` and the mem* functions a compiler may call; what
    else the compiler calls (64-bit integers, doubles) comes from its runtime library.
    """
    if not target.runs:
        raise ToolchainError(f"no programs are made for target '{target.name}': {NO_PROGRAMS[target.format]}")
    flags = ("-DBOARD",) if target.board else ()
    start = compile_c(START, target, name="start.c", relocation="static", flags=flags)
    files: dict[str, bytes] = _numbered([start, *objects])
    if target.runtime and any(n.startswith("__") for o in objects for n in undefined_symbols(o)):
        files["runtime.a"] = runtime_library(target)
    if target.format == "coff":
        files["kernel32.lib"] = _kernel32()
    script = ("-T", "board.ld") if target.board else ()
    command = zig(*LINKERS[target.format], *script, *files)
    return produce(command, {**files, "board.ld": target.board}, PROGRAM, version=zig_version())


@cache
def _kernel32() -> bytes:
    """What of Windows the start code calls, for the linker."""
    command = zig("dlltool", "-m", "i386:x86-64", "-d", "unit.def", "-l", "unit.lib")
    return produce(command, {"unit.def": KERNEL32}, "unit.lib", version=zig_version())


@cache
def runtime_library(target: Target) -> bytes:
    """What the pinned compiler calls where `target` has no instructions (compiler-rt), built by itself."""
    source, caches = zig_home() / "lib" / "compiler_rt.zig", ("--cache-dir", "c", "--global-cache-dir", "c")
    options = ("-OReleaseSmall", *target.runtime, "-fno-stack-check", *caches, "--name", "unit")
    return produce(zig("build-lib", str(source), *options), {}, "libunit.a", version=zig_version())


def obstacle(target: Target) -> str:
    """Why programs of `target` cannot run on this machine; empty if they can."""
    if not target.runs:
        return f"no programs are made for '{target.name}': {NO_PROGRAMS[target.format]}"
    if target.runner:
        return "" if shutil.which(target.runner[0]) else f"{target.runner[0]} is not installed"
    lacking = sorted(set(target.features) - cpu_features())
    return f"this processor has no {', '.join(lacking)}" if lacking else ""


def execute(program: bytes, target: Target, stdin: bytes = b"", timeout: float = 60) -> bytes:
    """Standard output of a program made by `link_executable`; ToolchainError unless it returns 0."""
    if reason := obstacle(target):
        raise ToolchainError(f"cannot run the program: {reason}")
    with tempfile.TemporaryDirectory(prefix="ingot-") as directory:
        path = Path(directory) / "program"
        path.write_bytes(program)
        path.chmod(0o755)
        return run((*target.runner, str(path)), path.parent, stdin, timeout)


def assemble(text: str, triple: str, *, listing: bool = False) -> bytes:
    """LLVM's assembler: an object, or with `listing` the source with encodings and fixups."""
    kind = ("-filetype", "asm", "-show-encoding") if listing else ("-filetype", "obj")
    command = zig("clang", "-cc1as", "-triple", triple, *kind, "unit.s", "-o", "unit.out")
    return produce(command, {"unit.s": text}, "unit.out", version=zig_version())


def macros(target: Target, flags: Sequence[str] = ()) -> dict[str, str]:
    """What the compiler defines by itself, for these flags: `__AVX2__` -> "1"."""
    how, version = _compiler(target, None)
    command = (*how, *COMMON, *flags, "-dM", "-E", "unit.c", "-o", "unit.h")
    text = produce(command, {"unit.c": ""}, "unit.h", version=version).decode()
    rows = (line.split(None, 2) for line in text.splitlines() if line.startswith("#define "))
    return {row[1]: row[2] if len(row) > 2 else "" for row in rows}


def link_wasm(objects: Sequence[bytes], exports: Sequence[str]) -> bytes:
    """WebAssembly module without imports that exports `memory`, where its free part begins, and `exports`."""
    files = _numbered(objects)
    names = tuple(f"--export={name}" for name in (*exports, "__heap_base"))
    command = zig(
        "wasm-ld", "--no-entry", "--export-memory", "--gc-sections", *names, *files, "-o", "unit.wasm"
    )
    return produce(command, files, "unit.wasm", version=zig_version())


def _numbered(objects: Sequence[bytes]) -> dict[str, bytes]:
    if not objects:
        raise ToolchainError("nothing to link: no objects")
    return {f"{i:04d}.o": data for i, data in enumerate(objects)}
