"""Tables 1 to 5 of "Deep Compression" (arXiv:1510.00149): totals, LeNet-300-100, LeNet-5, AlexNet, VGG-16.

Layer: terms of a result, weights, kept %, bits of a weight plain and coded, bits of an index likewise, size %
likewise. The terms are the architectures', all else is printed. Read by the tests of accounts and by
`examples/compression/paper.py`.
"""

from __future__ import annotations

from typing import NamedTuple


class Row(NamedTuple):
    """A layer as a table prints it."""

    terms: int
    weights: int
    kept: int
    code: int
    coded_code: float
    gap: int
    coded_gap: float
    plain: float
    coded: float


LENET_300_100 = {
    "ip1": Row(784, 784 * 300, 8, 6, 4.4, 5, 3.7, 3.1, 2.32),
    "ip2": Row(300, 300 * 100, 9, 6, 4.4, 5, 4.3, 3.8, 3.04),
    "ip3": Row(100, 100 * 10, 26, 6, 4.3, 5, 3.2, 15.7, 12.70),
}
LENET_5 = {
    "conv1": Row(25, 20 * 25, 66, 8, 7.2, 5, 1.5, 78.5, 67.45),
    "conv2": Row(20 * 25, 20 * 50 * 25, 12, 8, 7.2, 5, 3.9, 6.0, 5.28),
    "ip1": Row(800, 800 * 500, 8, 5, 4.5, 5, 4.5, 2.7, 2.45),
    "ip2": Row(500, 500 * 10, 19, 5, 5.2, 5, 3.7, 6.9, 6.13),
}
ALEXNET = {
    "conv1": Row(3 * 121, 3 * 96 * 121, 84, 8, 6.3, 4, 1.2, 32.6, 20.53),
    "conv2": Row(48 * 25, 48 * 256 * 25, 38, 8, 5.5, 4, 2.3, 14.5, 9.43),
    "conv3": Row(256 * 9, 256 * 384 * 9, 35, 8, 5.1, 4, 2.6, 13.1, 8.44),
    "conv4": Row(192 * 9, 192 * 384 * 9, 37, 8, 5.2, 4, 2.5, 14.1, 9.11),
    "conv5": Row(192 * 9, 192 * 256 * 9, 37, 8, 5.6, 4, 2.5, 14.0, 9.43),
    "fc6": Row(9216, 9216 * 4096, 9, 5, 3.9, 4, 3.2, 3.0, 2.39),
    "fc7": Row(4096, 4096 * 4096, 9, 5, 3.6, 4, 3.7, 3.0, 2.46),
    "fc8": Row(4096, 4096 * 1000, 25, 5, 4.0, 4, 3.2, 7.3, 5.85),
}
VGG_16 = {
    "conv1_1": Row(3 * 9, 3 * 64 * 9, 58, 8, 6.8, 5, 1.7, 40.0, 29.97),
    "conv1_2": Row(64 * 9, 64 * 64 * 9, 22, 8, 6.5, 5, 2.6, 9.8, 6.99),
    "conv2_1": Row(64 * 9, 64 * 128 * 9, 34, 8, 5.6, 5, 2.4, 14.3, 8.91),
    "conv2_2": Row(128 * 9, 128 * 128 * 9, 36, 8, 5.9, 5, 2.3, 14.7, 9.31),
    "conv3_1": Row(128 * 9, 128 * 256 * 9, 53, 8, 4.8, 5, 1.8, 21.7, 11.15),
    "conv3_2": Row(256 * 9, 256 * 256 * 9, 24, 8, 4.6, 5, 2.9, 9.7, 5.67),
    "conv3_3": Row(256 * 9, 256 * 256 * 9, 42, 8, 4.6, 5, 2.2, 17.0, 8.96),
    "conv4_1": Row(256 * 9, 256 * 512 * 9, 32, 8, 4.6, 5, 2.6, 13.1, 7.29),
    "conv4_2": Row(512 * 9, 512 * 512 * 9, 27, 8, 4.2, 5, 2.9, 10.9, 5.93),
    "conv4_3": Row(512 * 9, 512 * 512 * 9, 34, 8, 4.4, 5, 2.5, 14.0, 7.47),
    "conv5_1": Row(512 * 9, 512 * 512 * 9, 35, 8, 4.7, 5, 2.5, 14.3, 8.00),
    "conv5_2": Row(512 * 9, 512 * 512 * 9, 29, 8, 4.6, 5, 2.7, 11.7, 6.52),
    "conv5_3": Row(512 * 9, 512 * 512 * 9, 36, 8, 4.6, 5, 2.3, 14.8, 7.79),
    "fc6": Row(25088, 25088 * 4096, 4, 5, 3.6, 5, 3.5, 1.6, 1.10),
    "fc7": Row(4096, 4096 * 4096, 4, 5, 4.0, 5, 4.3, 1.5, 1.25),
    "fc8": Row(4096, 4096 * 1000, 23, 5, 4.0, 5, 3.4, 7.1, 5.24),
}
NETWORKS = {"LeNet-300-100": LENET_300_100, "LeNet-5": LENET_5, "AlexNet": ALEXNET, "VGG-16": VGG_16}
# Of all layers: kept %, size % plain and coded, and how many times smaller that is.
TOTALS = {
    "LeNet-300-100": (8, 3.1, 2.49, 32, 40),
    "LeNet-5": (8, 3.05, 2.55, 33, 39),
    "AlexNet": (11, 3.7, 2.88, 27, 35),
    "VGG-16": (7.5, 3.2, 2.05, 31, 49),
}
SMALL = {("LeNet-5", "conv1"), ("VGG-16", "conv1_1")}
"""Layers of few weights and 256 values. Their coded sizes count only nine values in ten (some stand for no
weight), and conv1_1 has more entries than weights kept and fillers."""
