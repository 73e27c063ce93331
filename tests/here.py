"""What this machine can run."""

from __future__ import annotations

import os
import shutil

import pytest

from ingot.targets.record import Target
from ingot.targets.records import find
from ingot.targets.toolchain import obstacle


def is_ci() -> bool:
    return os.environ.get("CI", "").lower() in ("1", "true")


def require_program(name: str) -> None:
    """Skip the test unless a program is installed; fail in CI, which installs `debian-packages.txt`."""
    if shutil.which(name) is None:
        _skip(f"{name} is not installed", is_ci())


def require_runs(target: Target | str) -> None:
    """Skip the test unless programs of a target run here; in CI only a processor's lack of features may.

    Such an instruction set is checked in the loop evaluator all the same.
    """
    target = find(target) if isinstance(target, str) else target
    if reason := obstacle(target):
        _skip(reason, is_ci() and bool(target.runner))


def _skip(reason: str, forbidden: bool) -> None:
    if forbidden:
        pytest.fail(f"{reason}, and CI must not skip")
    pytest.skip(reason)
