"""The processors a kernel module is made for, and what the compilers must be told."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Section:
    """Between what a network computes, and how the C asks whether it must not."""

    enter: str
    leave: str
    is_busy: str
    busy: str  # in words


FPU = Section(
    "kernel_fpu_begin()",
    "kernel_fpu_end()",
    "!irq_fpu_usable()",
    "the FPU cannot be used (irq_fpu_usable())",
)
PLAIN = Section(
    "preempt_disable()",
    "preempt_enable()",
    "raw_cpu_read(ingot_sections.network)",
    "the CPU is in a section of this network",
)
"""Without the FPU: everywhere but on top of another section."""


@dataclass(frozen=True, slots=True)
class Variant:
    """What one variant needs: the CPU features that Linux checks, and the kernel's compiler flags.

    The kernel's own flags forbid vector registers one by one, so they are allowed one by one again; a variant
    of general registers leaves them forbidden.
    """

    target: str
    checks: tuple[str, ...]
    flags: tuple[str, ...]
    section: Section = FPU

    @property
    def symbol(self) -> str:
        """The target as part of a C name."""
        return self.target.replace("-", "_")


BASE, GENERAL = "x86-64", "x86-64-general"
SSE2 = ("-msse", "-msse2")
AVX2 = (
    *SSE2,
    *("-msse3", "-mssse3", "-msse4.1", "-msse4.2", "-mavx", "-mavx2", "-mfma", "-mf16c"),
    *("-mpopcnt", "-mbmi", "-mbmi2", "-mlzcnt", "-mmovbe"),
)
AVX512 = (*AVX2, *(f"-mavx512{x}" for x in ("f", "bw", "cd", "dq", "vl")), "-mprefer-vector-width=512")
V3 = ("AVX2", "FMA", "F16C", "POPCNT", "BMI1", "BMI2", "ABM", "MOVBE")  # ABM: lzcnt
VARIANTS = {
    v.target: v
    for v in (
        Variant("x86-64", (), SSE2),
        Variant("x86-64-v3", V3, AVX2),
        Variant(GENERAL, (), (), PLAIN),
        Variant("x86-64-v4", (*V3, *(f"AVX512{x}" for x in ("F", "BW", "CD", "DQ", "VL"))), AVX512),
    )
}
DEFAULT = "+".join(v for v in VARIANTS if v != GENERAL)
