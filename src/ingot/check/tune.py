"""Measuring what the cost model only estimates: every way to compute a stage, on this machine.

In: a model and a tuning file, which may hold what an earlier run measured. Out: the file, with the fastest
choice for every stage. Called by `ingot tune`. The model is compiled as often as a stage has ways, each time
with another way of every stage and with the profiling hook: each kernel is timed by itself, but with its
neighbours around it: caches hold what they hold in use.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ingot.bundle.bundle import Bundle
from ingot.check.layers import Build
from ingot.check.machine import fingerprint, machine, pinned
from ingot.check.profile import least, sample_inputs
from ingot.check.verify import whole
from ingot.errors import InputError
from ingot.files import write_file
from ingot.frontends.canonical import canonical
from ingot.log import announce
from ingot.loops.choice import Ways
from ingot.loops.tuning import SCHEMA, choices_of, read_document
from ingot.options import Options
from ingot.targets.record import Target

SECONDS = 60.0
LEAST_SECONDS = 0.3  # of measuring one way
ELSEWHERE = "move it away, or write elsewhere with --output FILE"
Explore = Callable[[Any, Options], Ways]


@dataclass(slots=True)
class Tuning:
    """`measured`: seconds by key and choice. `complete` once every way was measured."""

    target: str
    measured: dict[str, dict[str, float]] = field(default_factory=dict)
    complete: bool = False

    @property
    def choices(self) -> dict[str, str]:
        """The fastest way of every stage."""
        return {key: min(times, key=lambda c: times[c]) for key, times in self.measured.items() if times}

    def document(self) -> dict[str, Any]:
        """As the file holds it."""
        return {
            "schema": SCHEMA,
            "ingot": version("ingot"),
            "target": self.target,
            "machine": machine(),
            "processor": _processor(),
            "choices": self.choices,
            "measured": self.measured,
        }


@dataclass(frozen=True, slots=True)
class Verdict:
    """A stage: seconds of the cost model's choice, and the fastest with its seconds."""

    key: str
    guessed: str
    guessed_seconds: float
    best: str
    best_seconds: float


def tune(
    model: Any,
    options: Options,
    target: Target,
    build: Build,
    explore: Explore,
    path: Path,
    seconds: float = SECONDS,
) -> tuple[Tuning, list[Verdict]]:
    """Measure until all is measured or the time is over; the file is whole after every way.

    What the cost model chooses comes first: the fastest of what was measured is never worse than that.
    """
    begin = time.perf_counter()
    model = canonical(model, options)
    plain = replace(options, tuning={}, profile=True, emit=("obj",))
    announce("looking for choices")
    ways = explore(model, plain)
    state, guesses = resumed(path, target, ways), {}
    if ways:
        bundle = build(model, plain)
        guesses = _guesses(bundle.manifest)
        rounds = _rounds(ways, state) + 1
        if any(guess not in state.measured[key] for key, guess in guesses.items()):
            announce("measuring", 0, rounds)
            _record(model, plain, bundle, state, guesses, _share(seconds, begin, rounds))
    while (left := _rounds(ways, state)) and time.perf_counter() - begin < seconds:
        announce("measuring", rounds - left, rounds)
        wanted = _next(ways, state)
        document = {"schema": SCHEMA, "target": state.target, "choices": wanted}
        bundle = build(model, replace(plain, tuning=document))
        _record(model, plain, bundle, state, wanted, _share(seconds, begin, left))
        write(path, state)
    state.complete = not left
    write(path, state)
    return state, _verdicts(state, guesses)


def _share(seconds: float, begin: float, rounds: int) -> float:
    """Of the time that is left, the half of one round's: the other half is for compiling."""
    left = seconds - (time.perf_counter() - begin)
    return max(left / rounds / 2, LEAST_SECONDS)


def resumed(path: Path, target: Target, ways: Ways) -> Tuning:
    """What an earlier run measured for the same stages with the same version on the same processor."""
    state = Tuning(target.name, {key: {} for key in ways})
    if not os.path.lexists(path):
        return state
    try:
        found = read_document(path)
        if found.target != target.name:
            raise InputError(f"it is for {found.target!r}, not for {target.name!r}")
        choices_of(found.about, target)
        if not found.processor:
            raise InputError("it does not say where it was measured")
    except InputError as error:
        raise InputError(f"{path} is not a tuning file for this target: {error}", remedy=ELSEWHERE) from None
    same = found.ingot == version("ingot") and found.processor == _processor()
    for key, times in found.measured.items() if same else ():
        known = {c.text for c in ways.get(key, ())}
        state.measured.setdefault(key, {}).update({c: s for c, s in times.items() if c in known})
    state.measured = {key: state.measured[key] for key in ways}
    return state


def write(path: Path, state: Tuning) -> None:
    """The whole file or the one that was there."""
    write_file(path, (json.dumps(state.document(), indent=2) + "\n").encode())


def _processor() -> str:
    return hashlib.sha256(fingerprint().encode()).hexdigest()[:16]


def _open(ways: Ways, state: Tuning) -> dict[str, list[str]]:
    """The ways of every stage that were not measured."""
    texts = {key: [c.text for c in several] for key, several in ways.items()}
    return {key: [t for t in all_ if t not in state.measured[key]] for key, all_ in texts.items()}


def _rounds(ways: Ways, state: Tuning) -> int:
    """How many bundles it takes to measure the rest: each has one way of every stage."""
    return max(map(len, _open(ways, state).values()), default=0)


def _next(ways: Ways, state: Tuning) -> dict[str, str]:
    """The next way of every stage that is not through."""
    return {key: texts[0] for key, texts in _open(ways, state).items() if texts}


def _record(
    model: Any, plain: Options, bundle: Bundle, state: Tuning, wanted: Mapping[str, str], seconds: float
) -> None:
    """Time a bundle whose stages are computed as `wanted`, and add their kernels' times to the state."""
    inputs = sample_inputs(whole(model), plain, bundle.manifest)
    with pinned():
        times = least(bundle, inputs, seconds)
    spent: dict[str, float] = {}
    for kernel, one in zip(bundle.manifest["kernels"], times, strict=False):
        for key in kernel["choices"]:
            spent[key] = spent.get(key, 0.0) + one
    for key, text in wanted.items():
        state.measured[key][text] = spent[key]


def _guesses(manifest: Mapping[str, Any]) -> dict[str, str]:
    """What the cost model chose."""
    return {key: text for kernel in manifest["kernels"] for key, text in kernel["choices"].items()}


def _verdicts(state: Tuning, guesses: Mapping[str, str]) -> list[Verdict]:
    found = []
    for key, best in state.choices.items():
        times = state.measured[key]
        found.append(Verdict(key, guesses[key], times[guesses[key]], best, times[best]))
    return found
