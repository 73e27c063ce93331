"""Which family of kernels writes which stage. The first that serves it and pays is taken.

`FAMILIES` is the order in which they are asked, and the list that tests and documentation read. Naive loops
come last and serve everything.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

from ingot.formula.compute import Scan, Stage
from ingot.formula.expr import Gathered, walk
from ingot.formula.index import Bounds
from ingot.formula.statements import Statement
from ingot.loops.choice import Choices
from ingot.loops.kernels.banded import banded
from ingot.loops.kernels.byte_table import byte_table
from ingot.loops.kernels.contraction.block_product import block_product
from ingot.loops.kernels.contraction.contract import contract
from ingot.loops.kernels.contraction.dot_product import dot_product
from ingot.loops.kernels.contraction.framed_rows import framed_rows
from ingot.loops.kernels.contraction.int_dot import int_dot
from ingot.loops.kernels.deinterleave import deinterleave
from ingot.loops.kernels.elementwise import elementwise
from ingot.loops.kernels.family import Family, Request, Written, of_stage, of_stages
from ingot.loops.kernels.interleave import interleave
from ingot.loops.kernels.loop_partition import partitioned
from ingot.loops.kernels.naive import compute as naive
from ingot.loops.kernels.naive import guarded, loop
from ingot.loops.kernels.peel import peeled
from ingot.loops.kernels.recurrent.recurrent_cell import recurrent_cell
from ingot.loops.kernels.rows.row_reduction import row_reductions
from ingot.loops.kernels.rows.selection import selection
from ingot.loops.kernels.sparse.csc import csc
from ingot.loops.kernels.sparse.sparse_gather import sparse_gather
from ingot.loops.kernels.sparse.sparse_lanes import sparse_lanes
from ingot.loops.kernels.streamed import streamed
from ingot.loops.kernels.transpose import transpose
from ingot.loops.kernels.windows.depthwise_dot import depthwise_dot
from ingot.loops.kernels.windows.doubled_rows import doubled_rows
from ingot.loops.kernels.windows.narrow_convolution import narrow_convolution
from ingot.loops.kernels.windows.picked_columns import picked_columns
from ingot.loops.kernels.windows.plane_windows import plane_windows
from ingot.loops.kernels.windows.quad_windows import quad_windows
from ingot.loops.kernels.windows.sliding_window import sliding_window
from ingot.loops.kernels.winograd.generator import winograd
from ingot.loops.layout import Storage
from ingot.loops.rewrite import apart, hoisted
from ingot.targets.record import Target

NO_CHOICES: Choices = MappingProxyType({})


def generate(
    stages: tuple[Stage, ...],
    storage: Storage,
    target: Target,
    bounds: Bounds | None = None,
    choices: Choices = NO_CHOICES,
    served: list[str] | None = None,
) -> tuple[Statement, ...]:
    """The statements of a group's stages, in order; `served` is given the families that wrote them."""
    names = [] if served is None else served
    return _all(Request(stages, storage, target, bounds or {}, choices, _all, names))


def _all(request: Request) -> tuple[Statement, ...]:
    out: list[Statement] = []
    taken: set[str] = set()
    stages = request.stages
    while stages:
        body, count = _first(request.of(stages))
        out += apart(body, taken)
        stages = stages[count:]
    return tuple(out)


def _first(request: Request) -> Written:
    """Statements for the first stages, and for how many: several that walk the same rows go together."""
    for family in FAMILIES:
        inner = list[str]()  # a family may ask others before it declines: then they wrote nothing
        if (written := family.write(replace(request, served=inner))) is not None:
            request.served.extend((family.name, *inner))
            return written
    raise AssertionError("naive loops serve every stage")


def _scan(r: Request) -> Written | None:
    (stage, *_) = r.stages
    if not isinstance(stage, Scan):
        return None
    return hoisted(loop(stage.axis, guarded(stage, r.around(stage.body, stage.axis), r.storage))), 1


def _naive(r: Request) -> Written:
    return naive(r.compute, r.storage, r.bounds), 1


def _chosen_naive(r: Request) -> Written | None:
    return _naive(r) if r.choice.naive else None


