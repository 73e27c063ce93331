"""Hostile constants: wrong lengths, types and dimensions, and external data that leads astray."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import ingot
from ingot.driver import digest
from ingot.errors import InputError, ModelError
from ingot.files import sha256_of
from tests.models import SECONDS, limit, model, node, refuse

# Constants --------------------------------------------------------------------------------------------------


def _constant(edit: Callable[[onnx.TensorProto], Any], raw: bool = True) -> onnx.ModelProto:
    tensor = helper.make_tensor(
        "w", 1, [2, 3], np.ones(6, np.float32).tobytes() if raw else [1.0] * 6, raw=raw
    )
    edit(tensor)
    return model([node("Add", "x w", "y")], None, None, (tensor,))


def _set(**fields: Any) -> Callable[[onnx.TensorProto], None]:
    def edit(tensor: onnx.TensorProto) -> None:
        for name, value in fields.items():
            if isinstance(value, list):
                del getattr(tensor, name)[:]
                getattr(tensor, name).extend(value)
            else:
                setattr(tensor, name, value)

    return edit


CONSTANTS = {
    "short raw": (_set(raw_data=b"\0" * 23), True, "23 bytes where float32[2, 3] takes 24"),
    "long raw": (_set(raw_data=b"\0" * 25), True, "25 bytes"),
    "empty raw": (_set(raw_data=b""), True, "0 bytes"),
    "short": (_set(float_data=[1.0] * 5), False, "5 elements"),
    "long": (_set(float_data=[1.0] * 7), False, "7 elements"),
    "empty": (_set(float_data=[]), False, "0 elements"),
    "negative dimension": (_set(dims=[-2, 3]), True, "negative"),
    "two negative dimensions": (_set(dims=[-2, -3]), True, "negative"),
    "huge dimension": (_set(dims=[1 << 62, 4]), True, "too large"),
    "wrong field": (_set(float_data=[], int64_data=[1] * 6), False, "0 elements"),
    "no type": (_set(data_type=0), True, "not an ONNX element type"),
    "unknown type": (_set(data_type=99), True, "99 is not an ONNX element type"),
    "strings": (_set(data_type=8), True, "holds 0 elements where string64"),
    "complex": (_set(data_type=14), True, "complex64 is not supported"),
    "no name": (_set(name=""), True, "no name"),
    "raw and typed": (_set(float_data=[1.0] * 6), True, "several places: raw_data, float_data"),
    "two types": (_set(int32_data=[1] * 6), False, "several places: int32_data, float_data"),
    "raw and strings": (_set(string_data=[b"a"] * 6), True, "several places: raw_data, string_data"),
}


@pytest.mark.parametrize("case", CONSTANTS)
def test_constant(case: str) -> None:
    edit, raw, words = CONSTANTS[case]
    refuse(_constant(edit, raw), InputError, words)


def test_constant_given_twice() -> None:
    tensor = numpy_helper.from_array(np.ones((2, 3), np.float32), "w")
    refuse(model([node("Add", "x w", "y")], None, None, (tensor, tensor)), ModelError, "'w' is defined twice")


@pytest.mark.parametrize("places", [[6], [-1], [0, 1, 2]], ids=str)
def test_sparse_constant_with_bad_indices(places: list[int]) -> None:
    broken = model([node("Add", "x w", "y")])
    values = numpy_helper.from_array(np.ones(1, np.float32), "w")
    indices = numpy_helper.from_array(np.array(places, np.int64), "i")
    broken.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [2, 3]))
    refuse(broken, ModelError, "bad indices")


@pytest.mark.parametrize(
    "attributes",
    [{}, {"value_string": "x", "value_int": 1}, {"value_int": 1, "value_float": 1.0}],
    ids=str,
)
def test_constant_node(attributes: dict[str, Any]) -> None:
    refuse(
        model([node("Constant", "", "w", **attributes), node("Add", "x w", "y")]),
        InputError,
        "Constant node 'w'",
    )


# External data ----------------------------------------------------------------------------------------------

EXTERNAL = {
    "missing": ({"location": "none.bin"}, "missing"),
    "no location": ({}, "not a file inside"),
    "traversal": ({"location": "../outside.bin"}, "not a file inside"),
    "hidden traversal": ({"location": "sub/../../outside.bin"}, "not a file inside"),
    "backslash": ({"location": "..\\outside.bin"}, "not a file inside"),
    "drive": ({"location": "C:\\outside.bin"}, "not a file inside"),
    "absolute": ({"location": "/dev/zero"}, "not a file inside"),
    "symbolic link": ({"location": "link.bin"}, "symbolic link"),
    "linked folder": ({"location": "linked/outside.bin"}, "symbolic link"),
    "device": ({"location": "zero"}, "symbolic link"),
    "folder": ({"location": "sub"}, "not a regular file"),
    "a file as a folder": ({"location": "good.bin/"}, "not a file inside"),
    "pipe": ({"location": "pipe"}, "not a regular file"),
    "NUL": ({"location": "good.bin\0"}, "not a file inside"),
    "offset past the end": ({"location": "good.bin", "offset": "4096"}, "outside"),
    "negative offset": ({"location": "good.bin", "offset": "-8"}, "outside"),
    "huge offset": ({"location": "good.bin", "offset": str(1 << 80)}, "outside"),
    "offset is a word": ({"location": "good.bin", "offset": "far"}, "'far', is no number of bytes"),
    "offset without end": ({"location": "good.bin", "offset": "9" * 9999}, "no number of bytes"),
    "offset in other digits": ({"location": "good.bin", "offset": "\u0660"}, "no number of bytes"),
    "length in other digits": ({"location": "good.bin", "length": "\u0662\u0664"}, "no number of bytes"),
    "short file": ({"location": "short.bin"}, "outside"),
    "short length": ({"location": "good.bin", "length": "20"}, "20 bytes"),
    "long length": ({"location": "good.bin", "length": "28"}, "28 bytes"),
    "the model itself": ({"location": "m.onnx", "offset": "0", "length": "24"}, "the model's own file"),
    "the model by another name": ({"location": "hard.bin"}, "the model's own file"),
    "negative length": ({"location": "good.bin", "length": "-24"}, "-24 bytes"),
}


def _external(folder: Path, entries: dict[str, str]) -> Path:
    def edit(tensor: onnx.TensorProto) -> None:
        tensor.ClearField("raw_data")
        tensor.data_location = onnx.TensorProto.EXTERNAL
        for key, value in entries.items():
            tensor.external_data.add(key=key, value=value)

    home = folder / "home"
    (home / "sub").mkdir(parents=True)
    (folder / "outside.bin").write_bytes(bytes(64))
    (home / "good.bin").write_bytes(np.arange(8, dtype=np.float32).tobytes())
    (home / "short.bin").write_bytes(bytes(23))
    (home / "link.bin").symlink_to(folder / "outside.bin")
    (home / "linked").symlink_to(folder)
    (home / "zero").symlink_to("/dev/zero")
    os.mkfifo(home / "pipe")
    path = home / "m.onnx"
    path.write_bytes(_constant(edit).SerializeToString())
    os.link(path, home / "hard.bin")
    return path


@pytest.mark.parametrize("case", EXTERNAL)
def test_external_data(case: str, tmp_path: Path) -> None:
    entries, words = EXTERNAL[case]
    refuse(_external(tmp_path, entries), ModelError, words)


def test_an_element_type_that_there_is_not_names_its_tensor(tmp_path: Path) -> None:
    """Where a model is taken as it is, and nothing compiles it."""
    path = _external(tmp_path, {"location": "good.bin"})
    broken = onnx.load(path, load_external_data=False)
    broken.graph.initializer[0].data_type = 99
    path.write_bytes(broken.SerializeToString())
    with pytest.raises(InputError, match="tensor 'w': 99 is not an ONNX element type"):
        ingot.compress(path)


@pytest.mark.parametrize("field", ["raw_data", "float_data"])
def test_external_data_and_more(field: str, tmp_path: Path) -> None:
    path = _external(tmp_path, {"location": "good.bin"})
    broken = onnx.load(path, load_external_data=False)
    _set(**{field: bytes(24) if field == "raw_data" else [1.0] * 6})(broken.graph.initializer[0])
    path.write_bytes(broken.SerializeToString())
    refuse(path, ModelError, f"a file beside the model, {field}")


def test_a_file_of_a_terabyte_is_not_read_for_its_hash(tmp_path: Path) -> None:
    """Of external data only what is the model's."""
    path = _external(tmp_path, {"location": "good.bin", "offset": str(1 << 39)})
    with (path.parent / "good.bin").open("r+b") as file:
        file.truncate(1 << 40)
    with limit(SECONDS):
        first = digest(path)
    with (path.parent / "good.bin").open("r+b") as file:
        file.seek(1 << 39)
        file.write(b"other")
    assert digest(path) != first
    with pytest.raises(InputError, match="at most"):
        sha256_of(path.parent / "good.bin")


def test_external_data_of_a_model_without_a_folder(tmp_path: Path) -> None:
    path = _external(tmp_path, {"location": "good.bin"})
    refuse(path.read_bytes(), ModelError, "read the model from its own file")
