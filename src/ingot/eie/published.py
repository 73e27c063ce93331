"""What the paper prints (arXiv:1602.01528v2): its tables, and the labels of its figures.

Order of the layers as in `benchmark.BENCHMARKS`. Figures 8, 9, 11, 12 and 13 have no labels; of them there is
only what the text says. Powers of the processors are those of Deep Compression's table 9 (arXiv:1510.00149).
"""

from __future__ import annotations

from dataclasses import dataclass

PICOJOULES = {
    "32-bit integer add": 0.1,
    "32-bit float add": 0.9,
    "32-bit integer multiply": 3.1,
    "32-bit float multiply": 3.7,
    "32 bits from a 32 KB SRAM": 5.0,
    "32 bits from DRAM": 640.0,
}
"""Table I, 45 nm."""


@dataclass(frozen=True, slots=True)
class Part:
    """A row of Table II: a share of one PE's power and area, in per cent of it as well."""

    milliwatts: float | None
    power_share: float | None
    square_microns: int
    area_share: float


CELLS = {
    "memory": Part(5.416, 59.15, 594_786, 93.22),
    "clock network": Part(1.874, 20.46, 866, 0.14),
    "registers": Part(1.026, 11.20, 9_465, 1.48),
    "combinational": Part(0.841, 9.18, 8_946, 1.40),
    "filler cells": Part(None, None, 23_961, 3.76),
}
"""The upper half of Table II: what the cells of a PE are."""
MODULES = {
    "queue": Part(0.112, 1.23, 758, 0.12),
    "pointers": Part(1.807, 19.73, 121_849, 19.10),
    "matrix": Part(4.955, 54.11, 469_412, 73.57),
    "arithmetic": Part(1.162, 12.68, 3_110, 0.49),
    "activations": Part(1.122, 12.25, 18_934, 2.97),
    "filler": Part(None, None, 23_961, 3.76),
}
"""The lower half: what they are for."""
PE = Part(9.157, 100.0, 638_024, 100.0)


@dataclass(frozen=True, slots=True)
class Processor:
    """A row of Table IV: the layers' microseconds by MKL, cuBLAS or cuSPARSE, the matrix dense or sparse."""

    name: str
    batch: int
    matrix: str
    microseconds: tuple[float, ...]


PROCESSORS = (
    Processor("CPU", 1, "dense", (7516.2, 6187.1, 1134.9, 35022.8, 5372.8, 774.2, 605.0, 1361.4, 470.5)),
    Processor("CPU", 1, "sparse", (3066.5, 1282.1, 890.5, 3774.3, 545.1, 777.3, 261.2, 437.4, 260.0)),
    Processor("CPU", 64, "dense", (318.4, 188.9, 45.8, 1056.0, 188.3, 45.7, 28.7, 69.0, 28.8)),
    Processor("CPU", 64, "sparse", (1417.6, 682.1, 407.7, 1780.3, 274.9, 363.1, 117.7, 176.4, 107.4)),
    Processor("GPU", 1, "dense", (541.5, 243.0, 80.5, 1467.8, 243.0, 80.5, 65.0, 90.1, 51.9)),
    Processor("GPU", 1, "sparse", (134.8, 65.8, 54.6, 167.0, 39.8, 48.0, 17.7, 41.1, 18.5)),
    Processor("GPU", 64, "dense", (19.8, 8.9, 5.9, 53.6, 8.9, 5.9, 3.2, 2.3, 2.5)),
    Processor("GPU", 64, "sparse", (94.6, 51.5, 23.2, 121.5, 24.4, 22.0, 10.9, 11.0, 9.0)),
    Processor(
        "mobile GPU", 1, "dense", (12437.2, 5765.0, 2252.1, 35427.0, 5544.3, 2243.1, 1316.0, 2565.5, 956.9)
    ),
    Processor("mobile GPU", 1, "sparse", (2879.3, 1256.5, 837.0, 4377.2, 626.3, 745.1, 240.6, 570.6, 315.0)),
    Processor("mobile GPU", 64, "dense", (1663.6, 2056.8, 298.0, 2001.4, 2050.7, 483.9, 87.8, 956.3, 95.2)),
    Processor("mobile GPU", 64, "sparse", (4003.9, 1372.8, 576.7, 8024.8, 660.2, 544.1, 236.3, 187.7, 186.5)),
)
"""An i7-5930k, a Titan X and a Tegra K1; microseconds per vector, whatever the batch."""
CPU_MICROSECONDS = PROCESSORS[0].microseconds
THEORETICAL = (28.1, 11.7, 8.9, 28.1, 7.9, 7.3, 5.2, 13.0, 6.5)
ACTUAL = (30.3, 12.2, 9.9, 34.4, 8.7, 8.4, 8.0, 13.9, 7.5)

