"""The corpus's C under gcc's address and undefined-behaviour sanitizers, and under valgrind.

The sanitizers see accesses past the end of an input, an output, the weights or the arena, and arithmetic
that C leaves undefined; valgrind sees bytes of the arena that are used before they are written.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests import program
from tests.bundle.build import need
from tests.corpus import CASES, Case

SPLIT = 4
WATCHED = ("inception", "lstm")
MEMCHECK = ("valgrind", "-q", "--error-exitcode=9", "--track-origins=yes")


def build(cases: Sequence[Case], target: str) -> list[program.Member]:
    return [program.member(c.model, c.feeds, c.name, target, define=c.define) for c in cases]


def agree(cases: Sequence[Case], answers: list[program.Answer]) -> None:
    for case, answer in zip(cases, answers, strict=True):
        assert answer.status == 0, f"{case.name} returned {answer.status}"
        for found in answer.runs:
            case.check(found, case.name)


@pytest.mark.parametrize("part", range(SPLIT))
@pytest.mark.parametrize("target", ["c99", "x86-64-v3"])
def test_clean_under_address_and_undefined_sanitizers(target: str, part: int) -> None:
    need("gcc")
    cases = CASES[part::SPLIT]
    agree(cases, program.run(build(cases, target)))


@pytest.mark.parametrize("target", ["c99", "x86-64-v3"])
def test_clean_under_valgrind(target: str) -> None:
    """The arena is fresh from malloc: what a kernel reads there, another has written."""
    need("gcc")
    need("valgrind")
    cases = [c for c in CASES if c.name in WATCHED]
    agree(cases, program.run(build(cases, target), ("-O1", "-g1"), MEMCHECK, fill=False))
