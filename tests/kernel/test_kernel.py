"""Boots of Debian's kernel under QEMU, many tests: what a user of a kernel module relies on.

`alone`: one CPU with AVX2, whose clock counts instructions. `together`: four without it, at the same time.
`arm64` and `cortex-a53`: two CPUs of AArch64, with and without dot products.
Skipped, with the reason, where the kernel or a program is missing; in CI that is a failure.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.here import is_ci

from . import modules
from .checks import BOOTS, LINES, Check
from .machine import MissingError

Said = Callable[[str], str]


@pytest.fixture(scope="session")
def said(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Said:
    """What a boot says, or why it failed. It happens once for all processes of a test run."""
    shared = tmp_path_factory.getbasetemp()
    shared = shared.parent if os.environ.get("PYTEST_XDIST_WORKER") else shared
    cache = request.config.cache
    kept = Path(cache.mkdir("ingot-kernel")) if cache is not None else shared / "kernel"

    def boot(name: str) -> str:
        answer = shared / f"kernel-{name}.txt"
        with (shared / f"kernel-{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not answer.is_file():
                try:
                    answer.write_text(booted(name, kept, tmp_path_factory.mktemp(name)))
                except RuntimeError as error:
                    answer.write_text(f"not booted: {error}")
        return answer.read_text()

    return boot


def booted(name: str, kept: Path, folder: Path) -> str:
    """Build what the boot wants, and boot. A machine that cannot is a reason to skip, but in CI."""
    wanted = BOOTS[name]
    try:
        machine = wanted.kernel(kept.resolve() / wanted.kernel.processor)
    except MissingError as reason:
        if is_ci():
            raise
        pytest.skip(str(reason))
    files = wanted.files(machine, folder)
    return machine.boot(folder / "machine", wanted.script, files, wanted.cpu, wanted.options)


CHECKS = [(boot, check) for boot, b in BOOTS.items() for check in b.checks]


@pytest.mark.parametrize(("boot", "check"), CHECKS, ids=[f"{boot}: {check[0]}" for boot, check in CHECKS])
def test_in_the_kernel(boot: str, check: Check, said: Said) -> None:
    if check in LINES and not modules.INDIGO.is_dir():
        pytest.skip(f"the golden data is not at {modules.INDIGO}")
    words = said(boot)
    assert check[1](words), f"{check[0]}: not so\n{words}"
