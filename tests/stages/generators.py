"""The generators: what is drawn for each, how it is asked, which files are its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from unittest.mock import patch

from ingot.formula.compute import Compute, Stage
from ingot.formula.index import Bounds
from ingot.formula.statements import Statement
from ingot.formula.types import FLOAT32, FLOAT64
from ingot.loops import generate
from ingot.loops.choice import DEFAULT, TILES, TOLERANCE, Choice, Choices, error
from ingot.loops.kernels.byte_table import byte_table
from ingot.loops.kernels.contraction.block_product import block_product
from ingot.loops.kernels.contraction.contract import contract, contraction_sizes
from ingot.loops.kernels.contraction.dot_product import dot_product
from ingot.loops.kernels.contraction.int_dot import int_dot
from ingot.loops.kernels.contraction.tiles import Tile, cheapest_tiles, is_tile
from ingot.loops.kernels.deinterleave import deinterleave
from ingot.loops.kernels.elementwise import elementwise
from ingot.loops.kernels.family import Family, Request
from ingot.loops.kernels.interleave import interleave
from ingot.loops.kernels.rows.row_reduction import row_reductions
from ingot.loops.kernels.rows.selection import selection
from ingot.loops.kernels.sparse.csc import csc, saved_bytes
from ingot.loops.kernels.sparse.sparse_gather import sparse_gather
from ingot.loops.kernels.sparse.sparse_lanes import encoded_product, sparse_lanes
from ingot.loops.kernels.transpose import transpose
from ingot.loops.kernels.windows.depthwise_dot import depthwise_dot
from ingot.loops.kernels.windows.doubled_rows import doubled_rows
from ingot.loops.kernels.windows.narrow_convolution import narrow_convolution
from ingot.loops.kernels.windows.picked_columns import picked_columns
from ingot.loops.kernels.windows.plane_windows import plane_windows
from ingot.loops.kernels.windows.quad_windows import quad_windows
from ingot.loops.kernels.windows.sliding_window import sliding_window
from ingot.loops.kernels.winograd.generator import winograd
from ingot.loops.kernels.winograd.match import match
from ingot.loops.layout import Storage
from ingot.targets.record import Target
from ingot.targets.records import TARGETS
from tests.stages import cells, chains, layers, maps, products, tails, windows
from tests.stages.dice import Dice
from tests.stages.drawn import Drawn, Habits
from tests.stages.judge import Writer, Written
from tests.stages.windows import USUAL

VECTORS = ("x86-64-v3", "x86-64-v4", "x86-64", "aarch64", "i386")
HALOED = Habits(last=75, halo=95)
TIDY = Habits(last=95, halo=95)
IN_ROWS = Habits(last=5, halo=95)
LINEAR = Habits(last=95, halo=95, kinds=("none", "relu", "bias", "leaky", "residual", "place"))
"""What stands behind Winograd's sums: a squashed one would be far less exact than the largest sum."""
One = Callable[[Compute, Storage, Target, Bounds], tuple[Statement, ...] | None]


@dataclass(frozen=True)
class Generator:
    """`draw` makes stages that it claims to serve, of which it must serve `share` at least.

    Files that the lowering asks before it generates anything are traced `throughout`.
    """

    draw: Callable[[Dice, Target], Drawn]
    write: Writer
    files: tuple[str, ...]
    targets: tuple[str, ...] = VECTORS
    share: float = 0.5
    throughout: bool = False


def one(generator: One) -> Writer:
    """A generator of single stages."""

    def write(
        stages: tuple[Stage, ...], storage: Storage, target: Target, bounds: Bounds, choices: Choices
    ) -> Written | None:
        (stage, *_) = stages
        found = generator(stage, storage, target, bounds) if isinstance(stage, Compute) else None
        return None if found is None else (found, 1)

    return write


def _by_winograd(
    stages: tuple[Stage, ...], storage: Storage, target: Target, bounds: Bounds, choices: Choices
) -> Written | None:
    """What a Chooser lets through: algorithms that lose little on this layer's weights."""

    how = _of(stages, choices)

    def write(c: Compute, s: Storage, t: Target, b: Bounds) -> tuple[Statement, ...] | None:
        conv = match(c, s, b)
        is_exact = conv is not None and error(conv, how.winograd) <= TOLERANCE
        return winograd(c, s, t, b, how.winograd, how.cold) if is_exact else None

    return one(write)(stages, storage, target, bounds, choices)


