"""Products of two tensors that lie transposed, or are transposed first: the result is transposed instead.

    xt = transpose(x)                             y_transposed[n, m] = sum(z[n, k] * x[k, m] for k)
    zt = transpose(z)                       ->    y[m, n] = y_transposed[n, m]
    y[m, n] = sum(xt[m, k] * zt[k, n] for k)

Read in place, `x` is what vectors go along and `z` what repeats one element, which is the product that
`contract` likes best. To transpose the result takes as long as it has elements, to transpose the operands as
long as they have. So it is where a result has few columns, and both operands have their terms outermost:
vectors along columns would be nearly empty.

In: a stage that sums products, and what the tensors it reads are in terms of others. Out: the stage over the
sources, and the one that transposes what it makes; None where that is no such product or does not pay.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ingot.formula.compute import Compute
from ingot.formula.expr import Binary, Load, Tensor, Var, loads, static
from ingot.formula.index import mentions
from ingot.loops.inner_products import is_product

WIDE = 16  # elements that fill any vector

Source = Callable[[Load], Load | None]
"""What a load reads of a source; None where its tensor is not made of another, or is made for nothing."""


def transposed_product(c: Compute, source: Source) -> tuple[Compute, Compute] | None:
    """The product of the sources, stored transposed, and the stage that transposes that."""
    r = c.reduction
    if r is None or not is_product(c) or c.at or len(r.axes) != 1 or c.out.rank < 2:
        return None
    if not isinstance(r.term, Binary) or not all(isinstance(a.extent, int) for a in (*c.axes, *r.axes)):
        return None
    read = tuple(loads(r.term))
    if len(read) != 2:
        return None
    a, b = (source(x) or x for x in read)
    *outer, m, n = c.axes
    if not _stands_so(a, b, m, n, r.axes[0]) or not _pays((a, b), read, m, n, r.axes[0]):
        return None
    if any(mentions(i, m.name) for x in loads(c.value) for i in x.index):
        return None
    shape = (*c.out.shape[:-2], *c.out.shape[:-3:-1])
    made = Tensor(f"{c.out.name}_transposed", c.out.type, shape)
    axes = (*outer, n, m)
    product = replace(c, out=made, axes=axes, reduction=replace(r, term=Binary("mul", b, a)))
    return product, Compute(c.out, c.axes, made[axes])


def _pays(found: tuple[Load, Load], read: tuple[Load, ...], m: Var, n: Var, k: Var) -> bool:
    """Whether to transpose the result takes less than what it saves: copies of both operands; or one that has
    the terms of all columns side by side, or vectors along few columns, where those along rows are full.
    """
    (a, b), rows, columns, terms = found, *(static(x.extent) for x in (m, n, k))
    transposed_first = [x is not y for x, y in zip(found, read, strict=True)]
    if all(transposed_first):
        return rows * columns <= a.tensor.count + b.tensor.count
    if any(transposed_first) or rows < WIDE:
        return False
    return rows < terms if b.index[-1] == k else columns < WIDE <= terms


def _stands_so(a: Load, b: Load, m: Var, n: Var, k: Var) -> bool:
    """Whether the memory of one runs along m, that of the other along the terms or along n."""
    plain = all(x.outside is None and x.tensor.value is None and x.index for x in (a, b))
    if not plain or a.index[-1] != m or b.index[-1] not in (k, n):
        return False
    return not any(mentions(i, n.name) for i in a.index) and not any(mentions(i, m.name) for i in b.index)
