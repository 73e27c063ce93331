"""What is asked of a family of kernels, and what it answers.

In: the stages of a kernel that are still to be written, and all that decides how (`Request`). Out: the
statements of the first of them, and how many these are (`Written`); None where the family does not serve
them, or does not pay. `loops/generate.py` holds the families in the order in which they are asked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from ingot.formula.compute import Compute, Scan, Stage, reads
from ingot.formula.expr import Var
from ingot.formula.index import Bounds, interval
from ingot.formula.statements import Statement
from ingot.loops.choice import DEFAULT, Choice, Choices
from ingot.loops.layout import Storage
from ingot.targets.record import Target

Written = tuple[tuple[Statement, ...], int]
"""Statements, and how many stages they are."""
OfStage = Callable[[Compute, Storage, Target, Bounds], tuple[Statement, ...] | None]
OfStages = Callable[[tuple[Stage, ...], Storage, Target, Bounds], Written | None]


@dataclass(frozen=True, slots=True)
class Request:
    """Stages of one kernel, the first of them to be written now; `generate` writes all stages of another.

    `served` collects the names of the families that wrote, outer ones before those that they asked.
    """

    stages: tuple[Stage, ...]
    storage: Storage
    target: Target
    bounds: Bounds
    choices: Choices
    generate: Callable[[Request], tuple[Statement, ...]]
    served: list[str] = field(default_factory=list)

    @property
    def compute(self) -> Compute:
        """The first stage, for families that are asked behind the one of scans."""
        stage = self.stages[0]
        assert isinstance(stage, Compute)
        return stage

    @property
    def choice(self) -> Choice:
        """How the first stage is to be computed, where there is more than one way."""
        stage = self.stages[0]
        return self.choices.get(stage, DEFAULT) if isinstance(stage, Compute) else DEFAULT

    def of(self, stages: tuple[Stage, ...]) -> Request:
        """The same of other stages."""
        return replace(self, stages=stages)

    def around(self, body: tuple[Stage, ...], axis: Var) -> tuple[Statement, ...]:
        """The statements of one iteration of a loop over `axis`; `body` stands for the first stages in it."""
        stage, how = self.stages[0], dict(self.choices)
        after = self.stages[1:] if isinstance(stage, Scan) else self.stages[len(body) :]
        next_iteration = stage.carried if isinstance(stage, Scan) else ()
        wanted = {*next_iteration, *(t for s in after for t in reads(s))}  # from memory, outside of this body
        for new, old in zip(body, self.stages, strict=False):
            if isinstance(new, Compute) and isinstance(old, Compute) and old in how:
                how[new] = how[old]
        here = replace(self.storage, inner=self.storage.inner - wanted)
        inner = {**self.bounds, axis.name: interval(axis)}
        return self.generate(replace(self, stages=body, storage=here, bounds=inner, choices=how))

    def some_rows(self, stage: Compute, some: Compute, bounds: Bounds) -> tuple[Statement, ...]:
        """The statements of a band of rows of a stage, under loops whose variables have these bounds."""
        how = {some: replace(self.choices.get(stage, DEFAULT), band=None, line=None)}
        return self.generate(replace(self, stages=(some,), bounds={**self.bounds, **bounds}, choices=how))


@dataclass(frozen=True, slots=True)
class Family:
    """Kernels of one kind: `serves` says in a few words what they compute."""

    name: str
    serves: str
    write: Callable[[Request], Written | None]


def of_stage(name: str, serves: str, write: OfStage) -> Family:
    """A family whose kernels compute one stage."""

    def first(request: Request) -> Written | None:
        (stage, *_) = request.stages
        if not isinstance(stage, Compute):
            return None
        found = write(stage, request.storage, request.target, request.bounds)
        return None if found is None else (found, 1)

    return Family(name, serves, first)


def of_stages(name: str, serves: str, write: OfStages) -> Family:
    """A family whose kernels compute several stages together."""

    def first(request: Request) -> Written | None:
        return write(request.stages, request.storage, request.target, request.bounds)

    return Family(name, serves, first)
