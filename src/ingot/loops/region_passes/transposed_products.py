"""Products of two tensors that are both transposed first: the result is transposed instead.

    xt = transpose(x)                             y_transposed[n, m] = sum(z[n, k] * x[k, m] for k)
    zt = transpose(z)                       ->    y[m, n] = y_transposed[n, m]
    y[m, n] = sum(xt[m, k] * zt[k, n] for k)

Read in place, `x` is what vectors go along and `z` what repeats one element, which is the product that
`contract` likes best. To transpose the result takes as long as it has elements, to transpose the operands as
long as they have.

In: a stage that sums products, and what the tensors it reads are in terms of others. Out: the stage over the
sources, and the one that transposes what it makes; None where that is no such product or does not pay.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ingot.formula.compute import Compute
from ingot.formula.expr import Binary, Load, Tensor, Var, loads
from ingot.formula.index import mentions
from ingot.loops.inner_products import is_product

Source = Callable[[Load], Load | None]
"""What a load reads of a source; None where its tensor is not made of another, or is made for nothing."""


def transposed_product(c: Compute, source: Source) -> tuple[Compute, Compute] | None:
    """The product of the sources, stored transposed, and the stage that transposes that."""
    r = c.reduction
    if r is None or not is_product(c) or c.at or len(r.axes) != 1 or c.out.rank < 2:
        return None
    if not isinstance(r.term, Binary) or not all(isinstance(a.extent, int) for a in (*c.axes, *r.axes)):
        return None
    a, b = (source(x) for x in loads(r.term)) if len(tuple(loads(r.term))) == 2 else (None, None)
    *outer, m, n = c.axes
    if a is None or b is None or not _stands_so(a, b, m, n, r.axes[0]):
        return None
    if any(mentions(i, m.name) for x in loads(c.value) for i in x.index):
        return None
    if c.out.count > a.tensor.count + b.tensor.count:
        return None
    shape = (*c.out.shape[:-2], *c.out.shape[:-3:-1])
    made = Tensor(f"{c.out.name}_transposed", c.out.type, shape)
    axes = (*outer, n, m)
    product = replace(c, out=made, axes=axes, reduction=replace(r, term=Binary("mul", b, a)))
    return product, Compute(c.out, c.axes, made[axes])


def _stands_so(a: Load, b: Load, m: Var, n: Var, k: Var) -> bool:
    """Whether the memory of one runs along m, that of the other along the terms."""
    plain = all(x.outside is None and x.tensor.value is None and x.index for x in (a, b))
    if not plain or a.index[-1] != m or b.index[-1] != k:
        return False
    return not any(mentions(i, n.name) for i in a.index) and not any(mentions(i, m.name) for i in b.index)
