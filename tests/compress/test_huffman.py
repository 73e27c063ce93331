"""Huffman coding: textbook lengths, the entropy's bounds, round trips, and streams that lie."""

from __future__ import annotations

import heapq

import numpy as np
import pytest

from ingot.errors import ModelError
from ingot.formula.expr import Array
from ingot.graph.huffman import LONGEST, Stream, canonical, coded_bits, decode, encode, lengths_of


def textbook_bits(counts: Array) -> int:
    """The length of a Huffman-coded stream, by merging the two rarest again and again."""
    heap = [int(c) for c in counts if c]
    heapq.heapify(heap)
    total = sum(heap) if len(heap) == 1 else 0
    while len(heap) > 1:
        both = heapq.heappop(heap) + heapq.heappop(heap)
        total += both
        heapq.heappush(heap, both)
    return total


@pytest.mark.parametrize("seed", range(8))
def test_no_code_is_shorter(seed: int) -> None:
    rng = np.random.default_rng(seed)
    counts = (rng.pareto(0.7, 1 << seed) * 10).astype(np.int64)
    assert coded_bits(counts) >= textbook_bits(counts)
    if lengths_of(counts).max(initial=0) < LONGEST:
        assert coded_bits(counts) == textbook_bits(counts)


def test_lengths_are_limited() -> None:
    counts = np.array([1 << i for i in range(30)])
    lengths = lengths_of(counts)
    assert lengths.max() == LONGEST
    assert sum(2.0 ** -int(n) for n in lengths) == 1


def test_a_code_of_known_lengths() -> None:
    assert lengths_of(np.array([8, 4, 2, 1, 0, 1])).tolist() == [1, 2, 3, 4, 0, 4]
    assert canonical(np.array([2, 1, 3, 3])).tolist() == [0b10, 0b0, 0b110, 0b111]
    stream = encode(np.array([1, 0, 1, 2], np.uint8), 4)
    assert (stream.lengths.tolist(), stream.data.tolist()) == ([2, 1, 2, 0], [0b01001100])


@pytest.mark.parametrize("alphabet", [2, 16, 256])
@pytest.mark.parametrize("count", [0, 1, 7, 3000, 700_000])
def test_a_round_trip(alphabet: int, count: int) -> None:
    rng = np.random.default_rng(count)
    symbols = np.minimum(rng.geometric(min(3 / alphabet, 0.8), count) - 1, alphabet - 1).astype(np.uint8)
    stream = encode(symbols, alphabet)
    np.testing.assert_array_equal(decode(stream), symbols)
    bits = coded_bits(np.bincount(symbols, minlength=alphabet))
    assert stream.bits == -(-bits // 8) * 8 + 4 * alphabet
    shares = np.bincount(symbols) / max(count, 1)
    entropy = -count * float((shares[shares > 0] * np.log2(shares[shares > 0])).sum())
    assert entropy - 1e-6 <= bits <= entropy + count


def test_streams_that_lie() -> None:
    good = encode(np.arange(40, dtype=np.uint8) % 5, 8)
    with pytest.raises(ModelError, match="end after"):
        decode(Stream(good.lengths, good.data, 1000))
    with pytest.raises(ModelError, match="cut short"):
        decode(Stream(good.lengths, good.data[:5], 40))
    with pytest.raises(ModelError, match="no prefix code"):
        decode(Stream(np.ones(8, np.uint8), good.data, 40))
    with pytest.raises(ModelError, match="no prefix code"):
        decode(Stream(np.full(8, 77, np.uint8), good.data, 40))
    with pytest.raises(ModelError, match="none of this code"):
        decode(Stream(np.array([2, 2, 0, 0], np.uint8), np.array([255], np.uint8), 2))
