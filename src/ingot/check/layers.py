"""A model layer by layer: what Ingot makes of it with fusion off beside what the oracle makes of it.

In: a model, options, one set of inputs. Out: a `Difference` for each value that the file's nodes compute, in
the graph's order, those that differ with a `Judgement`. Called by `verify`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ingot.bundle.bundle import Bundle
from ingot.bundle.containers import flattened
from ingot.check.compare import TOLERANCES, Difference, compare
from ingot.check.judge import Court, Judgement, Side
from ingot.check.oracle import oracle, with_copies, with_outputs
from ingot.errors import InputError
from ingot.formula.expr import Array
from ingot.log import announce
from ingot.options import Options

Build = Callable[[Any, Options], Bundle]
Makers = Mapping[str, tuple[str, str]]
"""value -> (name of its node, its operator)"""
OUTPUTS_AT_ONCE = 96  # with the inputs this stays below the 127 parameters that C promises a function


@dataclass(frozen=True, slots=True)
class Allowed:
    """How far arrays may be apart, of max|y|: as the user says, else floats by what bytes promise."""

    said: float | None
    promised: float | None

    def of(self, array: Array) -> float | None:
        """None is what the type allows."""
        return self.promised if self.said is None and array.dtype.kind == "f" else self.said


@dataclass(frozen=True, slots=True)
class Subject:
    """A model to look at: as a message, as the court sees it, and how it is built."""

    court: Court
    makers: Makers
    options: Options
    build: Build
    allowed: Allowed

    def seen(self, names: list[str], inputs: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Values of the model, Ingot's and the oracle's."""
        return self.ours(names, inputs), oracle(with_outputs(self.court.proto, names)).run(inputs)

    def ours(self, names: list[str], inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Values of the model as Ingot computes them, as they ship but for fusion."""
        plain = replace(
            self.options, fuse=False, name="layers", api="direct", weights="embedded", rename={}, state={}
        )
        shown, copies = with_copies(self.court.proto, names)
        found = self.build(shown, plain).run(inputs)
        return {copies.get(name, name): value for name, value in found.items()}


def layer_by_layer(subject: Subject, inputs: Mapping[str, Any]) -> Iterator[Difference]:
    """Every layer in order, in as many builds as C's limits ask for, until one build holds a bad layer."""
    names = list(subject.makers)
    for start in range(0, len(names), OUTPUTS_AT_ONCE):
        announce("layers", start, len(names))
        part = names[start : start + OUTPUTS_AT_ONCE]
        found, right = subject.seen(part, inputs)
        by_name = {n: compared({n: v}, right, subject.allowed, subject.makers) for n, v in found.items()}
        differences = [d for name in part for d in by_name[name]]
        judged = [d if d.ok else _judged(d, subject, inputs, found, right) for d in differences]
        yield from judged
        if not all(d.ok for d in judged):
            return


def _judged(
    d: Difference,
    subject: Subject,
    inputs: Mapping[str, Any],
    found: Mapping[str, Any],
    right: Mapping[str, Any],
) -> Difference:
    """A layer that differs, seen beside what it is made of: other builds may round that otherwise."""
    formulas = subject.court.formulas
    if d.name not in formulas.names:
        return d
    needed = formulas.operands(d.name, {*subject.makers, *inputs}) - inputs.keys()
    if not needed <= found.keys():
        found, right = subject.seen([*sorted(needed), d.name], inputs)
    ours = Side(found[d.name], {**inputs, **{n: found[n] for n in needed}})
    theirs = Side(right[d.name], {**inputs, **{n: right[n] for n in needed}})
    return judged(d, subject.allowed, ours.result, lambda t: subject.court.layer(d.name, ours, theirs, t))


def judged(d: Difference, allowed: Allowed, found: Array, judge: Callable[[float], Judgement]) -> Difference:
    """The difference with what a judge says of it, who is told how much is allowed.

    Who says how much that is wants the oracle's numbers: no judge then. Nor of strings, which do not round.
    """
    if allowed.said is not None or found.dtype == object:
        return d
    tolerance = allowed.of(found)
    try:
        judgement = judge(TOLERANCES.get(d.dtype, 0.0) if tolerance is None else tolerance)
    except InputError as error:
        return replace(d, remark=f"{d.remark} (no float64 evaluation: {error})".strip())
    return replace(d, ok=judgement.acquits, judgement=judgement)


def compared(
    found: Mapping[str, Any], right: Mapping[str, Any], allowed: Allowed, makers: Makers
) -> tuple[Difference, ...]:
    """Value by value, of lists element by element."""
    out = []
    for name, value in found.items():
        node, op = makers.get(name, ("", ""))
        ours, theirs = flattened({name: value}), flattened({name: right[name]})
        if ours.keys() != theirs.keys():
            remark = f"{len(ours)} elements instead of {len(theirs)}"
            out.append(Difference(name, node, op, "sequence", (), np.inf, np.inf, 0, False, remark))
        for key in (k for k in ours if k in theirs):
            most = allowed.of(ours[key])
            out.append(compare(ours[key], np.asarray(theirs[key]), most, name=key, node=node, op=op))
    return tuple(out)
