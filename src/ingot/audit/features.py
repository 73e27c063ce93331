"""Which instructions are outside of what a target has, or beyond the least of its kind.

In: decoded code, a target and flags. Out: what each instruction needs that is not there. Called by
`audit.py`.
The pinned toolchain is asked, so nothing is listed twice and a user's own flags count. x86: what features its
macros declare, beside the CPUID bits of each instruction. All others: whether LLVM's assembler takes the
instruction for this target, and what it says is missing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from ingot.audit.decode import UNKNOWN, Instruction
from ingot.binary.record import ObjectFile
from ingot.errors import InputError
from ingot.targets.process import check, zig
from ingot.targets.record import Target
from ingot.targets.toolchain import macros

Needs = Callable[[Instruction], frozenset[str]]
NEEDS = "needs "
_IT = re.compile("it[te]{0,3} ")
NOTHING: frozenset[str] = frozenset()

# What every x86 has, and hints that are no operations where they are not known.
_X86 = (
    "intel8086 intel8086_only intel186 intel286 intel386 intel486 cpuid multibytenop pause cet_ibt "
    "fpu fpu287 fpu387 tsc x64 cx8 cmov"
)
_X86_MACROS = {
    "__BMI__": "bmi1",
    "__PCLMUL__": "pclmulqdq",
    "__RDRND__": "rdrand",
    "__PRFCHW__": "prefetchw",
    "__GCC_HAVE_SYNC_COMPARE_AND_SWAP_16": "cmpxchg16b",
}
_MACHINES = {
    "EM_X86_64": "x86_64",
    "EM_386": r"i\d86",
    "EM_AARCH64": "aarch64|arm64",
    "EM_ARM": "arm(?!64)|thumb",
    "EM_RISCV": "riscv",
    "EM_PPC64": "powerpc64|ppc64",
    "EM_PPC": "powerpc(?!64)|ppc(?!64)",
    "EM_S390": "s390x|systemz",
    "EM_MIPS": "mips",
    "EM_SPARC": "sparc(?!v9)",
    "EM_SPARCV9": "sparcv9|sparc64",
    "EM_LOONGARCH": "loongarch",
    "EM_WASM": "wasm",
    "EM_HEXAGON": "hexagon",
    "EM_QDSP6": "hexagon",
    "EM_LANAI": "lanai",
    "EM_VE": "ve",
}
_ASSEMBLER = {"EM_ARM": ("-Wa,-mimplicit-it=always",)}
_POWERPC_NAMES = re.compile(r"\b(?:vs|cr|r|f|v)(\d+)(?:lt|gt|eq|un|so)?\b")


def beyond_base(file: ObjectFile, code: Sequence[Instruction]) -> Needs:
    """What instructions need; beside x86 only what the least processor of the kind does not have."""
    if file.machine in ("EM_X86_64", "EM_386"):
        return lambda i: i.features
    return _refused(file, code, _base(file, code))


def outside(
    file: ObjectFile, code: Sequence[Instruction], target: Target, flags: Sequence[str] = ()
) -> Needs:
    """What instructions need and the target, with more flags of the compiler, does not have."""
    machine = target.triple.partition("-")[0]
    if not re.match(_MACHINES.get(file.machine, "$"), machine):
        raise InputError(f"target '{target.name}' is another machine than that of this file")
    if file.machine in ("EM_X86_64", "EM_386"):
        allowed = x86_features(target, flags)
        return lambda i: i.features - allowed
    return _refused(file, code, ("-target", target.triple, *target.flags, *flags))


def x86_features(target: Target, flags: Sequence[str] = ()) -> frozenset[str]:
    """The features that code for the target may use, as iced-x86 names them: avx512_vnni."""
    from ingot.audit.decode import CPUID

    defined = macros(target, flags)
    short = {m.strip("_").replace("_", "").lower() for m in defined if re.fullmatch(r"__[A-Z0-9_]+__", m)}
    by_name = {name for name in CPUID.values() if name.replace("_", "") in short}
    return frozenset(by_name | {_X86_MACROS[m] for m in defined if m in _X86_MACROS} | set(_X86.split()))


def _base(file: ObjectFile, code: Sequence[Instruction]) -> tuple[str, ...]:
    """How clang is told of the least processor of the kind."""
    little = file.endian == "little"
    arm = "armv7a" if any(i.mode == "arm" for i in code) else "thumbv7m"
    triple = {
        "EM_AARCH64": "aarch64" if little else "aarch64_be",
        "EM_ARM": arm if little else arm.replace("v7", "ebv7"),
        "EM_RISCV": f"riscv{file.bits}",
        "EM_PPC64": "powerpc64le" if little else "powerpc64",
        "EM_PPC": "powerpc",
        "EM_S390": "s390x",
        "EM_MIPS": f"mips{'64' if file.bits == 64 else ''}{'el' if little else ''}",
        "EM_SPARC": "sparc",
        "EM_SPARCV9": "sparcv9",
        "EM_LOONGARCH": f"loongarch{file.bits}",
    }.get(file.machine, "")
    least = {"EM_RISCV": (f"-march=rv{file.bits}ic",), "EM_PPC64": ("-mcpu=ppc64",)}
    return ("-target", f"{triple}-none-elf", *least.get(file.machine, ()))


def _refused(file: ObjectFile, code: Sequence[Instruction], words: Sequence[str]) -> Needs:
    """Every text once to LLVM's assembler. Branches are left out: their operands are places."""
    lines = sorted({(i.mode, i.text) for i in code if i.text and i.goal is None and not _IT.match(i.text)})
    asked = [f".{mode}\n{text}" if mode else text for mode, text in lines]
    if file.machine in ("EM_PPC64", "EM_PPC"):  # LLVM's assembler wants the numbers alone
        asked = [_POWERPC_NAMES.sub(r"\1", text) for text in asked]
    text = "\n".join(asked) + "\n"
    options = (*words, *_ASSEMBLER.get(file.machine, ()), "-Wno-everything", "-ferror-limit=0")
    report = check((*zig("clang"), *options, "-c", "unit.s", "-o", "unit.o"), {"unit.s": text})
    missing = _by_line(report)
    step = [2 if mode else 1 for mode, _ in lines]
    at, table = 0, {}
    for key, lines_of_it in zip(lines, step, strict=True):
        at += lines_of_it
        said = missing.get(at) or (missing.get(at - 1) if lines_of_it == 2 else None)
        if said:
            table[key] = frozenset({said})
    unknown = frozenset({UNKNOWN})
    return lambda i: table.get((i.mode, i.text), NOTHING) if i.text else unknown


def _by_line(report: str) -> dict[int, str]:
    """Line -> what is missing there."""
    found: dict[int, str] = {}
    for line, level, said in re.findall(r"^unit\.s:(\d+):\d+: (error|note): (.*)$", report, re.M):
        needs = re.match(r"instruction requires(?: the following)?: (.*)", said)
        if needs and not found.get(int(line), "").startswith(NEEDS):
            found[int(line)] = NEEDS + needs[1]
        elif level == "error":
            found.setdefault(int(line), f"refused by LLVM's assembler: {said}")
    return {line: said.removeprefix(NEEDS) for line, said in found.items()}