def _by_contract(
    stages: tuple[Stage, ...], storage: Storage, target: Target, bounds: Bounds, choices: Choices
) -> Written | None:
    """A tile that does not fit the stage is none that can be chosen."""
    how = _of(stages, choices)

    def write(c: Compute, s: Storage, t: Target, b: Bounds) -> tuple[Statement, ...] | None:
        sizes = contraction_sizes(c, s, t) if how.tile else None
        tile = how.tile if sizes and how.tile and is_tile(t, sizes, how.tile) else None
        if sizes is not None and tile is None:
            tile = cheapest_tiles(t, sizes, 3)[-1]
        return contract(c, s, t, b, tile, how.codes, how.far)

    return one(write)(stages, storage, target, bounds, choices)


def _by_csc(
    stages: tuple[Stage, ...], storage: Storage, target: Target, bounds: Bounds, choices: Choices
) -> Written | None:
    """As a Chooser asks for them: Huffman codes only where they save something."""
    huffman = _of(stages, choices).huffman

    def write(c: Compute, s: Storage, t: Target, b: Bounds) -> tuple[Statement, ...] | None:
        found = encoded_product(c, s, b)[0] if huffman else None
        return None if huffman and (found is None or not saved_bytes(found)) else csc(c, s, t, b, huffman)

    return one(write)(stages, storage, target, bounds, choices)


def _by_rows(
    stages: tuple[Stage, ...], storage: Storage, target: Target, bounds: Bounds, choices: Choices
) -> Written | None:
    return row_reductions(stages, storage, target, bounds)


def _by_selection(
    stages: tuple[Stage, ...], storage: Storage, target: Target, bounds: Bounds, choices: Choices
) -> Written | None:
    return selection(stages, storage, target, bounds)


def _of(stages: tuple[Stage, ...], choices: Choices) -> Choice:
    (stage, *_) = stages
    return choices.get(stage, DEFAULT) if isinstance(stage, Compute) else DEFAULT


def among_others(name: str) -> Writer:
    """A generator that calls others, or is called within a scan: all together, where it served something."""

    def write(
        stages: tuple[Stage, ...], storage: Storage, target: Target, bounds: Bounds, choices: Choices
    ) -> Written | None:
        served = list[bool]()

        def noted(family: Family) -> Family:
            def asked(request: Request) -> Written | None:
                made = family.write(request)
                served.append(made is not None)
                return made

            return replace(family, write=asked) if family.name == name else family

        with patch.object(generate, "FAMILIES", tuple(map(noted, generate.FAMILIES))):
            body = generate.generate(stages, storage, target, bounds, choices)
        return (body, len(stages)) if any(served) else None

    return write


def whole(
    stages: tuple[Stage, ...], storage: Storage, target: Target, bounds: Bounds, choices: Choices
) -> Written:
    """Whoever serves the stages, as in a model."""
    return generate.generate(stages, storage, target, bounds, choices), len(stages)


def _windows(dice: Dice, target: Target) -> Drawn:
    match dice.choice(("depthwise", "pooling", "few filters", "depthwise", "pooling")):
        case "depthwise":
            return windows.convolved(dice, target, TIDY, depthwise=True)
        case "few filters":
            return windows.convolved(dice, target, IN_ROWS, features=dice.number(1, 4), types=(FLOAT32,))
    return windows.pooled(dice, target, USUAL)


