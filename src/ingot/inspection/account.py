"""What one build costs, layer by layer. In: a bundle, and what else is known of it; out: an `Account`.

A layer is a kernel call of the bundle. Figures come from the manifest, from the sizes of the functions in the
object, and from the memory plan where the model was compiled here. Called by `ingot report`, which hands in
times and errors.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ingot.binary.objects import functions
from ingot.binary.read import read_object
from ingot.bundle.bundle import Bundle
from ingot.errors import InputError, ToolchainError
from ingot.inspection.arena import bytes_alive
from ingot.loops.generate import FAMILIES
from ingot.loops.program import Call, Program, Step, steps_of
from ingot.memory.plan import Plan

SERVES = {family.name: family.serves for family in FAMILIES}
Errors = Mapping[str, tuple[float, float]]
"""node -> (error beside the whole model in float64, error of the layer alone)"""


@dataclass(frozen=True, slots=True)
class Layer:
    """One kernel call; None where a figure is not known.

    `code_bytes`: its function, which the first of its `calls` brings; those behind bring 0. `alive_bytes`:
    what of the arena holds something while it runs. `total_error`, `own_error`: see `Errors`.
    """

    number: int
    function: str
    nodes: tuple[str, ...]
    generators: tuple[str, ...]
    choices: tuple[str, ...]
    notes: tuple[str, ...]
    scalar_share: float
    macs: int
    bytes: int
    weights_bytes: int
    code_bytes: int | None
    calls: int
    alive_bytes: int | None
    seconds: float | None = None
    total_error: float | None = None
    own_error: float | None = None

    @property
    def title(self) -> str:
        """The nodes it computes."""
        return " + ".join(self.nodes) or self.function

    @property
    def flash_bytes(self) -> int | None:
        """Weights that it reads and code that it brings."""
        return None if self.code_bytes is None else self.weights_bytes + self.code_bytes

    @property
    def reasons(self) -> tuple[tuple[str, str], ...]:
        """Each generator and what it serves: the first in the compiler's order that took the layer."""
        return tuple((name, SERVES.get(name, "")) for name in self.generators)


@dataclass(frozen=True, slots=True)
class Account:
    """A build: its manifest and its layers; `untimed` says why they have no times."""

    manifest: Mapping[str, Any]
    layers: tuple[Layer, ...]
    untimed: str = ""

    @property
    def seconds(self) -> float | None:
        """The sum of the layers' times."""
        known = [layer.seconds for layer in self.layers if layer.seconds is not None]
        return sum(known) if known else None

    @property
    def macs(self) -> int:
        return sum(layer.macs for layer in self.layers)


def account(
    bundle: Bundle,
    planned: tuple[Program, Plan] | None = None,
    times: Sequence[float] = (),
    untimed: str = "",
    errors: Errors | None = None,
) -> Account:
    """The account of a bundle; `planned`: its program and plan, `times`: seconds in the order of calls."""
    kernels = bundle.manifest["kernels"]
    sizes, uses = _code_sizes(bundle), Counter(k["name"] for k in kernels)
    alive = _alive(*planned) if planned else [None] * len(kernels)
    seen = set[str]()
    rows = []
    for n, (k, live) in enumerate(zip(kernels, alive, strict=True)):
        name = k["name"]
        code = 0 if name in seen else sizes.get(name)
        seen.add(name)
        worst = [errors[node] for node in k["nodes"] if node in errors] if errors else []
        rows.append(
            Layer(
                n,
                name,
                tuple(k["nodes"]),
                tuple(k.get("generators", ())),
                tuple(dict.fromkeys(k["choices"].values())),
                tuple(k["notes"]),
                k["scalar_share"],
                k["macs"],
                k["bytes"],
                k["weights_bytes"],
                code,
                uses[name],
                live,
                times[n] if n < len(times) else None,
                max((total for total, _ in worst), default=None),
                max((own for _, own in worst), default=None),
            )
        )
    return Account(bundle.manifest, tuple(rows), untimed)


def _code_sizes(bundle: Bundle) -> dict[str, int]:
    """Bytes of every function of the object; none where its format does not tell."""
    try:
        return {f.name: len(f.code) for f in functions(read_object(bundle.object))}
    except (InputError, ToolchainError, KeyError):
        return {}


def _alive(program: Program, plan: Plan) -> list[int]:
    """Bytes of the arena alive at each call, counted over the tree as the plan counts steps."""
    found: list[int] = []
    step = 0

    def visit(steps: tuple[Step, ...]) -> None:
        nonlocal step
        for s in steps:
            if isinstance(s, Call):
                found.append(bytes_alive(plan, step))
            step += 1
            visit(steps_of(s))

    visit(program.steps)
    return found


@dataclass(frozen=True, slots=True)
class Pair:
    """Layers of two builds that compute the same nodes; None where one has no such layer."""

    nodes: tuple[str, ...]
    ours: Layer | None
    other: Layer | None


def paired(ours: Account, other: Account) -> list[Pair]:
    """The layers of both, in the order of the first, what only the other has last."""
    left = {(layer.nodes, n): layer for layer, n in _counted(ours.layers)}
    right = {(layer.nodes, n): layer for layer, n in _counted(other.layers)}
    keys = dict.fromkeys((*left, *right))
    return [Pair(key[0], left.get(key), right.get(key)) for key in keys]


def _counted(layers: Sequence[Layer]) -> list[tuple[Layer, int]]:
    """Each layer, and how many before it compute the same nodes."""
    seen = Counter[tuple[str, ...]]()
    found = []
    for layer in layers:
        found.append((layer, seen[layer.nodes]))
        seen[layer.nodes] += 1
    return found
