"""Recurrent cells: the stages of an LSTM or GRU, one step of a scan after the other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ingot.formula.compute import Compute, Reduction, accumulator
from ingot.formula.expr import Const, Expr, Tensor, Var, call, maximum
from ingot.formula.types import FLOAT32, FLOAT64
from ingot.graph.ir import Node
from ingot.loops.region import Group
from ingot.ops.recurrent import gru, lstm
from ingot.ops.registry import Builder
from ingot.targets.record import Target
from tests.stages.dice import Dice
from tests.stages.drawn import Drawn

LOSS = 1e-4  # of sums of sigmoids and tanhs, steps after each other


def cell(dice: Dice, target: Target) -> Drawn:
    return written_out(dice, target) if dice.chance(35) else recurrent(dice, target)


def written_out(dice: Dice, target: Target) -> Drawn:
    """A cell as frameworks write it: products of input and state beside each other, maps that join gates."""
    dtype, lanes = FLOAT32, target.lanes(4)
    hidden = max(1, dice.choice((lanes, lanes + 1, 3, 2 * lanes, 2 * lanes + 5)))
    gates, batch = dice.choice((4, 3, 2)), dice.choice((1, 2, 3, 6))
    m, g, u = Var("m", batch), Var("g", gates * hidden), Var("u", hidden)
    stages: list[Compute] = []
    before: Expr | None = None
    for k in range(dice.choice((2, 1, 3))):
        size = dice.number(2, 20)
        j, x = Var("j", size), dice.tensor(f"x{k}_", dtype, (batch, size))
        shape = (size, gates * hidden)
        known = k == 0 or dice.chance(85)
        w = dice.constant(f"w{k}_", dtype, shape, 2) if known else dice.tensor(f"w{k}_", dtype, shape)
        acc = accumulator(dtype)
        first = acc + dice.constant("b", dtype, (gates * hidden,))[g] if dice.chance(70) else acc
        first = maximum(first, 0) if dice.chance(8) else first
        value = first if before is None else acc + before
        r = Reduction("sum", (j,), Const(0.0, dtype), x[m, j] * w[j, g])
        stages.append(Compute(Tensor(f"p{k}", dtype, (batch, gates * hidden)), (m, g), value, r))
        before = stages[-1].out[m, g]
    made = stages[-1].out
    parts = [made[m, u + k * hidden if k else u] * 0.03125 for k in range(gates)]
    c, new, h = dice.tensor("c", dtype, (batch, hidden)), *(Tensor(n, dtype, (batch, hidden)) for n in "nh")
    stages.append(Compute(new, (m, u), call("sigmoid", parts[0]) * c[m, u] + call("tanh", parts[1])))
    stages.append(
        Compute(h, (m, u), call("sigmoid", parts[-1]) * call("tanh", new[m, 0 if dice.chance(8) else u]))
    )
    shown = (h, new, made) if dice.chance(10) else (h, new)
    return Drawn(tuple(stages), (Group(("subject",), tuple(stages)),), shown, {}, target, tolerance=LOSS)


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