Bars = dict[str, tuple[float, ...]]
SPEEDUP: Bars = {
    "CPU, dense": (1, 1, 1, 1, 1, 1, 1, 1, 1, 1),
    "CPU, compressed": (2, 5, 1, 9, 10, 1, 2, 3, 2, 3),
    "GPU, dense": (14, 25, 14, 24, 22, 10, 9, 15, 9, 15),
    "GPU, compressed": (56, 94, 21, 210, 135, 16, 34, 33, 25, 48),
    "mobile GPU, dense": (0.6, 1.1, 0.5, 1.0, 1.0, 0.3, 0.5, 0.5, 0.5, 0.6),
    "mobile GPU, compressed": (3, 5, 1, 8, 9, 1, 3, 2, 1, 3),
    "EIE": (248, 507, 115, 1018, 618, 92, 63, 98, 60, 189),
}
"""Figure 6, times as fast as the CPU's dense product; the last of each is the geometric mean."""
EFFICIENCY: Bars = {
    "CPU, dense": (1, 1, 1, 1, 1, 1, 1, 1, 1, 1),
    "CPU, compressed": (5, 9, 3, 17, 20, 2, 6, 6, 4, 6),
    "GPU, dense": (7, 12, 7, 10, 10, 5, 6, 6, 5, 7),
    "GPU, compressed": (26, 37, 10, 78, 61, 8, 25, 14, 15, 23),
    "mobile GPU, dense": (10, 15, 7, 13, 14, 5, 8, 7, 7, 9),
    "mobile GPU, compressed": (37, 59, 18, 101, 102, 14, 39, 25, 20, 36),
    "EIE": (34522, 61533, 14826, 119797, 76784, 11828, 9485, 10904, 8053, 24207),
}
"""Figure 7, energy of the CPU's dense product over the other's."""
CPU_WATTS = (83.5, 72.8, 77.6, 70.6, 74.6, 77.0, 76.0, 76.0, 76.0)
"""Of the dense products; for the last three, which the paper leaves out, the mean of the others."""
EIE_WATTS = 0.600

TOP_5 = {"float32": 80.3, "16": 79.8, "8": 53.0}
"""Figure 10: AlexNet's accuracy in per cent."""


@dataclass(frozen=True, slots=True)
class Platform:
    """A column of Table V, as printed; `frames`: how often a second AlexNet's FC7 is computed."""

    name: str
    year: int
    kind: str
    nanometres: int
    megahertz: int | None
    memory: str
    parameters: str
    numbers: str
    area: float | None
    watts: float
    frames: float
    frames_per_area: float | None
    frames_per_joule: float


PLATFORMS = (
    Platform(
        "Core i7-5930k", 2014, "CPU", 22, 3500, "DRAM", "<16G", "32-bit float", 356, 73, 162, 0.46, 2.22
    ),
    Platform(
        "GeForce Titan X", 2015, "GPU", 28, 1075, "DRAM", "<3G", "32-bit float", 601, 159, 4115, 6.85, 25.9
    ),
    Platform(
        "Tegra K1", 2014, "mobile GPU", 28, 852, "DRAM", "<500M", "32-bit float", None, 5.1, 173, None, 33.9
    ),
    Platform("A-Eye", 2015, "FPGA", 28, 150, "DRAM", "<500M", "16-bit fixed", None, 9.63, 33, None, 3.43),
    Platform(
        "DaDianNao", 2014, "ASIC", 28, 606, "eDRAM", "18M", "16-bit fixed", 67.7, 15.97, 147938, 2185, 9263
    ),
    Platform(
        "TrueNorth", 2014, "ASIC", 28, None, "SRAM", "256M", "1-bit fixed", 430, 0.18, 1989, 4.63, 10839
    ),
    Platform(
        "EIE, 64 PEs", 2016, "ASIC", 45, 800, "SRAM", "84M", "4-bit fixed", 40.8, 0.59, 81967, 2009, 138927
    ),
    Platform(
        "EIE, 256 PEs",
        2016,
        "ASIC",
        28,
        1200,
        "SRAM",
        "336M",
        "4-bit fixed",
        63.8,
        2.36,
        426230,
        6681,
        180606,
    ),
)
"""Table V. TrueNorth's frames are of TIMIT's LSTM."""
