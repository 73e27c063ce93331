"""What is chosen for each layer. In: words such as `fc6=0.09`, `conv=8` or `4`; out: one number per layer.

A word names a layer by its constant's name, by the name of a node that multiplies by it, by a pattern with
`*`, `?` or `[...]`, or all layers of a kind (`conv`, `fc`); a number alone is for all. The closest name
counts: one layer's before a pattern's, a pattern's before a kind's; of equals the last. Called by the
command line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import TypeVar, get_args

from ingot.compression.encode import AUTO, CODED, UNCHANGED
from ingot.compression.layers import Kind, Layer
from ingot.errors import InputError
from ingot.graph.encoding import MOST_BITS

T = TypeVar("T")
LISTED = 40


def per_layer(
    words: Sequence[str],
    layers: Sequence[Layer],
    parse: Callable[[str], T],
    option: str,
    default: dict[Kind, T],
) -> list[T]:
    """The value of each layer. Raises InputError for words that name no layer, or say no value."""
    found = [(0, default[layer.kind]) for layer in layers]
    if words and not any(_each(words)):
        raise InputError(f"{option} names no layer and no value", remedy="write LAYER=VALUE, or leave it out")
    for word in _each(words):
        name, equals, text = word.rpartition("=")
        if equals and not name:
            raise InputError(f"{option} {word}: which layer?", remedy=f"{text} alone is for all layers")
        try:
            value = parse(text)
        except ValueError as error:
            raise InputError(f"{option} {word}: {error}") from None
        rank, chosen = _named(name, layers)
        if not chosen:
            raise InputError(
                f"{option} {word}: the model has no such layer", remedy=f"it has {listing(layers)}"
            )
        for i in chosen:
            if rank >= found[i][0]:
                found[i] = (rank, value)
    return [value for _, value in found]


def require_changed(words: Sequence[str], layers: Sequence[Layer], bits: Sequence[int], option: str) -> None:
    """Raises InputError for a word that is only of layers whose weights are left as they are."""
    for word in _each(words):
        _, chosen = _named(word.rpartition("=")[0], layers)
        if all(bits[i] == UNCHANGED for i in chosen):
            raise InputError(
                f"{option} {word}: --bits {UNCHANGED} leaves these layers as they are", remedy="leave one out"
            )


def _each(words: Sequence[str]) -> Iterator[str]:
    """The words between commas."""
    return (w.strip() for line in words for w in line.split(",") if w.strip())


def _named(name: str, layers: Sequence[Layer]) -> tuple[int, list[int]]:
    """Which layers a word means, and how closely."""
    every = list(range(len(layers)))
    exact = [i for i in every if name == layers[i].name or name in layers[i].nodes]
    if exact and name:
        return 4, exact
    if name in get_args(Kind):
        return 2, [i for i in every if layers[i].kind == name]
    if not name:
        return 1, every
    return 3, [i for i in every if any(fnmatchcase(n, name) for n in (layers[i].name, *layers[i].nodes))]


def listing(layers: Sequence[Layer]) -> str:
    """The layers' names, and those of their nodes, for a message."""
    names = [f"{layer.name!r} ({layer.kind}: {', '.join(layer.nodes)})" for layer in layers[:LISTED]]
    more = len(layers) - LISTED
    return ", ".join(names) + (f" and {more} more" if more > 0 else "")


def density(text: str) -> float:
    """`0.09` or `9%`. Raises ValueError."""
    try:
        value = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 1:
        raise ValueError("a density is the share of weights that stay: above 0, at most 1 (or 100%)")
    return value


def code_bits(text: str) -> int:
    """`4`. Raises ValueError."""
    value = int(text) if text.isdecimal() else 0
    if not (1 <= value <= MOST_BITS or value == UNCHANGED):
        raise ValueError(f"codes have 1 to {MOST_BITS} bits; {UNCHANGED} leaves a layer as it is")
    return value


def gap_bits(text: str) -> int:
    """`4`, `auto` or `coded`. Raises ValueError."""
    rules = {"auto": AUTO, "coded": CODED}
    value = int(text) if text.isdecimal() else 0
    if text in rules:
        return rules[text]
    if not 1 <= value <= MOST_BITS:
        raise ValueError(f"gaps have 1 to {MOST_BITS} bits, or what is smallest: auto, or coded by Huffman")
    return value


def ratio(text: str) -> float:
    """`35x` or `35`. Raises InputError."""
    try:
        value = float(text.strip().rstrip("xX"))
    except ValueError:
        value = 0.0
    if not 1 < value < 1e6:
        raise InputError(f"--target-ratio {text}: write how many times smaller, as in 35x")
    return value
