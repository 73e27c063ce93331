"""Elements below 8 bits as ONNX packs them: a stream of bits, the first element in the lowest bits of a byte.

Two, four, or of 6-bit types four in three bytes; the last byte is filled up with zeros. In and out: arrays
for the Python side, expressions for what a bundle does at its boundary and with constants.
"""

from __future__ import annotations

import math

import numpy as np

from ingot.formula.expr import Array, Const, Expr, Extent, Tensor, cast
from ingot.formula.index import as_expr
from ingot.formula.types import UINT8, UINT16, DType, dtype_of


def packed_bytes(count: int, dtype: DType) -> int:
    """The bytes that elements take at the boundary of a bundle, or in a model file."""
    return -(-count * dtype.bits // 8) if dtype.is_packed else count * dtype.bytes


def packed_extent(count: Expr, dtype: DType) -> Expr:
    """The same of a run-time extent, in a form whose bounds can be proved."""
    if dtype.bits == 6:
        return (count * 3 - 1) // 4 + 1
    return (count - 1) // (8 // dtype.bits) + 1


def pack(array: Array) -> Array:
    """The bytes of an array whose type has fewer than 8 bits."""
    bits = dtype_of(array).bits
    codes: Array = np.ascontiguousarray(array).reshape(-1).view(np.uint8) & np.uint8((1 << bits) - 1)
    if bits == 6:
        stream = np.unpackbits(codes[:, None], axis=1, count=bits, bitorder="little")
        return np.packbits(stream.reshape(-1), bitorder="little")
    lanes = np.zeros((packed_bytes(codes.size, dtype_of(array)), 8 // bits), np.uint8)
    lanes.reshape(-1)[: codes.size] = codes
    out: Array = np.bitwise_or.reduce(lanes << _shifts(bits), axis=1)
    return out


def unpack(data: Array, dtype: DType, shape: tuple[int, ...]) -> Array:
    """The elements that bytes hold."""
    count, bits = math.prod(shape), dtype.bits
    codes: Array
    if bits == 6:
        stream = np.unpackbits(np.ascontiguousarray(data, np.uint8).reshape(-1), bitorder="little")
        codes = np.packbits(stream[: count * bits].reshape(count, bits), axis=1, bitorder="little").reshape(
            -1
        )
    else:
        codes = (np.asarray(data).reshape(-1, 1) >> _shifts(bits) & ((1 << bits) - 1)).reshape(-1)[:count]
    found: Array = np.ascontiguousarray(codes).view(dtype.numpy).reshape(shape)
    return found


def _shifts(bits: int) -> Array:
    return np.arange(0, 8, bits, dtype=np.uint8)


def flat_index(index: tuple[Expr, ...], shape: tuple[Extent, ...]) -> Expr:
    """The row-major place of an element."""
    at: Expr = Const(0)
    for i, n in zip(index, shape, strict=True):
        at = at * as_expr(n) + i
    return at


def element_bits(data: Tensor, at: Expr, bits: int) -> Expr:
    """The bits of element `at` of packed bytes, as a uint8."""
    mask = (1 << bits) - 1
    if bits == 6:
        first, shift = at * 6 // 8, cast(at * 6 % 8, UINT16)
        word = cast(data[first], UINT16) | (cast(data.at(first + 1, outside=0), UINT16) << 8)
        return cast((word >> shift) & mask, UINT8)
    per = 8 // bits
    return (data[at // per] >> cast(at % per * bits, UINT8)) & mask


def packed_byte(codes: Tensor, j: Expr, bits: int) -> Expr:
    """Byte j of packed elements, whose bits `codes` holds one a byte in one dimension."""
    if bits == 6:  # two elements meet in every byte
        first, shift = j * 8 // 6, cast(j * 8 % 6, UINT8)
        return (codes[first] >> shift) | (codes.at(first + 1, outside=0) << (6 - shift))
    per = 8 // bits
    total: Expr = codes[j * per]
    for k in range(1, per):
        total = total | (codes.at(j * per + k, outside=0) << (k * bits))
    return total
