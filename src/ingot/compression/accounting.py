"""What compression saves, counted as Tables 1, 4 and 5 of "Deep Compression" count it.

In: layers and their encodings; out: for each layer the share of weights kept, bits per entry of codes and of
gaps before and after Huffman coding, and the size as a share of 32-bit floats (of bytes, where the model
has INT8). The size covers codes, gaps,
values and the tables of the Huffman codes, each in whole bytes; entries include fillers. A stream that its
Huffman code would not make smaller, table included, is counted as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ingot.compression.encode import FLOAT_BITS
from ingot.compression.layers import Layer
from ingot.compression.worth import Worth
from ingot.formula.expr import Array
from ingot.graph.encoding import Encoding, Sparse
from ingot.graph.huffman import coded_bits, table_bits


@dataclass(frozen=True, slots=True)
class Part:
    """A stream of symbols: how many, its bits before and after Huffman coding, those of the code's table."""

    count: int = 0
    plain_bits: int = 0
    coded_bits: int = 0
    table_bits: int = 0

    @classmethod
    def of(cls, symbols: Array, bits: int) -> Part:
        """The stream of uint8 symbols of so many bits."""
        counts = np.bincount(symbols.reshape(-1), minlength=1 << bits)
        plain, coded, table = symbols.size * bits, coded_bits(counts), table_bits(1 << bits)
        if _bytes(coded) + table >= _bytes(plain):
            return cls(symbols.size, plain, plain)
        return cls(symbols.size, plain, coded, table)

    def __add__(self, other: Part) -> Part:
        return Part(
            self.count + other.count,
            self.plain_bits + other.plain_bits,
            self.coded_bits + other.coded_bits,
            self.table_bits + other.table_bits,
        )


@dataclass(frozen=True, slots=True)
class Sizes:
    """A layer in numbers. `weights`: how many there are; `kept`: how many of them are not zero.

    `codes` and `gaps` are its streams, empty where there are none; `values_bits` are those of the codebook,
    or of the weights of a layer that is not encoded. `before_bits` are those of the weights as 32-bit floats,
    or as bytes.
    """

    name: str
    kind: str
    form: str
    weights: int
    kept: int
    codes: Part = Part()
    gaps: Part = Part()
    values_bits: int = 0
    before_bits: int = 0

    @property
    def plain_bits(self) -> int:
        """The layer without Huffman coding."""
        return _bytes(self.codes.plain_bits) + _bytes(self.gaps.plain_bits) + self.values_bits

    @property
    def coded_bits(self) -> int:
        """The layer with Huffman coding."""
        streams = _bytes(self.codes.coded_bits) + _bytes(self.gaps.coded_bits)
        return streams + self.codes.table_bits + self.gaps.table_bits + self.values_bits


@dataclass(frozen=True, slots=True)
class Account:
    """All layers, and the bits of the model's other constants."""

    layers: tuple[Sizes, ...]
    other_bits: int = 0

    @property
    def total(self) -> Sizes:
        """All layers as one."""
        codes, gaps = Part(), Part()
        for sizes in self.layers:
            codes, gaps = codes + sizes.codes, gaps + sizes.gaps
        weights, kept = sum(s.weights for s in self.layers), sum(s.kept for s in self.layers)
        values, before = sum(s.values_bits for s in self.layers), sum(s.before_bits for s in self.layers)
        return Sizes("total", "", "", weights, kept, codes, gaps, values, before)

    @property
    def plain_ratio(self) -> float:
        """How many times smaller the layers are without Huffman coding."""
        return sum(s.before_bits for s in self.layers) / sum(s.plain_bits for s in self.layers)

    @property
    def ratio(self) -> float:
        """How many times smaller the layers are."""
        return sum(s.before_bits for s in self.layers) / sum(s.coded_bits for s in self.layers)

    @property
    def whole_ratio(self) -> float:
        """How many times smaller all constants of the model are."""
        before = sum(s.before_bits for s in self.layers) + self.other_bits
        return before / (sum(s.coded_bits for s in self.layers) + self.other_bits)


