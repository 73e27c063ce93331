"""A random valid model, grown node by node around the values that are already there.

Each candidate node is first run in onnxruntime on the values it would read: what is refused there, or
answers too sensitively, is dropped. Every value is known twice: as it is, and shaken by rounding errors at
each inexact step; the distance says how far another order of arithmetic may move it. Operators that jump
(Floor, comparisons, ArgMax, ...) take only exact values: integers, and floats that no rounding has touched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tests.corpus.net import Array, onnx_type
from tests.oracles import exact_outputs

SIZES = (1, 1, 2, 3, 3, 4, 5, 7, 8, 9, 13, 16, 17, 33)
MOST = 3000  # elements of an input
NOISE = {"float16": 1e-3, "float32": 3e-7, "float64": 1e-15}
TOLERANCE = {"float16": 4e-3, "float32": 1e-5, "float64": 1e-10}  # a default epsilon may be a float32
TOO_SENSITIVE = 300  # times NOISE: what a value may be off, relative to the largest
LARGEST = {"float16": 2e3, "float32": 1e18, "float64": 1e100}
SMALLEST = {"float16": 1e-6, "float32": 1e-36, "float64": 1e-300}  # differences below are those of denormals
TRIES = 30
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
DOMAINS = {"ai.onnx.ml": 5, "com.microsoft": 1}  # and their opsets, beside the standard's
FLOATS = ("float32",) * 8 + ("float64", "float16")


class Refused(Exception):
    """onnxruntime does not take the node, or a recipe finds nothing to work on."""


@dataclass(frozen=True, eq=False)
class Known:
    """A value of the model and what it is; `exact` if no rounding error may be in it."""

    name: str
    array: Array
    shaken: Array
    exact: bool
    is_constant: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.array.shape)

    @property
    def rank(self) -> int:
        return self.array.ndim

    @property
    def kind(self) -> str:
        return str(self.array.dtype.kind)

    @property
    def is_wild(self) -> bool:
        """Whether NaN or an infinity is in it."""
        return self.kind == "f" and not bool(np.isfinite(self.array).all())

    @property
    def allowed(self) -> float:
        """How far an element of it may be from `array`."""
        if self.exact or self.kind != "f":
            return 0.0
        finite = np.isfinite(self.array) & np.isfinite(self.shaken)
        with np.errstate(invalid="ignore"):
            apart = np.abs(self.array.astype(np.float64) - self.shaken.astype(np.float64))
        moved = float(np.max(apart, initial=0, where=finite))
        kind = str(self.array.dtype)
        return max(TOLERANCE[kind] * largest(self.array) + 50 * moved, SMALLEST[kind])


@dataclass(frozen=True)
class Candidate:
    """A node to try. `captured`: values that its subgraphs read.

    `error`: how far onnxruntime itself may be off, where that is not in proportion to the result.
    """

    op: str
    inputs: Sequence[Known | None]
    attributes: dict[str, Any] = field(default_factory=dict)
    outputs: int = 1
    is_exact: bool = False
    captured: Sequence[Known] = ()
    error: float = 0.0
    domain: str = ""


@dataclass(frozen=True)
class Grown:
    """A model, its inputs, and what is known of every value of it."""

    seed: int
    model: onnx.ModelProto
    feeds: dict[str, Array]
    values: dict[str, Known]

    @property
    def wanted(self) -> list[Known]:
        return [self.values[o.name] for o in self.model.graph.output]

    def feeds_of(self, part: onnx.ModelProto) -> dict[str, Array]:
        """The inputs of a model made of some of the nodes."""
        return {i.name: self.values[i.name].array for i in part.graph.input}


def make_model(seed: int, size: int = 10) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """A valid model of about `size` nodes, and inputs for it."""
    grown = grow(seed, size)
    return grown.model, grown.feeds


def grow(seed: int, size: int = 10) -> Grown:
    """The same for the same seed, recipes and onnxruntime."""
    from tests.fuzz.recipes import RECIPES

    garden = Garden(seed)
    for _ in range(size * TRIES):
        recipe = garden.choice(RECIPES)
        try:
            garden.add(recipe(garden))
        except Refused:
            garden.forget()
        if len(garden.nodes) == size:
            break
    return garden.grown()


def largest(a: Array) -> float:
    return float(np.max(np.abs(a.astype(np.float64)), initial=0, where=np.isfinite(a)))


class Garden:
    """The model in the making, and the dice. What recipes create stays only if their node does."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = np.random.default_rng([seed, 20261121])
        self.opset = int(self.choice((13, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24)))
        self.nodes: list[onnx.NodeProto] = []
        self.values: dict[str, Known] = {}
        self._pending: dict[str, Known] = {}
        self._read: set[str] = set()
        self._count = 0

    # ---- dice

    def choice(self, options: Sequence[Any]) -> Any:
        return options[int(self.rng.integers(len(options)))]

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def number(self, low: int, high: int) -> int:
        """low <= n <= high"""
        return int(self.rng.integers(low, high + 1))

    def shape(self, rank: int | None = None, zero: float = 0.03) -> tuple[int, ...]:
        """Odd extents; seldom one of them 0."""
        rank = int(self.choice((0, 1, 1, 2, 2, 3, 3, 4, 4, 5))) if rank is None else rank
        found = [int(self.choice(SIZES)) for _ in range(rank)]
        while int(np.prod(found)) > MOST:
            found[int(np.argmax(found))] //= 2
        if rank and self.chance(zero):
            found[self.number(0, rank - 1)] = 0
        return tuple(found)

    def array(self, dtype: str, shape: Sequence[int], wild: float = 0.0) -> Array:
        """Normal floats, integers small or of any size; with chance `wild`, NaN and infinities."""
        if dtype == "bool":
            return self.rng.integers(0, 2, shape).astype(bool)
        if dtype in INTEGERS:
            info = np.iinfo(dtype)
            if self.chance(0.15):
                ends = np.array([info.min, info.max, info.min + 1, info.max - 1, 0, 1], dtype)
                return ends[self.rng.integers(0, 6, shape)]
            return self.rng.integers(max(info.min, -9), 10, shape).astype(dtype)
        out = np.asarray(self.rng.standard_normal(shape) * self.choice((0.5, 1, 1, 3))).astype(dtype)
        strange = self.rng.random(shape) < 0.2
        tiny = float(np.finfo(dtype).tiny)
        if self.chance(0.15):
            few = np.array([0.0, -0.0, 1.0, -1.0, 0.5, -2.5, tiny, -tiny / 4], dtype)
            out = np.where(strange, few[self.rng.integers(0, 8, shape)], out)
        if self.chance(wild):
            few = np.array([np.nan, np.inf, -np.inf, -0.0], dtype)
            out = np.where(strange, few[self.rng.integers(0, 4, shape)], out)
        return np.asarray(out, dtype)

    # ---- values

    def constant(self, array: Any, dtype: Any = None) -> Known:
        """An initializer."""
        return self._new(np.asarray(array, dtype), True)

    def given(self, array: Array) -> Known:
        """A graph input with these elements."""
        return self._new(array, False)

    def input(self, dtype: str, shape: Sequence[int], wild: float = 0.0) -> Known:
        """A graph input, or as often a constant."""
        return self._new(self.array(dtype, shape, wild), self.chance(0.4))

    def _new(self, array: Array, is_constant: bool) -> Known:
        self._count += 1
        known = Known(f"{'c' if is_constant else 'x'}{self._count}", array, array, True, is_constant)
        self._pending[known.name] = known
        return known

    def pick(
        self,
        kinds: str = "f",
        rank: Callable[[int], bool] = lambda r: True,
        *,
        exact: bool = False,
        wild: bool = False,
        fresh: float = 0.25,
    ) -> Known:
        """A value of these kinds and ranks; a new input where there is none, and with chance `fresh`."""
        found = [
            v
            for v in self.values.values()
            if v.kind in kinds and rank(v.rank) and (v.exact or not exact) and (wild or not v.is_wild)
        ]
        dynamic = [v for v in found if not v.is_constant]
        if dynamic and not self.chance(fresh):
            unread = [v for v in dynamic if v.name not in self._read]
            return self.choice(unread if unread and self.chance(0.6) else dynamic)  # type: ignore[no-any-return]
        ranks = [r for r in range(6) if rank(r)]
        kind = self.choice(kinds)
        signed = {"f": FLOATS, "i": INTEGERS[:4], "u": INTEGERS[4:], "b": ("bool",)}
        return self._new(
            self.array(self.choice(signed[kind]), self.shape(self.choice(ranks)), 0.15 if wild else 0.0),
            False,
        )

    def companion(self, x: Known, exact: bool = False, wild: bool = False) -> Known:
        """A value of the same type that broadcasts with x."""
        found = [
            v
            for v in self.values.values()
            if v.array.dtype == x.array.dtype
            and (v.exact or not exact)
            and (wild or not v.is_wild)
            and _broadcasts(v.shape, x.shape)
        ]
        if found and self.chance(0.6):
            return self.choice(found)  # type: ignore[no-any-return]
        shape = [1 if self.chance(0.25) else n for n in x.shape[self.number(0, x.rank) :]]
        return self.input(str(x.array.dtype), shape, 0.1 if wild else 0.0)

    # ---- growing

    def add(self, candidate: Candidate) -> None:
        """Take the node into the model, or raise Refused."""
        names = [f"v{len(self.nodes)}_{i}" for i in range(candidate.outputs)]
        node = helper.make_node(
            candidate.op,
            [v.name if v else "" for v in candidate.inputs],
            names,
            name=f"n{len(self.nodes)}",
            domain=candidate.domain,
            **candidate.attributes,
        )
        needed = {v.name: v for v in (*candidate.inputs, *candidate.captured) if v is not None}
        found = [self._known(*v, candidate.error) for v in self._tried(node, candidate, needed)]
        self.nodes.append(node)
        self.values.update({n: v for n, v in needed.items() if n not in self.values})
        self.values.update({v.name: v for v in found})
        self._read.update(needed)
        self._pending.clear()

    def forget(self) -> None:
        self._pending.clear()

    def _tried(
        self, node: onnx.NodeProto, candidate: Candidate, needed: dict[str, Known]
    ) -> Iterable[tuple[str, Array, Array, bool]]:
        arrays = run_node(node, needed, {n: v.array for n, v in needed.items()}, self.opset)
        exact = all(v.exact for v in needed.values())
        shaken = (
            arrays if exact else run_node(node, needed, {n: v.shaken for n, v in needed.items()}, self.opset)
        )
        for name, a, s in zip(node.output, arrays, shaken, strict=True):
            if a.size > 4 * MOST or a.dtype.kind not in "fiub" or a.shape != s.shape:
                raise Refused
            yield name, a, s, exact and (candidate.is_exact or a.dtype.kind != "f")

    def _known(self, name: str, array: Array, shaken: Array, exact: bool, error: float) -> Known:
        if exact or array.dtype.kind != "f":
            if not np.array_equal(array, shaken, equal_nan=array.dtype.kind == "f"):
                raise Refused
            return Known(name, array, shaken, True)
        kind = str(array.dtype)
        with np.errstate(all="ignore"):
            noise, more = self.rng.standard_normal((2, *array.shape))
            moved = shaken.astype(np.float64) * (1 + NOISE[kind] * noise) + error * more
            moved = np.asarray(moved).astype(array.dtype)
            apart = np.abs(array.astype(np.float64) - moved.astype(np.float64))
        finite = np.isfinite(array)
        if not np.array_equal(finite, np.isfinite(moved)) or largest(array) > LARGEST[kind]:
            raise Refused
        if not np.array_equal(array[~finite], moved[~finite], equal_nan=True):
            raise Refused
        limit = TOO_SENSITIVE * NOISE[kind] * largest(array) + 10 * error
        if np.max(apart, initial=0, where=finite) > max(limit, SMALLEST[kind]):
            raise Refused
        return Known(name, array, moved, False)

    def grown(self) -> Grown:
        """The model: values that nobody reads are outputs, and a few that somebody does."""
        made = [self.values[o] for n in self.nodes for o in n.output]
        outputs = [v.name for v in made if v.name not in self._read or self.chance(0.1)]
        model = build(self.nodes, self.values, outputs, self.opset)
        feeds = {i.name: self.values[i.name].array for i in model.graph.input}
        return Grown(self.seed, model, feeds, self.values)


