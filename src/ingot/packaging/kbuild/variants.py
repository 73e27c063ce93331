"""The processors a kernel module is made for, and what the compilers must be told."""

from __future__ import annotations

from dataclasses import dataclass

from ingot.options import Optimize
from ingot.targets.families.portable import MACHINE


@dataclass(frozen=True, slots=True)
class Section:
    """Between what a network computes, and how the C asks whether it must not.

    `forbidden` are the kernel's own flags against vector registers, without which the network's files are
    compiled, and `own` those that they get instead. `pin` and `unpin` keep the network on its CPU where
    `enter` does not; `helper` is a function that `is_busy` calls.
    """

    enter: str
    leave: str
    is_busy: str
    busy: str  # in words
    includes: tuple[str, ...] = ()
    forbidden: str = ""
    own: str = ""
    pin: str = ""
    unpin: str = ""
    helper: str = ""

    @property
    def has_floats(self) -> bool:
        return bool(self.forbidden)


FPU = Section(
    "kernel_fpu_begin()",
    "kernel_fpu_end()",
    "!irq_fpu_usable()",
    "the FPU cannot be used (irq_fpu_usable())",
    includes=("asm/fpu/api.h",),
    forbidden="-mno-sse -mno-mmx -mno-sse2 -mno-3dnow -mno-avx -msoft-float -mgeneral-regs-only",
    own="-mhard-float",
)
PLAIN = Section(
    "preempt_disable()",
    "preempt_enable()",
    "raw_cpu_read(ingot_sections.network)",
    "the CPU is in a section of this network",
    own="-mgeneral-regs-only",
)
"""Without the FPU: everywhere but on top of another section."""
NESTED = """
/* Since Linux 6.8, an interrupt may use vector registers on top of a section. */
static bool ingot_is_nested(void)
{
	const bool nested = get_cpu_var(ingot_sections).network;

	put_cpu_var(ingot_sections);
	return nested;
}
"""
NEON = Section(
    "kernel_neon_begin()",
    "kernel_neon_end()",
    "!may_use_simd() || ingot_is_nested()",
    "NEON cannot be used (may_use_simd()) or the CPU is in a section of this network",
    includes=("asm/neon.h", "asm/simd.h"),
    forbidden="-mgeneral-regs-only",
    # arm_neon.h must have the kernel's types of 64 bits, as in its asm/neon-intrinsics.h.
    own="-U__INT64_TYPE__ '-D__INT64_TYPE__=long long' "
    "-U__UINT64_TYPE__ '-D__UINT64_TYPE__=unsigned long long'",
    pin="\tpreempt_disable(); /* since Linux 6.8, kernel_neon_begin() does not */\n",
    unpin="\tpreempt_enable();\n",
    helper=NESTED,
)


@dataclass(frozen=True, slots=True)
class Processor:
    """A processor that Linux runs on: what its modules are called, and the kernel's setting that names it."""

    title: str
    setting: str
    cross: str = ""
    """What `make` is told to build on another processor."""
    saved_bytes: int = 0
    """Of the frame, what gcc does not count when it warns of large ones: registers that a function saves."""
    optimize: Optimize = "speed"
    """At most: more accumulators in a loop can take more of the stack than a function may."""


X86_64 = Processor("x86-64", "CONFIG_X86_64")
AARCH64 = Processor("aarch64", "CONFIG_ARM64", "ARCH=arm64 CROSS_COMPILE=aarch64-linux-gnu-", 160, "balanced")


@dataclass(frozen=True, slots=True)
class Variant:
    """What one variant needs: the C with which Linux checks the CPU's features, and flags of the compiler.

    The kernel's own flags forbid vector registers one by one, so they are allowed one by one again; a variant
    of general registers leaves them forbidden.
    """

    target: str
    checks: tuple[str, ...]
    flags: tuple[str, ...]
    section: Section = FPU
    processor: Processor = X86_64

    @property
    def symbol(self) -> str:
        """The target as part of a C name."""
        return self.target.replace("-", "_")

    @property
    def base(self) -> str:
        """The target whose instructions need no flag."""
        return GENERAL if self.target == GENERAL else self.processor.title


GENERAL = "x86-64-general"
SSE2 = ("-msse", "-msse2")
AVX2 = (
    *SSE2,
    *("-msse3", "-mssse3", "-msse4.1", "-msse4.2", "-mavx", "-mavx2", "-mfma", "-mf16c"),
    *("-mpopcnt", "-mbmi", "-mbmi2", "-mlzcnt", "-mmovbe"),
)
WIDE = ("AVX512F", "AVX512BW", "AVX512CD", "AVX512DQ", "AVX512VL")
AVX512 = (*AVX2, *(f"-m{x.lower()}" for x in WIDE), "-mprefer-vector-width=512")
V3 = tuple(
    f"boot_cpu_has(X86_FEATURE_{x})"
    for x in ("AVX2", "FMA", "F16C", "POPCNT", "BMI1", "BMI2", "ABM", "MOVBE")  # ABM: lzcnt
)
V4 = (*V3, *(f"boot_cpu_has(X86_FEATURE_{x})" for x in WIDE))
DOTPROD = ("cpu_have_named_feature(ASIMDDP)",)
I8MM = (*DOTPROD, "cpu_have_named_feature(I8MM)")
VARIANTS = {
    v.target: v
    for v in (
        Variant("x86-64", (), SSE2),
        Variant("x86-64-v3", (*V3, "cpu_has_xfeatures(XFEATURE_MASK_YMM, NULL)"), AVX2),
        Variant("x86-64-v4", (*V4, "cpu_has_xfeatures(XFEATURE_MASK_AVX512, NULL)"), AVX512),
        Variant(GENERAL, (), (), PLAIN),
        Variant("aarch64", (), (), NEON, AARCH64),
        Variant("aarch64-dotprod", DOTPROD, ("-march=armv8.2-a+dotprod",), NEON, AARCH64),
        Variant("aarch64-i8mm", I8MM, ("-march=armv8.2-a+dotprod+i8mm",), NEON, AARCH64),
    )
}
OFFERS = tuple(
    tuple(v.target for v in VARIANTS.values() if v.processor is processor and v.target != GENERAL)
    for processor in (X86_64, AARCH64)
)
"""What a module can be made for: some of one of these, the first of them always; or GENERAL alone."""
DEFAULT = OFFERS[1 if MACHINE == "aarch64" else 0]
