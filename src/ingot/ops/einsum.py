"""Einsum: any sum of products over named axes.

In: an equation such as `...ij,...jk->...ik` and its operands. Out: one contraction, or a chain of them in
which each operand is multiplied into what came before, and an axis is summed as soon as nothing later names
it: an axis of one operand alone before anything is multiplied.
"""

from __future__ import annotations

from collections import Counter

from ingot.formula.expr import Const, Expr, Extent, Tensor, Var
from ingot.formula.types import DType
from ingot.ops.elementwise import AT_ONCE
from ingot.ops.registry import Builder, is_data, op, shapes_text

Operand = tuple[Tensor, tuple[str, ...]]
DOTS = "..."


@op("Einsum", since=12)
def einsum(f: Builder, *inputs: Tensor, equation: str) -> Tensor:
    """The product of the operands, summed over every axis that the output does not name (ONNX Einsum-12)."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    f.require(
        len(terms) == len(inputs), f"equation {equation!r} has {len(terms)} operands, not {len(inputs)}"
    )
    operands = [(t, _labels(f, term, t.rank, equation)) for t, term in zip(inputs, terms, strict=True)]
    sizes = _sizes(f, operands)
    operands = [_settled(f, operand, sizes) for operand in operands]
    dots = sorted((s for s in sizes if len(s) > 1), reverse=True)
    if arrow:
        output = _expanded(right, tuple(dots))
    else:
        letters = [s for _, labels in operands for s in labels if len(s) == 1]
        output = (*dots, *sorted(s for s in set(letters) if letters.count(s) == 1))
    sound = set(output) <= sizes.keys() and len(set(output)) == len(output)
    f.require(sound, f"the output of {equation!r} names an axis twice, or one that no operand has")
    dtype = inputs[0].type
    last = {s: i for i, (_, labels) in enumerate(operands) for s in labels}  # who names each
    last.update(dict.fromkeys(output, len(operands)))
    if len(operands) > 1:
        named = Counter(s for _, labels in operands for s in set(labels))
        kept = {*output, *(s for s, n in named.items() if n > 1)}
        operands = [_summed(f, operand, kept, sizes, dtype.compute) for operand in operands]
    done = operands[0]
    for i, operand in enumerate(operands[1:-1], 1):
        both = dict.fromkeys((*done[1], *operand[1]))
        keep = tuple(s for s in both if last[s] > i)
        done = _product(f, [done, operand], keep, sizes, dtype.compute, "partial"), keep
        if i % AT_ONCE == 0:
            f.cuts.append(len(f.stages))
    return _product(f, [done, *operands[1:][-1:]], output, sizes, dtype, "y")


def _summed(f: Builder, operand: Operand, kept: set[str], sizes: dict[str, Extent], dtype: DType) -> Operand:
    """One of several operands, summed over the axes that it alone names: all but `kept`."""
    tensor, labels = operand
    if kept.issuperset(labels):
        return operand
    keep = tuple(s for s in dict.fromkeys(labels) if s in kept)
    own = dict(zip(labels, tensor.shape, strict=True))
    return _product(f, [(tensor, labels)], keep, {**sizes, **own}, dtype, "partial"), keep


def _expanded(term: str, dots: tuple[str, ...]) -> tuple[str, ...]:
    """The labels of a term, its ellipsis replaced by `dots`."""
    before, ellipsis, after = term.partition(DOTS)
    return (*before, *(dots if ellipsis else ()), *after)


def _labels(f: Builder, term: str, rank: int, equation: str) -> tuple[str, ...]:
    """One label per axis: a letter, or `e` and the place from the right for what an ellipsis stands for."""
    letters = term.replace(DOTS, "", 1)
    f.require(all(c.isascii() and c.isalpha() for c in letters), f"equation {equation!r} is not understood")
    hidden = rank - len(letters)
    fits = hidden >= 0 if DOTS in term else hidden == 0
    f.require(fits, f"the term {term!r} of {equation!r} does not fit rank {rank}")
    return _expanded(term, tuple(f"e{i:02d}" for i in reversed(range(hidden))))


def _sizes(f: Builder, operands: list[Operand]) -> dict[str, Extent]:
    """The extent of each label; one element broadcasts."""
    sizes: dict[str, Extent] = {}
    for tensor, labels in operands:
        for s, n in zip(labels, tensor.shape, strict=True):
            known = sizes.get(s, 1)
            same = n in (1, known) or known == 1 or is_data(n) or is_data(known)
            f.require(same, f"axis {s!r} has {known} and {n} elements")
            sizes[s] = n if known == 1 or (is_data(known) and n != 1) else known
    return sizes


def _settled(f: Builder, operand: Operand, sizes: dict[str, Extent]) -> Operand:
    """An operand in the extents of its labels: the bundle checks what is data."""
    tensor, labels = operand
    shape = tuple(n if n == 1 else sizes[s] for s, n in zip(labels, tensor.shape, strict=True))
    return f.settled(tensor, shape, f"shapes {shapes_text((tensor.shape, shape))} differ"), labels


def _product(
    f: Builder,
    operands: list[Operand],
    keep: tuple[str, ...],
    sizes: dict[str, Extent],
    dtype: DType,
    name: str,
) -> Tensor:
    """The product of one or two operands over the axes `keep`, summed over the others."""
    axes = {s: Var(s, sizes[s]) for _, labels in operands for s in labels}
    axes |= {s: Var(s, sizes[s]) for s in keep}
    term: Expr | None = None
    for tensor, labels in operands:
        shape = zip(labels, tensor.shape, strict=True)
        element = tensor.at(tuple(Const(0) if n == 1 else axes[s] for s, n in shape))
        term = element if term is None else term * element
    assert term is not None, "no operands"
    kept = tuple(axes[s] for s in keep)
    over = tuple(v for s, v in axes.items() if s not in keep)
    if not over:
        return f.map(kept, term, dtype, name)
    return f.reduce("sum", kept, over, term, dtype=dtype, name=name)
