"""Neighbouring axes that memory does not tell apart, made one through views of the tensors.

    x[c, h, w] * s[c] for h < 14, w < 14        ->        x[c, p] * s[c] for p < 196

In: two axes and the expressions that move with them, loads bound to physical tensors. Out: the joint axis
and the expressions over it, or None. Contractions join points and terms by it, maps what leaves a rest.
"""

from __future__ import annotations

from ingot.formula.expr import Expr, Extent, Load, Var, loads, static, transform
from ingot.formula.extents import extent
from ingot.formula.index import Bounds, Linear, from_linear, linear, mentions, product
from ingot.loops.access import known_strides, step
from ingot.loops.layout import Storage


def join(
    outer: Var, inner: Var, moved: tuple[Expr, ...], storage: Storage, bounds: Bounds
) -> tuple[Var, tuple[Expr, ...]] | None:
    """The one axis that the two become and the expressions over it; None where memory tells them apart."""
    count = static(inner.extent)
    axis = Var(_joint_name(outer.name, inner.name), static(outer.extent) * count)
    found = [load for e in moved for load in loads(e)]
    if any(0 in load.tensor.shape for load in found):
        return None  # a step is no distance where there is no element
    if axis.name in bounds or not all(_runs_on(load, storage, outer, inner, count) for load in found):
        return None

    def joined(node: Expr) -> Expr | None:
        return _joined(node, storage, outer, inner, axis) if isinstance(node, Load) else None

    made = tuple(transform(e, joined) for e in moved)
    return None if any(mentions(e, a.name) for e in made for a in (outer, inner)) else (axis, made)


def _runs_on(load: Load, storage: Storage, outer: Var, inner: Var, count: int) -> bool:
    """Whether one step of the outer axis is where the inner axis' next step after its last would be."""
    far, near = step(load, outer.name), step(load, inner.name)
    if load.outside is not None or far is None or near is None or far != near * count:
        return False
    lo, hi = _moved(load, outer, inner)
    t = load.tensor
    return near == 0 or (t not in storage.fixed and t.shape[lo:hi] == t.spans[lo:hi])


def _moved(load: Load, outer: Var, inner: Var) -> tuple[int, int]:
    """The dimensions that the axes move, from the first to behind the last."""
    dims = [d for d, i in enumerate(load.index) if mentions(i, outer.name) or mentions(i, inner.name)]
    return (dims[0], dims[-1] + 1) if dims else (0, 0)


def _joint_name(outer: str, inner: str) -> str:
    """What two axes are called as one: parts of one axis, in whatever order, are that axis again."""
    whole, _, part = outer.rpartition("_")
    is_split = part in ("outer", "inner") and inner.rpartition("_")[0] == whole
    return whole if is_split else outer + inner


def _joined(load: Load, storage: Storage, outer: Var, inner: Var, axis: Var) -> Load:
    """The load over a view whose dimensions from the outer axis' to the inner's are one."""
    lo, hi = _moved(load, outer, inner)
    if hi == 0:
        return load
    t, sizes = load.tensor, known_strides(load.tensor)
    form: Linear = {}
    for d in range(lo, hi):
        far, near = sizes[d], sizes[hi - 1]
        assert far is not None and near is not None, "axes that run on move by numbers"
        for atom, k in linear(load.index[d]).items():
            form[atom] = form.get(atom, 0) + k * (far // near)
    del form[outer]
    form[axis] = form.pop(inner)
    if hi - lo > 1:
        t = storage.view(t, _collapsed(t.shape, lo, hi), _collapsed(t.spans, lo, hi))
    return Load(t, (*load.index[:lo], from_linear(form), *load.index[hi:]))


def _collapsed(extents: tuple[Extent, ...], lo: int, hi: int) -> tuple[Extent, ...]:
    return (*extents[:lo], extent(product(extents[lo:hi])), *extents[hi:])
