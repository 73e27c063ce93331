"""What this machine can run."""

from __future__ import annotations

import os

import pytest

from ingot.targets.record import Target
from ingot.targets.records import find
from ingot.targets.toolchain import obstacle


def require_runs(target: Target | str) -> None:
    """Skip the test unless programs of a target run here; in CI only a processor's lack of features may.

    Such an instruction set is checked in the loop evaluator all the same.
    """
    target = find(target) if isinstance(target, str) else target
    reason = obstacle(target)
    if reason and target.runner and os.environ.get("CI", "").lower() in ("1", "true"):
        pytest.fail(f"{reason}, and CI must not skip")
    if reason:
        pytest.skip(reason)
