"""Recurrent layers: SimpleRNN, GRU, LSTM, RNN over cells, ConvLSTM, both directions, states and masks.

Without a mask a layer is one operator of ONNX; with one, or with an activation that the operator does not
know, a Loop: where a step is hidden the states stay, and the output is that of the step before, or zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ingot.errors import ModelError
from ingot.formula.types import BOOL, INT64
from ingot.frontends.keras.activations import elementwise, named
from ingot.frontends.keras.cells import Cell, cell_spec
from ingot.frontends.keras.configs import Layer, layer_of, leaves
from ingot.frontends.keras.layers.convolution import Geometry, geometry, outward
from ingot.frontends.keras.network import spec_of
from ingot.frontends.keras.settings import Settings
from ingot.frontends.keras.table import Call, Result, layer
from ingot.frontends.keras.weights import Spec, counted
from ingot.frontends.orders import Builder, Tensor, own, sliced
from ingot.graph.ir import Value

Step = Callable[[Builder, Value, list[Value]], tuple[Value, list[Value]]]


@dataclass(frozen=True, slots=True)
class Scanned:
    """What a layer computed: outputs in the order of time [batch, time, ...], the last one, the last
    states.
    """

    outputs: Value
    last: Value
    states: list[Value]


@dataclass(frozen=True, slots=True)
class Given:
    """What a recurrent layer is called with."""

    x: Tensor
    states: list[Value]
    mask: Value | None


def _given(c: Call) -> Given:
    """The sequence, then perhaps initial states in the same list (Keras 2) or by keyword, and a mask."""
    x, *rest = c.tensors
    initial = c.kwargs.get("initial_state", c.args[1] if len(c.args) > 1 else None)
    states = [c.plain(t) for t in (*rest, *leaves(initial)) if isinstance(t, Tensor)]
    mask = c.tensor_at(2, "mask")
    return Given(x, states, c.plain(mask) if mask is not None else c.mask_of(x))


# ---- loops


def looped(c: Call, x: Value, given: Given, states: list[Value], step: Step, is_backwards: bool) -> Scanned:
    """The steps one by one in a Loop. `x` is [batch, time, ...]."""
    b = c.b
    steps = Tensor(x).shape[1]
    c.require(steps > 0, "a sequence of no steps")
    place = b.names.place
    inner = b.inner(b.names.fresh(f"{place}/body"))
    shape = _output_shape(c, x, states, step)
    zeros = b.filled(shape, 0, Tensor(x).dtype)
    before = [*states, zeros]
    kinds = [(INT64, ()), (BOOL, ()), *((v.type, v.shape) for v in before)]
    inner.graph.inputs = [Value(b.names.fresh(f"{place}/carried"), t, s) for t, s in kinds]
    number, on, *carried = inner.graph.inputs
    at = inner.one("Sub", inner.constant(steps - 1, INT64), number) if is_backwards else number
    output, after = step(inner, inner.one("Gather", x, at, axis=1), carried[:-1])
    if given.mask is not None:
        shown = inner.one("Gather", given.mask, at, axis=1)
        zero = c.settings.flag("zero_output_for_mask")
        output = _shown(inner, shown, output, zeros if zero else carried[-1])
        after = [_shown(inner, shown, new, old) for new, old in zip(after, carried[:-1], strict=True)]
    inner.graph.outputs = own(inner, [inner.one("Identity", on), *after, output, output])
    count = b.constant(steps, INT64)
    *last, outputs = b.many("Loop", len(before) + 1, count, b.constant(True, BOOL), *before, body=inner.graph)
    if is_backwards:
        outputs = flipped(b, outputs, 0)
    rank = len(shape)
    return Scanned(b.transposed(outputs, (1, 0, *range(2, rank + 1))), last[-1], last[:-1])


def _output_shape(c: Call, x: Value, states: list[Value], step: Step) -> tuple[int, ...]:
    """What a step makes, seen by trying one."""
    trial = c.b.inner("trial")
    output, _ = step(trial, trial.one("Gather", x, trial.constant(0, INT64), axis=1), states)
    return Tensor(output).shape


def _shown(b: Builder, shown: Value, new: Value, old: Value) -> Value:
    rank = Tensor(new).rank
    return b.one("Where", b.reshape(shown, (Tensor(shown).shape[0], *[1] * (rank - 1))), new, old)


def flipped(b: Builder, x: Value, axis: int) -> Value:
    extents = Tensor(x).shape
    steps = [-1 if a == axis else 1 for a in range(len(extents))]
    starts = [n - 1 if a == axis else 0 for a, n in enumerate(extents)]
    ends = [-1 if a == axis else n for a, n in enumerate(extents)]
    return x if extents[axis] == 1 else sliced(b, x, starts, ends, steps)


# ---- cells of vectors


def _cells(c: Call) -> list[Cell]:
    """The layer's cells: its own, or those of an RNN, stacked ones in their order."""
    if c.layer.kind != "RNN":
        return [Cell(c, c.layer, c.tree.child("cell"))]
    outer = layer_of(c.settings.inner("cell"), c.layer.label)
    tree = c.tree.child("cell")
    if outer.kind != "StackedRNNCells":
        return [Cell(c, outer, tree)]
    return [Cell(c, found, tree.child(name)) for found, name in _stacked(outer)]


