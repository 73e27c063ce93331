"""Results that begin before their operands: the distances that are safe, by playing every access in order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import ingot
from ingot.driver import stages
from ingot.errors import InternalError
from ingot.formula.evaluate import value
from ingot.formula.expr import Const, Expr, Load, Tensor, Var, cast, loads
from ingot.formula.statements import For, Routine, Statement, Store, body_of, expressions
from ingot.formula.types import INT8, INT16
from ingot.loops.program import Kernel
from ingot.memory.arena import height, place_sliding
from ingot.memory.check import check
from ingot.memory.in_time import lost_read
from ingot.memory.share import Buffer
from ingot.memory.slides import Slide, slide
from ingot.memory.tree import ALIGN
from ingot.options import Options
from tests.oracles import exact_session
from tests.test_paired_tiles import TARGET, layer

X, Y = Tensor("x", INT8, (6, 64)), Tensor("y", INT8, (6, 64))
p, c, k = Var("p"), Var("c"), Var("k")
ZERO = Const(0)


def loop(var: Var, n: int, *body: Statement, step: int = 1, routine: Routine | None = None) -> For:
    return For(var.name, ZERO, Const(n), step, body, routine=routine)


def told(*tensors: Tensor, in_order: bool = False) -> Routine:
    return Routine("r", tuple(Load(t, (ZERO,) * t.rank) for t in tensors), (), in_order)


def pointwise(in_order: bool) -> Kernel:
    """Points one after the other, all of their elements by a routine."""
    inner = loop(c, 64, loop(k, 64, Store(Y[p, c], X[p, k])))
    return Kernel("k", (X, Y), (loop(p, 6, inner, routine=told(X, Y, in_order=in_order)),))


def through_scratch(rows: int) -> Kernel:
    """So many points into scratch by a routine, then out of it by another."""
    s = Tensor("s", INT16, (rows, 64))
    copied = loop(k, rows, loop(c, 64, Store(s[k, c], cast(X[p + k, c], INT16))), routine=told(X, s))
    made = loop(k, rows, loop(c, 64, Store(Y[p + k, Const(63) - c], cast(s[k, c], INT8))), routine=told(s, Y))
    return Kernel("k", (X, s, Y), (loop(p, 6, copied, made, step=rows),))


def channelwise() -> Kernel:
    """Channel after channel, all points of it backwards."""
    s = Tensor("s", INT16, (6,))
    copied = loop(p, 6, Store(s[p], cast(X[p, c], INT16)), routine=told(X, s))
    made = loop(p, 6, Store(Y[Const(5) - p, c], cast(s[p], INT8)), routine=told(s, Y))
    return Kernel("k", (X, s, Y), (loop(c, 64, copied, made),))


def window() -> Kernel:
    """A point and the next, which may lie outside."""
    x = Load(X, (p + k, c), Const(0, INT8))
    inner = loop(c, 64, loop(k, 2, Store(Y[p, c], x)))
    return Kernel("k", (X, Y), (loop(p, 5, inner, routine=told(X, Y, in_order=True)),))


def backwards() -> Kernel:
    inner = loop(c, 64, Store(Y[Const(5) - p, c], X[p, c]))
    return Kernel("k", (X, Y), (loop(p, 6, inner, routine=told(X, Y, in_order=True)),))


def plain() -> Kernel:
    return Kernel("k", (X, Y), (loop(p, 6, loop(c, 64, Store(Y[p, c], X[p, c]))),))


def accumulating() -> Kernel:
    inner = loop(c, 64, Store(Y[p, c], Y[p, c] + X[p, c]))
    return Kernel("k", (X, Y), (loop(p, 6, inner, routine=told(X, Y, in_order=True)),))


KERNELS = {
    "points in order": (pointwise(True), Slide(64, None, False)),
    "points in any order": (pointwise(False), None),
    "a point at a time": (through_scratch(1), Slide(0, None)),
    "three points at a time": (through_scratch(3), Slide(0, None)),
    "channel after channel": (channelwise(), Slide(320, 64)),
    "a window": (window(), Slide(64, None, False)),
    "from the end": (backwards(), None),
    "without routines": (plain(), None),
    "results that are read": (accumulating(), None),
}


@pytest.mark.parametrize("name", KERNELS)
def test_distances(name: str) -> None:
    kernel, wanted = KERNELS[name]
    assert slide(kernel, X, Y) == wanted


def played(body: tuple[Statement, ...], env: dict[str, int]) -> Iterator[list[tuple[bool, Load, int]]]:
    """The accesses in the order of the loops, in the steps in which they happen: (store?, what, where)."""
    for s in body:
        if isinstance(s, For):
            places = range(int(s.lo.value), int(s.hi.value), s.step)  # type: ignore[attr-defined]
            turns = [list(played(s.body, {**env, s.var: at})) for at in places]
            if s.routine is None:
                yield from (step for turn in turns for step in turn)
            else:
                joined = [[a for step in turn for a in step] for turn in turns]
                every = joined if s.routine.in_order else [[a for turn in joined for a in turn]]
                yield from (sorted(turn, key=lambda a: not a[0]) for turn in every)  # stores first
            continue
        values: tuple[Expr, ...] = (s.value,) if isinstance(s, Store) else expressions(s)
        step = [(False, x, place(x, env)) for e in values for x in loads(e)]
        yield [*step, *([(True, s.to, place(s.to, env))] if isinstance(s, Store) else [])]
        yield from played(body_of(s), env)


def place(x: Load, env: dict[str, int]) -> int:
    at = [int(value(i, {}, env)) for i in x.index]
    inside = all(0 <= i < n for i, n in zip(at, x.tensor.shape, strict=True))  # type: ignore[operator]
    return int(np.ravel_multi_index(at, x.tensor.shape)) if inside else -1  # type: ignore[arg-type]


def is_safe(kernel: Kernel, x: Tensor, y: Tensor, distance: int) -> bool:
    """Whether no element is read after something was written to its byte."""
    lost = set()
    for step in played(kernel.body, {}):
        for is_store, access, at in step:
            if is_store and access.tensor is y:
                lost.add(at - distance)
            elif not is_store and access.tensor is x and at in lost:
                return False
    return True


@pytest.mark.parametrize("name", [n for n, (_, found) in KERNELS.items() if found is not None])
def test_what_is_said_to_be_safe_is_safe_when_played(name: str) -> None:
    kernel, _ = KERNELS[name]
    found = slide(kernel, X, Y)
    assert found is not None
    distances = range(-6 * ALIGN, 7 * ALIGN, ALIGN)
    allowed = [d for d in distances if found.allows(d)]
    assert allowed and all(is_safe(kernel, X, Y, d) for d in allowed)
    if found.least and not found.period:
        assert not is_safe(kernel, X, Y, found.least - ALIGN)


@pytest.mark.parametrize("name", [n for n in KERNELS if n != "results that are read"])
def test_the_proof_finds_what_playing_finds(name: str) -> None:
    kernel, _ = KERNELS[name]
    distances = (-ALIGN, 0, 16, ALIGN, 320, 6 * ALIGN)
    proved = [d for d in distances if lost_read(kernel, X, Y, d) is None]
    assert proved == [d for d in distances if is_safe(kernel, X, Y, d)]


def test_a_routine_replaces_element_by_element_what_it_stores_once() -> None:
    def doubled(*loops: Var) -> Kernel:
        body: Statement = Store(Y[p, c], X[p, c] + X[p, c])
        for var in loops:
            body = loop(var, 64 if var is c else 6, body, routine=told(X, Y) if var is loops[-1] else None)
        return Kernel("k", (X, Y), (body,))

    assert lost_read(doubled(c, p), X, Y, 0) is None
    assert lost_read(doubled(c, p), X, Y, 16) is not None
    assert lost_read(doubled(c, p, k), X, Y, 0) is not None  # a second round finds results


def test_what_cannot_be_followed_is_not_proved() -> None:
    assert lost_read(accumulating(), X, Y, 0) == "the result is read"
    index = cast(X[p, c], INT16)
    gathered = Kernel("k", (X, Y), (loop(p, 6, loop(c, 64, Store(Y[p, c], X[p, index]))),))
    assert lost_read(gathered, X, Y, 64) == "an index depends on data"


@pytest.mark.parametrize("target", [TARGET, "cortex-m55"])
def test_a_distance_that_is_too_small_is_found(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def smaller(kernel: Kernel, x: Tensor, y: Tensor) -> Slide | None:
        found = slide(kernel, x, y)
        return replace(found, least=found.least - ALIGN) if found and found.least else found

    proto = network(8, 16, 21, 2)
    check(stages(proto, Options(target=target)).plan)
    monkeypatch.setattr("ingot.memory.share.slide", smaller)
    with pytest.raises(InternalError, match="an element is read after its bytes were written"):
        check(stages(proto, Options(target=target)).plan)


def network(channels: int, more: int, size: int, stride: int = 1) -> onnx.ModelProto:
    """Pointwise and depthwise layers of bytes, the second with a stride; the image comes as it lies."""
    random = np.random.default_rng(2)
    shapes = [(channels, channels, 1, 1), (channels, 1, 3, 3), (more, channels, 1, 1), (more, 1, 3, 3)]
    shapes.append((channels, more, 1, 1))
    nodes, constants, name = [], dict[str, np.generic | np.ndarray](), "t"
    for n, shape in enumerate(shapes):
        own = {"s": np.float32(0.05), "z": np.int8(-128), "ws": np.float32(0.01), "wz": np.int8(0)}
        own |= {"t": np.float32(0.05), "u": np.int8(-128)}
        constants |= {f"{k}{n}": a for k, a in own.items()}
        constants[f"w{n}"] = random.integers(-127, 128, shape).astype(np.int8)
        pads = {"pads": [1, 1, 1, 1], "group": shape[0]} if shape[-1] == 3 else {}
        if n == 3:
            pads["strides"] = [stride, stride]
        operands = [name, *(f"{k}{n}" for k in ("s", "z", "w", "ws", "wz", "t", "u"))]
        name = f"y{n}"
        nodes.append(helper.make_node("QLinearConv", operands, [name], **pads))
    first = helper.make_node("Transpose", ["x"], ["t"], perm=[0, 3, 1, 2])
    last = helper.make_node("Transpose", [name], ["y"], perm=[0, 2, 3, 1])
    edge = helper.make_tensor_value_info
    graph = helper.make_graph(
        [first, *nodes, last],
        "net",
        [edge("x", onnx.TensorProto.INT8, [1, size, size, channels])],
        [edge("y", onnx.TensorProto.INT8, [1, -(-size // stride), -(-size // stride), channels])],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()],
    )
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21)])


@pytest.mark.parametrize("target", [TARGET, "cortex-m55"])
@pytest.mark.parametrize(
    ("channels", "more", "size", "stride"),
    [(16, 32, 9, 1), (64, 64, 6, 1), (8, 16, 21, 2), (16, 32, 24, 2), (16, 16, 20, 1)],
)
def test_layers_in_place_give_the_same_bytes(
    channels: int, more: int, size: int, stride: int, target: str
) -> None:
    proto = network(channels, more, size, stride)
    x = {"x": np.random.default_rng(4).integers(-128, 128, (1, size, size, channels)).astype(np.int8)}
    bundle = ingot.compile(proto, target=target)
    (wanted,) = exact_session(proto).run(None, x)
    np.testing.assert_array_equal(bundle.run(x)["y"], wanted)


def test_depthwise_layers_take_no_second_image() -> None:
    made = stages(network(64, 64, 6), Options(target=TARGET)).plan
    image = 6 * 6 * 64
    assert image < made.arena_bytes < 1.7 * image
    assert made.bound_bytes <= made.arena_bytes
    slid = [o for o in made.overwrites if o.call is not None]
    assert len(slid) >= 3
    assert all(set(o.call[1]) <= made.aliasing(o.call[0]) for o in slid)  # type: ignore[index]


def test_planes_of_the_largest_image_hold_few_rows() -> None:
    made = stages(network(16, 32, 24, 2), Options(target=TARGET)).plan
    image = 24 * 24 * 32
    assert image < made.arena_bytes <= image + 512


def test_the_checker_sees_another_distance() -> None:
    made = stages(network(16, 32, 9), Options(target=TARGET)).plan
    check(made)
    moved = next(o for o in made.overwrites if o.call is not None)
    for wrong in (
        replace(made, overwrites=tuple(o for o in made.overwrites if o is not moved)),
        replace(made, overwrites=tuple(replace(o, before=1) if o is moved else o for o in made.overwrites)),
    ):
        with pytest.raises(InternalError, match="memory plan"):
            check(wrong)


def test_a_result_replaces_an_image_of_odd_rows() -> None:
    """The points at the ends of rows are made with the rows, so what was read is free."""
    w = np.random.default_rng(5).integers(-127, 128, (32, 1, 3, 4)).astype(np.int8)
    proto = layer("int8", (1, 1, 43, 8), w, "<strides=[2,1]>", last=True)
    kernel = next(k for k in stages(proto, Options(target=TARGET)).program.kernels if k.name == "QLinearConv")
    found = slide(kernel, kernel.parameters[0], kernel.parameters[-1])
    assert found is not None and found.least is not None
    assert found.least < kernel.parameters[-1].count - 4 * 32


IMAGES = """
    28288 0 2; 64 1 2; 18432 1 3; 18432 2 4; 64 3 4; 36864 3 5; 3200 4 5; 9216 4 6; 1664 6 7;
    18432 6 8; 18432 7 9; 2176 8 9; 4608 8 10; 9216 9 11; 896 10 11; 9216 10 12; 9216 11 13;
    1152 12 13; 2304 12 14; 4608 13 15; 640 14 15; 4608 14 16; 4608 15 17; 640 16 17; 4608 16 18;
    4608 17 19; 640 18 19; 4608 18 20; 4608 19 21; 640 20 21; 4608 20 22; 4608 21 23; 640 22 23;
    4608 22 24; 4608 23 25; 1152 24 25; 1152 24 26; 2304 25 27; 256 25 26; 384 26 27; 2304 26 28;
    2304 27 29; 512 27 28; 256 28 30; 64 29 30; 64 29 31
