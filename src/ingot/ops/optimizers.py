"""The steps of optimisers (ai.onnx.preview.training): new weights of old ones and gradients, all inputs.

The variadic inputs are groups: all weights, all gradients, then all states of one kind after the other. The
outputs are groups likewise: the new weights, and the new states.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ingot.formula.expr import Const, Expr, Tensor, binary, call, cast, select
from ingot.ops.refused import TRAINING
from ingot.ops.registry import Builder, op, shapes_text

Step = Callable[[Expr, Expr, Expr, Sequence[Expr]], Sequence[Expr]]
"""Of the rate, the number of the step, a weight, its gradient and its states: the new weight and states."""


def _stepped(
    f: Builder, r: Tensor, t: Tensor, inputs: Sequence[Tensor], states: int, step: Step
) -> list[Tensor]:
    """Apply a step to every weight, element by element; `r` and `t` have one element each."""
    count, rest = divmod(len(inputs), 2 + states)
    f.require(not rest and bool(count), f"{len(inputs)} tensors are no weights with {1 + states} others each")
    f.require(r.count == 1 and t.count == 1, "the learning rate and the step's number have one element each")
    f.same_type(tuple(inputs), "f")
    made = []
    for k in range(count):
        x, g, *old = inputs[k::count]
        shapes = [tensor.shape for tensor in inputs[k::count]]
        f.require(
            len(set(shapes)) == 1, f"weight {k} has other tensors of another shape: {shapes_text(shapes)}"
        )
        axes, compute = f.axes(x.shape), x.type.compute
        rate, number = (cast(s.at((0,) * s.rank), compute) for s in (r, t))
        new = step(rate, number, x[axes], [g[axes], *(s[axes] for s in old)])
        made.append([f.map(axes, value, x.type) for value in new])
    return [group[i] for i in range(1 + states) for group in made]


@op("Adagrad", domain=TRAINING)
def adagrad(
    f: Builder,
    r: Tensor,
    t: Tensor,
    *inputs: Tensor,
    decay_factor: float = 0.0,
    epsilon: float = 1e-6,
    norm_coefficient: float = 0.0,
) -> tuple[Tensor, ...]:
    """h' = h + g^2; x' = x - r / (1 + t * decay) * g / (sqrt(h') + epsilon); g with norm * x added."""

    def step(rate: Expr, number: Expr, x: Expr, others: Sequence[Expr]) -> Sequence[Expr]:
        g, h = x * norm_coefficient + others[0], others[1]
        squares = h + g * g
        return x - rate / (number * decay_factor + 1.0) * g / (call("sqrt", squares) + epsilon), squares

    return tuple(_stepped(f, r, t, inputs, 1, step))


@op("Adam", domain=TRAINING)
def adam(
    f: Builder,
    r: Tensor,
    t: Tensor,
    *inputs: Tensor,
    alpha: float = 0.9,
    beta: float = 0.999,
    epsilon: float = 1e-6,
    norm_coefficient: float = 0.0,
    norm_coefficient_post: float = 0.0,
) -> tuple[Tensor, ...]:
    """v' = alpha v + (1 - alpha) g; h' = beta h + (1 - beta) g^2; x' = x - r' v' / (sqrt(h') + epsilon).

    x' is multiplied by 1 - norm_coefficient_post.
    r' = r sqrt(1 - beta^t) / (1 - alpha^t) from t = 1 on, else r.
    """

    def step(rate: Expr, number: Expr, x: Expr, others: Sequence[Expr]) -> Sequence[Expr]:
        g, v, h = x * norm_coefficient + others[0], others[1], others[2]
        mean = v * alpha + g * (1 - alpha)
        squares = h * beta + g * g * (1 - beta)
        left = [Const(1.0, rate.dtype) - binary("pow", Const(b, rate.dtype), number) for b in (beta, alpha)]
        corrected = select(number > 0.0, rate * call("sqrt", left[0]) / left[1], rate)
        new = x - corrected * (mean / (call("sqrt", squares) + epsilon))
        return new * (1 - norm_coefficient_post), mean, squares

    return tuple(_stepped(f, r, t, inputs, 2, step))


@op("Momentum", domain=TRAINING)
def momentum(
    f: Builder,
    r: Tensor,
    t: Tensor,
    *inputs: Tensor,
    alpha: float,
    beta: float,
    mode: str,
    norm_coefficient: float,
) -> tuple[Tensor, ...]:
    """v' = alpha v + beta g (in step 0: g); x' = x - r v', or x - r (g + alpha v') in the mode nesterov."""
    f.require(mode in ("standard", "nesterov"), f"mode is {mode!r}, not standard or nesterov")

    def step(rate: Expr, number: Expr, x: Expr, others: Sequence[Expr]) -> Sequence[Expr]:
        g, v = x * norm_coefficient + others[0], others[1]
        moved = v * alpha + select(number > 0.0, g * beta, g)
        return x - rate * (moved if mode == "standard" else g + moved * alpha), moved

    return tuple(_stepped(f, r, t, inputs, 1, step))
