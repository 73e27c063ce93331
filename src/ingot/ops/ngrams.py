"""TfIdfVectorizer: how often each of the n-grams of a pool occurs in a row of tokens.

In: tokens [C] or [B, C], integers or strings, and the pool as attributes. Out: counts or weights by n-gram.
The pool is a trie whose edges are one sorted list of numbers, (node, token) as one: every start in a row
walks down it, token by token, each step a search among the edges.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ingot.errors import ModelError
from ingot.formula.expr import (
    Array,
    Const,
    Extent,
    Gathered,
    Tensor,
    Var,
    cast,
    equal,
    select,
    static,
)
from ingot.formula.index import as_expr
from ingot.formula.strings import encoded
from ingot.formula.types import FLOAT32, INT32, INT64
from ingot.ops.lookup import lookup
from ingot.ops.registry import Builder, op

Ints = tuple[int, ...]
Floats = tuple[float, ...]
Strings = tuple[str, ...]


@dataclass(slots=True)
class Trie:
    """Node 0 is the root. `edges` lead from (node, token) to a node; `gram` is the n-gram a node ends."""

    edges: dict[tuple[int, int], int] = field(default_factory=dict)
    gram: dict[int, int] = field(default_factory=dict)

    def add(self, tokens: list[int], gram: int) -> bool:
        """False if the n-gram is there already."""
        node = 0
        for token in tokens:
            node = self.edges.setdefault((node, token), len(self.edges) + 1)
        return self.gram.setdefault(node, gram) == gram


def _require(f: Builder, condition: bool, message: str) -> None:
    if not condition:
        raise ModelError(f"{f.node.label}: {message}")


def _grams(f: Builder, pool: Array, counts: Ints, shortest: int, longest: int) -> list[tuple[int, list[int]]]:
    """The n-grams of the lengths asked for, as (number, tokens); they are numbered through all lengths."""
    found, number = [], 0
    for n, (begin, end) in enumerate(zip(counts, (*counts[1:], len(pool)), strict=True), 1):
        fits = 0 <= begin <= end <= len(pool) and (end - begin) % n == 0
        _require(f, fits, f"the {n}-grams of the pool of {len(pool)} are to stand from {begin} to {end}")
        for at in range(begin, end, n):
            if shortest <= n <= longest:
                found.append((number, pool[at : at + n].tolist()))
            number += 1
    return found


@op("TfIdfVectorizer", since=9)
def tf_idf_vectorizer(
    f: Builder,
    x: Tensor,
    *,
    max_gram_length: int,
    max_skip_count: int,
    min_gram_length: int,
    mode: str,
    ngram_counts: Ints,
    ngram_indexes: Ints,
    pool_int64s: Ints = (),
    pool_strings: Strings = (),
    weights: Floats = (),
) -> Tensor:
    """y[..., ngram_indexes[g]] = how often n-gram g occurs (TF), its weight where it does (IDF), or that
    weight as often (TFIDF). TfIdfVectorizer-9.

    Tokens of an n-gram stand 1 .. max_skip_count + 1 apart; 1-grams are counted once.
    """
    _require(f, mode in ("TF", "IDF", "TFIDF"), f"mode {mode!r} is unknown")
    lengths = 0 < min_gram_length <= max_gram_length <= len(ngram_counts)
    _require(f, lengths, f"{min_gram_length}- to {max_gram_length}-grams of a pool up to {len(ngram_counts)}")
    _require(f, max_skip_count >= 0, f"max_skip_count is {max_skip_count}")
    _require(f, bool(pool_int64s) != bool(pool_strings), "one pool is needed, of integers or of strings")
    f.require(x.rank <= 2, f"rank {x.rank}, a row or rows of tokens are needed")
    f.same_type((x,), "s" if pool_strings else "i")
    tokens = encoded(pool_strings, f.node.text) if pool_strings else np.array(pool_int64s, np.int64)
    known, numbers = np.unique(tokens, return_inverse=True)
    trie = Trie()
    grams = _grams(f, numbers, ngram_counts, min_gram_length, max_gram_length)
    new = [trie.add(gram, number) for number, gram in grams]
    _require(f, all(new), "the pool holds an n-gram twice")
    within = all(0 <= i < 1 << 31 for i in ngram_indexes) and all(g < len(ngram_indexes) for g, _ in grams)
    _require(f, bool(ngram_indexes) and within, "ngram_indexes do not fit the pool")
    size = max(ngram_indexes) + 1
    given = len(weights) in (0, len(ngram_indexes))
    _require(f, given, f"{len(weights)} weights for {len(ngram_indexes)} n-grams")
    plain = mode == "TF" or not weights
    gives = np.array([1.0] * len(ngram_indexes) if plain else weights, np.float32)
    pool = Pool(known, trie, ngram_indexes, gives, mode == "IDF")
    sums = _summed(f, _rows(f, x), pool, size, max_gram_length, max_skip_count + 1)
    axes = f.axes((*x.shape[:-1], size))
    return f.map(axes, sums[axes[0] if x.rank == 2 else 0, axes[-1]])


def _rows(f: Builder, x: Tensor) -> Tensor:
    """Tokens as rows [B, C]; integers as int64."""
    if x.rank == 2 and x.type is INT64:
        return x
    shape: tuple[Extent, ...] = (1,) * (2 - x.rank) + x.shape
    axes = f.axes(shape, "b c")
    value = x[axes[2 - x.rank :]]
    return f.map(axes, value if x.type.is_text else cast(value, INT64), x.type if x.type.is_text else INT64)


@dataclass(frozen=True, slots=True)
class Pool:
    """The n-grams: their tokens, ascending, and for each of them its column and what it gives.

    `once`: however often.
    """

    tokens: Array
    trie: Trie
    columns: Ints
    gives: Array
    once: bool

    def at(self, node: int, size: int) -> tuple[int, float]:
        """Column and weight of the n-gram that ends at a node; column `size` where none does."""
        gram = self.trie.gram.get(node)
        return (size, 0.0) if gram is None else (self.columns[gram], float(self.gives[gram]))


def _summed(f: Builder, x: Tensor, pool: Pool, size: int, longest: int, apart: int) -> Tensor:
    """sums[b, column]; what ends no n-gram goes to a column more."""
    length = static(x.shape[1])
    b, c = f.axes(x.shape, "b c")
    (k,) = f.axes((size + 1,), "k")
    sums = f.map((b, k), Const(0.0, FLOAT32), name="sums")
    if not pool.trie.edges or not length:
        return sums
    node = f.empty(INT64, x.shape, "node")
    slot = f.empty(INT32, x.shape, "slot")
    token, count = _tokens(f, x, pool.tokens), len(pool.tokens)
    far, depth = Var("far", min(apart, length)), Var("depth", longest)
    edges = sorted(pool.trie.edges)
    keys = f.constant(np.array([n * (count + 1) + t for n, t in edges], np.int64), "edges")
    nodes = [pool.trie.edges[e] for e in edges]
    then = f.constant(np.array(nodes, np.int64), "then")
    column = f.constant(np.array([pool.at(n, size)[0] for n in nodes], np.int32), "column")
    weight = f.constant(np.array([pool.at(n, size)[1] for n in nodes], np.float32), "weight")

    def step() -> None:
        """One token further; -1 is where no n-gram leads."""
        at = as_expr(c) + depth * (far + 1)
        t = token.at((b, at), outside=count)
        key = f.map((b, c), select(node[b, c] < 0, -1, node[b, c] * (count + 1) + t), name="key")
        place, found = lookup(f, key, keys)((b, c))
        counts = found & ((depth > 0) | equal(far, 0))  # 1-grams are the same however far apart
        f.put(slot, (b, c), (b, c), select(counts, column[place], size))
        f.put(node, (b, c), (b, c), select(found, then[place], -1))
        to = (b, Gathered(slot[b, c], Const(0), Const(size + 1)))
        f.put(sums, (b, c), to, weight[place] if pool.once else sums[to] + weight[place])

    def walk() -> None:
        f.put(node, (b, c), (b, c), Const(0, INT64))
        f.scan(depth, (node, sums), step)

    f.scan(far, (sums,), walk)
    return sums


def _tokens(f: Builder, x: Tensor, known: Array) -> Tensor:
    """The number of each token among the known ones, or one more."""
    axes = f.axes(x.shape, "b c")
    place, found = lookup(f, x, f.constant(known, "tokens"))(axes)
    return f.map(axes, select(found, cast(place, INT64), len(known)), name="token")
