"""What a user says of a target beyond its name: the processor, its features, calls of floats, the code model.

In: a record and a `Machine`. Out: the record with other flags, or one InputError with what would be valid.
The compiler is asked: it knows its processors, models and features. Called by the driver and by what runs
bundles.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal, get_args

from ..errors import InputError
from .process import check, zig
from .record import Target
from .records import TARGETS
from .toolchain import compile_c, macros

FloatAbi = Literal["hard", "softfp", "soft"]
CodeModel = Literal["tiny", "small", "kernel", "medium", "large"]
CLOSEST = 4
MARCH = ("x86", "i386", "i686", "mips", "s390x", "loongarch")
"""Where compilers call a processor by `-march=`, and not by `-mcpu=`."""
_FEATURE = re.compile(
    r"__(SSE\w*|SSSE3|AVX\w*|FMA|F16C|BMI2?|ARM_FEATURE_(DSP|FMA|DOTPROD|MATMUL_INT8|MVE|DIRECTED_ROUNDING)|"
    r"riscv_(flen|mul|compressed|vector)|wasm_simd128|ALTIVEC|VSX|ARM_FP)_*"
)


@dataclass(frozen=True, slots=True)
class Machine:
    """As the options have it: `features` in LLVM's words, `+sse4a` and `-fma`. None: as the record says."""

    cpu: str | None = None
    features: tuple[str, ...] = ()
    float_abi: FloatAbi | None = None
    code_model: CodeModel | None = None

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Machine:
        """What a manifest's options say."""
        plain = {name: options.get(name) for name in ("cpu", "float_abi", "code_model")}
        return cls(features=tuple(options.get("features") or ()), **plain)


def adapted(target: Target, machine: Machine, cc: str | None = None) -> Target:
    """The record for that machine. InputError where the compiler or the record's instructions refuse it."""
    if machine == Machine():
        return target
    if machine.features and cc:
        raise InputError("--features are words of the pinned compiler", remedy="with --cc, use --cflags")
    made = _of_float_abi(_of_cpu(target, machine.cpu), machine.float_abi)
    made = _of_model(made, machine.code_model)
    made = _of_features(made, machine.features)
    _require_instructions(target, made, machine)
    return made


def _flags(target: Target, drop: Sequence[str], *add: str) -> Target:
    """Flags that begin like one of `drop` go, for either compiler."""

    def changed(flags: tuple[str, ...]) -> tuple[str, ...]:
        return (*(f for f in flags if not f.startswith(tuple(drop))), *add)

    gcc = None if target.gcc is None else (target.gcc[0], *changed(target.gcc[1:]))
    return replace(target, flags=changed(target.flags), gcc=gcc)


def _says(target: Target, *more: str) -> str:
    """What the compiler has against these flags; empty: nothing."""
    words = zig("clang", "-target", target.triple, *target.flags, *more, "-c", "unit.c", "-o", "unit.o")
    return check(words, {"unit.c": "int unit;\n"})


def _of_cpu(target: Target, cpu: str | None) -> Target:
    if cpu is None:
        return target
    word = "-march=" if target.triple.startswith(MARCH) else "-mcpu="
    own = _board_of(cpu)  # its flags may leave out what C must not use
    written = own if own is not None else target
    kept = [f.partition("+")[2] for f in written.flags if f.startswith(word) and "+" in f]
    made = _flags(target, ("-mcpu=", "-march="), word + "+".join((cpu, *kept)))
    if "error" in _says(made):
        near = difflib.get_close_matches(cpu, _cpus(target.triple), CLOSEST, 0.5)
        raise InputError(f"--cpu {cpu} is not a processor of {target.name}", remedy=_did_you_mean(near))
    if own is None:
        return made
    return replace(made, runner=own.runner, board=own.board)  # another board may lack its instructions


def _board_of(cpu: str) -> Target | None:
    """The record of a microcontroller's processor, whose board runs its programs."""
    called = re.compile(rf"-mcpu={re.escape(cpu)}(\+.*)?")
    return next((t for t in TARGETS.values() if t.board and any(map(called.fullmatch, t.flags))), None)


@cache
def _cpus(triple: str) -> tuple[str, ...]:
    """The processors that the compiler knows of an architecture."""
    said = check(zig("clang", "--print-supported-cpus", "-target", triple), {})
    return tuple(line.strip() for line in said.splitlines() if line.startswith("\t"))


def _of_float_abi(target: Target, abi: FloatAbi | None) -> Target:
    if abi is None:
        return target
    if abi not in get_args(FloatAbi):
        raise InputError(
            f"--float-abi {abi}: there is no such convention",
            remedy=f"choose from {', '.join(get_args(FloatAbi))}",
        )
    made = _flags(target, ("-mfloat-abi=",), f"-mfloat-abi={abi}")
    if "error" in _says(made):
        raise InputError(f"--float-abi is for 32-bit Arm; {target.name} has one way of passing floats")
    if abi != "soft" and "__ARM_FP" not in macros(made):
        raise InputError(
            f"--float-abi {abi}: {target.name} has no unit for floats", remedy="--float-abi soft"
        )
    return made


