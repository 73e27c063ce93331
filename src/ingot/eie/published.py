"""What the paper prints (arXiv:1602.01528v2): its tables, and the labels of its figures.

Order of the layers as in `benchmark.BENCHMARKS`. Figures 8, 9, 11, 12 and 13 have no labels; of them there is
only what the text says. Powers of the processors are those of Deep Compression's table 9 (arXiv:1510.00149).
"""

from __future__ import annotations

PICOJOULES = {
    "32-bit integer add": 0.1,
    "32-bit float add": 0.9,
    "32-bit integer multiply": 3.1,
    "32-bit float multiply": 3.7,
    "32 bits from a 32 KB SRAM": 5.0,
    "32 bits from DRAM": 640.0,
}
"""Table I, 45 nm."""

MICROSECONDS = {
    "CPU, dense": (7516.2, 6187.1, 1134.9, 35022.8, 5372.8, 774.2, 605.0, 1361.4, 470.5),
    "CPU, compressed": (3066.5, 1282.1, 890.5, 3774.3, 545.1, 777.3, 261.2, 437.4, 260.0),
    "GPU, dense": (541.5, 243.0, 80.5, 1467.8, 243.0, 80.5, 65.0, 90.1, 51.9),
    "GPU, compressed": (134.8, 65.8, 54.6, 167.0, 39.8, 48.0, 17.7, 41.1, 18.5),
    "mobile GPU, dense": (12437.2, 5765.0, 2252.1, 35427.0, 5544.3, 2243.1, 1316.0, 2565.5, 956.9),
    "mobile GPU, compressed": (2879.3, 1256.5, 837.0, 4377.2, 626.3, 745.1, 240.6, 570.6, 315.0),
}
"""Table IV, batch 1."""
THEORETICAL = (28.1, 11.7, 8.9, 28.1, 7.9, 7.3, 5.2, 13.0, 6.5)
ACTUAL = (30.3, 12.2, 9.9, 34.4, 8.7, 8.4, 8.0, 13.9, 7.5)

SPEEDUP = (248, 507, 115, 1018, 618, 92, 63, 98, 60)
"""Figure 6, EIE over the CPU's dense product; the mean is 189."""
SPEEDUP_MEAN = 189.0
EFFICIENCY = (34522, 61533, 14826, 119797, 76784, 11828, 9485, 10904, 8053)
"""Figure 7, energy of the CPU's dense product over EIE's; the mean is 24,207."""
EFFICIENCY_MEAN = 24207.0
CPU_WATTS = (83.5, 72.8, 77.6, 70.6, 74.6, 77.0, 76.0, 76.0, 76.0)
"""Of the dense products; for the last three, which the paper leaves out, the mean of the others."""
EIE_WATTS = 0.600

TOP_5 = {"float32": 80.3, "16": 79.8, "8": 53.0}
"""Figure 10: AlexNet's accuracy in per cent."""

PLATFORMS = {
    "Core i7": (356.0, 73.0, 162.0),
    "Titan X": (601.0, 159.0, 4115.0),
    "Tegra K1": (None, 5.1, 173.0),
    "A-Eye": (None, 9.63, 33.0),
    "DaDianNao": (67.7, 15.97, 147938.0),
    "TrueNorth": (430.0, 0.18, 1989.0),
    "EIE, 64 PEs, 45 nm": (40.8, 0.59, 81967.0),
    "EIE, 256 PEs, 28 nm": (63.8, 2.36, 426230.0),
}
"""Table V: square millimetres, watts, and how often a second AlexNet's FC7 is computed."""