"""
"""Bytes of the images and scratch of thirteen pairs of layers, and from which step to which they live."""
OVERLAPS = """
    0 2 128 0; 2 3 0 1; 3 5 18496 0; 5 7 0 1; 9 10 64 0; 10 12 -1 1; 12 13 4672 0; 13 15 9152 1;
    15 16 128 0; 16 18 2240 1; 18 19 2432 0; 19 21 4480 1; 21 22 256 0; 22 24 4480 1; 24 25 256 0;
    25 27 4480 1; 27 28 256 0; 28 30 4480 1; 30 31 256 0; 31 33 4480 1; 33 34 256 0; 34 36 1024 1;
    36 37 1280 0; 37 40 2048 1; 40 41 512 0
"""
"""Of these an operand, its result, the least distance (-1: none), and whether it may be 0."""


def test_what_ends_highest_is_placed_earlier() -> None:
    """Random orders do not find that the first image has to lie behind its result: 46,208 bytes."""
    read, overlaps = (
        [tuple(map(int, line.split())) for line in text.split(";")] for text in (IMAGES, OVERLAPS)
    )
    read += [(64, 30, 31 + n) for n in range(18)]
    buffers = tuple(Buffer((), ((start, end),), size) for size, start, end in read)
    slides = {
        (buffers[x], buffers[y]): Slide(None if least < 0 else least, None, bool(in_place))
        for x, y, least, in_place in overlaps
    }
    assert height(place_sliding(buffers, slides, 40064)) <= 40128
