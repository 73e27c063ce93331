"""Energy and area of a machine, from the paper's synthesis of one PE (Table II, 45 nm, 800 MHz).

In: what a run made the parts do and how long it took. Out: nanojoules, milliwatts, square millimetres. The
paper gives one power per part, measured on a running layer; which one it does not say. We take Alex-7: the
clock's share is paid every cycle, the rest by what is done, in the proportions of that layer. What a part
costs at another size is our estimate: memories by their bytes, the multiplier by its bits, an SRAM read by a
fixed part and one that grows with its width, in the proportion at which 64 bits are best over the nine layers
(the paper's figure 9).
"""

from __future__ import annotations

from dataclasses import dataclass

from ingot.eie.activity import Activity
from ingot.eie.machine import Machine
from ingot.eie.published import MODULES

STEADY_MHZ = 800.0
CLOCK_SHARE = 1.874 / 9.157
MILLIWATTS = {name: p.milliwatts for name, p in MODULES.items() if p.milliwatts is not None}
SQUARE_MICRONS = {name: p.square_microns for name, p in MODULES.items()}
EVENTS_PER_CYCLE = {
    "queue": 0.139,
    "pointers": 0.139,
    "matrix": 0.200,
    "arithmetic": 0.958,
    "activations": 0.958,
}
"""What a PE does in a cycle of Alex-7 (`ingot.eie.benchmark`)."""
DETECTOR_MILLIWATTS, DETECTOR_SQUARE_MICRONS = 0.023, 189
READ_FIXED = 0.33
"""The part of a 64-bit read that does not depend on the width."""
MULTIPLY_PICOJOULES = {"float32": 3.7, "int32": 3.1, "int16": 3.1 / 5, "int8": 3.1 / 16}
"""Table I; 16 bits by the factor of figure 10; 8 bits by the square of the bits."""


@dataclass(frozen=True, slots=True)
class Energy:
    """Nanojoules of a run by part; `clock` is what all parts pay for every cycle."""

    queue: float
    pointers: float
    matrix: float
    arithmetic: float
    activations: float
    detectors: float
    clock: float

    @property
    def total(self) -> float:
        parts = self.queue + self.pointers + self.matrix + self.arithmetic + self.activations
        return parts + self.detectors + self.clock


def energy(done: Activity, cycles: int, machine: Machine) -> Energy:
    """What a run of that many cycles takes."""
    events = {
        "queue": done.queue_writes,
        "pointers": done.pointer_reads,
        "matrix": done.matrix_reads,
        "arithmetic": done.entries,
        "activations": done.entries,
    }
    scale = {
        "queue": 1.0,
        "pointers": 1.0,
        "matrix": read_factor(machine.sram_width),
        "arithmetic": multiply_factor(machine.precision),
        "activations": machine.precision / 16,
    }
    spent = {part: n * scale[part] * event_nanojoules(part) for part, n in events.items()}
    per_cycle = CLOCK_SHARE * sum(MILLIWATTS.values()) / STEADY_MHZ
    detectors = machine.detectors * DETECTOR_MILLIWATTS / STEADY_MHZ * cycles
    return Energy(**spent, detectors=detectors, clock=per_cycle * machine.pes * cycles)


def event_nanojoules(part: str) -> float:
    """What one event of a part costs, the clock aside."""
    return (1 - CLOCK_SHARE) * MILLIWATTS[part] / EVENTS_PER_CYCLE[part] / STEADY_MHZ


def read_picojoules(width: int) -> float:
    """One read of the matrix SRAM with that many bits."""
    return 1e3 * read_factor(width) * event_nanojoules("matrix")


def read_factor(width: int) -> float:
    """What a read of that many bits costs beside one of 64."""
    return READ_FIXED + (1 - READ_FIXED) * width / 64


def multiply_factor(bits: int) -> float:
    """What a multiplication of that many bits costs beside one of 16."""
    return MULTIPLY_PICOJOULES[f"int{bits}"] / MULTIPLY_PICOJOULES["int16"]


def steady_milliwatts(machine: Machine) -> float:
    """Power as the paper adds it up: all PEs busy, and the tree."""
    return machine.pes * sum(MILLIWATTS.values()) + machine.detectors * DETECTOR_MILLIWATTS


def square_millimetres(machine: Machine) -> float:
    """Area of the PEs and the tree; memories grow with their bytes, the rest with entries and bits."""
    reference = Machine()
    scale = {
        "queue": machine.fifo / reference.fifo,
        "pointers": machine.pointer_bytes / reference.pointer_bytes,
        "matrix": machine.matrix_bytes / reference.matrix_bytes,
        "arithmetic": multiply_factor(machine.precision),
        "activations": machine.activation_bytes / reference.activation_bytes,
    }
    parts = sum(SQUARE_MICRONS[part] * factor for part, factor in scale.items())
    unscaled = sum(SQUARE_MICRONS[part] for part in scale)
    one = parts * (1 + SQUARE_MICRONS["filler"] / unscaled)
    return (machine.pes * one + machine.detectors * DETECTOR_SQUARE_MICRONS) / 1e6