def _strips(dice: Dice, target: Target) -> Drawn:
    if dice.chance(40):
        return windows.convolved(dice, target, IN_ROWS, depthwise=True, types=(FLOAT32,))
    few = dice.number(2, max(2, target.lanes(4) // 2))
    return windows.pooled(dice, target, TIDY, few, ("max", "average", "max", "average", "lp"), 85)


def _row_pools(dice: Dice, target: Target) -> Drawn:
    """Windows along rows, up to more elements than a vector has, half of them two elements apart."""
    g = windows.geometry(dice, ranks=(2, 2, 1, 3))
    taps, rank = dice.number(2, 2 * target.lanes(4) + 3), len(g.size)
    pads = (*(0,) * (rank - 1), dice.below(taps), *(0,) * (rank - 1), dice.below(taps))
    least = max(1, taps - pads[rank - 1] - pads[-1])
    row = dice.number(least, max(least + 4, dice.choice((1, 2, 5)) * target.lanes(4) + 3))
    g = replace(
        g,
        size=(*g.size[:-1], row),
        kernel=(*(1,) * (rank - 1), taps),
        strides=(*g.strides[:-1], dice.choice((1, 2, 1, 2, 3))),
        dilations=(1,) * rank,
        pads=pads,
    )
    return windows.pooled(dice, target, IN_ROWS, dice.number(1, 4), ("max", "average", "max", "average"), g=g)


def _points(dice: Dice, target: Target) -> Drawn:
    few = dice.number(1, max(1, target.lanes(4) // 2))
    return windows.convolved(dice, target, TIDY, features=few, types=(FLOAT32, FLOAT32, FLOAT32, FLOAT64))


def _contractions(dice: Dice, target: Target) -> Drawn:
    match dice.choice(("conv", "product", "conv", "transposed", "codes", "product", "bytes", "bytes")):
        case "product":
            made = products.multiplied(dice, target)
        case "transposed":
            return windows.transposed(dice, target, HALOED)
        case "bytes":
            made = products.wide_bytes(dice, target)
        case "codes":
            made = products.sparse_product(dice, target, dice.chance(10))
            return replace(made, how=Choice(codes=True, far=dice.chance(30)))
        case _:
            made = windows.convolved(dice, target, HALOED, constant=75)
    tile = Tile(dice.number(1, 6), dice.number(1, 3)) if dice.chance(30) else None
    caches = (1 << 10, dice.choice((1 << 12, 1 << 14)), 1 << 15) if dice.chance(30) else target.caches
    return replace(made, how=Choice(far=dice.chance(60), tile=tile), target=replace(target, caches=caches))


def _winograds(dice: Dice, target: Target) -> Drawn:
    g = windows.geometry(dice, ranks=(2, 2, 1))
    taps, rank = dice.choice((3, 2, 5, 4, 6, 7)), len(g.size)
    stride, gaps = min(dice.choice((1, 1, 2)), taps - 1), dice.choice((1, 1, 2, 3))
    stride = stride if gaps == 1 else 1
    pads = tuple(dice.below(taps * gaps) for _ in range(2 * rank))
    least = tuple(max(1, (taps - 1) * gaps + 1 - pads[i] - pads[rank + i]) for i in range(rank))
    size = tuple(dice.number(n, n + 11) for n in least)
    g = replace(
        g, size=size, kernel=(taps,) * rank, strides=(stride,) * rank, dilations=(gaps,) * rank, pads=pads
    )
    caches = dice.choice(
        (target.caches, target.caches, (1 << 12, 1 << 14, 1 << 16), (1 << 10, 1 << 12, 1 << 13))
    )
    small = replace(target, caches=caches)
    drawn = windows.convolved(dice, small, LINEAR, g, types=(FLOAT32,))
    how = Choice(winograd=dice.choice(TILES[taps]), cold=dice.chance(30))
    return replace(drawn, how=how, tolerance=3 * TOLERANCE)


def _entries(dice: Dice, target: Target) -> Drawn:
    made = products.sparse_product(dice, target)
    return replace(made, how=replace(made.how, huffman=dice.chance(35)))


EVERY = (
    *VECTORS,
    "c99",
    "x86-64-v4-vnni",
    "aarch64-dotprod",
    "aarch64-i8mm",
    "armv7e-m",
    "armv8.1m",
    "riscv64",
)
SCALAR = ("c99", "armv7e-m", "armv8.1m", "riscv64", "s390x")
GENERATORS: dict[str, Generator] = {
    "sliding_window": Generator(
        _windows, one(sliding_window), ("windows/sliding_window.py", "windows/window_tiles.py"), share=0.4
    ),
    "doubled_rows": Generator(_row_pools, one(doubled_rows), ("windows/doubled_rows.py",), share=0.15),
    "picked_columns": Generator(_strips, one(picked_columns), ("windows/picked_columns.py",), share=0.2),
    "narrow_convolution": Generator(
        _points,
        one(narrow_convolution),
        ("windows/narrow_convolution.py", "windows/narrow_match.py"),
        share=0.25,
    ),
    "contract": Generator(
        _contractions,
        _by_contract,
        (
            *(
                "contraction/contract.py",
                "contraction/roles.py",
                "contraction/tiles.py",
                "contraction/codes.py",
                "contraction/products.py",
                "contraction/register_tile.py",
                "contraction/epilogue.py",
            ),
            "contraction/vector_operand.py",
        ),
        (*VECTORS, "c99", "x86-64-v4-vnni", "aarch64-dotprod", "aarch64-i8mm"),
    ),
    "block_product": Generator(
        products.in_blocks,
        one(block_product),
        ("contraction/block_product.py", "contraction/weight_blocks.py", "contraction/epilogue.py"),
        (*VECTORS, "c99", "riscv64"),
        share=0.5,
    ),
    "digit_tile": Generator(
        partial(products.in_blocks, whole=90),
        one(partial(block_product, is_rounded=True)),
        ("contraction/block_floating_point.py", "contraction/digit_tile.py"),
        (*VECTORS, "x86-64-v4-vnni", "aarch64-dotprod", "aarch64-i8mm"),
        share=0.5,
    ),
    "dot_product": Generator(products.inner, one(dot_product), ("contraction/dot_product.py",), share=0.2),
    "winograd": Generator(
        _winograds,
        _by_winograd,
        tuple(
            f"winograd/{n}.py" for n in ("match", "generator", "frame", "products", "blocking", "transforms")
        ),
        share=0.3,
    ),
    "byte_table": Generator(
        maps.looked_up_bytes,
        one(byte_table),
        ("byte_table.py",),
        ("x86-64-v2", "x86-64-v3", "x86-64-v4", "x86-64-v4-vnni", "aarch64"),
        share=0.3,
    ),
    "elementwise": Generator(maps.elementwise_stage, one(elementwise), ("elementwise.py",)),
    "loop_partition": Generator(
        maps.cut, among_others("loop_partition"), ("loop_partition.py",), (*VECTORS, "x86-64-v4-vnni")
    ),
    "row_reduction": Generator(maps.rows_stage, _by_rows, ("rows/row_reduction.py", "rows/row_stages.py")),
    "selection": Generator(
        maps.selected, _by_selection, ("rows/selection.py", "rows/selection_match.py"), share=0.4
    ),
    "interleave": Generator(maps.interleaved, one(interleave), ("interleave.py",), share=0.4),
    "deinterleave": Generator(maps.deinterleaved, one(deinterleave), ("deinterleave.py",), share=0.4),
    "transpose": Generator(maps.turned, one(transpose), ("transpose.py", "shuffles.py"), share=0.25),
    "depthwise_dot": Generator(
        products.depthwise_bytes,
        one(depthwise_dot),
        ("windows/depthwise_dot.py", "windows/depthwise_match.py"),
        ("x86-64-v4-vnni", "aarch64-dotprod", "aarch64-i8mm"),
        share=0.3,
    ),
    "plane_windows": Generator(
        products.small_windows,
        one(plane_windows),
        ("windows/plane_windows.py", "windows/byte_windows.py"),
        ("armv7e-m", "armv8.1m"),
        share=0.2,
    ),
    "quad_windows": Generator(
        products.small_windows,
        one(quad_windows),
        ("windows/quad_windows.py",),
        ("armv8.1m",),
        share=0.05,
    ),
    "int_dot": Generator(
        products.bytes_product,
        one(int_dot),
        (
            "contraction/int_dot.py",
            "contraction/dot_loops.py",
            "contraction/paired_tiles.py",
            "contraction/paired_bytes.py",
            "contraction/long_bytes.py",
            "contraction/dense_bytes.py",
            "contraction/byte_product.py",
        ),
        SCALAR,
    ),
    "recurrent_cell": Generator(
        cells.cell,
        among_others("recurrent_cell"),
        ("recurrent/recurrent_cell.py", "recurrent/cell_roles.py"),
        (*VECTORS, "c99"),
        share=0.3,
    ),
    "sparse_lanes": Generator(
        products.sparse_product,
        one(sparse_lanes),
        ("sparse/sparse_lanes.py", "sparse/ways.py", "sparse/schedule.py"),
        ("x86-64-v4-vnni", "x86-64-v4", "x86-64-v3", "aarch64-i8mm", "aarch64-dotprod"),
        share=0.2,
    ),
    "csc": Generator(
        _entries,
        _by_csc,
        ("sparse/csc.py", "sparse/coded.py"),
        ("c99", "x86-64", "aarch64", "armv7e-m", "x86-64-v3"),
        share=0.3,
    ),
    "sparse_gather": Generator(
        products.sparse_product, one(sparse_gather), ("sparse/sparse_gather.py",), ("armv8.1m",), share=0.1
    ),
    "banded": Generator(
        chains.banded_chain, among_others("banded"), ("banded.py",), (*VECTORS, "c99"), share=0.2
    ),
    "tails": Generator(tails.tailed, whole, ("../access.py",), EVERY, share=0.9, throughout=True),
    "layers": Generator(
        layers.laid_out,
        whole,
        tuple(
            f"../region_passes/{n}.py"
            for n in ("separable", "weave", "window_copies", "columns", "parted_columns")
        ),
        EVERY,
        share=0.9,
        throughout=True,
    ),
    "peel": Generator(
        chains.peeled_stage, among_others("peeled"), ("peel.py",), (*VECTORS, "c99"), throughout=True
    ),
}


def drawn(name: str, dice: Dice) -> Drawn:
    """A stage for a generator. Raises Impossible."""
    generator = GENERATORS[name]
    target = TARGETS["c99" if dice.chance(2) else dice.choice(generator.targets)]
    return generator.draw(dice, target)
