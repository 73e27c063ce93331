"""Maps, which the reader takes apart: keys, values and how many there are; or rows under keys known now.

In: a map's keys and values [room], in any order, and its length, which is checked here (ERR_CAPACITY); or
scores. Out: a row of values, or the rows that stand for maps.
"""

from __future__ import annotations

import numpy as np

from ingot.errors import ModelError
from ingot.formula.expr import Const, Expr, Gathered, Tensor, Var, cast, equal, select, wrap
from ingot.formula.extents import extent
from ingot.formula.index import upper
from ingot.formula.types import FLOAT32, INT32, INT64, DType
from ingot.ops.cast import cast_to
from ingot.ops.ml.classes import Ints, Strings
from ingot.ops.registry import Builder, op

PAD = b"0.f"
"""What onnxruntime writes where a sparse map of strings has no entry."""


def _require(f: Builder, condition: bool, message: str) -> None:
    if not condition:
        raise ModelError(f"{f.node.label}: {message}")


@op("ZipMap", domain="ai.onnx.ml")
def zip_map(
    f: Builder, x: Tensor, *, classlabels_int64s: Ints = (), classlabels_strings: Strings = ()
) -> Tensor:
    """The rows of x, each of which is a map from the labels to its elements (ZipMap-1)."""
    _require(f, bool(classlabels_int64s) != bool(classlabels_strings), "one list of labels is needed")
    f.same_type((x,), "f")
    labels = len(classlabels_int64s or classlabels_strings)
    _require(f, len({*classlabels_int64s, *classlabels_strings}) == labels, "a label is given twice")
    f.require(x.rank in (1, 2) and x.shape[-1] == labels, f"shape {list(x.shape)} for {labels} labels")
    if x.rank == 2:
        f.view = x
    axes = f.axes((x.shape[0] if x.rank == 2 else 1, labels))
    return f.map(axes, x[axes[-x.rank :]], x.type)


def _length(f: Builder, length: Tensor, room: int) -> Tensor:
    """The length, known to be at most the room."""
    count = Gathered(length[()], Const(0), Const(room + 1), "ERR_CAPACITY")
    return f.map((), cast(count, INT64), name="length")


@op("DictVectorizer", domain="ai.onnx.ml")
def dict_vectorizer(
    f: Builder,
    keys: Tensor,
    values: Tensor,
    length: Tensor,
    *,
    int64_vocabulary: Ints = (),
    string_vocabulary: Strings = (),
) -> Tensor:
    """y[0, v] = the value of the v-th key of the vocabulary, 0 or the empty string where the map has it not
    (DictVectorizer-1).
    """
    _require(f, bool(int64_vocabulary) != bool(string_vocabulary), "one vocabulary is needed")
    _require(
        f, keys.type.is_text == bool(string_vocabulary), f"the keys are {keys.type}, the vocabulary is not"
    )
    words = (
        f.texts(string_vocabulary) if string_vocabulary else f.constant(np.array(int64_vocabulary, np.int64))
    )
    count = _length(f, length, upper(keys.shape[0]))
    one, v = f.axes((1, words.count), "n v")
    y = f.map((one, v), wrap(0, values.type.compute), values.type)
    k = Var("k", keys.shape[0])

    def entry() -> None:
        found = equal(words[v], keys[k]) & (cast(k, INT64) < count[()])
        f.put(y, (one, v), (one, v), select(found, values[k], y[one, v]))

    f.scan(k, (y,), entry)
    return y


@op("CastMap", domain="ai.onnx.ml")
def cast_map(
    f: Builder,
    keys: Tensor,
    values: Tensor,
    length: Tensor,
    *,
    cast_to: str = "TO_FLOAT",
    map_form: str = "DENSE",
    max_map: int = 1,
) -> Tensor:
    """The values in the order of their keys (DENSE: as many as there are), or value k at place k of max_map
    and 0 (of strings "0.f", as onnxruntime has it) where the map has no k (SPARSE). CastMap-1.

    A sparse map's keys are 0 or more, else the bundle returns ERR_INDEX; those beyond its end are left out.
    """
    types = {"TO_FLOAT": FLOAT32, "TO_INT64": INT64, "TO_STRING": f.node.text}
    _require(f, cast_to in types, f"cast_to {cast_to!r} is not one of {', '.join(types)}")
    _require(f, map_form in ("DENSE", "SPARSE"), f"map_form {map_form!r} is neither DENSE nor SPARSE")
    f.same_type((keys,), "i")
    to, count = types[cast_to], _length(f, length, upper(keys.shape[0]))
    made = _converted(f, values, count, to)
    if map_form == "SPARSE":
        return _sparse(f, keys, made, count, max_map)
    return _dense(f, keys, made, count)


def _converted(f: Builder, values: Tensor, count: Tensor, to: DType) -> Tensor:
    """The values as Cast makes them. What is no number where one is needed is ERR_INDEX."""
    if to is values.type:
        return values
    if values.type.is_text:
        (k,) = f.axes(values.shape, "k")
        entry = select(cast(k, INT64) < count[()], values[k], wrap(b"0", values.type))
        return cast_to(f, f.map((k,), entry, values.type, "entries"), to)
    if to.is_text:
        return cast_to(f, values, to)
    axes = f.axes(values.shape)
    return f.map(axes, cast(values[axes], to), to, "converted")


def _sparse(f: Builder, keys: Tensor, values: Tensor, count: Tensor, size: int) -> Tensor:
    _require(f, 0 < size < 1 << 31, f"max_map is {size}")
    one, p = f.axes((1, size + 1), "n p")
    nothing: Expr = wrap(PAD if values.type.is_text else 0, values.type.compute)
    room = f.map((one, p), nothing, values.type, "room")
    k = Var("k", keys.shape[0])
    is_far = (cast(k, INT64) >= count[()]) | (keys[k] >= size)
    place = Gathered(select(is_far, Const(size, INT64), keys[k]), Const(0), Const(size + 1))
    f.scan(k, (room,), lambda: f.put(room, (one,), (one, place), values[k]))
    one, p = f.axes((1, size), "n p")
    return f.map((one, p), room[one, p], values.type)


def _dense(f: Builder, keys: Tensor, values: Tensor, count: Tensor) -> Tensor:
    """An entry's place is the number of those with smaller keys."""
    room = upper(keys.shape[0])
    entries = f.measured(count, room, axis=1)
    (k,), j = f.axes((room,), "k"), Var("j", room)
    before = (keys[j] < keys[k]) | (equal(keys[j], keys[k]) & (j < k))
    is_before = before & (cast(j, INT64) < count[()])
    rank = f.reduce("sum", (k,), (j,), cast(is_before, INT32), name="rank")
    spare = f.empty(values.type, (room + 1,), "sorted")
    at = Gathered(select(cast(k, INT64) < count[()], rank[k], room), Const(0), Const(room + 1))
    (every,) = f.axes((room + 1,), "e")
    f.put(spare, (every,), (every,), wrap(0, values.type.compute))
    f.put(spare, (k,), (at,), values[k])
    axes = f.axes((1, extent(entries)), "n p")
    return f.map(axes, spare[axes[1]], values.type)
