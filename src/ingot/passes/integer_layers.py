"""Layers between QuantizeLinear and DequantizeLinear compute on the integers.

    x = DequantizeLinear(qx, sx, zx)
    w = DequantizeLinear(qw, sw, zw)      ->      qy = QLinearConv(qx, sx, zx, qw, sw, zw, sy, zy, qb)
    y = Relu(Conv(x, w, b))                       (clipped at zy, if qy goes below it)
    qy = QuantizeLinear(y, sy, zy)

In: an inferred graph in which exporters have left such pairs (QDQ). Out: the same graph with QLinearConv,
QLinearMatMul and QGemm for products whose operands are 8 bits, QLinearAveragePool and
QLinearGlobalAveragePool for means, and with maxima, activations and moves of elements on integers: they keep
the order of numbers, so that the pair around them goes behind them, and goes altogether where what is
dequantised is quantised alike. Sums of integers are exact; results are rounded once, as onnxruntime's own
rewriting rounds products. A float bias that is no number of the sums' units is added to the scaled sums of a
ConvInteger or QGemm, and what reads the floats of a product, such as another activation, gets such sums, too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from math import prod

import numpy as np

from ingot.formula.budget import Budget
from ingot.formula.expr import Array
from ingot.formula.types import FLOAT32, INT8, INT32
from ingot.graph.ir import Attribute, Graph, Node, Value, constant_value, uses
from ingot.graph.onnx_types import dtype_to_onnx
from ingot.ops.infer import infer_node
from ingot.ops.transposed import MOST_PHASES
from ingot.passes.exact_products import EXACT, largest_sum
from ingot.passes.integer_recurrent import integer_recurrent
from ingot.passes.quantised import Quantisation, accumulated, as_int8, is_bytes, largest_sums, quantisation

VERSION = 21
MOVES = (
    *("Reshape", "Flatten", "Transpose", "Squeeze", "Unsqueeze", "Slice", "Gather", "Identity", "Expand"),
    *("Tile", "DepthToSpace", "SpaceToDepth", "MaxPool"),
)
"""Operators whose first operand's elements are the result's, some of them."""
SINCE = {"MaxPool": 12}  # versions that take integers
POOLING_ATTRIBUTES = (*("auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides"),)
PRODUCTS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
FINEST = 2.0**-16  # of a result's step: what a bias may change as it becomes an integer
ROUNDED = 2.0**-20  # of a bias: what the rounding of its own scale may change
Operands = list[Value | None]


def integer_layers(graph: Graph) -> Graph:
    """Rewrite in place, subgraphs too, and return the graph."""
    _rewrite(graph, {})
    return graph


def _rewrite(graph: Graph, known: dict[Value, Quantisation]) -> None:
    work = _Layers(graph, dict(known), {}, uses(graph))
    for node in graph.nodes:
        for sub in node.subgraphs.values():
            _rewrite(sub, work.known)
        work.visit(node)
    graph.nodes = work.nodes


@dataclass(slots=True)
class _Layers:
    """The nodes so far, what is `known` of the values that they dequantise, and who made which."""

    graph: Graph
    known: dict[Value, Quantisation]
    makers: dict[Value, Node]
    readers: dict[Value, list[Node]]
    nodes: list[Node] = field(default_factory=list)
    numbers: count[int] = field(default_factory=count)

    def visit(self, node: Node) -> None:
        """Write a node as it is, or what computes the same on integers."""
        done = False
        if not node.domain:
            match node.op:
                case "DequantizeLinear":
                    self.note(node)
                case "QuantizeLinear":
                    done = (
                        self.cancelled(node)
                        or self.product(node)
                        or self.averaged(node)
                        or self.softened(node)
                        or self.limited(node)
                    )
                case "Relu" | "Clip":
                    done = self.clipped(node)
                case _ if node.op in PRODUCTS:
                    done = self.scaled(node)
                case _ if node.op in MOVES:
                    done = self.moved(node)
        if not done:
            self.append(integer_recurrent(node, self.known))

    def append(self, node: Node) -> None:
        self.nodes.append(node)
        self.makers.update((v, node) for v in node.outputs if v is not None)

    def note(self, node: Node) -> None:
        (out,) = node.outputs
        found = quantisation(node, node.inputs[0])
        if out is not None and found is not None and out.type is FLOAT32:
            self.known[out] = found

    # -- nodes

    def add(
        self,
        like: Node,
        op: str,
        inputs: Operands,
        domain: str = "",
        attributes: dict[str, Attribute] | None = None,
        version: int = 0,
    ) -> Value:
        """A node that stands for `like`, inferred; what it makes."""
        first = like.outputs[0]
        name = like.name or (first.name if first is not None else like.op)
        made = Value(f"{name}_{op}{next(self.numbers)}")
        version = version or (1 if domain else max(like.version, VERSION))
        node = Node(
            op, inputs, [made], attributes or {}, name, domain, version, like.text, caller=like.caller
        )
        infer_node(node, Budget())
        self.append(node)
        return made

    def give(self, out: Value | None) -> bool:
        """The last node makes `out`."""
        (node, made) = self.nodes[-1], self.nodes[-1].outputs[0]
        assert made is not None and out is not None
        del self.makers[made]
        out.type, out.shape = made.type, out.shape or made.shape
        node.outputs = [out]
        self.makers[out] = node
        return True

    def dequantised(self, node: Node, q: Value, how: Quantisation) -> bool:
        """`q` dequantised in place of a node's result, which is known from now on."""
        (out, *_) = node.outputs
        assert out is not None
        numbers: Operands = [q, _constant(q, "scale", how.scale), _constant(q, "zero", _typed(how))]
        self.add(node, "DequantizeLinear", numbers)
        self.give(out)
        self.known[out] = Quantisation(q, how.scale, how.zero)
        return True

    # -- what keeps the order of numbers

    def moved(self, node: Node) -> bool:
        """An operator that only picks elements, on integers; its other outputs must not be read."""
        x, *others = node.inputs
        how = None if x is None else self.known.get(x)
        if how is None or how.axis is not None or len([v for v in node.outputs if v is not None]) != 1:
            return False
        if x is not None and x.constant is not None:
            return False  # folded already
        version = max(node.version, SINCE.get(node.op, 1))
        q = self.add(node, node.op, [how.q, *others], "", node.attributes, version)
        return self.dequantised(node, q, how)

    def clipped(self, node: Node) -> bool:
        """Relu and Clip of what is dequantised, on the integers."""
        x = node.inputs[0]
        how = None if x is None else self.known.get(x)
        limits = _limits(node)
        if (
            how is None
            or how.axis is not None
            or limits is None
            or (x is not None and x.constant is not None)
        ):
            return False
        if not how.holds(*limits):
            return False  # what is cut off becomes a number between those of the integers
        return self.dequantised(node, self.clip(node, how.q, how, limits), how)

    def clip(self, node: Node, q: Value, how: Quantisation, limits: tuple[float, float]) -> Value:
        """Integers that stand for numbers within limits; nothing to do where all of them do."""
        lo, hi = (how.integer(limit) for limit in limits)
        if lo <= how.type.lowest and hi >= how.type.highest:
            return q
        ends = (
            constant_value(f"{q.name}_{n}", np.array(v, how.type.numpy)) for n, v in (("lo", lo), ("hi", hi))
        )
        return self.add(node, "Clip", [q, *ends])

    def cancelled(self, node: Node) -> bool:
        """What is dequantised and quantised alike is what it was."""
        x, (out,) = node.inputs[0], node.outputs
        how, to = None if x is None else self.known.get(x), quantisation(node, out)
        if how is None or to is None or not how.is_like(to) or how.q.constant is not None:
            return False
        self.add(node, "Identity", [how.q])
        return self.give(out)

    def limited(self, node: Node) -> bool:
        """A QuantizeLinear of a Relu or Clip, which limits the integers instead: both keep the order."""
        value, to = node.inputs[0], quantisation(node, node.outputs[0])
        maker = None if value is None or not self.is_private(value) else self.makers.get(value)
        limits = None if maker is None or maker.domain else _limits(maker)
        if maker is None or limits is None or to is None or not is_bytes(to):
            return False
        q = self.add(
            node, "QuantizeLinear", [maker.inputs[0], *node.inputs[1:]], "", node.attributes, node.version
        )
        self.clip(node, q, to, limits)
        return self.give(node.outputs[0])

    # -- products

    def product(self, node: Node) -> bool:
        """A QuantizeLinear of a product, or of a Relu or Clip of one."""
        (out,), to = node.outputs, quantisation(node, node.outputs[0])
        found, limits = self.behind(node.inputs[0])
        if out is None or to is None or not is_bytes(to) or found is None:
            return False
        x, w = (None if v is None else self.known.get(v) for v in found.inputs[:2])
        if x is None or w is None or not is_bytes(x) or x.q.constant is not None:
            return False
        q = self.multiplied(found, x, w, to)
        if q is None:
            return False
        self.clip(node, q, to, limits)
        return self.give(out)

    def averaged(self, node: Node) -> bool:
        """A QuantizeLinear of the mean of an image, or of windows of it: integers are added."""
        value, out = node.inputs[0], node.outputs[0]
        to = quantisation(node, out)
        mean = None if value is None or not self.is_private(value) else self.makers.get(value)
        if mean is None or to is None or not is_bytes(to) or mean.domain:
            return False
        x = None if mean.inputs[0] is None else self.known.get(mean.inputs[0])
        op = _pooling(mean)
        if op is None or x is None or not is_bytes(x) or x.q.constant is not None:
            return False
        given: Operands = [x.q, *_numbers(x.q, x, "x"), *_numbers(x.q, to, "y")]
        taken = {k: v for k, v in mean.attributes.items() if k in POOLING_ATTRIBUTES} | {"zero_last": 1}
        self.add(mean, op, given, "com.microsoft", taken if "Global" not in op else {})
        return self.give(out)

    def softened(self, node: Node) -> bool:
        """A QuantizeLinear of a Softmax of integers: one operator, whose bytes no target rounds otherwise."""
        value, out = node.inputs[0], node.outputs[0]
        to = quantisation(node, out)
        maker = None if value is None or not self.is_private(value) else self.makers.get(value)
        if maker is None or to is None or not is_bytes(to) or maker.domain or maker.op != "Softmax":
            return False
        x = None if maker.inputs[0] is None else self.known.get(maker.inputs[0])
        if x is None or not is_bytes(x) or x.q.constant is not None:
            return False
        axis = maker.attributes.get("axis", -1 if maker.version >= 13 else 1)
        given: Operands = [x.q, *_numbers(x.q, x, "x"), *_numbers(x.q, to, "y")]
        self.add(maker, "QLinearSoftmax", given, "com.microsoft", {"axis": axis, "opset": maker.version})
        return self.give(out)

    def behind(self, value: Value | None) -> tuple[Node | None, tuple[float, float]]:
        """The product that a value is, behind at most one Relu or Clip that nobody else reads."""
        limits = (-np.inf, np.inf)
        for _ in range(2):
            maker = None if value is None or not self.is_private(value) else self.makers.get(value)
            if maker is None or maker.domain:
                break
            if maker.op in PRODUCTS:
                return maker, limits
            bounds = _limits(maker)
            if bounds is None or limits != (-np.inf, np.inf):
                break
            limits, value = bounds, maker.inputs[0]
        return None, limits

    def is_private(self, value: Value) -> bool:
        """Whether one node of this graph alone reads a value."""
        return len(self.readers.get(value, ())) == 1 and value not in self.graph.outputs

    def multiplied(self, node: Node, x: Quantisation, w: Quantisation, to: Quantisation) -> Value | None:
        """The product's integers, if its weights are constant bytes with scales per output."""
        if w.q.constant is None:
            return self.multiplied_with(node, x, w, to)
        found, bias = _weighted(node, x, w), _bias(node)
        if found is None or bias is None:
            return None
        sums = accumulated(bias, found.unit)
        is_whole = _is_near(sums * found.unit.astype(np.float64), bias, to.scale.item())
        if (found.most + np.abs(sums) * is_whole > INT32.highest).any():
            return None
        name, given = w.q.name, found.given
        result: Operands = [
            constant_value(f"{name}_{s}", a) for s, a in (("ys", to.scale), ("yz", _typed(to)))
        ]
        if w.q.type is INT8 and (held := given[3]) is not None:
            held.encoding = w.q.encoding
        if not is_whole:
            return self.add(node, "QuantizeLinear", [self.in_floats(node, found, bias), *result])
        fixed = constant_value(f"{name}_bias", sums.astype(np.int32)) if sums.any() else None
        if node.op == "Conv":
            return self.add(node, "QLinearConv", [*given, *result, fixed], "", node.attributes)
        if node.op == "ConvTranspose":
            operands = [*found.given[:5], *result, fixed]
            return self.add(node, "QLinearConvTranspose", operands, "ingot", node.attributes)
        if node.op == "MatMul":
            return self.add(node, "QLinearMatMul", [*given, *result])
        return self.add(node, "QGemm", [*given, fixed, *result], "com.microsoft", _transposed(node))

    def scaled(self, node: Node) -> bool:
        """A product whose result is read as floats: its sums are integers all the same, scaled once."""
        (out,) = node.outputs
        x, w = (None if v is None else self.known.get(v) for v in node.inputs[:2])
        if out is None or x is None or w is None or not is_bytes(x) or x.q.constant is not None:
            return False
        found, bias = None if self.becomes_bytes(out) else _weighted(node, x, w), _bias(node)
        if found is None or bias is None or (found.most > INT32.highest).any():
            return False
        self.in_floats(node, found, bias)
        return self.give(out)

    def becomes_bytes(self, value: Value) -> bool:
        """Whether a value is quantised, behind at most one Relu or Clip, and no more: that asks for it."""
        for _ in range(2):
            if not self.is_private(value):
                return False
            (reader,) = self.readers[value]
            (out, *_) = reader.outputs
            if reader.op == "QuantizeLinear" and not reader.domain:
                return is_bytes(quantisation(reader, out))
            if reader.domain or _limits(reader) is None or out is None:
                return False
            value = out
        return False

    def multiplied_with(self, node: Node, x: Quantisation, w: Quantisation, to: Quantisation) -> Value | None:
        """The integers of a product of two tensors of bytes, if floats hold its sums too."""
        if node.op != "MatMul" or not is_bytes(w) or largest_sum(x, w) > EXACT:
            return None
        given = (x.q, *_numbers(x.q, x, "a"), w.q, *_numbers(w.q, w, "b"), *_numbers(x.q, to, "y"))
        return self.add(node, "QLinearMatMul", list(given))

    def in_floats(self, node: Node, found: _Weighted, bias: Array) -> Value:
        """The floats of a product: its sums are integers, scaled once, and its bias is added to them."""
        q, _, zero, weights, _, weights_zero = found.given
        unit, columns = found.unit, np.ndim(bias)
        if node.op == "Gemm":
            scaled = self.add(node, "QGemm", found.given, "com.microsoft", _transposed(node))
        else:
            assert weights is not None and weights.shape is not None
            if node.op != "MatMul":
                columns = len(weights.shape) - 1
            if node.op == "ConvTranspose":
                sums = self.add(node, "ConvTransposeInteger", [q, weights, zero], "ingot", node.attributes)
            else:
                given, how = [q, weights, zero, weights_zero], node.attributes if node.op == "Conv" else {}
                sums = self.add(node, f"{node.op}Integer", given, "", how)
            floats = self.add(node, "Cast", [sums], "", {"to": dtype_to_onnx(FLOAT32)})
            unit = unit.reshape(-1, *(1 for _ in range(columns - 1)))
            scaled = self.add(node, "Mul", [floats, constant_value(f"{sums.name}_unit", unit)])
        if not bias.any():
            return scaled
        bias = bias.astype(np.float32).reshape(-1, *(1 for _ in range(columns - 1)))
        return self.add(node, "Add", [scaled, constant_value(f"{scaled.name}_bias", bias)])


