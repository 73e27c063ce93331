"""RNN, GRU and LSTM: one scan per direction over contractions.

In: x [t, batch, i], weights w [direction, gates, i] and r [direction, gates, hidden], and what else ONNX
passes. Out: per direction one contraction of x with w for all steps at once, then a `Scan` whose steps
multiply the state by r and overwrite it. Every step has its own place in y, also where sequences end early:
there y is zero and the state is kept, the initial one if a sequence has no step at all. Matrices may be
bytes: `factors` multiplies by either.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ingot.formula.expr import (
    Const,
    Expr,
    Extent,
    Gathered,
    Tensor,
    Var,
    call,
    cast,
    maximum,
    minimum,
    select,
)
from ingot.formula.extents import extent
from ingot.formula.index import as_expr
from ingot.formula.types import DType
from ingot.ops.activation import elu, hard_sigmoid, sigmoid, softplus
from ingot.ops.factors import Activations, Matrix, Operand, Sums, in_bytes, product
from ingot.ops.registry import Builder, Outputs, op

Function = Callable[[Expr], Expr]
Floats = tuple[float, ...]

# What each function takes of (alpha, beta), with defaults, and what it does (ONNX LSTM-22, `activations`).
ACTIVATIONS: dict[str, tuple[Floats, Callable[..., Expr]]] = {
    "affine": ((1.0, 0.0), lambda x, a, b: x * a + b),
    "elu": ((1.0,), elu),
    "hardsigmoid": ((0.2, 0.5), lambda x, a, b: hard_sigmoid(x, alpha=a, beta=b)),
    "leakyrelu": ((0.01,), lambda x, a: select(x < 0, x * a, x)),
    "relu": ((), lambda x: maximum(x, 0)),
    "scaledtanh": ((1.0, 1.0), lambda x, a, b: call("tanh", x * b) * a),
    "sigmoid": ((), sigmoid),
    "softplus": ((), softplus),
    "softsign": ((), lambda x: x / (call("abs", x) + 1)),
    "tanh": ((), lambda x: call("tanh", x)),
    "thresholdedrelu": ((1.0,), lambda x, a: select(x > a, x, 0)),
}


@dataclass(frozen=True, slots=True)
class Attributes:
    """The attributes that all three operators have; `activations` is resolved, per direction in order."""

    activations: tuple[str, ...]
    activation_alpha: Floats
    activation_beta: Floats
    clip: float
    direction: str
    hidden_size: int | None
    layout: int


def _applied(function: Callable[..., Expr], parameters: list[float]) -> Function:
    return lambda x: function(x, *parameters)


@dataclass(frozen=True, slots=True)
class Layer:
    """One node's tensors and sizes. Axes: t steps, b batch, g rows of all gates, j and k (summed) hidden."""

    f: Builder
    x: Activations
    w: Matrix
    r: Matrix
    bias: Tensor | None
    lengths: Tensor | None
    attributes: Attributes
    gates: int

    def __post_init__(self) -> None:
        a, h, require = self.attributes, self.r.shape[-1], self.f.require
        known = ("forward", "reverse", "bidirectional")
        require(a.direction in known, f"direction {a.direction!r} is unknown")
        require(a.layout in (0, 1), f"layout {a.layout} is unknown")
        require(self.x.rank == 3, f"input rank {self.x.rank}, 3 is needed")
        require(a.hidden_size in (None, h), f"hidden_size {a.hidden_size}, but the weights have {h}")
        rows = extent(as_expr(h) * self.gates)
        self.fits(self.w, (self.directions, rows, self.x.shape[2]), "weights")
        self.fits(self.r, (self.directions, rows, h), "recurrent weights")
        self.fits(self.bias, (self.directions, extent(as_expr(rows) * 2)), "biases")
        self.fits(self.lengths, (self.b.extent or 0,), "sequence_lens")
        count = len(a.activations)
        require(count % self.directions == 0, f"{count} activations for {self.directions} directions")

    def fits(self, t: Matrix | None, shape: tuple[Extent, ...], what: str) -> None:
        """Raise ShapeError unless an input is absent or has the shape."""
        if t is not None:
            self.f.require(t.shape == shape, f"{what} of shape {t.shape}, {shape} is needed")

    @property
    def type(self) -> DType:
        """The type in which states live."""
        return self.x.type.compute

    @property
    def directions(self) -> int:
        return 2 if self.attributes.direction == "bidirectional" else 1

    @property
    def steps(self) -> Extent:
        return self.x.shape[1] if self.attributes.layout else self.x.shape[0]

    @property
    def b(self) -> Var:
        return Var("b", self.x.shape[0] if self.attributes.layout else self.x.shape[1])

    @property
    def j(self) -> Var:
        return Var("j", self.r.shape[-1])

    def rows(self, gates: int) -> Var:
        return Var("g", extent(as_expr(self.r.shape[-1]) * gates))

    def row(self, gate: int) -> Expr:
        """Row j of a gate among the rows of all."""
        return as_expr(self.r.shape[-1]) * gate + self.j

    def functions(self, d: int) -> tuple[Function, ...]:
        """The activations of one direction; those that take alphas and betas use the lists up in order."""
        a = self.attributes
        alphas, betas = iter(a.activation_alpha), iter(a.activation_beta)
        every: list[Function] = []
        for name in a.activations:
            known = name.lower() in ACTIVATIONS
            self.f.require(known, f"activation {name!r} is not one of {', '.join(sorted(ACTIVATIONS))}")
            defaults, function = ACTIVATIONS[name.lower()]
            given = [next(it, v) for it, v in zip((alphas, betas), defaults, strict=False)]
            every.append(_applied(function, given))
        n = len(every) // self.directions
        return tuple(every[d * n : (d + 1) * n])

    def project(self, d: int, recurrent_bias: bool = True) -> Sums:
        """gates_x[t, b, g] = bias[g] + sum over i of x[t, b, i] * w[d, g, i], for all steps at once."""
        t, i, b, g = Var("t", self.steps), Var("i", self.x.shape[2]), self.b, self.rows(self.gates)

        def post(acc: Expr, row: Expr) -> Expr:
            if self.bias is None:
                return acc
            y = acc + self.bias[d, row]
            return y + self.recurrent_bias(d, row) if recurrent_bias else y

        x = Operand(self.x, (b, t, i) if self.attributes.layout else (t, b, i), (t, b), i)
        return product(self.f, x, self.w, g, (Const(d), g), post, "gates_x")

    def recurrent_bias(self, d: int, g: Expr) -> Expr:
        """The second half of the bias."""
        assert self.bias is not None
        return self.bias[d, as_expr(self.r.shape[-1]) * self.gates + g]

    def start(self, initial: Tensor | None, d: int, name: str) -> Tensor:
        """A state of one direction before the first step."""
        b, h, n = self.b.extent or 0, self.j.extent or 0, self.directions
        self.fits(initial, (b, n, h) if self.attributes.layout else (n, b, h), f"initial {name}")
        state = self.f.empty(self.type, (b, h), name)
        value = Const(0.0, self.type) if initial is None else initial[self.place(d)]
        self.f.put(state, (self.b, self.j), (self.b, self.j), value)
        return state

    def place(self, d: int) -> tuple[Expr, ...]:
        """Where the state of (direction, b, j) stands in initial_h, Y_h and the like."""
        one = Const(d)
        return (self.b, one, self.j) if self.attributes.layout else (one, self.b, self.j)

    def position(self, d: int, s: Var) -> tuple[Expr, Expr | None]:
        """The time that step s works at, and whether batch b has not ended before (None: it never has).

        Backwards, step s of a sequence of n steps is time n - 1 - s; beyond its end it is s, so that every
        time is met once.
        """
        backwards = d == 1 or self.attributes.direction == "reverse"
        if self.lengths is None or _all_equal(self.lengths, self.steps):
            return (as_expr(self.steps) - 1 - s if backwards else s), None
        n = self.lengths[self.b]
        step = cast(s, n.dtype)
        running = step < n
        if not backwards:
            return s, running
        return Gathered(select(running, n - 1 - step, step), Const(0), as_expr(self.steps)), running

    def multiply(self, state: Tensor, d: int, gates: int, first: int = 0, bias: bool = False) -> Sums:
        """gates_h[b, g] = sum over k of state[b, k] * r[d, g, k], for `gates` gates from the `first` on."""
        g, k = self.rows(gates), Var("k", self.r.shape[-1])

        def post(acc: Expr, row: Expr) -> Expr:
            return acc + self.recurrent_bias(d, row) if bias and self.bias is not None else acc

        row = as_expr(self.r.shape[-1]) * first + g
        h = Operand(state, (self.b, k), (self.b,), k)
        return product(self.f, h, self.r, g, (Const(d), row), post, "gates_h")

    def clip(self, x: Expr) -> Expr:
        """What a gate's function is applied to, bounded by -clip and clip where clip is given."""
        limit = self.attributes.clip
        return minimum(maximum(x, -limit), limit) if limit else x

    def update(self, state: Tensor, now: Step, value: Expr) -> None:
        """Overwrite a state; where the sequence has ended it is kept."""
        at = (self.b, self.j)
        self.f.put(state, at, at, value if now.running is None else select(now.running, value, state[at]))


