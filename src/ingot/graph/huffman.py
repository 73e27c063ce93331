"""Huffman coding: canonical codes of at most 15 bits. In: symbols; out: bits, and back.

A code is its lengths: among symbols of equal length the codes are numbers in ascending order, and a longer
code begins where the shorter ones end. So a table is four bits per symbol, 0 for one that does not occur.
Bits are packed from the highest of each byte on. Called by `compress` for sizes, and by the generator of the
loops that read such streams.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ingot.errors import ModelError
from ingot.formula.expr import Array

LONGEST = 15
TABLE_BITS = 4  # of one length
CHUNK = 1 << 18  # symbols encoded, or bits decoded, at once


@dataclass(frozen=True, slots=True, eq=False)
class Stream:
    """Coded symbols: `lengths` uint8 [alphabet] is the code, `data` uint8 are the packed bits of `count`
    symbols."""

    lengths: Array
    data: Array
    count: int

    @property
    def bits(self) -> int:
        """The size of the stream in whole bytes, and of its table."""
        return 8 * len(self.data) + table_bits(len(self.lengths))


def table_bits(alphabet: int) -> int:
    """The size of a code's table, in whole bytes."""
    return -(-TABLE_BITS * alphabet // 8) * 8


def lengths_of(counts: Array, longest: int = LONGEST) -> Array:
    """The lengths of the best prefix code of at most so many bits: uint8, 0 where a symbol does not occur.

    `counts`: how often each of up to 2^longest symbols occurs. A single symbol gets one bit. Larmore and
    Hirschberg's package-merge: the cheapest 2(n - 1) of the coins with denominations 2^-longest to 2^-1, one
    per symbol and each.
    """
    used = np.flatnonzero(counts)
    out = np.zeros(len(counts), np.uint8)
    if len(used) < 2:
        out[used] = 1
        return out
    coins = sorted((int(counts[s]), (int(s),)) for s in used)
    row: list[tuple[int, tuple[int, ...]]] = []
    for _ in range(longest):
        pairs = [(a[0] + b[0], a[1] + b[1]) for a, b in zip(row[::2], row[1::2], strict=False)]
        row = sorted(coins + pairs, key=lambda coin: coin[0])
    for _, symbols in row[: 2 * (len(used) - 1)]:
        for symbol in symbols:
            out[symbol] += 1
    return out


def coded_bits(counts: Array) -> int:
    """The bits of a stream in which symbols occur so often, without its table."""
    return int((counts.astype(np.int64) * lengths_of(counts)).sum())


def canonical(lengths: Array) -> Array:
    """The code of each symbol as a number: uint32. Raises ModelError for lengths that are no prefix
    code's."""
    space = sum(1 << max(LONGEST - int(n), 0) for n in lengths if n)
    if int(lengths.max(initial=0)) > LONGEST or space > 1 << LONGEST:
        raise ModelError(f"these lengths are no prefix code of at most {LONGEST} bits")
    out = np.zeros(len(lengths), np.uint32)
    code = before = 0
    for symbol in sorted(np.flatnonzero(lengths), key=lambda s: (int(lengths[s]), int(s))):
        code <<= int(lengths[symbol]) - before
        before = int(lengths[symbol])
        out[symbol] = code
        code += 1
    return out


def encode(symbols: Array, alphabet: int) -> Stream:
    """The stream of uint8 symbols below `alphabet`, in the code that is best for them."""
    flat = symbols.reshape(-1)
    lengths = lengths_of(np.bincount(flat, minlength=alphabet))
    codes = canonical(lengths)
    packed, rest = [], np.zeros(0, np.uint8)
    for begin in range(0, len(flat), CHUNK):
        some = flat[begin : begin + CHUNK]
        bits = np.concatenate([rest, bits_of(codes[some], lengths[some])])
        whole = len(bits) // 8 * 8
        packed.append(np.packbits(bits[:whole]))
        rest = bits[whole:]
    return Stream(lengths, np.concatenate([*packed, np.packbits(rest)]).astype(np.uint8), len(flat))


def bits_of(numbers: Array, sizes: Array) -> Array:
    """The bits of numbers of so many bits each, one after the other, one per byte."""
    sizes = sizes.astype(np.int64)
    starts = np.cumsum(sizes) - sizes
    bits = np.zeros(int(sizes.sum()), np.uint8)
    for place in range(int(sizes.max(initial=0))):
        has = np.flatnonzero(sizes > place)
        bits[starts[has] + place] = (numbers[has] >> (sizes[has] - 1 - place).astype(np.uint32)) & 1
    return bits


def decode(stream: Stream) -> Array:
    """The symbols: uint8 [count]. Raises ModelError for bits that end early or are no code.

    Every bit of a chunk is read as if a code began there; who really begins is found by doubling: if we
    know where 2^k codes on from each bit lead, we know it for 2^(k+1).
    """
    table = _lookup(stream.lengths)
    bits = np.unpackbits(stream.data.astype(np.uint8))
    out, at, done = [np.zeros(0, np.uint8)], 0, 0
    while done < stream.count:
        window = bits[at : at + CHUNK + LONGEST]
        if not len(window):
            raise ModelError(f"the coded bits end after {done} of {stream.count} symbols")
        symbols, sizes = _read_all(window, table)
        begins = _chain(sizes[:CHUNK], stream.count - done)
        at += int(begins[-1] + sizes[begins[-1]])
        if not sizes[begins].all() or at > len(bits):
            raise ModelError("the coded bits are cut short, or are none of this code")
        out.append(symbols[begins])
        done += len(begins)
    return np.concatenate(out)


def _lookup(lengths: Array) -> tuple[Array, Array]:
    """For each window of 15 bits the symbol that it begins with, and its length; 0 for none."""
    codes = canonical(lengths)
    symbols, sizes = np.zeros(1 << LONGEST, np.uint8), np.zeros(1 << LONGEST, np.uint8)
    for symbol in np.flatnonzero(lengths):
        free = LONGEST - int(lengths[symbol])
        low = int(codes[symbol]) << free
        symbols[low : low + (1 << free)], sizes[low : low + (1 << free)] = symbol, lengths[symbol]
    return symbols, sizes


def _read_all(bits: Array, table: tuple[Array, Array]) -> tuple[Array, Array]:
    """Symbol and length at every bit, as if a code began there."""
    padded = np.concatenate([bits, np.zeros(LONGEST, np.uint8)]).astype(np.uint32)
    windows = np.zeros(len(bits), np.uint32)
    for place in range(LONGEST):
        windows = windows << np.uint32(1) | padded[place : place + len(bits)]
    return table[0][windows], table[1][windows].astype(np.int64)


def _chain(sizes: Array, most: int) -> Array:
    """Where codes begin in a chunk, from its first bit on: `most` of them at most, at least one."""
    n = len(sizes)
    jump = np.append(np.minimum(np.arange(n) + np.maximum(sizes, 1), n), n)
    found = np.zeros(1, np.int64)
    while found[-1] < n and len(found) <= most:
        found = np.concatenate([found, jump[found]])
        jump = jump[jump]
    return found[found < n][:most]