def _broadcasts(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    try:
        return int(np.prod(np.broadcast_shapes(a, b))) <= MOST
    except ValueError:
        return False


def build(
    nodes: Sequence[onnx.NodeProto], values: dict[str, Known], outputs: Sequence[str], opset: int
) -> onnx.ModelProto:
    """The model of some nodes; what they read and do not make becomes an input, or stays a constant."""
    made = {o for n in nodes for o in n.output}
    read = dict.fromkeys(i for n in nodes for i in reads(n) if i and i not in made and i in values)
    infos = [info(values[i]) for i in read if not values[i].is_constant]
    constants = [numpy_helper.from_array(values[i].array, i) for i in read if values[i].is_constant]
    graph = helper.make_graph(list(nodes), "fuzz", infos, [info(values[o]) for o in outputs], constants)
    return _model(graph, opset)


def _model(graph: onnx.GraphProto, opset: int) -> onnx.ModelProto:
    """IR 10 is what onnxruntime opens; a domain is imported where it is used."""
    used = {n.domain for n in graph.node}
    imports = {"": opset} | {d: v for d, v in DOMAINS.items() if d in used}
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid(*i) for i in imports.items()], ir_version=10
    )


def reads(node: onnx.NodeProto) -> Iterable[str]:
    """Its inputs, and everything its subgraphs name (their own values included)."""
    yield from node.input
    for a in node.attribute:
        for inner in a.g.node:
            yield from reads(inner)
        yield from (o.name for o in a.g.output)


def info(v: Known) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(v.name, onnx_type(v.array.dtype), v.shape)


def run_node(
    node: onnx.NodeProto, needed: dict[str, Known], arrays: dict[str, Array], opset: int
) -> list[Array]:
    """onnxruntime's outputs of one node. Raises Refused."""
    import onnxruntime as ort

    infos = [info(v) for v in needed.values() if not v.is_constant]
    constants = [numpy_helper.from_array(v.array, n) for n, v in needed.items() if v.is_constant]
    outputs = [helper.make_empty_tensor_value_info(o) for o in node.output]
    graph = helper.make_graph([node], "node", infos, outputs, constants)
    model = _model(graph, opset)
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        return exact_outputs(model, {i.name: arrays[i.name] for i in infos}, options)
    except Exception as error:
        raise Refused(str(error)) from None