def _stacked(outer: Layer) -> list[tuple[Layer, str]]:
    given = outer.config.get("cells")
    if not isinstance(given, list) or not given:
        raise ModelError(f"{outer.label}: it has no cells")
    found = [layer_of(document, outer.label) for document in given]
    names = counted([inner.kind for inner in found])
    return list(zip(found, (f"cells/{name}" for name in names), strict=True))


def _vectors(c: Call, given: Given) -> Scanned:
    """Layers whose states are vectors."""
    x = given.x
    c.require(x.rank == 3, "a sequence of three axes is needed, [batch, time, features]")
    is_backwards, cells = c.settings.flag("go_backwards"), _cells(c)
    states = _initial(c, given, [[x.shape[0], cell.units] for cell in cells for _ in range(cell.states)])
    dtype = c.settings.compute
    value = c.b.cast(c.plain(x), dtype)
    if given.mask is None and all(cell.is_operator for cell in cells):
        return _operators(c, value, cells, states, is_backwards)

    def step(b: Builder, at: Value, carried: list[Value]) -> tuple[Value, list[Value]]:
        after: list[Value] = []
        for cell in cells:
            part = carried[len(after) : len(after) + cell.states]
            at, new = cell.step(b, at, Tensor(at).shape[1], part)
            after += new
        return at, after

    return looped(c, value, given, states, step, is_backwards)


def _operators(c: Call, x: Value, cells: list[Cell], states: list[Value], is_backwards: bool) -> Scanned:
    """One operator for each cell."""
    found = c.b.transposed(x, (1, 0, 2))
    after: list[Value] = []
    last = x
    for cell in cells:
        part = states[len(after) : len(after) + cell.states]
        found, new = cell.sequence(found, Tensor(found).shape[2], part, is_backwards)
        after += new
        last = new[0]
    return Scanned(c.b.transposed(found, (1, 0, 2)), last, after)


def _initial(c: Call, given: Given, shapes: Sequence[Sequence[int]]) -> list[Value]:
    """The states before the first step: given, kept by the caller between runs, or zeros."""
    dtype = c.settings.compute
    if given.states:
        c.require(len(given.states) == len(shapes), f"{len(given.states)} initial states of {len(shapes)}")
        for state, shape in zip(given.states, shapes, strict=True):
            c.require(list(Tensor(state).shape) == list(shape), f"an initial state of {Tensor(state).shape}")
        return [c.b.cast(s, dtype) for s in given.states]
    if not c.settings.flag("stateful"):
        return [c.b.filled(shape, 0, dtype) for shape in shapes]
    c.require(c.b.outer is None, "a stateful layer inside another one's steps")
    names = [c.b.names.fresh(f"{c.layer.name}_state{i}") for i in range(len(shapes))]
    return [c.b.input(name, dtype, shape) for name, shape in zip(names, shapes, strict=True)]


def _vector_weights(layer: Layer, settings: Settings) -> Spec:
    return Spec(inside=(("cell", cell_spec(layer, settings)),))


