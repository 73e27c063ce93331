"""Partitioned variables: keys as TensorFlow writes them, whole variables and pieces, and damage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ingot.errors import ModelError
from ingot.frontends.tensorflow import import_tensorflow
from ingot.frontends.tensorflow.checkpoint import open_checkpoint
from ingot.frontends.tensorflow.pieces import WHOLE, parse_piece, piece_key, slices
from ingot.frontends.tensorflow.protos import message
from tests.tensorflow.graphs import FLOAT, Graph, floats, run, save_checkpoint

KEYS: list[tuple[list[tuple[int, int]], bytes]] = [
    ([(0, 5), (0, 85)], b"\0l/v\0\1\1\2\x80\x85\x80\xc0U"),  # these three out of a file of TensorFlow 2.21
    ([(0, 5), (85, 85)], b"\0l/v\0\1\1\2\x80\x85\xc0U\xc0U"),
    ([(200, 100), (0, 7)], b"\0l/v\0\1\1\2\xc0\xc8\xc0d\x80\x87"),
    ([(63, 64)], b"\0l/v\0\1\1\1\xbf\xc0@"),
    ([(8191, 8192)], b"\0l/v\0\1\1\1\xdf\xff\xe0 \0"),
    ([(0, WHOLE)], b"\0l/v\0\1\1\1\x80\x7f"),
]


@pytest.mark.parametrize("ranges, key", KEYS)
def test_keys(ranges: list[tuple[int, int]], key: bytes) -> None:
    assert piece_key("l/v", ranges) == key


def test_a_zero_in_a_name_is_escaped() -> None:
    assert piece_key("a\0b", []) == b"\0a\0\xffb\0\1\0"


def meta_graph(folder: Path, g: Graph) -> None:
    meta = message("MetaGraph")
    meta.graph_def.CopyFrom(g.proto)
    (folder / "model.meta").write_bytes(meta.SerializeToString())


def test_a_variable_in_three_pieces(tmp_path: Path) -> None:
    """The graph holds a variable for each piece, and joins them."""
    g, w, x = Graph(), floats(300, 3), floats(2, 300)
    g.node("x", "Placeholder", dtype=FLOAT, shape=(2, 300))
    g.const("prefix", np.array(b"model", object))
    cuts = [(0, 100), (100, 150), (250, 50)]
    g.const("save/names", np.array([b"w"] * 3, object))
    g.const("save/pieces", np.array([f"300 3 {s},{n}:-".encode() for s, n in cuts], object))
    g.node("save/restore", "RestoreV2", "prefix", "save/names", "save/pieces")
    for i, (_, n) in enumerate(cuts):
        g.node(f"w/part_{i}", "VariableV2", dtype=FLOAT, shape=(n, 3))
        g.node(f"save/assign{i}", "Assign", f"w/part_{i}", f"save/restore:{i}", T=FLOAT)
    g.const("axis", np.array(0, np.int32))
    g.node("w", "ConcatV2", *(f"w/part_{i}" for i in range(3)), "axis", T=FLOAT, N=3)
    g.node("y", "MatMul", "x", "w", T=FLOAT)
    meta_graph(tmp_path, g)
    save_checkpoint(tmp_path / "model", {"w": w}, rows=(100, 250))
    found = run(import_tensorflow(tmp_path, outputs=["y"]), x=x)
    np.testing.assert_allclose(found, x @ w, rtol=1e-4, atol=1e-5)


def test_the_whole_of_a_partitioned_variable(tmp_path: Path) -> None:
    held: dict[str, Any] = {"v": floats(7, 2, 3), "n": np.arange(7)}
    save_checkpoint(tmp_path / "model", held, rows=(1, 5))
    made = open_checkpoint(tmp_path / "model")
    for name, array in held.items():
        np.testing.assert_array_equal(made.read(name), array)


@pytest.mark.parametrize(
    "damage, message",
    [
        (lambda c: c.pieces.clear(), "piece .* is missing"),
        (lambda c: c.entries["v"].slices.pop(), "leave gaps, or overlap"),
        (lambda c: setattr(c.entries["v"].slices[0].extent[0], "length", 9), "does not lie in the shape"),
        (lambda c: c.entries["v"].slices[0].extent.pop(), "does not lie in the shape"),
        (lambda c: c.entries["v"].slices[1].CopyFrom(c.entries["v"].slices[0]), "gaps, and overlap"),
        (lambda c: setattr(c.entries["v"].shape.dim[0], "size", 1 << 40), "negative or too large"),
        (lambda c: setattr(c.entries["v"].shape.dim[0], "size", 1 << 29), "leave gaps"),
    ],
)
def test_damage(damage: Any, message: str, tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "model", {"v": floats(6, 2)}, rows=(3,))
    made = open_checkpoint(tmp_path / "model")
    damage(made)
    with pytest.raises(ModelError, match=message):
        made.read("v")


@pytest.mark.parametrize("text", ["3", "3 4 0,1", "3 0,x", "3 -1,2", "3 1,-2", "3 4 0,1:-:-", " "])
def test_words_that_are_no_piece(text: str) -> None:
    with pytest.raises(ModelError, match="a shape and a range for each of its axes"):
        parse_piece(text, "node 'x'")


def test_a_piece_outside_its_variable() -> None:
    with pytest.raises(ModelError, match="does not lie in the shape"):
        slices([(2, 2)], [3], "node 'x'")
