"""The file format in which the authors of "Deep Compression" released their networks. In: bytes; out:
layers; and back.

    uint32 entries[layers]
    per layer   float32 codebook[2^bits], float32 bias[outputs],
                codes: bits each, the first in the low half of a byte, gaps: 4 bits each, likewise

in little endian, without anything that tells shapes: `bits` is 8 for layers with "conv" in their name and 4
for others, shapes and outputs come from a model. Gaps count zeros of the flattened tensor; code 0 stands
for a zero. Read as https://github.com/songhan/SqueezeNet-Deep-Compression (decode.py) reads it. Called by
`transplant`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from ingot.errors import InputError, ModelError
from ingot.formula.expr import Array
from ingot.graph.encoding import Sparse

GAP_BITS = 4
CONTAINER_BYTES = 1 << 28  # the largest file that is read


@dataclass(frozen=True, slots=True)
class Form:
    """What a file does not say of a layer; `bits` are those of a code, 8 or 4."""

    name: str
    shape: tuple[int, ...]
    outputs: int
    bits: int


@dataclass(frozen=True, slots=True, eq=False)
class Stored:
    """A layer: its weights, and its bias, float32 [outputs]."""

    weights: Sparse
    bias: Array


def read_container(data: bytes, forms: Sequence[Form]) -> list[Stored]:
    """The layers in a file. Raises ModelError where the file does not hold just these layers."""
    cursor = _Cursor(data)
    counts = cursor.take(4 * len(forms), "the numbers of entries").view("<u4")
    layers = [_read_layer(cursor, int(n), form) for n, form in zip(counts, forms, strict=True)]
    if cursor.at != len(data):
        wanted = f"these {len(forms)} layers take {cursor.at:,} of its {len(data):,} bytes"
        raise ModelError(f"the container is not of this model: {wanted}")
    return layers


def _read_layer(cursor: _Cursor, entries: int, form: Form) -> Stored:
    what = f"layer {form.name!r} ({'x'.join(map(str, form.shape))})"
    if entries > prod(form.shape):
        raise ModelError(f"{what}: {entries:,} entries, more than it has weights", remedy=_ORDER)
    values = cursor.take(4 << form.bits, what).view("<f4").astype(np.float32)
    bias = cursor.take(4 * form.outputs, what).view("<f4").astype(np.float32)
    codes = _unpacked(cursor.take(-(-entries * form.bits // 8), what), form.bits, entries)
    gaps = _unpacked(cursor.take(-(-entries * GAP_BITS // 8), what), GAP_BITS, entries)
    weights = Sparse(form.shape, codes, gaps, values, GAP_BITS)
    try:
        weights.check()
    except ValueError as error:
        raise ModelError(f"{what}: {error}", remedy=_ORDER) from None
    if not (np.isfinite(values).all() and np.isfinite(bias).all()):
        raise ModelError(f"{what}: values that are no numbers", remedy=_ORDER)
    return Stored(weights, bias)


_ORDER = "is this file of a model with other layers, or in another order?"


def write_container(layers: Sequence[tuple[Form, Stored]]) -> bytes:
    """The file. Raises InputError for encodings that the format has no room for."""
    counts = np.array([len(stored.weights.codes) for _, stored in layers], "<u4")
    return b"".join([counts.tobytes(), *(_layer_bytes(form, stored) for form, stored in layers)])


def _layer_bytes(form: Form, stored: Stored) -> bytes:
    weights, what = stored.weights, f"layer {form.name!r}"
    if weights.bits > form.bits or weights.gap_bits > GAP_BITS:
        raise InputError(
            f"{what}: codes of {weights.bits} bits and gaps of {weights.gap_bits}, "
            f"where the container has {form.bits} and {GAP_BITS}",
            remedy=f"compress with --bits conv=8,fc=4 --gap-bits {GAP_BITS}; names with 'conv' have 8 bits",
        )
    if weights.shape != form.shape or stored.bias.shape != (form.outputs,):
        raise InputError(
            f"{what}: weights or bias are not of the layer's shape", shapes=[weights.shape, form.shape]
        )
    values = np.zeros(1 << form.bits, "<f4")
    values[: len(weights.values)] = weights.values
    packed = _packed(weights.codes, form.bits), _packed(weights.gaps, GAP_BITS)
    return b"".join(a.tobytes() for a in (values, stored.bias.astype("<f4"), *packed))


@dataclass(slots=True)
class _Cursor:
    """Walks through a file."""

    data: bytes
    at: int = 0

    def take(self, count: int, what: str) -> Array:
        """The next bytes. Raises ModelError at the end."""
        begin, self.at = self.at, self.at + count
        if self.at > len(self.data):
            raise ModelError(
                f"the container ends at byte {len(self.data):,}, in {what}, which goes to {self.at:,}",
                remedy=_ORDER,
            )
        return np.array(np.frombuffer(self.data, np.uint8, count, begin))


def _unpacked(packed: Array, bits: int, count: int) -> Array:
    """Codes of 8 or 4 bits as bytes."""
    if bits == 8:
        return packed
    return np.asarray(np.stack([packed & 15, packed >> 4], 1).reshape(-1)[:count])


def _packed(codes: Array, bits: int) -> Array:
    if bits == 8:
        return codes
    even = np.append(codes, np.zeros(len(codes) % 2, np.uint8)).astype(np.uint8)
    return np.asarray(even[::2] | even[1::2] << 4)
