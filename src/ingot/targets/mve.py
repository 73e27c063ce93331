"""What the routines for Helium (MVE), the vectors of Cortex-M55 and M85, have in common.

In: nothing. Out: the condition of their assembly, and the instructions that they share.
"""

from __future__ import annotations

from collections.abc import Iterator

HAS_MVE = "defined(__ARM_FEATURE_MVE) && defined(__ARM_FP)"


def narrowed(kind: str, q: str, zero: str) -> Iterator[str]:
    """Floats of a register, rounded to even, plus a zero point, limited: bytes, each in four.

    What no int32 holds is limited by the conversion, so the zero point is added with saturation.
    """
    narrow = "vqmovunb.s16" if kind == "uint8" else "vqmovnb.s16"
    yield from (f"vcvtn.s32.f32 {q}, {q}", f"vqadd.s32 {q}, {q}, {zero}", f"vqmovnb.s32 {q}, {q}")
    yield f"{narrow} {q}, {q}"


def less_if_negative(free: str, *registers: str) -> Iterator[str]:
    """One less of each integer below 0: what makes a half that is rounded up go away from 0."""
    for q in registers:
        yield from (f"vshr.s32 {free}, {q}, #31", f"vadd.i32 {q}, {q}, {free}")


def paired(kind: str, low: str, high: str, zero: str) -> Iterator[str]:
    """Floats of two registers, rounded to even, as `packed` has them."""
    yield from (f"vcvtn.s32.f32 {q}, {q}" for q in (low, high))
    yield from packed(kind, low, high, zero)


def packed(kind: str, low: str, high: str, zero: str) -> Iterator[str]:
    """Integers of two registers plus a zero point, limited: eight bytes in `low`, each in two; a byte of
    `high` stands behind that of `low` that comes from the same place.

    Sixteen bits hold all that is not limited in the end, and a zero point more.
    """
    narrow = "vqmovunb.s16" if kind == "uint8" else "vqmovnb.s16"
    yield from (f"vqmovnb.s32 {low}, {low}", f"vqmovnt.s32 {low}, {high}", f"vqadd.s16 {low}, {low}, {zero}")
    yield f"{narrow} {low}, {low}"