def _all_equal(lengths: Tensor, steps: Extent) -> bool:
    """Whether every sequence is known to run to the end."""
    return lengths.value is not None and isinstance(steps, int) and bool((lengths.value == steps).all())


@dataclass(frozen=True, slots=True)
class Step:
    """One step of direction d: the states, and the time at which the rows of x are read."""

    layer: Layer
    d: int
    states: tuple[Tensor, ...]
    gates_x: Sums
    t: Expr
    running: Expr | None

    def x(self, gate: int) -> Expr:
        """What x contributes to row j of a gate."""
        return self.gates_x((self.t, self.layer.b), self.layer.row(gate))


Cell = Callable[[Layer, Step], None]  # builds the stages of one step


def run(layer: Layer, initial: tuple[Tensor | None, ...], cell: Cell, recurrent_bias: bool = True) -> Outputs:
    """Y and the final states. The first state is what y shows."""
    f, d, h = layer.f, layer.directions, layer.r.shape[-1]
    b, t, first = layer.b.extent or 0, layer.steps, layer.attributes.layout
    y = f.empty(layer.x.type, (b, t, d, h) if first else (t, d, b, h), "y")
    finals = [f.empty(layer.x.type, (b, d, h) if first else (d, b, h), "last") for _ in initial]
    for one in range(d):
        states = tuple(layer.start(s, one, "state") for s in initial)
        _direction(layer, one, states, y, cell, recurrent_bias)
        for state, final in zip(states, finals, strict=True):
            f.put(final, (layer.b, layer.j), layer.place(one), state[layer.b, layer.j])
    return (y, *finals)


