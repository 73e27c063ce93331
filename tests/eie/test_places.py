"""The places of pointers: the best of all ways there are, found in little time where tiles are many."""

from __future__ import annotations

import time

import numpy as np
import pytest

from ingot.eie.columns import Columns
from ingot.eie.machine import Machine
from ingot.eie.memory import Placement, Tile, place
from ingot.formula.expr import Array


def tile(number: int, lengths: Array) -> Tile:
    """A tile whose columns have so many entries in each PE: [pes, cols]."""
    pointers = np.concatenate((np.zeros((len(lengths), 1), np.int64), np.cumsum(lengths, 1)), 1)
    entries = np.zeros(int(lengths.sum()), np.uint8)
    return Tile(number, 0, 0, Columns((10, lengths.shape[1]), entries, entries, pointers, 4))


def packed_form(part: Tile) -> tuple[int, int]:
    """Bytes and cycles of the lengths as digits of the better width."""
    found = []
    for bits in (4, 8):
        count = int((part.columns.lengths // ((1 << bits) - 1) + 1).sum(1).max())
        found.append((-(-count * bits // 64) * 8, -(-count // 2)))
    return min(found, key=lambda f: f[0])


def score(found: Placement) -> tuple[int, int]:
    return sum(2 * p.tile.pointers for p in found.placed if p.way.kind == "host"), found.move_cycles


def best_score(found: Placement, machine: Machine) -> tuple[int, int]:
    """The least score of packing the first so many tiles, by size or the other way round, every sum anew."""
    parts, stays = [p.tile for p in found.placed], [p.is_resident for p in found.placed]
    inside = sum(p.way.size for p in found.placed if p.way.home == "matrix")
    forms = [packed_form(t) for t in parts]
    order = [n for n, t in enumerate(parts) if stays[n] and forms[n][0] < 2 * t.pointers]
    order.sort(key=lambda n: parts[n].pointers)
    scores = [(sum(2 * t.pointers for t in parts), 0)]
    for turned in (order, order[::-1]):
        for count in range(len(turned) + 1):
            others = {*turned[:count], *(n for n, s in enumerate(stays) if not s)}
            used = sum(2 * t.pointers for n, t in enumerate(parts) if n not in others)
            used += max((2 * parts[n].pointers for n in others), default=0)
            if used > machine.pointer_bytes:
                continue
            spare, host, cycles = machine.matrix_bytes - (found.matrix_bytes - inside), set(others), 0
            for n in turned[:count]:
                size, spent = forms[n]
                if size <= spare:
                    spare -= size
                elif used + size <= machine.pointer_bytes:
                    used += size
                else:
                    continue
                host, cycles = host - {n}, cycles + spent
            scores.append((sum(2 * parts[n].pointers for n in host), cycles))
    return min(scores)


@pytest.mark.parametrize("seed", range(80))
def test_no_way_is_better(seed: int) -> None:
    rng = np.random.default_rng(seed)
    pes, top = int(rng.integers(1, 4)), int(rng.choice([2, 6, 20, 60]))
    parts = [
        tile(n, rng.integers(0, top, (pes, int(rng.integers(1, 40)))))
        for n in range(int(rng.integers(2, 14)))
    ]
    entries = max(int(np.max(np.sum([t.entries for t in parts], 0))), 8)
    pointers = sum(2 * t.pointers for t in parts)
    machine = Machine(
        pes,
        matrix_bytes=int(entries * rng.uniform(1.0, 1.5)) + 16,
        pointer_bytes=int(pointers * rng.uniform(0.3, 1.0)),
    )
    found = place(parts, machine)
    assert found.pointer_bytes <= machine.pointer_bytes or score(found)[0] == pointers
    assert score(found) == best_score(found, machine)


@pytest.mark.parametrize("pointer_kb", [32, 300])
def test_thousands_of_tiles(pointer_kb: int) -> None:
    """As of a layer of 4096 x 4096 on one PE; sums made anew for each way would take minutes."""
    rng = np.random.default_rng(3)
    parts = [tile(n, rng.integers(0, 3, (1, 64))) for n in range(4096)]
    before = time.process_time()
    found = place(parts, Machine(1, matrix_bytes=1 << 20, pointer_bytes=pointer_kb * 1024))
    assert time.process_time() - before < 10
    assert found.packed > 1000 and found.pointer_bytes <= pointer_kb * 1024