@dataclass(frozen=True, slots=True)
class _Weighted:
    """A product of bytes with constant weights: the operands of the operators on integers, what one of its
    sums stands for, and how far from 0 they get, for each output.
    """

    given: Operands
    unit: Array
    most: Array


def _weighted(node: Node, x: Quantisation, w: Quantisation) -> _Weighted | None:
    """None where the weights are no constant bytes, or have scales along another axis than the outputs'."""
    weights, axis = as_int8(w), _output_axis(node)
    if weights is None or weights.ndim < 2 or axis is None or w.axis not in (None, axis % weights.ndim):
        return None
    if node.op == "ConvTranspose":
        return _transposed_weights(node, x, w, weights)
    numbers = [x.scale, _typed(x), weights, w.scale, w.zero.astype(weights.dtype)]
    constants = (constant_value(f"{w.q.name}_{i}", np.asarray(a)) for i, a in enumerate(numbers))
    unit = (x.scale * w.scale).astype(np.float32)
    return _Weighted([x.q, *constants], unit, largest_sums(weights, w, x, axis))


def _transposed_weights(node: Node, x: Quantisation, w: Quantisation, weights: Array) -> _Weighted | None:
    """Those of a ConvTranspose, without zero points, or None: they exceed int8, or strides are very long."""
    shape = [-1 if d == 1 else 1 for d in range(weights.ndim)]
    centred = weights.astype(np.int32) - (w.zero if w.axis is None else w.zero.reshape(shape))
    strides, group = node.attributes.get("strides", ()), node.attributes.get("group", 1)
    assert isinstance(strides, tuple) and isinstance(group, int)
    phases = prod(int(s) for s in strides)
    if centred.min() < INT8.lowest or centred.max() > INT8.highest or phases > MOST_PHASES:
        return None
    scale = w.scale if w.axis is None else np.tile(w.scale, group)
    numbers = [x.scale, _typed(x), centred.astype(np.int8), scale]
    constants = (constant_value(f"{w.q.name}_{i}", np.asarray(a)) for i, a in enumerate(numbers))
    parts = np.abs(centred.reshape(group, -1, *centred.shape[1:])).astype(np.int64)
    most = parts.sum(axis=(1, *range(3, parts.ndim))).reshape(-1) * x.farthest
    return _Weighted([x.q, *constants, None], (x.scale * scale).astype(np.float32), most)