def sizes_of(name: str, kind: str, encoding: Encoding, width: int = FLOAT_BITS) -> Sizes:
    """An encoded layer in numbers, whose weights had `width` bits."""
    gaps, form, weights = Part(), "codebook", int(encoding.codes.size)
    if isinstance(encoding, Sparse):
        gaps, form = Part.of(encoding.gaps, encoding.gap_bits), "sparse"
        weights = int(np.prod(encoding.shape, dtype=np.int64))
    kept = int(np.count_nonzero((encoding.values != 0)[encoding.codes]))
    codes = Part.of(encoding.codes, encoding.bits)
    values = FLOAT_BITS * len(encoding.values)
    return Sizes(name, kind, form, weights, kept, codes, gaps, values, width * weights)


def unchanged(layer: Layer) -> Sizes:
    """A layer that is left as it is."""
    count, form = int(layer.weights.size), "int8" if layer.is_int8 else "float"
    kept, bits = int(np.count_nonzero(layer.weights)), layer.width * count
    return Sizes(layer.name, layer.kind, form, count, kept, values_bits=bits, before_bits=bits)


COLUMNS = (
    "layer",
    "kind",
    "form",
    "#weights>",
    "kept %>",
    "weight bits>",
    "+Huffman>",
    "index bits>",
    "+Huffman>",
    "size %>",
    "+Huffman>",
)


def columns(worth: Worth | None) -> tuple[str, ...]:
    """The table's columns; if layers were judged alone, the last is the error of the outputs."""
    return (*COLUMNS, "error alone %>") if worth is not None and worth.alone else COLUMNS


def rows(account: Account, worth: Worth | None = None) -> list[tuple[str, ...]]:
    """The table's cells, the total last."""
    found = [_row(s) for s in (*account.layers, account.total)]
    if worth is None or not worth.alone:
        return found
    names = [*(s.name for s in account.layers), ""]
    errors = [f"{100 * worth.alone[n]:.3g}" if n in worth.alone else "" for n in names]
    return [(*cells, error) for cells, error in zip(found, errors, strict=True)]


def _row(s: Sizes) -> tuple[str, ...]:
    return (
        s.name,
        s.kind,
        s.form,
        f"{s.weights:,}",
        _percent(s.kept, s.weights),
        *_bits(s.codes),
        *_bits(s.gaps),
        _percent(s.plain_bits, s.before_bits),
        _percent(s.coded_bits, s.before_bits),
    )


def _bits(part: Part) -> tuple[str, str]:
    """Bits per entry, before and after."""
    if not part.count:
        return "-", "-"
    return f"{part.plain_bits / part.count:.2g}", f"{part.coded_bits / part.count:.2f}"


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.2f}"


def as_json(account: Account) -> dict[str, Any]:
    """The whole account, as numbers."""
    layers = [_layer_json(s) for s in (*account.layers, account.total)]
    ratios = {n: getattr(account, n) for n in ("plain_ratio", "ratio", "whole_ratio")}
    return {"layers": layers[:-1], "total": layers[-1], "other_bits": account.other_bits, **ratios}


def _layer_json(s: Sizes) -> dict[str, Any]:
    return {
        "name": s.name,
        "kind": s.kind,
        "form": s.form,
        "weights": s.weights,
        "kept": s.kept,
        "entries": s.codes.count,
        "code_bits": [s.codes.plain_bits, s.codes.coded_bits],
        "gap_bits": [s.gaps.plain_bits, s.gaps.coded_bits],
        "values_bits": s.values_bits,
        "tables_bits": s.codes.table_bits + s.gaps.table_bits,
        "bits": [s.plain_bits, s.coded_bits],
        "before_bits": s.before_bits,
    }


def as_markdown(account: Account, title: str, worth: Worth | None = None) -> str:
    """The table, and below it the ratios and a line on the file."""

    def line(cells: Sequence[str]) -> str:
        return f"| {' | '.join(c.replace('|', '&#124;') for c in cells)} |"

    heads = columns(worth)
    rule = ["--:" if c.endswith(">") else "---" for c in heads]
    lines = [line([c.rstrip(">") for c in heads]), line(rule), *map(line, rows(account, worth))]
    more = [] if worth is None else ["", str(worth)]
    return "\n".join([*lines, "", summary(account), *more, "", title, ""])


def summary(account: Account) -> str:
    """The ratios in one line."""
    return (
        f"{account.ratio:.1f}x smaller with Huffman coding, {account.plain_ratio:.1f}x without; "
        f"{account.whole_ratio:.1f}x for all constants, biases included"
    )


def _bytes(bits: int) -> int:
    """In whole bytes."""
    return -(-bits // 8) * 8