def _of_model(target: Target, model: CodeModel | None) -> Target:
    if model is None:
        return target
    position = "-fPIC" if target.relocation == "pic" else "-fno-pic"
    valid = [m for m in get_args(CodeModel) if "error" not in _says(target, f"-mcmodel={m}", position)]
    if model not in valid:
        remedy = f"choose from {', '.join(valid)}" if valid else "leave it out: the processor has one"
        raise InputError(f"{target.name} has no --code-model {model}", remedy=remedy)
    return _flags(target, ("-mcmodel=",), f"-mcmodel={model}")


def _of_features(target: Target, features: Sequence[str]) -> Target:
    """Features as LLVM calls them; one that the compiler ignores is refused."""
    for feature in features:
        if not re.fullmatch(r"[+-][\w.-]+", feature):
            raise InputError(f"--features {feature}: write +NAME or -NAME, as in +avx512fp16,-fma")
        said = _says(target, "-Xclang", "-target-feature", "-Xclang", feature)
        if "not a recognized feature" in said or "error" in said:
            near = difflib.get_close_matches(feature[1:], _features(target.triple), CLOSEST, 0.5)
            shown = [feature[0] + n for n in near]
            raise InputError(f"{target.name} has no --features {feature}", remedy=_did_you_mean(shown))
    words = [w for f in features for w in ("-Xclang", "-target-feature", "-Xclang", f)]
    made = replace(target, flags=(*target.flags, *words))
    _require_architecture(target, made, features)
    return made


def _require_architecture(target: Target, made: Target, features: Sequence[str]) -> None:
    """Some features of 32-bit Arm bring another architecture with them, which the processor does not have."""
    if _architecture(made) == _architecture(target):
        return
    wanted = _architecture(made)
    fit = next((t for t in TARGETS.values() if t.board and _architecture(t) == wanted), None)
    raise InputError(
        f"--features {','.join(features)} is of another architecture than {target.name}",
        remedy=f"--target {fit.name}" if fit else "",
    )


def _architecture(target: Target) -> str:
    """What objects of 32-bit Arm note of it; nothing of others, whose features are all extensions."""
    text = compile_c("int unit;", target, kind="assembly").decode()
    found = re.search(r"\.eabi_attribute\s+6, (\d+)", text)
    return found[1] if found else ""


@cache
def _features(triple: str) -> tuple[str, ...]:
    """Names to choose from: those of the compiler's list, and on x86 what its macros are called after."""
    said = check(zig("clang", "--print-supported-extensions", "-target", triple), {})
    names = re.findall(r"^    (\w[\w.-]*) ", said, re.M)
    if triple.startswith(("x86", "i386", "i686")):
        newest = replace(TARGETS["x86-64"], flags=("-march=diamondrapids",))
        names += [m.strip("_").lower() for m in macros(newest) if re.fullmatch(r"__[A-Z0-9_]+__", m)]
    return tuple(names)


def _require_instructions(target: Target, made: Target, machine: Machine) -> None:
    """The code of a record uses instructions: what is asked for must have them."""
    wanted, there = _instructions(target), _instructions(made)
    lacking = sorted(name for name, bits in wanted.items() if bits & ~there.get(name, 0))
    if not lacking:
        return
    arch = target.triple[:3]
    fits = [t for t in TARGETS.values() if t.triple[:3] == arch and t.format == target.format]
    fits = [t for t in fits if all(not bits & ~there.get(n, 0) for n, bits in _instructions(t).items())]
    nearest = max(fits, key=lambda t: (_is_called(t, machine.cpu), len(_instructions(t))), default=None)
    said = [f"--cpu {machine.cpu}"] if machine.cpu else []
    said += [f"--features {','.join(machine.features)}"] if machine.features else []
    said += [f"--float-abi {machine.float_abi}"] if machine.float_abi else []
    names = ", ".join(name.strip("_").lower() for name in lacking[:CLOSEST])
    raise InputError(
        f"{' '.join(said)} has no {names}, which code for {target.name} uses",
        remedy=f"--target {nearest.name}" if nearest else "",
    )


def _is_called(target: Target, cpu: str | None) -> bool:
    return cpu in (target.name, *target.aliases)


def _instructions(target: Target) -> dict[str, int]:
    """Macros that say which instructions there are, each with its bits."""
    found = {name: value for name, value in macros(target).items() if _FEATURE.fullmatch(name)}
    return {name: int(value, 0) if name == "__ARM_FP" else 1 for name, value in found.items()}


def _did_you_mean(near: Sequence[str]) -> str:
    return f"did you mean {' or '.join(near)}?" if near else ""
