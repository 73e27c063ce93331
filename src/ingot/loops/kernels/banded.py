"""The loops of a chain of stages whose tensors in between are bands: see `loops/region_passes/bands.py`.

    for every block of rows of the last stage
        move the rows of the band that are read again to its front
        for every row of the band that is new:  the stage before it, by the same rule
        the fill above and below the image
        the block's rows

In: the stages of a group, and how each is computed. Out: statements; those of a stage's rows are what the
generators write for an image of so many rows. Called by `generate`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from ingot.formula.compute import Compute, Stage
from ingot.formula.expr import (
    Const,
    Expr,
    Load,
    Tensor,
    Var,
    maximum,
    minimum,
    static,
    substitute,
    transform,
)
from ingot.formula.index import Bounds, as_expr, interval, simplify
from ingot.formula.statements import For, Statement, When
from ingot.loops.choice import Band, Choices
from ingot.loops.layout import Layout, Storage, fill_halo, row_buffer
from ingot.targets.record import Target

Rows = Callable[[Compute, Compute, Bounds], tuple[Statement, ...]]
"""What generators write for some rows of a stage, computed as the whole stage would be."""


def banded(
    stages: Sequence[Stage], choices: Choices, storage: Storage, target: Target, rows: Rows
) -> tuple[tuple[Statement, ...], int] | None:
    """Statements for the first stages, and for how many; None where the first makes no band."""
    chain: list[Compute] = []
    for stage in stages:
        if not isinstance(stage, Compute):
            return None
        chain.append(stage)
        if stage not in choices or choices[stage].band is None:
            break
    bands = [band for c in chain[:-1] if (band := choices[c].band) is not None]
    if not bands:
        return None
    links = [_Link(c, b, _buffer(c, b, storage)) for c, b in zip(chain, bands, strict=False)]
    return tuple(_Generator(chain, links, storage, target, rows).statements()), len(chain)


@dataclass(frozen=True, slots=True)
class _Link:
    """A stage, the band of what it makes, and the logical tensor that stands for the band."""

    maker: Compute
    band: Band
    buffer: Tensor

    @property
    def height(self) -> int:
        """The rows there are in all."""
        return static(self.maker.out.shape[self.band.dim])


def _buffer(c: Compute, band: Band, storage: Storage) -> Tensor:
    """The band as a tensor: stored like what it is of."""
    before, after = zip(*band.halo, strict=True)
    layout = Layout(storage.layout(c.out).order, before, after, band.fill)
    return row_buffer(c.out, band.shape(c.out), layout, storage)


class _Generator:
    """Builds the loops of one chain. Stage i writes the band of link i, and reads that of link i - 1."""

    def __init__(
        self, chain: list[Compute], links: list[_Link], storage: Storage, target: Target, rows: Rows
    ) -> None:
        self.chain, self.links, self.storage, self.target, self.rows = chain, links, storage, target, rows

    def statements(self) -> Iterator[Statement]:
        """Blocks of rows of the last stage; of every part, if the rows are cut into parts."""
        band = self.links[-1].band
        total = static(next(a.extent for a in self.chain[-1].axes if a.name == band.axis))
        size, part, row = total // band.parts, Var("part", band.parts), self._row(len(self.links))
        first = part * size if band.parts > 1 else Const(0)
        bounds = {part.name: interval(part), row.name: (0, size - band.block)}
        body = self._block(len(self.links), simplify(first + row, bounds), first, Const(0), bounds)
        lanes = self.target.lanes(4)
        halos = (s for link in self.links for s in fill_halo(link.buffer, self.storage, lanes))
        loops = (*halos, For(row.name, Const(0), Const(size), band.block, body))
        yield from loops if band.parts == 1 else (For(part.name, Const(0), Const(band.parts), 1, loops),)

    @staticmethod
    def _row(i: int) -> Var:
        return Var(f"row{i}")

    def _block(self, i: int, row: Expr, first: Expr, base: Expr, bounds: Bounds) -> tuple[Statement, ...]:
        """Rows of stage i from `row` on, stored from row - `base` on; the part begins at `first`."""
        before = self._made(i - 1, row, first, bounds) if i else ()
        return (*before, *self.rows(self.chain[i], self._moved(i, row, base, bounds), bounds))

    def _made(self, i: int, row: Expr, first: Expr, bounds: Bounds) -> tuple[Statement, ...]:
        """What the block at `row` of the next stage reads, in the band of link i."""
        link, band = self.links[i], self.links[i].band
        base, start = (simplify(r * band.stride - band.before, bounds) for r in (row, first))
        if band.whole:
            return self._block(i, base, start, base, bounds)
        again = simplify(row - first, bounds)
        known = maximum(minimum(band.kept, again * band.kept), 0)  # never below: so that it is seen
        lo = simplify(maximum(base + known, 0), bounds)
        hi = simplify(minimum(base + band.rows, link.height), bounds)
        new = self._row(i)
        inner = {**bounds, new.name: (0, link.height - 1)}
        body = self._block(i, new, simplify(maximum(start, 0), bounds), base, inner)
        keep = (When(Const(0) < again, self._kept(link, bounds)),) if band.kept else ()
        made = _in_storage_order(For(new.name, lo, hi, 1, body), link)
        return (*keep, made, *self._beyond(link, base, bounds))

    def _kept(self, link: _Link, bounds: Bounds) -> tuple[Statement, ...]:
        """The rows that are read again, moved to the front."""
        band, shape = link.band, link.buffer.shape
        axes = tuple(Var(f"i{d}", band.kept if d == band.dim else n) for d, n in enumerate(shape))
        moved = tuple(a + band.block * band.stride if d == band.dim else a for d, a in enumerate(axes))
        copy = Compute(link.buffer, axes, link.buffer[moved], None, axes)
        return self.rows(copy, copy, bounds)

    def _beyond(self, link: _Link, base: Expr, bounds: Bounds) -> Iterator[Statement]:
        """The fill in the rows above the image and below it."""
        band = link.band
        row = Var(f"{self._row(0).name}_beyond")
        axes = tuple(Var(f"i{d}", n) for d, n in enumerate(link.buffer.shape))
        value = Const(float(band.fill), link.buffer.type.compute)
        at = tuple(row if d == band.dim else a for d, a in enumerate(axes))
        stage = Compute(link.buffer, tuple(a for a in axes if a.name != f"i{band.dim}"), value, None, at)
        below = maximum(link.height - base, 0)  # far below the image, all rows of the band are fill
        for lo, hi in ((Const(0), Const(0) - base), (below, as_expr(band.rows))):
            lo, hi = simplify(lo, bounds), simplify(hi, bounds)
            if interval(simplify(hi - lo), bounds)[1] > 0:
                inner = {**bounds, row.name: (0, band.rows - 1)}
                yield For(row.name, lo, hi, 1, self.rows(stage, stage, inner))

    def _moved(self, i: int, row: Expr, base: Expr, bounds: Bounds) -> Compute:
        """Stage i at the rows from `row` on: one, or as many as its reader or its block wants."""
        c, last = self.chain[i], i == len(self.links)
        band = self.links[i - 1].band if last else self.links[i].band
        axis = next(a for a in c.axes if a.name == band.axis) if last else c.axes[band.dim]
        count = band.block if last else band.step
        inner = (Var(f"{axis.name}_in", count),) if count > 1 else ()
        here = row + inner[0] if inner else row

        def put(e: Expr) -> Expr:
            moved = substitute(e, {axis.name: here})
            return self._from_band(i - 1, moved, row, bounds) if i else moved

        at = tuple(simplify(here - base, bounds) if a == axis else a for a in c.axes)
        r = c.reduction and c.reduction.over(put)
        axes = tuple(x for a in c.axes for x in (inner if a == axis else (a,)))
        return Compute(c.out if last else self.links[i].buffer, axes, put(c.value), r, at)

    def _from_band(self, i: int, e: Expr, row: Expr, bounds: Bounds) -> Expr:
        """An expression of a block at `row` that reads the band of link i in place of what it is of."""
        link, band = self.links[i], self.links[i].band
        base = row * band.stride - band.before

        def read(n: Expr) -> Expr | None:
            if not isinstance(n, Load) or n.tensor is not link.maker.out:
                return None
            index = (simplify(k - base, bounds) if d == band.dim else k for d, k in enumerate(n.index))
            return Load(link.buffer, tuple(index), n.outside, n.lanes)

        return transform(e, read)


def _in_storage_order(rows: For, link: _Link) -> For:
    """The loop over the rows of a map, within the loops over what is stored around them."""
    around = [a.name for a in link.maker.axes[: link.band.dim]]
    match rows.body:
        case (For(var=name) as outer,) if link.maker.reduction is None and name in around:
            return replace(outer, body=(_in_storage_order(replace(rows, body=outer.body), link),))
    return rows
