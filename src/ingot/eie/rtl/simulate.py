"""The Verilog under Verilator. In: a machine, a layer and its activations; out: cycles and accumulators.

Called by `compare` and by `make rtl`'s tests, which hold both to the simulator's.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ingot.eie.machine import Machine
from ingot.eie.rtl.host import Command, Control, Space
from ingot.eie.rtl.verilog import TESTBENCH, verilog
from ingot.errors import InputError, ToolchainError
from ingot.formula.expr import Array

TO_ALL, READ, WAIT = 1, 2, 4
CONFIG = '`verilator_config\nno_inline -module "eie_element"\n'
"""All PEs share the code of one: 64 copies of it take a C++ compiler half an hour."""
BUILD_SECONDS, RUN_SECONDS = 900, 3600


@dataclass(frozen=True, slots=True, eq=False)
class Simulation:
    """What the hardware answered: the cycles of each start, and what was read, int64 [reads]."""

    cycles: tuple[int, ...]
    read: Array


def build(machine: Machine, folder: Path) -> Path:
    """The simulator of a machine, compiled into a folder. Raises InputError without Verilator, ToolchainError
    where it fails.
    """
    verilator = shutil.which("verilator")
    if verilator is None:
        raise InputError("the hardware is simulated by Verilator", remedy="install verilator")
    folder.mkdir(parents=True, exist_ok=True)
    texts = verilog(machine)
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "config.vlt").write_text(CONFIG, encoding="utf-8")
    sources = ["config.vlt", *(n for n in texts if n.endswith(".v")), TESTBENCH]
    flags = ["--cc", "--exe", "--build", "--x-assign", "fast", "-Wno-fatal", "-Wno-lint"]
    flags += ["--output-split", "10000", "--output-split-cfuncs", "1000", "-j", str(os.cpu_count() or 1)]
    flags += ["-CFLAGS", f"-O1 -DBITS={machine.precision}", "--top-module", "eie_array", "-o", "simulate"]
    _called([verilator, *flags, *sources], folder)
    return folder / "obj_dir" / "simulate"


def _called(words: list[str], folder: Path) -> None:
    try:
        made = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=BUILD_SECONDS)
    except subprocess.TimeoutExpired:
        raise ToolchainError(f"{Path(words[0]).name} took more than {BUILD_SECONDS} s") from None
    if made.returncode:
        raise ToolchainError(f"{Path(words[0]).name} failed:\n{made.stderr[-4000:]}")


def simulate(program: Path, commands: Iterable[Command]) -> Simulation:
    """Run the commands. Raises ToolchainError where the simulator fails."""
    words, kinds = [], []
    for c in commands:
        is_start = c.space is Space.CONTROL and c.address == Control.START
        flags = TO_ALL * (c.pe is None) | READ * c.is_read | WAIT * is_start
        words.append(struct.pack("<QIHBB", c.data & (1 << 64) - 1, c.address, c.pe or 0, c.space, flags))
        kinds += [is_start] if is_start or c.is_read else []
    try:
        run = subprocess.run([program], input=b"".join(words), capture_output=True, timeout=RUN_SECONDS)
    except subprocess.TimeoutExpired:
        raise ToolchainError(f"the simulated hardware took more than {RUN_SECONDS} s") from None
    if run.returncode:
        raise ToolchainError(f"the simulated hardware failed: {run.stderr.decode(errors='replace')}")
    values, is_cycles = np.array(run.stdout.split(), np.int64), np.array(kinds, bool)
    return Simulation(tuple(values[is_cycles].tolist()), values[~is_cycles])
