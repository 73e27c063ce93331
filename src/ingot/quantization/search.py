"""Which layers to keep float: the cheapest set found by measuring, layer by layer.

Each layer is quantised alone, which says how much it loses. Layers are then kept in the order of their losses
until all others together lose no more than is allowed; of those kept, the ones with most weights are tried
quantised again. In: layers and a function that quantises all but some and says what is lost. Out: a `Found`.
Called by `quantize`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ingot.log import announce

Loss = Callable[[frozenset[str]], float]
"""What a model loses in which only the layers with these labels are kept as they are."""


@dataclass(frozen=True, slots=True)
class Found:
    """`kept` layers, what each loses alone, and what all but the kept ones lose together."""

    kept: frozenset[str]
    alone: Mapping[str, float]
    before: float
    after: float


def search(costs: Mapping[str, int], loss: Loss, allowed: float) -> Found:
    """Return the layers to keep, by the number of their weights (`costs`), so that at most `allowed` is lost.

    Bisection takes it that more layers kept lose less, which measured scores obey but roughly: what comes out
    was measured and is within what is allowed.
    """
    names, steps = list(costs), 2 * len(costs) + len(costs).bit_length() + 1
    announce("all layers", 0, steps)
    before = loss(frozenset())
    if before <= allowed:
        return Found(frozenset(), {}, before, before)
    alone = {}
    for i, name in enumerate(names):
        announce(f"only {name}", i + 1, steps)
        alone[name] = loss(frozenset(n for n in names if n != name))
    order = sorted(names, key=lambda n: -alone[n])
    kept = _enough(order, loss, allowed, steps)
    after = None
    for i, name in enumerate(sorted(kept, key=lambda n: -costs[n])):
        announce(f"without {name}", len(names) + i, steps)
        tried = loss(kept - {name})
        if tried <= allowed:
            kept, after = kept - {name}, tried
    return Found(kept, alone, before, loss(kept) if after is None else after)


def _enough(order: Sequence[str], loss: Loss, allowed: float, steps: int) -> frozenset[str]:
    """The fewest of the first layers that suffice; with all of them the model is what it was."""
    low, high = 0, len(order)
    while high - low > 1:
        middle = (low + high) // 2
        announce(f"{middle} layers kept", len(order) + 1, steps)
        low, high = (low, middle) if loss(frozenset(order[:middle])) <= allowed else (middle, high)
    return frozenset(order[:high])
