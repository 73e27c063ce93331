"""Every target compiles a model of floats and one of integers; what runs here answers as it should.

`make targets` does so with a corpus.
"""

from __future__ import annotations

import numpy as np
import pytest

from ingot.targets.records import FAMILIES, TARGETS
from tests.corpus import CASES
from tests.everywhere.__main__ import same_bits, tables
from tests.everywhere.check import NAMES, Outcome, digest, outcome

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


def test_targets_with_other_bytes_have_a_line_of_their_own() -> None:
    little, big = np.array([1, -2], "<i2"), np.array([1, -2], ">i2")
    assert digest([little]) == digest([big]) != digest([little + 1])
    assert digest([little, np.zeros(1, np.float32)]) == ""
    found = {
        name: [Outcome(name, "resnet_bytes", ran=True, bits=bits)]
        for name, bits in (("x86-64", "aa"), ("i386", "aa"), ("x86-64-v2", "bb"))
    }
    assert same_bits(found).splitlines()[2:] == [
        "| `x86-64`, `i386` | aa | - | - | - |",
        "| `x86-64-v2` | bb | - | - | - |",
    ]
