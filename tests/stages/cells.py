"""Recurrent cells: the stages of an LSTM or GRU, one step of a scan after the other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ingot.formula.types import FLOAT32, FLOAT64
from ingot.graph.ir import Node
from ingot.loops.region import Group
from ingot.ops.recurrent import gru, lstm
from ingot.ops.registry import Builder
from ingot.targets.record import Target
from tests.stages.dice import Dice
from tests.stages.drawn import Drawn

LOSS = 1e-4  # of sums of sigmoids and tanhs, steps after each other


def recurrent(dice: Dice, target: Target) -> Drawn:
    """All stages of a recurrent layer."""
    kind = dice.choice(("LSTM", "GRU", "GRU linear"))
    gates, dtype = (4 if kind == "LSTM" else 3), dice.choice((FLOAT32, FLOAT32, FLOAT32, FLOAT64))
    lanes = target.lanes(dtype.bytes)
    hidden = max(1, dice.choice((lanes, lanes + 1, 1, 3, 2 * lanes, lanes - 1, 2 * lanes + 5, 3 * lanes)))
    steps, batch, inputs = dice.number(1, 4), dice.choice((1, 1, 2, 3, 5)), dice.number(1, 9)
    both = dice.chance(25)
    count = 2 if both else 1
    x = dice.tensor("x", dtype, (steps, batch, inputs))
    known = dice.chance(75)

    def weights(name: str, shape: tuple[int, ...]) -> Any:
        return dice.constant(name, dtype, shape, 2) if known else dice.tensor(name, dtype, shape)

    w, r = weights("w", (count, gates * hidden, inputs)), weights("r", (count, gates * hidden, hidden))
    b = dice.constant("b", dtype, (count, 2 * gates * hidden)) if dice.chance(70) else None
    f = Builder(Node("Probe", [], []), (True, True, True))
    how: dict[str, Any] = {"direction": "bidirectional" if both else dice.choice(("forward", "reverse"))}
    if dice.chance(20):
        how["clip"] = 3.0
    h = dice.tensor("h", dtype, (count, batch, hidden)) if dice.chance(40) else None
    if kind == "LSTM":
        c = dice.tensor("c", dtype, (count, batch, hidden)) if dice.chance(40) else None
        p = dice.constant("p", dtype, (count, 3 * hidden)) if dice.chance(30) else None
        coupled = dice.below(2) if dice.chance(20) else 0
        made = lstm(f, x, w, r, b, None, h, c, p, input_forget=coupled, hidden_size=hidden, **how)
    else:
        linear = int(kind == "GRU linear")
        made = gru(f, x, w, r, b, None, h, linear_before_reset=linear, hidden_size=hidden, **how)
    outputs = made if isinstance(made, tuple) else (made,)
    stages = tuple(f.stages)
    return replace(Drawn(stages, (Group(("subject",), stages),), outputs, {}, target), tolerance=LOSS)
