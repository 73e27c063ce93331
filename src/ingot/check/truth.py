"""What a model's values are by their formulas: in the model's types, and in float64.

In: an inferred graph. Out: `Formulas`, which evaluate one value from the model's inputs or from any values in
front of it. `judge` asks them who is off; the float64 evaluation stands for the exact one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ingot.formula.expr import Array, Tensor
from ingot.formula.strings import encoded
from ingot.graph.ir import Graph
from ingot.loops.interpret import interpret, part_of
from ingot.loops.region import Region, formulate_graph
from ingot.loops.widen import in_turn, widened

Values = Mapping[str, Any]
MANTISSA = {"float16": 10, "bfloat16": 7, "float32": 23, "float64": 52}


@dataclass(frozen=True, slots=True)
class Formulas:
    """`stored` rounds as the model's types do and adds in turn, `exact` is float64; `names` are those of
    their outputs.
    """

    names: tuple[str, ...]
    stored: Region
    exact: Region

    def operands(self, name: str, known: Collection[str]) -> set[str]:
        """Which of the `known` values, inputs among them, `name` follows from at once."""
        return {t.name for t in self._part(self.exact, name, known).inputs}

    def value(self, region: Region, name: str, given: Values, params: Mapping[str, int]) -> Array:
        """The value `name` of `stored` or `exact`, made of the nearest of the `given` ones.

        `params` are run-time extents by the names they have in formulas.
        """
        part = self._part(region, name, given)
        arrays = {t.name: _as_tensor(given[t.name], t) for t in part.inputs}
        (found,) = interpret(part, arrays, params)
        return found

    def _part(self, region: Region, name: str, known: Collection[str]) -> Region:
        made = dict(zip(self.names, region.outputs, strict=False))
        return part_of(region, [t for n, t in made.items() if n in known and n != name], (made[name],))


def formulas_of(graph: Graph, names: Collection[str]) -> Formulas:
    """The formulas of those of the named values that are tensors made by the graph's nodes."""
    made = {v.name: v for node in graph.nodes for v in node.outputs if v is not None and v.name in names}
    stored = formulate_graph(replace(graph, outputs=list(made.values())))
    return Formulas(tuple(made), in_turn(stored), widened(stored))


def moved(values: Values, seed: int) -> dict[str, Any]:
    """The values with every float of 16 bits and more moved up or down by one unit of its last place."""
    rng = np.random.default_rng(seed)
    return {name: _moved(v, rng) if isinstance(v, np.ndarray) else v for name, v in values.items()}


def _moved(a: Array, rng: np.random.Generator) -> Array:
    if str(a.dtype) not in MANTISSA:
        return a
    step = 2.0 ** -MANTISSA[str(a.dtype)] * rng.choice([-1.0, 1.0], a.shape)
    with np.errstate(all="ignore"):
        return np.asarray(a.astype(np.float64) * (1 + step)).astype(a.dtype)


def _as_tensor(a: Any, t: Tensor) -> Array:
    array = np.asarray(a)
    if t.type.is_text:
        return encoded(array.reshape(-1), t.type).reshape(array.shape)
    return array.astype(t.type.numpy, copy=False)
