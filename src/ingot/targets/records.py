"""The targets by family, and how to find one by what users call it. A target is a record of `families/`.

In: a name, an alias, or `native`. Out: a `Target`. Called by the driver and by tests. Every flag was tried
with its compiler.
"""

from __future__ import annotations

import difflib
import functools
import platform
from pathlib import Path
from types import MappingProxyType

from ..errors import InputError
from .families import arm_a, arm_m, desktop, others, portable, riscv, wasm, x86
from .record import Target

FAMILIES = MappingProxyType(
    {
        "portable": portable.TARGETS,
        "x86": x86.TARGETS,
        "Arm Cortex-A, Neoverse": arm_a.TARGETS,
        "Arm Cortex-M": arm_m.TARGETS,
        "RISC-V": riscv.TARGETS,
        "WebAssembly": wasm.TARGETS,
        "Windows and macOS": desktop.TARGETS,
        "others": others.TARGETS,
    }
)
TARGETS = MappingProxyType({t.name: t for family in FAMILIES.values() for t in family})
ALIASES = MappingProxyType({alias: t for t in TARGETS.values() for alias in t.aliases})
SMALL_INT = "its int has 16 bits, and the C of bundles needs 32"
XTENSA = (
    "its core is an Xtensa, which the pinned compiler does not build for; --target c99 makes C for your own: "
    "--emit c, --package esp-idf, or --cc"
)
OUT_OF_REACH = MappingProxyType(
    {
        **dict.fromkeys(("xtensa", "esp32", "esp32-s2", "esp32-s3", "esp32s2", "esp32s3", "esp8266"), XTENSA),
        **dict.fromkeys(("avr", "atmega328p", "atmega2560", "attiny85", "arduino-uno"), SMALL_INT),
        **dict.fromkeys(("arduino-nano", "arduino-mega", "msp430"), SMALL_INT),
        **dict.fromkeys(
            ("nvptx", "nvptx64", "cuda", "amdgcn", "r600", "gpu"), "bundles run on processors, not on GPUs"
        ),
        "xcore": "the pinned compiler makes no objects for it",
        "thumbeb": "--target armv7-a-be is big-endian, in Arm's code instead of Thumb's",
        "wasm64": "its modules run only where memories of 64 bits are switched on; --target wasm32-simd128",
        **dict.fromkeys(("bpf", "bpfel", "bpfeb"), "its functions take at most five arguments and no floats"),
    }
)
"""What users name that no record is for, and why."""
SEVERAL = MappingProxyType(
    {
        **dict.fromkeys(
            ("arm", "thumb", "arm32"), ("cortex-m0", "cortex-m4", "cortex-m33", "armv7-a", "aarch64")
        ),
        "cortex-m": ("cortex-m0", "cortex-m4", "cortex-m7", "cortex-m33", "cortex-m55"),
        "cortex-a": ("cortex-a7", "cortex-a53", "cortex-a76"),
        **dict.fromkeys(("riscv", "risc-v", "rv32"), ("rv32imc", "rv32imafc", "rv32gc", "riscv64")),
        **dict.fromkeys(("stm32", "stm"), ("stm32f0", "stm32f4", "stm32h7", "stm32u5")),
        "arduino": ("arduino-uno-r4", "arduino-nano-33-ble", "arduino-due", "arduino-zero"),
    }
)
"""Names of families, as other compilers take them, and some of their members."""
BEGUN = 5  # characters of a family's name that a chip's begins with: stm32f407 is an stm32f4
CLOSE = 0.72  # of difflib's ratio: below, a name is no misspelling
_MACHINE = platform.machine()


def find(name: str) -> Target:
    """The record of that name or alias; "native" is the best record this machine can run."""
    if name == "native":
        return native()
    same = name.lower().replace("_", "-")
    known = next((t for n in (name, same, name.lower()) if (t := TARGETS.get(n) or ALIASES.get(n))), None)
    if known is not None:
        return known
    if why := OUT_OF_REACH.get(same):
        raise InputError(f"there is no target '{name}': {why}")
    if members := SEVERAL.get(same):
        raise InputError(
            f"target '{name}' stands for several processors",
            remedy=f"name one, such as {', '.join(members)}; ingot targets lists them",
        )
    raise InputError(f"unknown target '{name}'", remedy=f"{_suggestion(name)}ingot targets lists them")


def find_all(names: str) -> list[Target]:
    """The records of one name, or of several joined by `+`: names may hold one themselves (cortex-m0+).

    Raises InputError for one that is joined with itself, and where no program can tell processors apart.
    """
    if names in ALIASES or names in TARGETS:
        return [find(names)]
    found = [find(name) for name in names.split("+")]
    for target in found:
        if found.count(target) > 1:
            raise InputError(f"target '{names}' has {target.name} twice", remedy="name each target once")
        if len(found) > 1 and not target.triple.startswith("x86_64"):
            raise InputError(
                f"target '{names}': {target.name} has no way to ask which instructions there are",
                remedy="join targets of 64-bit x86, or make a bundle for each",
            )
    return found


def _suggestion(name: str) -> str:
    """The longest alias that this name begins with, as a chip's does with its family's, or the name or alias
    that is spelled most alike, if any is.
    """
    name = name.lower().replace("_", "-")
    family = sorted((a for a in ALIASES if name.startswith(a) and len(a) >= BEGUN), key=len)[-1:]
    known = ("native", *TARGETS, *ALIASES)
    found = family or difflib.get_close_matches(name, known, n=1, cutoff=CLOSE)
    if not found:
        return ""
    alias = ALIASES.get(found[0])
    return f"did you mean '{found[0]}'{f', which is {alias.name}' if alias else ''}? "


@functools.cache
def native() -> Target:
    """The best record whose instructions this processor lists: never above what is there."""
    present = cpu_features()
    order = {"x86_64": x86.NATIVE, "AMD64": ("x86-64",), "aarch64": arm_a.NATIVE}
    usable = (name for name in order.get(_MACHINE, ()) if present.issuperset(TARGETS[name].features))
    return TARGETS[next(usable, "c99")]


@functools.cache
def cpu_features() -> frozenset[str]:
    """Flags of the first processor in /proc/cpuinfo (`flags` on x86, `Features` on Arm)."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []
    flags = (line.split(":", 1)[1] for line in lines if line.lower().startswith(("flags", "features")))
    return frozenset(next(flags, "").split())
