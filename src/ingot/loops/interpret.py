"""The formula-level evaluator of a whole region: groups by their formulas, branches and loops as they read.

In: a region and arrays for its inputs. Out: an array for every tensor reached. Tests use it to tell a wrong
formula from wrong loops, `ingot verify` to tell rounding from errors.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from ingot.formula.evaluate import Arrays, IndexOutOfRange, run_stages, size
from ingot.formula.expr import Array, Tensor
from ingot.formula.index import upper
from ingot.loops.region import Either, Group, Item, Iterate, Region, reads_of


def interpret(
    region: Region, inputs: Mapping[str, Array], params: Mapping[str, int] | None = None
) -> list[Array]:
    """The outputs of a region for inputs given by name."""
    arrays: Arrays = {t: np.asarray(inputs[t.name]) for t in region.inputs}
    with np.errstate(all="ignore"):
        _run(region, arrays, dict(params or {}))
    return [_of(t, arrays) for t in region.outputs]


def part_of(region: Region, known: Collection[Tensor], wanted: tuple[Tensor, ...]) -> Region:
    """The items that make `wanted` of `known` tensors and the region's inputs; its inputs are what they read.

    What an item makes beside the wanted is not known: a kernel's outputs are made together.
    """
    missing, kept = set(wanted), list[Item]()
    given = {*region.inputs, *known}
    for item in reversed(region.items):
        made = _made(item)
        if made & missing:
            given -= made
            missing |= made  # who else writes a part of them
            missing.update(t for t in reads_of(item) if t not in given)
            kept.append(item)
    made = {t for item in kept for t in _made(item)}
    read = dict.fromkeys(t for item in kept[::-1] for t in reads_of(item))
    asked = dict.fromkeys(wanted)
    return Region(tuple(t for t in {**read, **asked} if t in given and t not in made), wanted, kept[::-1])


def _made(item: Item) -> set[Tensor]:
    match item:
        case Group():
            return set(item.writes)
        case Either(results=results):
            return set(results)
        case Iterate():
            return set(item.writes)


def _of(t: Tensor, arrays: Arrays) -> Array:
    return t.value if t.value is not None else arrays[t]


def _run(region: Region, arrays: Arrays, params: dict[str, int]) -> None:
    for item in region.items:
        match item:
            case Group():
                run_stages(item.stages, arrays, params)
            case Either():
                side = item.then if _of(item.condition, arrays).reshape(-1)[0] else item.other
                _run(side, arrays, params)
                for inner, outer in zip(side.outputs, item.results, strict=True):
                    arrays[outer] = _of(inner, arrays)
            case Iterate():
                _iterate(item, arrays, params)


def _iterate(item: Iterate, arrays: Arrays, params: dict[str, int]) -> None:
    turn, active, *carried = item.body.inputs
    state = [_of(t, arrays) for t in item.initial]
    goes = item.condition is None or bool(_of(item.condition, arrays).reshape(-1)[0])
    trips = None if item.trips is None else int(_of(item.trips, arrays).reshape(-1)[0])
    slices: list[list[Array]] = [[] for _ in item.stacked]
    count = 0
    while goes and (trips is None or count < trips):
        arrays[turn], arrays[active] = np.array(count, np.int64), np.array(goes).reshape((1,) * active.rank)
        inner = {**arrays, **dict(zip(carried, state, strict=True))}
        _run(item.body, inner, params)
        condition, *made = (_of(t, inner) for t in item.body.outputs)
        state, goes, count = made[: len(state)], bool(condition.reshape(-1)[0]), count + 1
        for row, value in zip(slices, made[len(state) :], strict=False):
            row.append(value)
    for tensor, array in zip(item.results, state, strict=True):
        if tensor is not None:
            arrays[tensor] = array
    for tensor, row, turns in zip(item.stacked, slices, item.turns, strict=True):
        if tensor is not None:
            _stack(tensor, row, turns, arrays, params)


def _stack(
    whole: Tensor, row: list[Array], turns: Tensor | int | None, arrays: Arrays, params: dict[str, int]
) -> None:
    """The slices of all iterations; how many there are is noted, or checked."""
    if len(row) > upper(whole.shape[0]) or (isinstance(turns, int) and len(row) != turns):
        raise IndexOutOfRange(f"{whole.name}: {len(row)} turns (ERR_CAPACITY)")
    if isinstance(turns, Tensor):
        arrays[turns] = np.array(len(row), np.int64)
    rest = [size(n, params, arrays) for n in whole.shape[1:]]
    arrays[whole] = np.stack(row) if row else np.zeros([0, *rest], whole.type.numpy)
