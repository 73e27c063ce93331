"""Rows of RNN, GRU and LSTM: directions, lengths, states, activations, each with every output compared."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tests.ops.rows import Array, Row, expected, floats, model

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
BOTH = "bidirectional"
DIRECTIONS = ("forward", "reverse", BOTH)


def tensors(
    op: str,
    steps: int = 5,
    batch: int = 3,
    width: int = 4,
    hidden: int = 3,
    *,
    directions: int = 1,
    lengths: list[int] | None = None,
    bias: bool = True,
    states: bool = True,
    peepholes: bool = False,
    dtype: Any = np.float32,
) -> list[Array | None]:
    """The inputs of a node, in order, with None for those left out."""
    rows = GATES[op] * hidden

    def make(*shape: int, seed: int) -> Array:
        return floats(*shape, seed=seed, dtype=dtype, scale=0.7)

    out: list[Array | None] = [
        make(steps, batch, width, seed=1),
        make(directions, rows, width, seed=2),
        make(directions, rows, hidden, seed=3),
        make(directions, 2 * rows, seed=4) if bias else None,
        None if lengths is None else np.array(lengths, np.int32),
        make(directions, batch, hidden, seed=5) if states else None,
    ]
    if op == "LSTM":
        out.append(make(directions, batch, hidden, seed=6) if states else None)
        out.append(make(directions, 3 * hidden, seed=7) if peepholes else None)
    while out[-1] is None:
        out.pop()
    return out


def row(
    op: str,
    note: str = "",
    outputs: Any = None,
    opset: int = 14,
    constant: Any = (),
    oracle: Any = "ort",
    tolerance: float = 1e-5,
    attributes: dict[str, Any] | None = None,
    **made: Any,
) -> Row:
    """A row of one of the three, every output compared."""
    attributes = dict(attributes or {})
    direction = attributes.get("direction", "forward")
    hidden = made.get("hidden", 3)
    inputs = tensors(op, directions=2 if direction == BOTH else 1, **made)
    count = 3 if op == "LSTM" else 2
    return Row(
        op,
        inputs,
        {"hidden_size": hidden, **attributes},
        constant=constant,
        outputs=outputs or count,
        opset=opset,
        oracle=oracle,
        tolerance=tolerance,
        note=note,
    )


@dataclass(frozen=True)
class BatchFirst:
    """The outputs with layout 1, from the same node with layout 0 (onnxruntime has no other)."""

    of: Row

    def __iter__(self) -> Iterator[Array]:
        y, *states = expected(self.of, model(self.of))
        yield np.ascontiguousarray(y.transpose(2, 0, 1, 3))
        yield from (np.ascontiguousarray(s.transpose(1, 0, 2)) for s in states)


def batch_first(of: Row) -> Row:
    """The same row with layout 1."""
    moved = [
        np.ascontiguousarray(a.swapaxes(0, 1)) if i in (0, 5, 6) and a is not None else a
        for i, a in enumerate(of.inputs)
    ]
    attributes = {**of.attributes, "layout": 1}
    return Row(of.op, moved, attributes, outputs=of.outputs, opset=14, oracle=BatchFirst(of), note="layout")


@dataclass(frozen=True)
class Kept:
    """The outputs where sequences of no step keep their states, which onnxruntime sets to zero."""

    of: Row

    def __iter__(self) -> Iterator[Array]:
        y, *states = expected(self.of, model(self.of))
        yield y
        lengths = self.of.inputs[4]
        assert lengths is not None
        for state, initial in zip(states, self.of.inputs[5:], strict=False):
            assert initial is not None
            yield np.where((lengths == 0)[None, :, None], initial, state)


def kept(of: Row) -> Row:
    """The same row; onnx's reference reads no lengths and is no oracle for it."""
    return replace(of, oracle=Kept(of))


