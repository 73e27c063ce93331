"""Variables that branches and loops write, run after run: the numbers are those of TFLite Micro."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ingot
from ingot.errors import InputError
from ingot.frontends.tflite import import_tflite
from tests.tflite.writer import Array, Graph, Op, T, model

FLOATS, INT, FLAG, HANDLE = T("FLOAT32", (2,)), T("INT32", ()), T("BOOL", ()), T("RESOURCE", ())
ONE = T("INT32", (), data=np.array(1, np.int32))


def handle(to: int, name: str = "total") -> Op:
    return Op("VAR_HANDLE", [], [to], "VarHandleOptions", {"shared_name": name})


def grown(name: str = "total", kind: str = "ADD") -> Graph:
    """The variable grows by x, which is returned as it was before."""
    ops = [
        handle(1, name),
        Op("READ_VARIABLE", [1], [2]),
        Op(kind, [2, 0], [3], f"{kind.capitalize()}Options"),
        Op("ASSIGN_VARIABLE", [1, 3], []),
    ]
    return Graph([FLOATS, HANDLE, FLOATS, FLOATS], ops, [0], [2])


SAME = Graph([FLOATS], [], [0], [0])
LESS = Graph([INT, FLOATS, INT, FLAG], [Op("LESS", [0, 2], [3])], [0, 1, 2], [3])


def if_(inputs: list[int], outputs: list[int], then: int, other: int) -> Op:
    fields = {"then_subgraph_index": then, "else_subgraph_index": other}
    return Op("IF", inputs, outputs, "IfOptions", fields)


def branch(then: Graph, other: Graph) -> bytes:
    """y = a branch of x; z = the variable then."""
    main = [
        T("BOOL", (), name="c"),
        T("FLOAT32", (2,), name="x"),
        T("FLOAT32", (2,), name="y"),
        HANDLE,
        T("FLOAT32", (2,), name="z"),
    ]
    ops = [if_([0, 1], [2], 1, 2), handle(3), Op("READ_VARIABLE", [3], [4])]
    return model(main, ops, [0, 1], [2, 4], then, other)


def loop(condition: Graph, ops: list[Op], tensors: list[T], *more: Graph) -> bytes:
    """A body of i, x, n (0, 1, 2), run until i is n; z = the variable then."""
    main = [
        T("INT32", (), name="i"),
        T("FLOAT32", (2,), name="x"),
        T("INT32", (), name="n"),
        INT,
        FLOATS,
        INT,
        HANDLE,
        T("FLOAT32", (2,), name="z"),
    ]
    fields = {"cond_subgraph_index": 1, "body_subgraph_index": 2}
    turned = Op("WHILE", [0, 1, 2], [3, 4, 5], "WhileOptions", fields)
    body = Graph([INT, FLOATS, INT, ONE, INT, *tensors], [Op("ADD", [0, 3], [4]), *ops], [0, 1, 2], [4, 1, 2])
    rest = [handle(6), Op("READ_VARIABLE", [6], [7])]
    return model(main, [turned, *rest], [0, 1, 2], [7], condition, body, *more)


def counted() -> bytes:
    ops = [
        handle(5),
        Op("READ_VARIABLE", [5], [6]),
        Op("ADD", [6, 1], [7]),
        Op("ASSIGN_VARIABLE", [5, 7], []),
    ]
    return loop(LESS, ops, [HANDLE, FLOATS, FLOATS])


def chosen() -> bytes:
    """In a loop, a branch: every turn but the first adds x."""
    ops = [Op("LESS", [8, 4], [5]), if_([5, 1], [6], 3, 4), Op("ADD", [6, 6], [7])]
    return loop(LESS, ops, [FLAG, FLOATS, FLOATS, ONE], grown(), SAME)


X = np.array([1, 2], np.float32)


def runs(data: bytes, tmp_path: Path, *given: dict[str, Array]) -> list[list[list[float]]]:
    (tmp_path / "m.tflite").write_bytes(data)
    session = ingot.compile(import_tflite(tmp_path / "m.tflite")).session()
    return [[y.tolist() for y in session.run(one).values()] for one in given]


def flag(value: bool) -> dict[str, Array]:
    return {"c": np.array(value), "x": X}


def turns(first: int, last: int) -> dict[str, Array]:
    return {"i": np.array(first, np.int32), "x": X, "n": np.array(last, np.int32)}


def test_a_branch_writes_a_variable(tmp_path: Path) -> None:
    found = runs(branch(grown(), SAME), tmp_path, flag(True), flag(False), flag(True))
    assert found == [[[0, 0], [1, 2]], [[1, 2], [1, 2]], [[1, 2], [2, 4]]]


def test_both_branches_write_variables_of_their_own(tmp_path: Path) -> None:
    found = runs(branch(grown(), grown("other")), tmp_path, flag(False), flag(True), flag(False), flag(True))
    assert found == [[[0, 0], [0, 0]], [[0, 0], [1, 2]], [[1, 2], [1, 2]], [[1, 2], [2, 4]]]


def test_a_loop_writes_a_variable(tmp_path: Path) -> None:
    found = runs(counted(), tmp_path, turns(0, 3), turns(5, 5), turns(2, 3))
    assert found == [[[3, 6]], [[3, 6]], [[4, 8]]]


def test_a_branch_in_a_loop_writes_a_variable(tmp_path: Path) -> None:
    found = runs(chosen(), tmp_path, turns(0, 3), turns(0, 1), turns(0, 4))
    assert found == [[[2, 4]], [[2, 4]], [[5, 10]]]


def test_a_condition_keeps_variables_as_they_are(tmp_path: Path) -> None:
    (g, less) = (grown(), LESS)
    shifted = [
        Op(o.kind, [i + 4 for i in o.inputs], [i + 4 for i in o.outputs], o.options, o.fields) for o in g.ops
    ]
    wrong = Graph([*less.tensors, *g.tensors], [*less.ops, *shifted], [0, 1, 2], [3])
    wrong.tensors[4] = T("FLOAT32", (2,), data=X)
    with pytest.raises(InputError, match="written in the condition of a loop"):
        runs(loop(wrong, [], []), tmp_path)