def _checked(r: Request) -> Written | None:
    """The other families know nothing of range checks."""
    gathers = any(isinstance(n, Gathered) for e in r.compute.expressions for n in walk(e))
    return _naive(r) if gathers else None


def _banded(r: Request) -> Written | None:
    return banded(r.stages, r.choices, r.storage, r.target, r.some_rows)


def _streamed(r: Request) -> Written | None:
    return streamed(r.stages, r.choices, r.storage, r.target, r.some_rows)


def _peeled(r: Request) -> Written | None:
    return peeled(r.stages, r.storage, r.target, r.around)


def _winograd(r: Request) -> Written | None:
    how = r.choice
    if not how.winograd:
        return None
    return _one(winograd(r.compute, r.storage, r.target, r.bounds, how.winograd, how.cold))


def _huffman(r: Request) -> Written | None:
    return _one(csc(r.compute, r.storage, r.target, r.bounds, True)) if r.choice.huffman else None


def _sparse(r: Request) -> Written | None:
    for write in (sparse_lanes, sparse_gather, csc) if r.choice.sparse else ():
        if (found := write(r.compute, r.storage, r.target, r.bounds)) is not None:
            return found, 1
    return None


def _block_product(r: Request) -> Written | None:
    return _one(block_product(r.compute, r.storage, r.target, r.bounds, not r.choice.exact))


def _contract(r: Request) -> Written | None:
    how = r.choice
    return _one(contract(r.compute, r.storage, r.target, r.bounds, how.tile, how.codes, how.far))


def _one(found: tuple[Statement, ...] | None) -> Written | None:
    return None if found is None else (found, 1)


FAMILIES: tuple[Family, ...] = (
    Family("scan", "stages once per step of an axis, in order", _scan),
    Family("chosen_naive", "naive loops that a tuning file or an option asks for", _chosen_naive),
    of_stages("selection", "TopK in one pass", selection),
    Family("streamed", "stages that advance together, row by row, in line buffers", _streamed),
    Family("banded", "chains of windows in bands of rows", _banded),
    Family("checked", "reads at data-dependent positions, with range checks", _checked),
    Family("peeled", "loops over dynamic axes, around the families below", _peeled),
    Family("winograd", "convolutions by fewer multiplications", _winograd),
    Family("huffman", "products with Huffman-coded sparse matrices", _huffman),
    Family("sparse", "products with sparse matrices of few values", _sparse),
    of_stage("byte_table", "maps of bytes by a table, in vectors", byte_table),
    Family("block_product", "products with weights of few bits in blocks", _block_product),
    Family("framed_rows", "convolutions of bytes whose image has no halo, row by row", framed_rows),
    of_stage("int_dot", "products of bytes on processors without float vectors", int_dot),
    of_stages("recurrent_cell", "the products of recurrent cells and their gates", recurrent_cell),
    of_stage("narrow_convolution", "convolutions to few channels", narrow_convolution),
    of_stage("dot_product", "products whose terms are contiguous in both operands", dot_product),
    Family("contract", "sums of products", _contract),
    of_stages("row_reduction", "reductions along contiguous memory", row_reductions),
    of_stage("quad_windows", "depthwise convolutions of bytes, sixteen products at a time", quad_windows),
    of_stage("plane_windows", "depthwise convolutions of bytes, in pairs", plane_windows),
    of_stage("depthwise_dot", "depthwise convolutions of bytes", depthwise_dot),
    of_stage("doubled_rows", "pooling along rows, by windows twice as long each time", doubled_rows),
    of_stage("picked_columns", "pooling of few channels, windows with strides along rows", picked_columns),
    of_stage("sliding_window", "depthwise convolutions, pooling, few filters along rows", sliding_window),
    Family("loop_partition", "maps whose conditions change at fixed positions", partitioned),
    of_stage("elementwise", "maps, and reductions over outer axes", elementwise),
    of_stage("interleave", "maps that interleave a few planes", interleave),
    of_stage("deinterleave", "maps of interleaved elements to a few planes", deinterleave),
    of_stage("transpose", "maps that transpose memory", transpose),
    Family("naive", "everything else", _naive),
)
"""The families in the order in which they are asked, special ones first."""
OF_ENTRIES = frozenset({"huffman", "sparse"})
"""The families that read encoded weights entry by entry."""
