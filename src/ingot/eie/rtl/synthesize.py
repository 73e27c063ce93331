"""Cells and area by Yosys. In: a machine; out: one `Block` per module of the array.

Yosys maps each module to simple gates and counts their transistors; four make a NAND of two inputs, and one
of those takes 0.798 um2 in the NanGate open cell library for 45 nm. That leaves out wiring, clock tree and
filler, and the SRAMs, which are macros: their bits are listed. An estimate, meant to be compared.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ingot.eie.machine import Machine
from ingot.eie.memory import POINTER_BITS
from ingot.eie.rtl.sizes import Sizes
from ingot.eie.rtl.verilog import verilog
from ingot.errors import InputError, ToolchainError

NAND_TRANSISTORS, NAND_UM2 = 4, 0.798
SECONDS = 1800
FLIP_FLOP = "DFF"
MODULES = {"eie_element": ("eie_sram",), "eie_detector": (), "eie_array": ("eie_element", "eie_detector")}
"""Each module, and what it holds of others, which are counted by themselves."""


@dataclass(frozen=True, slots=True)
class Block:
    """One module: how often the array holds it, its own cells, flip-flops among them, and bits of SRAM."""

    name: str
    count: int
    cells: int
    flip_flops: int
    transistors: int
    sram_bits: int

    @property
    def gates(self) -> int:
        """Its size in NAND gates of two inputs."""
        return round(self.transistors / NAND_TRANSISTORS)

    @property
    def um2(self) -> float:
        """Estimated area of its cells at 45 nm."""
        return self.gates * NAND_UM2


def synthesize(machine: Machine, folder: Path, done: Callable[[str], None] = lambda _: None) -> list[Block]:
    """All modules, the PE first; `done` is told each one's name. Raises InputError without Yosys."""
    yosys = shutil.which("yosys")
    if yosys is None:
        raise InputError("cells are counted by Yosys", remedy="install yosys")
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in verilog(machine).items():
        (folder / name).write_text(text, encoding="utf-8")
    counts = {"eie_element": machine.pes, "eie_detector": machine.detectors, "eie_array": 1}
    blocks = []
    for module, boxes in MODULES.items():
        found = _counted(yosys, module, boxes, folder)
        bits = _sram_bits(machine) if module == "eie_element" else 0
        own = {k: n for k, n in found["num_cells_by_type"].items() if k not in boxes}
        flip_flops = sum(n for kind, n in own.items() if FLIP_FLOP in kind)
        transistors = int(str(found["estimated_num_transistors"]).rstrip("+"))
        blocks.append(Block(module, counts[module], sum(own.values()), flip_flops, transistors, bits))
        done(module)
    return blocks


def _sram_bits(machine: Machine) -> int:
    sizes = Sizes(machine)
    return sizes.lines * machine.sram_width + (sizes.pointers + 1) // 2 * 2 * POINTER_BITS


def _counted(yosys: str, module: str, boxes: tuple[str, ...], folder: Path) -> dict[str, Any]:
    """What Yosys' `stat` says of one module."""
    script = [f"read_verilog -lib {box}.v" for box in boxes]
    script += [f"read_verilog {module}.v", f"synth -top {module} -flatten"]
    script += [f"tee -o {module}.json stat -tech cmos -json"]
    words = [yosys, "-q", "-p", "; ".join(script)]
    run = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=SECONDS)
    if run.returncode:
        raise ToolchainError(f"yosys failed on {module}:\n{run.stderr[-4000:]}")
    text = (folder / f"{module}.json").read_text(encoding="utf-8")
    # What stands for the whole design follows the modules without the comma that JSON asks for.
    found: dict[str, Any] = json.JSONDecoder().raw_decode(text[text.index("{", text.index("modules")) :])[0]
    return dict(found[f"\\{module}"])
