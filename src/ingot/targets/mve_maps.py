"""Maps that end or begin with bytes (`map_routines.py`), four elements at a time, by Helium.

In: nothing. Out: their assembly. Helium does not divide. A quotient is a product with the nearest float of
1 / scale, corrected by what it leaves of the dividend, which a fused multiplication gives exactly
(P. W. Markstein, "Computation of elementary functions on the IBM RISC System/6000 processor", 1990).

Vectors of floats take denormals for 0: scales between `SCALES` keep that from every byte.
"""

from __future__ import annotations

from collections.abc import Iterator

from ingot.targets.map_routines import Maps
from ingot.targets.mve import HAS_MVE, narrowed


def _sum_of_four(kind: str) -> Iterator[str]:
    """r0, r1: operands, r2: where sums go; r4, r5: their scales; r6: 1 / scale, q3: scale; r8-r10: zeros."""
    load = _load(kind)
    yield from (".arch_extension mve.fp", "push {r4-r10, lr}", "vmov r4, s0", "vmov r5, s1", "vmov r7, s2")
    yield from ("vmov r6, s3", "vdup.32 q3, r7", "ldrd r8, r9, [sp, #32]", "ldr r10, [sp, #40]")
    yield from ("dlstp.32 lr, r3", "1:", f"{load} q0, [r0], #4", f"{load} q1, [r1], #4")
    yield from ("vsub.i32 q0, q0, r8", "vsub.i32 q1, q1, r9", "vcvt.f32.s32 q0, q0", "vcvt.f32.s32 q1, q1")
    yield from ("vmul.f32 q0, q0, r4", "vmul.f32 q1, q1, r5", "vadd.f32 q0, q0, q1", *_quotient("r6"))
    yield from (*narrowed(kind, "q1", "r10"), "vstrb.32 q1, [r2], #4", "letp lr, 1b", "pop {r4-r10, pc}")


def _four_bytes(kind: str) -> Iterator[str]:
    """r0: floats, r1: where bytes go, q2: how far apart, r3: to the next four; r4: 1 / scale, q3: scale;
    r5: the zero point; q4, q5: limits. The larger of a limit and no number is the limit.
    """
    yield from (".arch_extension mve.fp", "push {r4-r7, lr}", "vpush {d8-d11}", "vmov r4, s1", "vmov r5, s0")
    yield from ("vmov r6, s2", "vdup.32 q3, r5", "vdup.32 q4, r6", "vneg.f32 q5, q4", "mov r6, #0")
    yield from ("vidup.u32 q2, r6, #1", "vmul.i32 q2, q2, r3", "lsl r3, r3, #2", "ldr r5, [sp, #52]")
    yield from ("dlstp.32 lr, r2", "1:", "vldrw.u32 q0, [r0], #16", "vmaxnm.f32 q0, q0, q5")
    yield from ("vminnm.f32 q0, q0, q4", *_quotient("r4"), *narrowed(kind, "q1", "r5"))
    yield from ("vstrb.32 q1, [r1, q2]", "add r1, r1, r3", "letp lr, 1b", "vpop {d8-d11}", "pop {r4-r7, pc}")


def _four_floats(kind: str) -> Iterator[str]:
    """r0: bytes, r1: where floats go; r3: the zero point, r4: scale."""
    yield from (".arch_extension mve.fp", "push {r4, lr}", "vmov r4, s0", "dlstp.32 lr, r2", "1:")
    yield from (f"{_load(kind)} q0, [r0], #4", "vsub.i32 q0, q0, r3", "vcvt.f32.s32 q0, q0")
    yield from ("vmul.f32 q0, q0, r4", "vstrw.32 q0, [r1], #16", "letp lr, 1b", "pop {r4, pc}")


def _load(kind: str) -> str:
    """Loads four bytes as integers of 32 bits."""
    return f"vldrb.{kind[0].replace('i', 's')}32"


def _quotient(per: str) -> Iterator[str]:
    """q1 = q0 / q3, where a register holds what one in q3 is."""
    yield from (f"vmul.f32 q1, q0, {per}", "vfms.f32 q0, q1, q3", f"vfma.f32 q1, q0, {per}")


VECTORS = Maps(HAS_MVE, _sum_of_four, _four_bytes, _four_floats)
