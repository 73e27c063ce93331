"""Maps that end or begin with bytes (`map_routines.py`), on a Cortex-M with an FPU and the DSP extension.

In: nothing. Out: their assembly: four elements at a time, then one by one what is left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ingot.targets.map_routines import Maps
from ingot.targets.routines import HAS_PAIRS

FOURS = 4


def _sums(kind: str) -> Iterator[str]:
    """r0, r1: operands, r2: where sums go, r3: how many; s0, s1: their scales, s2: scale; r8-r10: zeros."""
    yield from ("push {r4-r10, lr}", "ldrd r8, r9, [sp, #32]", "ldr r10, [sp, #40]")
    yield from (*_counted(lambda n: _some_sums(kind, n)), "pop {r4-r10, pc}")


def _some_sums(kind: str, count: int) -> Iterator[str]:
    for at, zero, first, scale in (("r0", "r8", 4, "s0"), ("r1", "r9", 8, "s1")):
        yield from _numbers(kind, count, at, zero, first)
        yield from (f"vmul.f32 s{n}, s{n}, {scale}" for n in range(first, first + count))
    yield from (f"vadd.f32 s{n}, s{n}, s{n + 4}" for n in range(4, 4 + count))
    yield from (f"vdiv.f32 s{n}, s{n}, s2" for n in range(4, 4 + count))
    yield from (*_rounded(kind, count, "r10"), *(f"strb r{n}, [r2], #1" for n in range(4, 4 + count)))


def _bytes(kind: str) -> Iterator[str]:
    """r0: floats, r1: where bytes go, r2: how many, r9: how far apart; r10: the zero point; s0: scale, s3: a
    quotient that is limited, which stands for what is no number. Where a comparison of two finds such, all
    that are left go one by one.
    """
    yield from ("push {r4-r10, lr}", "ldr r10, [sp, #32]", "vdiv.f32 s3, s2, s0", "vneg.f32 s3, s3")
    yield from ("mov r9, r3", "mov r3, r2", *_counted(lambda n: _some_bytes(kind, n), "sub r0, r0, #16"))
    yield "pop {r4-r10, pc}"


def _some_bytes(kind: str, count: int) -> Iterator[str]:
    compared = "vmrs APSR_nzcv, fpscr"
    yield f"vldm r0!, {_floats_from_s4(count)}"
    yield from (f"vdiv.f32 s{n}, s{n}, s0" for n in range(4, 4 + count))
    if count == 1:
        yield from ("vcmp.f32 s4, s4", compared, "it vs", "vmovvs.f32 s4, s3")
    else:
        yield from ("vcmp.f32 s4, s5", compared, "bvs 5f", "vcmp.f32 s6, s7", compared, "bvs 5f")
    yield from _rounded(kind, count, "r10")
    for n in range(4, 4 + count):
        yield from (f"strb r{n}, [r1]", "add r1, r1, r9")


def _floats(kind: str) -> Iterator[str]:
    """r0: bytes, r1: where floats go, r2: how many; r8: the zero point; s0: scale."""
    yield from ("push {r4-r8, lr}", "mov r8, r3", "mov r3, r2")
    yield from (*_counted(lambda n: _some_floats(kind, n)), "pop {r4-r8, pc}")


def _some_floats(kind: str, count: int) -> Iterator[str]:
    yield from _numbers(kind, count, "r0", "r8", 4)
    yield from (f"vmul.f32 s{n}, s{n}, s0" for n in range(4, 4 + count))
    yield f"vstm r1!, {_floats_from_s4(count)}"


def _floats_from_s4(count: int) -> str:
    """A list of registers; GNU's assembler refuses a range of one."""
    return "{s4}" if count == 1 else f"{{s4-s{3 + count}}}"


def _counted(some: Callable[[int], Iterator[str]], back: str = "") -> Iterator[str]:
    """What is done with r3 elements, four at a time; `back` is done where four jump to 5 and are left."""
    yield from ("subs r3, r3, #4", "blt 2f", "1:", *some(FOURS), "subs r3, r3, #4", "bge 1b")
    if back:
        yield from ("b 2f", "5:", back)
    yield from ("2:", "adds r3, r3, #4", "beq 4f", "3:", *some(1), "subs r3, r3, #1", "bne 3b", "4:")


def _numbers(kind: str, count: int, at: str, zero: str, first: int) -> Iterator[str]:
    """Bytes less their zero point, in registers of floats."""
    load = "ldrb" if kind == "uint8" else "ldrsb"
    yield from (f"{load} r{n}, [{at}], #1" for n in range(4, 4 + count))
    yield from (f"sub r{n}, r{n}, {zero}" for n in range(4, 4 + count))
    yield from _moved("s", first, "r", 4, count)
    yield from (f"vcvt.f32.s32 s{n}, s{n}" for n in range(first, first + count))


def _rounded(kind: str, count: int, zero: str) -> Iterator[str]:
    """Floats from s4 on as bytes from r4 on. What no int32 holds is limited as it is converted, and again."""
    yield from (f"vcvtr.s32.f32 s{n}, s{n}" for n in range(4, 4 + count))
    yield from _moved("r", 4, "s", 4, count)
    yield from (f"qadd r{n}, r{n}, {zero}" for n in range(4, 4 + count))
    yield from (f"{'usat' if kind == 'uint8' else 'ssat'} r{n}, #8, r{n}" for n in range(4, 4 + count))


def _moved(to: str, first: int, of: str, from_: int, count: int) -> Iterator[str]:
    """Registers of the one kind to the other, two at once."""
    for n in range(0, count - 1, 2):
        yield f"vmov {to}{first + n}, {to}{first + n + 1}, {of}{from_ + n}, {of}{from_ + n + 1}"
    if count % 2:
        yield f"vmov {to}{first + count - 1}, {of}{from_ + count - 1}"


SCALARS = Maps(HAS_PAIRS, _sums, _bytes, _floats)
