"""The processors a kernel module is made for, and what the compilers must be told."""

from __future__ import annotations

from dataclasses import dataclass

FRAME_BYTES = 512  # of the kernel stack, for each function
PREBUILT = (
    "-mcmodel=kernel",
    "-mno-red-zone",
    "-fno-pic",
    "-fcf-protection=none",
    "-mstack-alignment=8",
    "-mretpoline-external-thunk",
    "-mfunction-return=thunk-extern",
    "-mharden-sls=all",
    f"-Wframe-larger-than={FRAME_BYTES}",
)


@dataclass(frozen=True, slots=True)
class Variant:
    """What one variant needs: the CPU features that Linux checks, and the kernel's compiler flags.

    The kernel's own flags forbid vector registers one by one, so they are allowed one by one again.
    """

    target: str
    checks: tuple[str, ...]
    flags: tuple[str, ...]

    @property
    def symbol(self) -> str:
        """The target as part of a C name."""
        return self.target.replace("-", "_")


SSE2 = ("-msse", "-msse2")
AVX2 = (*SSE2, "-msse3", "-mssse3", "-msse4.1", "-msse4.2", "-mavx", "-mavx2", "-mfma", "-mf16c", "-mbmi2")
AVX512 = (*AVX2, *(f"-mavx512{x}" for x in ("f", "bw", "cd", "dq", "vl")), "-mprefer-vector-width=512")
VARIANTS = {
    v.target: v
    for v in (
        Variant("x86-64", (), SSE2),
        Variant("x86-64-v3", ("AVX2", "FMA", "F16C", "BMI2"), AVX2),
        Variant("x86-64-v4", ("AVX512F", "AVX512BW", "AVX512CD", "AVX512DQ", "AVX512VL"), AVX512),
    )
}
DEFAULT = "+".join(VARIANTS)