def _direction(
    layer: Layer, d: int, states: tuple[Tensor, ...], y: Tensor, cell: Cell, recurrent_bias: bool
) -> None:
    f, b, j, s = layer.f, layer.b, layer.j, Var("s", layer.steps)
    t, running = layer.position(d, s)
    now = Step(layer, d, states, layer.project(d, recurrent_bias), t, running)

    def body() -> None:
        cell(layer, now)
        if f.wanted[0]:
            shown = states[0][b, j]
            value = shown if running is None else select(running, shown, 0)
            f.put(y, (b, j), (b, t, d, j) if layer.attributes.layout else (t, d, b, j), value)

    f.scan(s, states, body)


@op("RNN")
def rnn(
    f: Builder,
    x: Activations,
    w: Matrix,
    r: Matrix,
    b: Tensor | None = None,
    sequence_lens: Tensor | None = None,
    initial_h: Tensor | None = None,
    *,
    activation_alpha: Floats = (),
    activation_beta: Floats = (),
    activations: tuple[str, ...] | None = None,
    clip: float = 0.0,
    direction: str = "forward",
    hidden_size: int | None = None,
    layout: int = 0,
    output_sequence: int = 0,
) -> Outputs:
    """h = f(x w + h r + bias) (ONNX RNN-22). Outputs: every h, the last h."""
    names = activations or ("Tanh",) * (1 + (direction == "bidirectional"))
    a = Attributes(names, activation_alpha, activation_beta, clip, direction, hidden_size, layout)
    return run(Layer(f, x, w, r, b, sequence_lens, a, 1), (initial_h,), _rnn_cell)


def _rnn_cell(layer: Layer, now: Step) -> None:
    (h,), (act,) = now.states, layer.functions(now.d)
    gates = layer.multiply(h, now.d, 1)
    layer.update(h, now, act(layer.clip(now.x(0) + gates((layer.b,), layer.j))))


@op("GRU")
def gru(
    f: Builder,
    x: Activations,
    w: Matrix,
    r: Matrix,
    b: Tensor | None = None,
    sequence_lens: Tensor | None = None,
    initial_h: Tensor | None = None,
    *,
    activation_alpha: Floats = (),
    activation_beta: Floats = (),
    activations: tuple[str, ...] | None = None,
    clip: float = 0.0,
    direction: str = "forward",
    hidden_size: int | None = None,
    layout: int = 0,
    linear_before_reset: int = 0,
    output_sequence: int = 0,
) -> Outputs:
    """h = (1 - z) n + z h with gates z, r and the candidate n (ONNX GRU-22). Outputs: every h, the last h.

    z = f(x wz + h rz), r = f(x wr + h rr), each plus biases. n = g(x wn + (r h) rn + biases), or with
    linear_before_reset n = g(x wn + bias + r (h rn + bias)), which needs one multiplication instead of two.
    """
    names = activations or ("Sigmoid", "Tanh") * (1 + (direction == "bidirectional"))
    a = Attributes(names, activation_alpha, activation_beta, clip, direction, hidden_size, layout)
    layer = Layer(f, x, w, r, b, sequence_lens, a, 3)
    if linear_before_reset:
        return run(layer, (initial_h,), _gru_linear_cell, recurrent_bias=False)
    return run(layer, (initial_h,), _gru_cell)