def _wrapped_weights(layer: Layer, settings: Settings) -> Spec:
    """Those of the cell, or of stacked ones."""
    outer = layer_of(settings.inner("cell"), layer.label)
    if outer.kind != "StackedRNNCells":
        return Spec(inside=(("cell", cell_spec(outer, Settings(outer.config, outer.label))),))
    inside = tuple((name, cell_spec(c, Settings(c.config, c.label))) for c, name in _stacked(outer))
    return Spec(inside=(("cell", Spec(inside=inside)),))


@layer("SimpleRNN", "GRU", "LSTM", weights=_vector_weights, mask="own")
def recurrent(c: Call) -> Result:
    return _result(c, _scanned(c))


@layer("RNN", weights=_wrapped_weights, mask="own")
def rnn(c: Call) -> Result:
    return _result(c, _scanned(c))


def _scanned(c: Call) -> Scanned:
    given = _given(c)
    found = _images(c, given) if c.layer.kind.startswith("ConvLSTM") else _vectors(c, given)
    if c.settings.flag("stateful") and not given.states:
        made = [v for v in c.b.graph.inputs if v.name.startswith(f"{c.layer.name}_state")]
        for before, after in zip(made[-len(found.states) :], found.states, strict=True):
            c.world.states.append((before, after))
    return found


def _result(c: Call, found: Scanned) -> Result:
    """The last output or all of them, backwards as Keras gives them; the states behind it."""
    s = c.settings
    is_all = s.flag("return_sequences")
    value = found.outputs if is_all else found.last
    if is_all and s.flag("go_backwards"):
        value = flipped(c.b, value, 1)
    made = c.mask(Tensor(value), _given(c).mask if is_all else None)
    return [made, *(Tensor(v) for v in found.states)] if s.flag("return_state") else made


# ---- both directions


def _both_layers(layer: Layer, settings: Settings) -> tuple[Layer, Layer]:
    """The second one goes the other way; where it is not said it is the first one's likeness."""
    first = layer_of(settings.inner("layer"), layer.label)
    if settings.has("backward_layer"):
        return first, layer_of(settings.inner("backward_layer"), layer.label)
    config = {**first.config, "go_backwards": not first.config.get("go_backwards", False)}
    return first, Layer(first.kind, f"backward_{first.name}", config, first.module, first.registered)


def _both_weights(layer: Layer, settings: Settings) -> Spec:
    first, second = _both_layers(layer, settings)
    return Spec(inside=(("forward_layer", spec_of(first)), ("backward_layer", spec_of(second))))


@layer("Bidirectional", weights=_both_weights, mask="own")
def bidirectional(c: Call) -> Result:
    """Two layers, the outputs of the second one turned back into the order of time, merged."""
    first, second = _both_layers(c.layer, c.settings)
    given = _given(c)
    half = len(given.states) // 2
    parts = []
    for which, (found, name) in enumerate(((first, "forward_layer"), (second, "backward_layer"))):
        states = [Tensor(v) for v in given.states[which * half : (which + 1) * half]]
        kwargs: dict[str, Any] = {"initial_state": states} if states else {}
        if given.mask is not None:
            kwargs["mask"] = Tensor(given.mask)
        inner = Call(c.b, found, (given.x,), kwargs, c.tree.child(name), c.world)
        c.require(
            found.kind in ("SimpleRNN", "GRU", "LSTM", "RNN") or found.kind[:8] == "ConvLSTM", found.label
        )
        parts.append((inner, _scanned(inner)))
    is_all = parts[0][0].settings.flag("return_sequences")
    values = [found.outputs if is_all else found.last for _, found in parts]
    if is_all:  # the layer turns its outputs if it goes backwards, and Bidirectional those of the second one
        turns = [parts[0][0].settings.flag("go_backwards"), not parts[1][0].settings.flag("go_backwards")]
        values = [flipped(c.b, v, 1) if t else v for v, t in zip(values, turns, strict=True)]
    mask = given.mask if is_all else None
    made = [c.mask(t, mask) for t in _merged(c, values)]
    if parts[0][0].settings.flag("return_state"):
        return [*made, *(Tensor(v) for _, found in parts for v in found.states)]
    return made if len(made) > 1 else made[0]


