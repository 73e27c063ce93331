"""Scratch of stages that run one after the other in every iteration of a loop, in the same bytes.

    pairs: int16[18, 2, 2] of one stage, pairs: int16[72, 2, 2] of another -> scratch: int16[288] of both

What a stage reads of its scratch it wrote in the same iteration, so that nothing is lost when others write
there meanwhile. In: statements, the scratch tensors of each stage. Out: the statements on the common ones,
one for every type. Called by `streamed`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from ingot.formula.expr import Const, Expr, Load, Tensor, static, transform
from ingot.formula.index import simplify
from ingot.formula.statements import Statement
from ingot.loops.layout import Storage
from ingot.loops.rewrite import rewritten

ALIGN = 64  # bytes: tensors of one stage begin where vectors would

Places = Mapping[Tensor, tuple[Tensor, int]]
"""The common tensor of each, and the element it begins at."""


def share_scratch(
    body: tuple[Statement, ...], each: Sequence[Iterable[Tensor]], storage: Storage, owner: Tensor
) -> tuple[Statement, ...]:
    """The statements with the scratch of all stages in that of the `owner`."""
    starts: dict[Tensor, int] = {}
    sizes: dict[str, int] = {}
    types = {t.type.name: t.type for stage in each for t in stage}
    for stage in each:
        ends: dict[str, int] = {}
        for t in sorted(stage, key=lambda t: t.name):
            starts[t] = ends.get(t.type.name, 0)
            unit = max(1, ALIGN // t.type.bytes)
            ends[t.type.name] = starts[t] + -(-t.count // unit) * unit
            sizes[t.type.name] = max(sizes.get(t.type.name, 0), starts[t] + t.count)
    made = {name: storage.scratch(owner, (n,), f"scratch_{name}", types[name]) for name, n in sizes.items()}
    places = {t: (made[t.type.name], start) for t, start in starts.items()}
    return rewritten(body, lambda e: transform(e, partial(_moved, places)))


def _moved(places: Places, e: Expr) -> Expr | None:
    """An element of scratch where it is in the common one."""
    if not isinstance(e, Load) or e.tensor not in places:
        return None
    common, start = places[e.tensor]
    at: Expr = Const(0)
    for i, n in zip(e.index, e.tensor.shape, strict=True):
        at = at * static(n) + i
    return replace(e, tensor=common, index=(simplify(at + start),))