def _gru_cell(layer: Layer, now: Step) -> None:
    (h,), (act, candidate), b, j = now.states, layer.functions(now.d), layer.b, layer.j
    gates = layer.multiply(h, now.d, 2)
    z = layer.f.map((b, j), act(layer.clip(now.x(0) + gates((b,), j))), name="z")
    reset = act(layer.clip(now.x(1) + gates((b,), layer.row(1))))
    last = layer.multiply(layer.f.map((b, j), reset * h[b, j], name="kept"), now.d, 1, first=2)
    new = candidate(layer.clip(now.x(2) + last((b,), j)))
    layer.update(h, now, (1 - z[b, j]) * new + z[b, j] * h[b, j])


def _gru_linear_cell(layer: Layer, now: Step) -> None:
    (h,), (act, candidate), b, j = now.states, layer.functions(now.d), layer.b, layer.j
    gates = layer.multiply(h, now.d, 3, bias=True)
    z = layer.f.map((b, j), act(layer.clip(now.x(0) + gates((b,), j))), name="z")
    reset = act(layer.clip(now.x(1) + gates((b,), layer.row(1))))
    new = candidate(layer.clip(now.x(2) + reset * gates((b,), layer.row(2))))
    layer.update(h, now, (1 - z[b, j]) * new + z[b, j] * h[b, j])


@op("LSTM")
def lstm(
    f: Builder,
    x: Activations,
    w: Matrix,
    r: Matrix,
    b: Tensor | None = None,
    sequence_lens: Tensor | None = None,
    initial_h: Tensor | None = None,
    initial_c: Tensor | None = None,
    p: Tensor | None = None,
    *,
    activation_alpha: Floats = (),
    activation_beta: Floats = (),
    activations: tuple[str, ...] | None = None,
    clip: float = 0.0,
    direction: str = "forward",
    hidden_size: int | None = None,
    input_forget: int = 0,
    layout: int = 0,
    output_sequence: int = 0,
) -> Outputs:
    """c = f(gate f) c + f(gate i) g(gate c), h = f(gate o) h(c) (ONNX LSTM-22).

    Outputs: every h, the last h, the last c. Each gate is x w + h r + biases, within -clip and clip;
    peepholes p add p c to gates i and f before, and to o after, c is renewed. With input_forget the gate f is
    1 - i.
    """
    names = activations or ("Sigmoid", "Tanh", "Tanh") * (1 + (direction == "bidirectional"))
    a = Attributes(names, activation_alpha, activation_beta, clip, direction, hidden_size, layout)

    def cell(layer: Layer, now: Step) -> None:
        _lstm_cell(layer, now, p, bool(input_forget))

    return run(Layer(f, x, w, r, b, sequence_lens, a, 4), (initial_h, initial_c), cell)


def _lstm_cell(layer: Layer, now: Step, p: Tensor | None, coupled: bool) -> None:
    (h, c), (gate, candidate, shown) = now.states, layer.functions(now.d)
    layer.fits(p, (layer.directions, extent(as_expr(h.shape[1]) * 3)), "peepholes")
    b, j = layer.b, layer.j
    gates = layer.multiply(h, now.d, 4)

    def value(n: int, peephole: int | None) -> Expr:
        """What gate n of i o f c is the function of; peepholes stand in the order i o f."""
        y = now.x(n) + gates((b,), layer.row(n))
        if p is not None and peephole is not None:
            y = y + p[now.d, layer.row(peephole)] * c[b, j]
        return layer.clip(y)

    i = gate(value(0, 0))
    forget = 1 - i if coupled else gate(value(2, 2))
    layer.update(c, now, forget * c[b, j] + i * candidate(value(3, None)))
    layer.update(h, now, gate(value(1, 1)) * shown(c[b, j]))


for _name, _define in (("RNN", rnn), ("GRU", gru), ("LSTM", lstm)):
    op(_name, domain="ingot")(in_bytes(_define))  # `passes.byte_recurrent` makes them
