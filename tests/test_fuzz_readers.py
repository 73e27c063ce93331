"""Hostile files: those that once went wrong, and a few new ones for every reader. `make fuzz` has more."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ingot.errors import InputError
from tests.fuzz import cage
from tests.fuzz.cage import kept, tally
from tests.fuzz.readers import READERS, outcome
from tests.models import SECONDS, limit

FEW = 30


@pytest.mark.parametrize(
    "path", [p for name in READERS for p in kept(name)], ids=lambda p: f"{p.parent.name}/{p.name}"
)
def test_what_was_found(path: Path, tmp_path: Path) -> None:
    reader = READERS[path.parent.name]
    with limit(SECONDS):
        said = outcome(reader, reader.place(tmp_path, path.read_bytes()), is_deep=True)
    assert said in ("read", "refused")


@pytest.mark.parametrize("name", READERS)
def test_a_few_cases(name: str) -> None:
    found = tally(name, seed=1, count=FEW)
    assert not found.findings and found.verdicts.total() == FEW


@pytest.mark.parametrize("name", READERS)
def test_what_is_well_formed_is_read(name: str, tmp_path: Path) -> None:
    for i, seed in enumerate(READERS[name].seeds()):
        (tmp_path / str(i)).mkdir()
        assert outcome(READERS[name], READERS[name].place(tmp_path / str(i), seed)) == "read"


def test_the_corpus_is_of_readers_that_there_are() -> None:
    assert {p.name for p in cage.CORPUS.iterdir()} <= set(READERS)


def _raise(error: BaseException) -> Callable[[Path], object]:
    def read(path: Path) -> object:
        raise error

    return read


@pytest.mark.parametrize(
    ("read", "said"),
    [
        (_raise(ValueError("a digit")), "ValueError: a digit"),
        (_raise(InputError("")), "InputError that says nothing"),
        (lambda path: path.with_name("more").write_text("x"), "files left behind"),
        (lambda path: bytearray(3 << 30), "MemoryError"),
        (lambda path: [None for _ in iter(int, 1)], "Overdue"),
        (lambda path: os.kill(os.getpid(), signal.SIGKILL), "the process died"),
        (lambda path: time.sleep(60), "Overdue: it says nothing"),
    ],
    ids=["raises", "says nothing", "leaves files", "memory", "hangs", "dies", "waits"],
)
def test_the_cage_sees_it(read: Callable[[Path], object], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(READERS, "npy", replace(READERS["npy"], read=read))
    monkeypatch.setattr(cage, "SECONDS", 0.2)
    monkeypatch.setattr(cage, "SILENCE", 5)
    (found,) = tally("npy", 0, 1).findings
    assert found.startswith(said)


@pytest.mark.parametrize("name", READERS)
def test_a_seed_says_which_case_it_is(name: str) -> None:
    cases = [cage.case(name, 3, i) for i in range(8)]
    assert cases == [cage.case(name, 3, i) for i in range(8)] and len(set(cases)) > 4
    data = READERS[name].seeds()[0]
    assert READERS[name].mutate(data, random.Random(5)) == READERS[name].mutate(data, random.Random(5))
