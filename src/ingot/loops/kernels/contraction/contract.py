"""The contraction generator: register tiles over sums of products.

Serves convolutions, matrix products and recurrent gates alike; `roles` says which axis does what, `tiles`
how large a register tile is. Accumulators are named vector registers, `rows` x `vectors` of them. `b` is
packed in the order the loops read it when it is constant, or when it does not run along its vectors: then
each block of channels is copied before it is multiplied, all of them at once where loops around would repeat
that.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

from ingot.formula.compute import Compute
from ingot.formula.expr import (
    Const,
    Expr,
    Load,
    Var,
    loads,
    static,
    substitute,
)
from ingot.formula.index import Bounds, mentions, simplify
from ingot.formula.statements import For, Prefetch, Remark, Statement
from ingot.formula.types import INT32
from ingot.loops.access import NotVectorizable, step
from ingot.loops.axes import normal_axes
from ingot.loops.cuts import pieces
from ingot.loops.kernels.contraction.codes import TAKEN, Codes, codes_for
from ingot.loops.kernels.contraction.epilogue import alike
from ingot.loops.kernels.contraction.products import instructions_of, product_of
from ingot.loops.kernels.contraction.register_tile import Block, RegisterTile
from ingot.loops.kernels.contraction.roles import (
    Contraction,
    is_swapped,
    match,
    merge_points,
    merge_terms,
    merge_vectors,
)
from ingot.loops.kernels.contraction.scalar_operand import with_terms_side_by_side
from ingot.loops.kernels.contraction.tiles import (
    AHEAD,
    CHAINS,
    LINE,
    MOST_ROWS,
    Ending,
    Segment,
    Sizes,
    Tile,
    best_tile,
    segments,
    tile_shape,
)
from ingot.loops.kernels.contraction.vector_operand import VectorOperand, widened
from ingot.loops.kernels.naive import nested
from ingot.loops.layout import Storage
from ingot.targets.record import Target

UNROLLED_TAPS = 4
Taken = dict[str, tuple[int, int]]  # where a run of equal pieces of a tile axis begins, and their size
Levels = tuple[Var | None, ...]  # tile axes in the order of their loops; None stands for the channels


def contract(
    c: Compute,
    storage: Storage,
    target: Target,
    bounds: Bounds,
    tile: Tile | None = None,
    by_codes: bool = False,
    far: bool = False,
) -> tuple[Statement, ...] | None:
    """Statements for a contraction, or None if the stage is not one; `tile` None: the one of least cost.

    `by_codes`: encoded weights are read as codes of their values. `far`: constant ones have left the nearer
    caches since they were last read.
    """
    found = _prepared(c, storage, target, bounds)
    if found is None:
        return None
    codes = codes_for(found[0], storage, target) if by_codes else None
    try:
        return _Generator(*found, storage, target, tile, codes, far, bool(bounds)).statements()
    except NotVectorizable:
        return None


def contraction_sizes(c: Compute, storage: Storage, target: Target) -> Sizes | None:
    """What the tile of a contraction depends on, or None if the stage is not one."""
    found = _prepared(c, storage, target, {})
    return None if found is None else _sizes(found[0], target)


def _prepared(
    c: Compute, storage: Storage, target: Target, bounds: Bounds
) -> tuple[Contraction, bool] | None:
    """The contraction with its loops merged and its tile axes chosen, and whether it goes by rows."""
    normal = normal_axes(c)
    found = match(normal, storage, bounds, in_place=target.vector_bytes > 0)
    found = found or _of_bytes(normal, storage, target, bounds) or _of_one(c, storage, target, bounds)
    if found is None:
        return None
    found = with_terms_side_by_side(merge_vectors(merge_terms(found, storage), storage), storage)
    if _is_of_few_filters(found, target):
        return None  # `sliding_window` reads an element once for all taps
    by_rows = _is_by_rows(found, target)
    if not by_rows:
        found = merge_points(found, storage)
    tile = found.tile[-2:]
    return replace(found, tile=tile, outer=(*found.outer, *(x for x in found.tile if x not in tile))), by_rows


def _is_of_few_filters(c: Contraction, target: Target) -> bool:
    """Whether windows slide along the vectors, and the taps across these of all filters fit into half of the
    registers; of more than one filter there are no groups.
    """
    if not is_swapped(c.a, c.b) or len(c.tile) > 1 or not _sliding(c, (c.vector, *c.outer)):
        return False
    if c.tile and any(step(c.a, x.name) for x in c.outer):
        return False
    across = prod(static(k.extent) for k in _sliding(c, c.outer))
    return not c.tile or (across > 1 and 2 * across * prod(c.points) <= target.registers)


def _sliding(c: Contraction, outputs: tuple[Var, ...]) -> set[Var]:
    """The terms that move what is read as vectors along a dimension in which outputs move it, too."""
    moving = [i for i in c.b.index if any(mentions(i, x.name) for x in outputs)]
    return {k for k in c.reduce for i in moving if mentions(i, k.name)}


def _of_bytes(c: Compute, storage: Storage, target: Target, bounds: Bounds) -> Contraction | None:
    """A sum of products of bytes with constant ones, on a machine with vectors of such sums."""
    found = match(c, storage, bounds, integers=True) if target.lanes(INT32.bytes) > 1 else None
    return None if found is None or found.b.tensor.value is None else found


def _of_one(c: Compute, storage: Storage, target: Target, bounds: Bounds) -> Contraction | None:
    """The same with one filter: a channel alone in its vectors still has several terms in each lane."""
    weights = (x for x in loads(c.reduction.term) if x.tensor.value is not None) if c.reduction else ()
    moving = [i for w in weights for i in w.index]
    one = next((a for a in c.axes if a.extent == 1 and any(mentions(i, a.name) for i in moving)), None)
    return None if one is None else _of_bytes(normal_axes(c, one), storage, target, bounds)


def _sizes(c: Contraction, target: Target) -> Sizes:
    lanes = target.lanes(c.init.dtype.bytes)
    strides = tuple((step(c.a, x.name) or 0) * c.b.dtype.bytes for x in c.tile)
    product = product_of(c, target)
    terms = -(-c.terms // product.group)
    instructions = instructions_of(product, target)
    return Sizes(c.channels, lanes, c.points, terms, strides, instructions, _shares(c))


def _shares(c: Contraction) -> tuple[tuple[float, ...], ...]:
    """For each tile axis how much of the terms is left, by how many points a tile takes along it."""
    found = []
    for x in c.tile:
        each = (p.shares(k, x, min(MOST_ROWS, static(x.extent))) for k, p in c.skipped.items())
        found.append(tuple(map(prod, zip(*(e for e in each if e), strict=True))))
    return tuple(found)


def _is_by_rows(c: Contraction, target: Target) -> bool:
    """Whether the outermost tile axis goes around the channels: the weights stay near, all else is far.

    Otherwise each block of channels goes through all points, and its weights are read from afar once.
    """
    item = c.b.dtype.bytes
    room = target.caches[1] // 2
    weights, rest = c.channels * c.terms * item, c.a.tensor.bytes + c.to.tensor.bytes
    return len(c.tile) > 1 and weights <= room < rest


class _Generator:
    """Builds the loops of one contraction."""

    def __init__(
        self,
        c: Contraction,
        by_rows: bool,
        storage: Storage,
        target: Target,
        tile: Tile | None,
        codes: Codes | None = None,
        far: bool = False,
        is_inner: bool = False,
    ) -> None:
        self.target, self.codes, self.is_far = target, codes, far
        product, sizes = product_of(c, target), _sizes(c, target)
        self.lanes = sizes.lanes
        self.prologue: tuple[Statement, ...] = ()
        if product.is_wider(c.a):
            wide, self.prologue = widened(c, product.a, storage, self.lanes)
            c = replace(c, a=wide)
        self.c, self.operand = c, VectorOperand(c, product, storage, self.lanes, codes)
        room = target if codes is None else replace(target, registers=target.registers - TAKEN)
        self.tile = tile or best_tile(room, sizes)
        self.shape = dict(zip(c.tile, tile_shape(c.points, self.tile.rows), strict=True))
        self.is_packed = not (self.operand.is_in_order and self._pays_in_place())
        self.levels: Levels = (c.tile[0], None, *c.tile[1:]) if by_rows else (None, *c.tile)
        is_repeated = is_inner or by_rows or any(step(c.b, x.name) == 0 for x in c.outer)
        self.is_block_copied = not is_repeated
        cut = self._segments("padded" if self.is_packed else "repeated")
        chains = self._chains(max(len(s.widths) for s in cut))
        parts = (part for s in cut for part in alike(s, c.value, c.vector, c.bounds))
        self.blocks = [self._block(s, chains) for s in parts]

    def _block(self, s: Segment, chains: int) -> Block:
        operand, copying = self.operand, tuple[Statement, ...]()
        if not self.is_packed:
            weights = self.c.b
        elif self.c.b.tensor.value is not None:
            weights = operand.packed(s)
        elif self.is_block_copied:
            weights, copying = operand.copied_block(s)
        else:
            weights, made = operand.copied(s)
            self.prologue += made
        return Block(operand, s, weights, copying, chains, self.is_packed, self.target)

    def _chains(self, vectors: int) -> int:
        """How many sums of every accumulator are in flight, where the tile has few accumulators.

        The same for what is left over beside the tile: all channels add in one order, equal ones are equal.
        """
        accumulators = prod(self.shape.values()) * vectors
        if accumulators > CHAINS // 2:
            return 1
        terms = static(self.c.reduce[-1].extent) // self.operand.product.group
        return max(1, min(CHAINS // accumulators, terms // 8))

    def _pays_in_place(self) -> bool:
        """Whether registers that repeat channels multiply less in vain than a copy without would move."""
        more = self._registers("repeated") - self._registers("padded")
        again = (static(x.extent) for x in self.c.outer if step(self.c.b, x.name) == 0)
        return more * prod(self.c.points) * prod(again) < 2 * self.c.channels

    def _registers(self, ending: Ending) -> int:
        return sum(s.blocks * len(s.widths) for s in self._segments(ending))

    def _segments(self, ending: Ending) -> tuple[Segment, ...]:
        found = segments(self.c.channels, self.lanes, self.tile.vectors, ending)
        if self.codes is None:
            return found
        return tuple(replace(s, widths=(self.lanes,) * len(s.widths)) for s in found)  # as look-ups are

    def statements(self) -> tuple[Statement, ...]:
        nest = nested(self.c.outer, tuple(self._nest(self.levels, {}, None)))
        if self.codes is None:
            return (*self.prologue, *nest)
        size = self.c.channels * self.c.terms
        shape = f"{self.c.channels}x{self.c.terms}"
        bits = 4 if self.codes.shared else 8
        note = Remark(f"{self.c.b.tensor.name}: {shape} as codes of {bits} bits; {size * bits // 8:,} bytes")
        return (note, *self.codes.table(), *nest)

    def _nest(self, levels: Levels, taken: Taken, block: Block | None) -> Iterator[Statement]:
        """The loops around one register tile; what is left over are smaller tiles of the same kind."""
        if not levels:
            assert block is not None
            sizes = {name: n for name, (_, n) in taken.items()}
            yield from RegisterTile(block, sizes, self._ahead(block, taken)).statements()
            return
        x, *inner = levels
        if x is None:
            for b in self.blocks:
                s, body = b.segment, (*b.copying, *self._nest(tuple(inner), taken, b))
                yield For(self.c.vector.name, Const(s.first), Const(s.end), s.size, body)
            return
        for lo, hi, part in pieces(static(x.extent), self.shape[x]):
            body = tuple(self._nest(tuple(inner), {**taken, x.name: (lo, part)}, block))
            yield For(x.name, Const(lo), Const(hi), part, body)

    def _next_columns(self, block: Block) -> Iterator[Prefetch]:
        """The lines of the next block of an operand that is read in place, where it lies beyond the second
        cache: its rows are so far apart that the processor asks for none by itself. Vectors of a line wait
        for two of them where the caller's memory does not begin with one, as malloc's does not.
        """
        c, size = self.c, block.segment.size
        item = c.b.tensor.type.bytes
        is_far = c.b.tensor.bytes > self.target.caches[1] and self.target.vector_bytes >= LINE
        if self.is_packed or self.levels[0] is not None or not c.tile or not is_far:
            return
        for i in range(0, size, LINE // item):
            at = simplify(substitute(c.b, {c.vector.name: c.vector + i}), c.bounds)
            assert isinstance(at, Load)
            yield Prefetch(at, size * item)

    def _ahead(self, block: Block, taken: Taken) -> tuple[Prefetch, ...]:
        """What to ask for at each term: what comes a little later if the weights are read once; else one
        line of the next block's, another one for each tile that goes through this block.
        """
        c, w, product = self.c, block.weights, self.operand.product
        lines = range(0, block.segment.size * product.group, LINE // product.stored.bytes)
        if c.b.tensor.value is None:
            return tuple(self._next_columns(block))
        if self.levels[0] is not None:
            return ()
        if self.codes is not None:
            return (Prefetch(replace(w, index=(*w.index[:-1], Const(0))), AHEAD),)
        if not c.tile:
            at = (replace(w, index=(*w.index[:-1], Const(i))) for i in lines)
            far = c.b.tensor.bytes > self.target.caches[2] // 4 * 3
            return tuple(Prefetch(x, AHEAD) for x in at) if far else ()
        if not self.is_far or block.segment.blocks == 1 or block.segment.size * product.stored.bytes < LINE:
            return ()
        turn: Expr = Const(0)
        for x in c.tile:
            lo, n = taken[x.name]
            turn = turn + (x - lo) // n
        line = simplify(turn % len(lines), c.bounds) * lines.step
        size = block.segment.size * c.terms * product.stored.bytes
        return (Prefetch(replace(w, index=(*w.index[:-1], line)), size, 2),)