def _merged(c: Call, values: list[Value]) -> list[Tensor]:
    mode, b = c.layer.config.get("merge_mode", "concat"), c.b
    if mode is None:
        return [Tensor(v) for v in values]
    if mode == "concat":
        return [Tensor(b.one("Concat", *values, axis=-1))]
    if mode in ("sum", "ave", "mul"):
        joined = b.one("Mul" if mode == "mul" else "Add", *values)
        half = b.constant(0.5, Tensor(joined).dtype)
        return [Tensor(b.one("Mul", joined, half) if mode == "ave" else joined)]
    raise ModelError(f"{c.layer.label}: the merge_mode {str(mode)[:40]!r} is not known")


# ---- cells of images


def _image_weights(layer: Layer, settings: Settings) -> Spec:
    bias = ("bias",) if settings.flag("use_bias", True) else ()
    return Spec(inside=(("cell", Spec(("kernel", "recurrent_kernel", *bias))),))


@layer("ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D", weights=_image_weights, mask="own")
def conv_lstm(c: Call) -> Result:
    return _result(c, _scanned(c))


def _images(c: Call, given: Given) -> Scanned:
    """An LSTM whose products are convolutions; images are channels-first inside the loop."""
    s, b, x = c.settings, c.b, given.x
    n = int(c.layer.kind[-2])
    c.require(x.rank == n + 3, f"a sequence of {n + 3} axes is needed")
    is_last = s.choice("data_format", ("channels_last", "channels_first"), "channels_last") == "channels_last"
    value = b.cast(c.plain(x), s.compute)
    if is_last:
        value = b.transposed(value, (0, 1, n + 2, *range(2, n + 2)))
    channels, extents = Tensor(value).shape[2], Tensor(value).shape[3:]
    filters, taps = s.count("filters"), s.counts("kernel_size", n)
    how = geometry(c, extents, taps, s.counts("strides", n, 1))
    cell = Call(b, c.layer, (), {}, c.tree.child("cell"), c.world)
    kernel = c.held(
        "kernel", outward(cell.array("kernel", [*taps, channels, 4 * filters])).astype(s.compute.numpy)
    )
    again = outward(cell.array("recurrent_kernel", [*taps, filters, 4 * filters])).astype(s.compute.numpy)
    bias = cell.weight("bias", [4 * filters]) if s.flag("use_bias", True) else None
    recurrent_kernel = c.held("recurrent_kernel", again)
    state = [x.shape[0], filters, *_extents(extents, how)]
    back = [(k - 1) // 2 for k in taps] + [k - 1 - (k - 1) // 2 for k in taps]
    gate, bend = _gate_functions(c)

    def step(inner: Builder, at: Value, carried: list[Value]) -> tuple[Value, list[Value]]:
        product = inner.one("Conv", at, kernel, bias, **how.attributes)
        kept = inner.one("Conv", carried[0], recurrent_kernel, pads=back, kernel_shape=taps)
        i, f, g, o = inner.many("Split", 4, inner.one("Add", product, kept), axis=1, num_outputs=4)
        old = inner.one("Mul", gate(inner, f), carried[1])
        new = inner.one("Add", old, inner.one("Mul", gate(inner, i), bend(inner, g)))
        h = inner.one("Mul", gate(inner, o), bend(inner, new))
        return h, [h, new]

    front = [b.transposed(v, (0, n + 1, *range(1, n + 1))) if is_last else v for v in given.states]
    states = _initial(c, Given(x, front, None), [state, state])
    found = looped(c, value, given, states, step, s.flag("go_backwards"))
    if not is_last:
        return found
    turned = [b.transposed(v, (0, *range(2, n + 2), 1)) for v in (found.last, *found.states)]
    outputs = b.transposed(found.outputs, (0, 1, *range(3, n + 3), 2))
    return Scanned(outputs, turned[0], turned[1:])


def _extents(extents: Sequence[int], how: Geometry) -> list[int]:
    n = len(extents)
    return [
        (e + how.pads[i] + how.pads[n + i] - (how.taps[i] - 1) * how.dilations[i] - 1) // how.strides[i] + 1
        for i, e in enumerate(extents)
    ]


def _gate_functions(c: Call) -> list[Any]:
    found = []
    for key, default in (("recurrent_activation", "hard_sigmoid"), ("activation", "tanh")):
        name = named(c.settings.get(key, default), c.layer.label)
        function = elementwise(name, c.world.is_3) if isinstance(name, str) else None
        if function is None:
            raise c.refuse(f"the {key} {str(name)[:40]!r} is not known in a cell")
        found.append(function)
    return found
