"""The golden numbers of NAME_selftest, by the loop evaluator, which no C compiler has a part in.

In: a program and its bundle without a self-test, which tells of its inputs. Out: a `SelfTest`.
Called by `write` for `--selftest`.
"""

from __future__ import annotations

from ingot.bundle.bundle import Bundle
from ingot.bundle.golden import as_passed, golden_inputs, starts
from ingot.emit.digest import SelfTest, Sums, checksum, part_of, sums_of
from ingot.errors import InputError
from ingot.formula.evaluate import IndexOutOfRange
from ingot.formula.expr import Array, Tensor
from ingot.formula.types import DType
from ingot.loops.program import Call, Program
from ingot.loops.trace import trace


def selftest_of(program: Program, bundle: Bundle) -> SelfTest:
    """Seeded random inputs, and what every call makes of them.

    Raises InputError for a model that refuses such inputs: as indices they are out of range, say.
    """
    inputs, extents = golden_inputs(bundle)
    made: dict[Call, dict[Tensor, int | Sums]] = {}

    def note(call: Call, t: Tensor, array: Array) -> None:
        made.setdefault(call, {})[t] = digest(t.type, array)

    params = {p.name: p.hi for p in program.params}
    try:
        outputs = trace(program, {**inputs, **starts(program)}, params, note)
    except IndexOutOfRange as error:
        raise InputError(
            f"--selftest: the model refuses golden inputs, which are random numbers: {error}",
            remedy="leave --selftest out; --emit main checks a run of your own inputs' kind",
        ) from None
    given = tuple(map(as_passed, inputs.values()))
    return SelfTest(given, tuple(map(as_passed, outputs)), tuple(extents.values()), made)


def digest(t: DType, array: Array) -> int | Sums:
    """What is compared of an array that a call has made."""
    if not t.is_float:
        return checksum(array.astype(t.compute.numpy) if t.is_narrow else array)
    return sums_of(array.astype(t.compute.numpy), part_of(t))
