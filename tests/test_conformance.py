"""A sample of onnx's backend tests: one case for each operator that the ledger lists as passed.

All cases are `make conformance`, which writes the ledger (tests/conformance/ledger.csv).
"""

from __future__ import annotations

import functools

import pytest

from ingot.ops.registry import operators
from tests.conformance import ledger
from tests.conformance.cases import Case, cases
from tests.conformance.judge import Verdict, compare, judge

ROWS = ledger.read()
# onnx 1.23 has no case of these, or none in which they are the operator in question.
WITHOUT_CASES = {
    *("GlobalLpPool", "MaxRoiPool", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform"),
    *("RandomUniformLike", "ConcatFromSequence", "SequenceAt", "SequenceConstruct", "SequenceErase"),
    "SequenceLength",
    "SimplifiedLayerNormalization",  # onnxruntime's own, which it has in ONNX's domain
}


def sample() -> list[str]:
    """The first passed case of every operator; plain ones before function bodies."""
    first: dict[str, str] = {}
    passed = [row for row in ROWS.values() if row.kind == "node" and row.result == "pass"]
    for row in sorted(passed, key=lambda r: ("_expanded" in r.case, r.case)):
        first.setdefault(row.operator, row.case)
    return sorted(first.values())


@functools.cache
def by_name() -> dict[str, Case]:
    return {case.name: case for case in cases(["node"])}


@pytest.mark.parametrize("name", sample())
def test_passes_as_listed(name: str) -> None:
    assert judge(by_name()[name]) == Verdict("pass")


def test_every_operator_has_a_passed_case() -> None:
    known = {o.name for o in operators() if o.domain == ""}
    passed = {row.operator for row in ROWS.values() if row.result == "pass"}
    assert known - passed - WITHOUT_CASES == set()


def test_ledger_names_the_cases_of_onnx() -> None:
    assert {row.case for row in ROWS.values() if row.kind == "node"} == set(by_name())


def test_nothing_is_wrong_or_crashes() -> None:
    assert [row for row in ROWS.values() if row.result in ("wrong", "crash")] == []


def test_comparison_is_strict() -> None:
    import numpy as np

    one = np.ones(2, np.float32)
    assert compare((one,), [one], 1e-3, 1e-7) == ""
    assert "float64" in compare((one.astype(np.float64),), [one], 1e-3, 1e-7)
    assert "[2, 1]" in compare((one[:, None],), [one], 1e-3, 1e-7)
    assert "Mismatch" in compare((one * np.float32(1.01),), [one], 1e-3, 1e-7)
    assert "0 outputs" in compare((), [one], 1e-3, 1e-7)
