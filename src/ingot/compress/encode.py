"""One layer's weights as an encoding. In: weights, and what was chosen for them; out: a Codebook or a Sparse.

Called by `compress` for every layer, and by `propose` to see what a density costs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from ingot.compress.prune import kept_by, largest
from ingot.compress.share import Start, centroids, nearest
from ingot.formula.expr import Array
from ingot.graph.encoding import MOST_BITS, Codebook, Encoding, Sparse

Form = Literal["auto", "sparse", "codebook"]
FLOAT_BITS = 32
UNCHANGED = FLOAT_BITS  # bits of weights that are left as they are


@dataclass(frozen=True, slots=True)
class Choice:
    """What becomes of one layer: the share of weights that stay, bits of a code and of a gap, and the form.

    `bits` 32 leaves the layer alone. `form` auto takes what needs fewer bits before Huffman coding.
    """

    density: float = 1.0
    bits: int = 4
    gap_bits: int = 4
    form: Form = "auto"
    start: Start = "optimal"
    seed: int = 0


def encode(weights: Array, choice: Choice) -> Encoding | None:
    """The encoding of float32 weights of any shape; zeros among them are pruned weights.

    None where the weights stay as they are: at 32 bits, and in the form auto if codes would take more room.
    """
    if choice.bits == UNCHANGED:
        return None
    kept = largest(weights, kept_by(weights, choice.density))
    found = share(weights, kept, choice)
    smaller = stored_bits(found) < FLOAT_BITS * weights.size
    return found if smaller or choice.form != "auto" else None


def share(weights: Array, kept: Array, choice: Choice) -> Encoding:
    """The encoding where `kept` (bool of the weights' shape) says which weights stay."""
    assert choice.bits <= MOST_BITS, "a layer with more bits is not encoded"
    whole = bool(kept.all())
    form = _form(kept, choice)
    count = (1 << choice.bits) - (form == "sparse" or not whole)
    stay = weights[kept]
    found = centroids(stay, count, choice.start, choice.seed)
    if count == 1 << choice.bits:
        return Codebook(nearest(weights, found), found)
    # code 0 stands for what is pruned
    codes = np.zeros(weights.shape, np.uint8)
    codes[kept] = nearest(stay, found) + 1
    return formed(codes, np.concatenate([np.zeros(1, np.float32), found]), form, choice.gap_bits)


def formed(codes: Array, values: Array, form: Form, gap_bits: int) -> Encoding:
    """Codes of the weights' shape in a form, where code 0 stands for 0."""
    return Sparse.of(codes, values, gap_bits) if form == "sparse" else Codebook(codes, values)


def stored_bits(encoding: Encoding) -> int:
    """What an encoding takes before Huffman coding."""
    gaps = encoding.gap_bits if isinstance(encoding, Sparse) else 0
    return int(encoding.codes.size) * (encoding.bits + gaps) + FLOAT_BITS * len(encoding.values)


def _form(kept: Array, choice: Choice) -> Form:
    """Sparse or codebook."""
    if choice.form != "auto":
        return choice.form
    sparse = entries(kept, choice.gap_bits) * (choice.bits + choice.gap_bits)
    return "sparse" if sparse < kept.size * choice.bits else "codebook"


def entries(kept: Array, gap_bits: int) -> int:
    """How many entries the sparse form has, fillers included."""
    at = np.flatnonzero(kept)
    return len(at) + int((np.diff(at, prepend=-1) - 1 >> gap_bits).sum())
