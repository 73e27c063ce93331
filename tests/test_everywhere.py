"""Every target compiles a model of floats and one of integers; what runs here answers as it should.

`make targets` does so with a corpus.
"""

from __future__ import annotations

import pytest

from ingot.targets.records import FAMILIES, TARGETS
from tests.corpus import CASES
from tests.everywhere.__main__ import tables
from tests.everywhere.check import NAMES, Outcome, outcome

LIGHT = ("dense", "resnet_bytes")


@pytest.mark.parametrize("target", TARGETS)
def test_every_target_answers_alike(target: str) -> None:
    for case in CASES:
        if case.name in LIGHT:
            found = outcome(case, TARGETS[target])
            assert not found.error, f"{case.name}: {found.error}"


def test_the_corpus_of_make_targets_is_there() -> None:
    assert set(NAMES) <= {c.name for c in CASES}
    found = {name: [Outcome(name, "digits", ran=True, off=1e-7, calls=("__divdi3",))] for name in TARGETS}
    text = "\n".join(tables(found))
    assert all(f"**{family}**" in text for family in FAMILIES) and text.count("1/1") == len(TARGETS)
