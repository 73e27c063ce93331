"""One layer's weights as an encoding. In: weights, and what was chosen for them; out: a Codebook or a Sparse.

Called by `compress` for every layer, and by `propose` to see what a density costs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from ingot.compression.prune import kept_by, largest
from ingot.compression.share import Start, centroids, nearest
from ingot.formula.expr import Array
from ingot.graph.encoding import MOST_BITS, Codebook, Encoding, Sparse
from ingot.graph.huffman import coded_bits, table_bits

Form = Literal["auto", "sparse", "codebook"]
FLOAT_BITS = 32
AUTO, CODED = 0, -1  # instead of the bits of a gap
UNCHANGED = FLOAT_BITS  # bits of weights that are left as they are


@dataclass(frozen=True, slots=True)
class Choice:
    """What becomes of one layer: the share of weights that stay, bits of a code and of a gap, and the form.

    `bits` are at most so many; 32 leaves the layer alone. `gap_bits` AUTO and `form` auto take what needs
    fewest bits before Huffman coding, `gap_bits` CODED what does after it.
    """

    density: float = 1.0
    bits: int = 4
    gap_bits: int = AUTO
    form: Form = "auto"
    start: Start = "optimal"
    seed: int = 0


def encode(weights: Array, choice: Choice, width: int = FLOAT_BITS) -> Encoding | None:
    """The encoding of float32 weights of any shape; zeros among them are pruned weights.

    Weights of a `width` of 8 bits are whole numbers and share whole numbers. None where the weights stay as
    they are: at 32 bits, and in the form auto if codes would take more room.
    """
    if choice.bits == UNCHANGED:
        return None
    kept = largest(weights, kept_by(weights, choice.density))
    found = share(weights, kept, choice)
    if width < FLOAT_BITS:
        found = replace(found, values=np.rint(found.values))
    smaller = stored_bits(found) < width * weights.size
    return found if smaller or choice.form != "auto" else None


def share(weights: Array, kept: Array, choice: Choice) -> Encoding:
    """The encoding where `kept` (bool of the weights' shape) says which weights stay."""
    assert choice.bits <= MOST_BITS, "a layer with more bits is not encoded"
    stay = weights[kept]
    # fewer weights than codes need no more codes than there are weights
    choice = replace(choice, bits=max(1, min(choice.bits, stay.size.bit_length())))
    form, gap_bits = _form(kept, choice)
    count = (1 << choice.bits) - (form == "sparse" or stay.size < weights.size)
    found = centroids(stay, count, choice.start, choice.seed)
    if count == 1 << choice.bits:
        return Codebook(nearest(weights, found), found)
    # code 0 stands for what is pruned
    codes = np.zeros(weights.shape, np.uint8)
    codes[kept] = nearest(stay, found) + 1
    return formed(codes, np.concatenate([np.zeros(1, np.float32), found]), form, gap_bits)


def formed(codes: Array, values: Array, form: Form, gap_bits: int) -> Encoding:
    """Codes of the weights' shape in a form, where code 0 stands for 0."""
    return Sparse.of(codes, values, gap_bits) if form == "sparse" else Codebook(codes, values)


def stored_bits(encoding: Encoding) -> int:
    """What an encoding takes before Huffman coding."""
    gaps = encoding.gap_bits if isinstance(encoding, Sparse) else 0
    return int(encoding.codes.size) * (encoding.bits + gaps) + FLOAT_BITS * len(encoding.values)


def _form(kept: Array, choice: Choice) -> tuple[Form, int]:
    """Sparse or codebook, and the bits of a gap."""
    if choice.form == "codebook":
        return "codebook", choice.gap_bits
    zeros = np.diff(np.flatnonzero(kept), prepend=-1) - 1
    width = _width(zeros, choice)
    plain = entries(zeros, width) * (choice.bits + width)
    sparse = choice.form == "sparse" or plain < kept.size * choice.bits
    return "sparse" if sparse else "codebook", width


def _width(zeros: Array, choice: Choice) -> int:
    """The bits of a gap."""
    if choice.gap_bits > 0:
        return choice.gap_bits

    def size(width: int) -> int:
        if choice.gap_bits == AUTO:
            return entries(zeros, width) * (choice.bits + width)
        fillers = int((zeros >> width).sum())
        counts = np.bincount(zeros & (1 << width) - 1, minlength=1 << width)
        counts[-1] += fillers
        # a filler's own code is one of the shorter ones
        return coded_bits(counts) + table_bits(len(counts)) + 2 * fillers

    return min(range(1, MOST_BITS + 1), key=size)


def entries(zeros: Array, gap_bits: int) -> int:
    """How many entries stand for non-zeros with so many zeros before each: one each, and the fillers."""
    return len(zeros) + int((zeros >> gap_bits).sum())
