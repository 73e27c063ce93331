"""Cells of recurrent layers: what one step computes. In: a cell's configuration; out: operations.

A cell says which states it carries, and writes a step of them. Three of them are an operator of ONNX for a
whole sequence, where their activations are among those that it knows. Called by `layers.recurrent`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ingot.errors import UnsupportedError
from ingot.formula.expr import Array
from ingot.frontends.keras.activations import Elementwise, elementwise, named
from ingot.frontends.keras.configs import Layer
from ingot.frontends.keras.settings import Settings
from ingot.frontends.keras.table import Call
from ingot.frontends.keras.weights import Spec, Tree
from ingot.frontends.orders import Builder, like
from ingot.graph.ir import Value

GATES = {"SimpleRNN": 1, "GRU": 3, "LSTM": 4}
ONNX_GATES = {"SimpleRNN": (0,), "GRU": (0, 1, 2), "LSTM": (0, 3, 1, 2)}  # i o f c of i f c o
ONNX_OPS = {"SimpleRNN": "RNN", "GRU": "GRU", "LSTM": "LSTM"}
ONNX_ACTIVATIONS = {
    "tanh": ("Tanh", 0.0, 0.0),
    "sigmoid": ("Sigmoid", 0.0, 0.0),
    "relu": ("Relu", 0.0, 0.0),
    "softsign": ("Softsign", 0.0, 0.0),
    "softplus": ("Softplus", 0.0, 0.0),
    "linear": ("Affine", 1.0, 0.0),
    "elu": ("Elu", 1.0, 0.0),
}
Step = tuple[Value, list[Value]]


def family(kind: str) -> str:
    """
    >>> family("LSTMCell"), family("GRU")
    ('LSTM', 'GRU')
    """
    return kind.removesuffix("Cell")


def cell_spec(layer: Layer, settings: Settings) -> Spec:
    """The variables of a cell. Raises UnsupportedError for a class that is none of Keras'."""
    if family(layer.kind) not in GATES:
        raise UnsupportedError(
            f"{layer.label}: only the cells of SimpleRNN, GRU and LSTM are known", remedy="see docs/keras.md"
        )
    bias = ("bias",) if settings.flag("use_bias", True) else ()
    return Spec(("kernel", "recurrent_kernel", *bias))


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """One cell with its weights; `c` is the recurrent layer's call."""

    c: Call
    layer: Layer
    tree: Tree

    @property
    def settings(self) -> Settings:
        return Settings(self.layer.config, self.layer.label)

    @property
    def kind(self) -> str:
        return family(self.layer.kind)

    @property
    def units(self) -> int:
        return self.settings.count("units")

    @property
    def states(self) -> int:
        return 2 if self.kind == "LSTM" else 1

    @property
    def resets_after(self) -> bool:
        """Keras 2.0's GRU has no word for it, and resets before."""
        return self.kind == "GRU" and self.settings.flag("reset_after")

    @property
    def names(self) -> tuple[str, str]:
        """The activations of the gates and of what they let through."""
        s, label = self.settings, self.layer.label
        old = "sigmoid" if self.c.world.is_3 else "hard_sigmoid"
        found = [
            named(s.get(key, default), label)
            for key, default in (("recurrent_activation", old), ("activation", "tanh"))
        ]
        if not all(isinstance(n, str) for n in found):
            raise UnsupportedError(f"{label}: an activation that is a layer is not supported in a cell")
        return str(found[0]), str(found[1])

    def arrays(self, features: int) -> tuple[Array, Array, Array | None]:
        """kernel, recurrent kernel, bias (two rows of it where the reset comes after the product)."""
        wide = GATES[self.kind] * self.units
        call = Call(self.c.b, self.layer, (), {}, self.tree, self.c.world)
        shape = (2, wide) if self.resets_after else (wide,)
        bias = call.array("bias", shape) if self.settings.flag("use_bias", True) else None
        return (
            call.array("kernel", (features, wide)),
            call.array("recurrent_kernel", (self.units, wide)),
            bias,
        )

    # ---- a whole sequence

    @property
    def is_operator(self) -> bool:
        return all(self._onnx(n) is not None for n in self.names)

    def _onnx(self, name: str) -> tuple[str, float, float] | None:
        if name == "hard_sigmoid":
            return ("HardSigmoid", 1 / 6 if self.c.world.is_3 else 0.2, 0.5)
        return ONNX_ACTIVATIONS.get(name)

    def sequence(self, x: Value, features: int, states: Sequence[Value], is_backwards: bool) -> Step:
        """[time, batch, features] -> [time, batch, units] in the order of time, and the last states."""
        b, dtype = self.c.b, self.settings.compute.numpy
        kernel, recurrent, bias = self.arrays(features)
        held = [self._packed(k.T) for k in (kernel, recurrent)]
        if bias is not None:
            both = bias if bias.ndim == 2 else np.stack([bias, np.zeros_like(bias)])
            held.append(np.concatenate([self._packed(row[:, None])[0, :, 0] for row in both])[None])
        weights: list[Value | None] = [
            self.c.held(name, a.astype(dtype))
            for name, a in zip(("kernel", "recurrent_kernel", "bias"), held, strict=False)
        ]
        weights += [None] * (3 - len(weights))
        first = [b.one("Unsqueeze", s, b.ints([0])) for s in states]
        used = [self._onnx(n) for n in self.names]
        used = used[1:] if self.kind == "SimpleRNN" else [*used, used[1]] if self.kind == "LSTM" else used
        found = [u for u in used if u is not None]
        attributes: dict[str, Any] = {
            "hidden_size": self.units,
            "direction": "reverse" if is_backwards else "forward",
            "activations": tuple(u[0] for u in found),
            "activation_alpha": tuple(u[1] for u in found),
            "activation_beta": tuple(u[2] for u in found),
            "linear_before_reset": int(self.resets_after) if self.kind == "GRU" else None,
        }
        op, count = ONNX_OPS[self.kind], 1 + self.states
        made = b.many(op, count, x, *weights, None, *first, **attributes)
        return b.one("Squeeze", made[0], b.ints([1])), [b.one("Squeeze", s, b.ints([0])) for s in made[1:]]

    def _packed(self, matrix: Array) -> Array:
        """[gates * units, n] with the gates in ONNX's order, behind an axis of directions."""
        gates = matrix.reshape(GATES[self.kind], self.units, -1)
        return gates[list(ONNX_GATES[self.kind])].reshape(1, -1, matrix.shape[1])

    # ---- one step

    def step(self, b: Builder, x: Value, features: int, states: Sequence[Value]) -> Step:
        """[batch, features] -> [batch, units], and the next states."""
        kernel, recurrent, bias = (
            None if a is None else b.constant(a, self.settings.compute) for a in self.arrays(features)
        )
        gate, bend = (self._function(n) for n in self.names)
        inside = b.one("MatMul", x, kernel)
        if self.kind == "GRU":
            return self._gru(b, inside, recurrent, bias, states[0])
        product = b.one("Add", inside, b.one("MatMul", states[0], recurrent))
        product = product if bias is None else b.one("Add", product, bias)
        if self.kind == "SimpleRNN":
            h = bend(b, product)
            return h, [h]
        i, f, g, o = b.many("Split", 4, product, axis=1, num_outputs=4)
        kept = b.one("Mul", gate(b, f), states[1])
        carried = b.one("Add", kept, b.one("Mul", gate(b, i), bend(b, g)))
        h = b.one("Mul", gate(b, o), bend(b, carried))
        return h, [h, carried]

    def _gru(self, b: Builder, x: Value, recurrent: Value | None, bias: Value | None, h: Value) -> Step:
        """h z + (1 - z) candidate; the reset gate acts on h before its product, or on the product."""
        assert recurrent is not None and recurrent.constant is not None
        gate, bend = (self._function(n) for n in self.names)
        rows = None if bias is None or bias.constant is None else np.atleast_2d(bias.constant)
        x = x if rows is None else b.one("Add", x, b.constant(rows[0]))
        xz, xr, xh = b.many("Split", 3, x, axis=1, num_outputs=3)
        n = self.units
        if self.resets_after:
            inner = b.one("MatMul", h, recurrent)
            inner = inner if rows is None else b.one("Add", inner, b.constant(rows[1]))
            hz, hr, hh = b.many("Split", 3, inner, axis=1, num_outputs=3)
            z, r = gate(b, b.one("Add", xz, hz)), gate(b, b.one("Add", xr, hr))
            new = bend(b, b.one("Add", xh, b.one("Mul", r, hh)))
        else:
            matrix = recurrent.constant
            hz, hr = (b.one("MatMul", h, b.constant(matrix[:, k * n : (k + 1) * n])) for k in (0, 1))
            z, r = gate(b, b.one("Add", xz, hz)), gate(b, b.one("Add", xr, hr))
            product = b.one("MatMul", b.one("Mul", r, h), b.constant(matrix[:, 2 * n :]))
            new = bend(b, b.one("Add", xh, product))
        rest = b.one("Sub", like(b, z, 1), z)
        made = b.one("Add", b.one("Mul", z, h), b.one("Mul", rest, new))
        return made, [made]

    def _function(self, name: str) -> Elementwise:
        found = elementwise(name, self.c.world.is_3)
        if found is None:
            raise UnsupportedError(f"{self.layer.label}: the activation {name!r} is not known in a cell")
        return found