def common(op: str) -> Iterator[Row]:
    """What all three have."""
    for d in DIRECTIONS:
        yield row(op, d, attributes={"direction": d})
        yield row(op, f"{d}_plain", attributes={"direction": d}, bias=False, states=False, batch=1)
        yield row(op, f"{d}_lengths", attributes={"direction": d}, lengths=[5, 2, 4])
        yield batch_first(row(op, d, attributes={"direction": d}, lengths=[1, 5, 3]))
        yield row(op, f"{d}_empty", attributes={"direction": d}, lengths=[5, 0, 2], states=False)
        yield kept(row(op, f"{d}_empty_kept", attributes={"direction": d}, lengths=[0, 2, 0]))
        yield row(op, f"{d}_clip", attributes={"direction": d, "clip": 0.4})
    yield row(op, "one_step", steps=1, hidden=1, width=1)
    yield row(op, "whole_lengths", lengths=[5, 5, 5], constant=(4,))
    yield kept(row(op, "all_empty", lengths=[0, 0, 0], constant=(1, 2, 3, 4)))
    yield row(op, "weights", constant=(1, 2, 3), hidden=8, width=7, batch=1)
    for hidden in (12, 21, 40, 67):  # several blocks of units, vectors of several widths
        yield row(op, f"units{hidden}", hidden=hidden, steps=3, batch=hidden % 4 + 1, tolerance=3e-5)
        yield row(op, f"weights{hidden}", hidden=hidden, steps=3, batch=1, constant=(1, 2, 3), tolerance=3e-5)
    yield row(op, "f64", dtype=np.float64, oracle="reference", tolerance=1e-9)
    yield row(op, "old", opset=7)
    yield row(op, "last_h", outputs=[False, True])


NAMES = ("Affine", "Relu", "LeakyRelu", "ThresholdedRelu", "ScaledTanh", "Sigmoid", "HardSigmoid", "Elu",
         "Softsign", "Softplus")  # fmt: skip
ALPHA = {
    "Affine": 0.7,
    "LeakyRelu": 0.1,
    "ThresholdedRelu": 0.3,
    "ScaledTanh": 0.8,
    "HardSigmoid": 0.3,
    "Elu": 0.6,
}
BETA = {"Affine": 0.1, "ScaledTanh": 0.9, "HardSigmoid": 0.4}


def activated(op: str, names: list[str], note: str, **attributes: Any) -> Row:
    """A row with these activations, alphas and betas given for those that take them."""
    given: dict[str, Any] = {
        "activations": names,
        "activation_alpha": [ALPHA[n] for n in names if n in ALPHA],
        "activation_beta": [BETA[n] for n in names if n in BETA],
    }
    return row(op, note, attributes={k: v for k, v in {**given, **attributes}.items() if v})


ROWS = [
    *(r for op in GATES for r in common(op)),
    *(activated("RNN", [name], name) for name in NAMES),
    activated("RNN", ["HardSigmoid", "Elu"], "both", direction=BOTH),
    activated("GRU", ["HardSigmoid", "Softsign"], "two"),
    activated("GRU", ["Sigmoid", "ScaledTanh", "HardSigmoid", "Relu"], "both", direction=BOTH),
    activated("LSTM", ["HardSigmoid", "ScaledTanh", "Softsign"], "three"),
    activated("LSTM", ["Sigmoid", "Tanh", "Affine", "HardSigmoid", "Elu", "Tanh"], "both", direction=BOTH),
    row("RNN", "defaults", attributes={"activations": ["HardSigmoid"]}),
    row("RNN", "elu", attributes={"activations": ["Elu"]}),
    *(row("GRU", f"lbr_{d}", attributes={"direction": d, "linear_before_reset": 1}) for d in DIRECTIONS),
    row("GRU", "lbr_plain", attributes={"linear_before_reset": 1}, bias=False, states=False),
    row("GRU", "lbr_lengths", attributes={"linear_before_reset": 1, "direction": BOTH}, lengths=[3, 5, 1]),
    row("GRU", "lbr_clip", attributes={"linear_before_reset": 1, "clip": 0.3}),
    *(row("LSTM", f"peep_{d}", attributes={"direction": d}, peepholes=True) for d in DIRECTIONS),
    row("LSTM", "coupled", attributes={"input_forget": 1}),
    row("LSTM", "coupled_peep", attributes={"input_forget": 1}, peepholes=True),
    row("LSTM", "peep_clip", attributes={"clip": 0.3, "direction": BOTH}, peepholes=True, lengths=[5, 1, 3]),
    row("RNN", "all_constant", outputs=[False, True], constant=(0, 1, 2, 3, 5)),
    row("LSTM", "last_c", outputs=[False, False, True]),
]