def _bias(node: Node) -> Array | None:
    """A constant bias, zeros without one; None: another cannot be added."""
    b = node.inputs[2] if len(node.inputs) > 2 else None
    if node.op == "Gemm" and node.attributes.get("alpha", 1.0) != 1:
        return None
    beta = node.attributes.get("beta", 1.0)
    assert isinstance(beta, float)
    if b is None:
        return np.zeros(1)
    if b.constant is None or b.constant.ndim != 1 or not np.isfinite(b.constant).all():
        return None
    return np.asarray(b.constant * np.float32(beta))


def _is_near(whole: Array, bias: Array, step: float) -> bool:
    """Whether whole units of the sums stand for a bias, as far as floats round."""
    return bool((np.abs(whole - bias) <= np.maximum(FINEST * step, ROUNDED * np.abs(bias))).all())


def _transposed(node: Node) -> dict[str, Attribute]:
    """Of a Gemm's attributes those that a QGemm has too."""
    return {k: v for k, v in node.attributes.items() if k in ("transA", "transB")}


def _pooling(node: Node) -> str | None:
    """The operator that computes a mean of integers; None where there is none."""
    x = node.inputs[0]
    match node.op:
        case "GlobalAveragePool":
            return "QLinearGlobalAveragePool"
        case "AveragePool":
            dilations = node.attributes.get("dilations", ())
            assert isinstance(dilations, tuple)
            counts_beyond = all(node.attributes.get(k, 0) for k in ("ceil_mode", "count_include_pad"))
            return "QLinearAveragePool" if all(d == 1 for d in dilations) and not counts_beyond else None
        case "ReduceMean" if x is not None and x.shape is not None and node.attributes.get("keepdims", 1):
            return "QLinearGlobalAveragePool" if _reduced(node) == set(range(2, len(x.shape))) else None
    return None


def _reduced(node: Node) -> set[int]:
    """The axes that a ReduceMean goes over, if they are known and not all."""
    x, given = node.inputs[0], node.inputs[1] if len(node.inputs) > 1 else None
    axes = node.attributes.get("axes", ()) if given is None else given.constant
    if x is None or x.shape is None or axes is None or not isinstance(axes, tuple | np.ndarray):
        return set()
    return {int(a) % len(x.shape) for a in axes}


def _typed(how: Quantisation) -> Array:
    return how.zero.astype(how.type.numpy)


def _numbers(q: Value, how: Quantisation, side: str) -> tuple[Value, Value]:
    """The scale and zero point of one side of an operator on integers q."""
    return _constant(q, f"{side}s", how.scale), _constant(q, f"{side}z", _typed(how))


def _constant(q: Value, what: str, array: Array) -> Value:
    return constant_value(f"{q.name}_{what}", array)


def _output_axis(node: Node) -> int | None:
    """The axis of the weights that outputs go along."""
    match node.op:
        case "Conv":
            return 0
        case "ConvTranspose":
            return 1
        case "Gemm":
            return 0 if node.attributes.get("transB") else 1
        case "MatMul":
            return -1
    return None


def _limits(node: Node) -> tuple[float, float] | None:
    """The numbers between which a Relu or Clip leaves its operand; None: data, or another operator."""
    if node.op == "Relu":
        return 0.0, np.inf
    if node.op != "Clip":
        return None
    ends: list[float] = []
    for i, (key, default) in enumerate((("min", -np.inf), ("max", np.inf))):
        given = node.inputs[i + 1] if len(node.inputs) > i + 1 else None
        if given is not None and given.constant is None:
            return None
        attribute = node.attributes.get(key, default)
        assert isinstance(attribute, float)
        ends.append(attribute if given is None or given.constant is None else float(given.constant.item()))
    lo, hi = ends
    return (lo, hi) if lo <= hi else None
