"""Files that are broken or hostile, format by format, as the command line opens them.

Each is refused in time: one line on standard error says what is wrong, the exit code is 2, and nothing is
left behind. The bundle's own files come first.
"""

from __future__ import annotations

import json
import os
import tracemalloc
from collections.abc import Callable
from errno import ENOSPC
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import ingot
from ingot import files
from ingot.binary.note import SECTION, note_of, with_note
from ingot.binary.read import read_object
from ingot.bundle.schema import sealed, text_of
from ingot.cli import app
from ingot.data.arrays import read_array
from ingot.errors import InputError
from ingot.files import read_file, sha256_of
from ingot.frontends.onnx import PARTS
from ingot.frontends.wire import is_message
from ingot.targets.records import find
from ingot.targets.toolchain import compile_c
from tests.models import SECONDS, limit

DIGITS = Path(__file__).parent.parent / "examples" / "digits" / "digits.onnx"
Document = dict[str, Any]


def refused(folder: Path, *words: object) -> str:
    """What the command line says of a file that it must refuse: one line."""
    before = sorted(folder.rglob("*"))
    with limit(SECONDS):
        result = CliRunner().invoke(app, list(map(str, words)))
    assert result.exit_code == 2, (result.exit_code, result.output, result.exception)
    assert result.stderr.startswith("ingot: error: ") and result.stderr.count("\n") == 1, result.stderr
    assert len(result.stderr) < 1000 and result.stdout == ""
    assert sorted(folder.rglob("*")) == before
    return result.stderr


def test_a_small_file_takes_little_room(tmp_path: Path) -> None:
    """Whatever a file may hold at most: with 2 GB of memory, models are read."""
    (tmp_path / "m.onnx").write_bytes(bytes(1000))
    tracemalloc.start()
    try:
        assert len(read_file(tmp_path / "m.onnx")) == 1000
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
    assert read_file(Path("/proc/self/status")).startswith(b"Name:")  # which says that it has no bytes


# ---- manifests


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle as it was written."""
    return ingot.compile(DIGITS, name="net", target="c99", emit=("c", "obj")).save(
        tmp_path_factory.mktemp("b")
    )


@pytest.fixture
def folder(good: Path, tmp_path: Path) -> Path:
    """One that may be spoiled, and an input for it."""
    for path in good.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    np.save(tmp_path / "x.npy", np.zeros((1, 1, 8, 8), np.float32))
    return tmp_path


Edit = Callable[[dict[str, Any]], object]
MANIFESTS: dict[str, tuple[Edit, str]] = {
    "a smaller arena": (lambda m: m["sizes"].update(arena_bytes=64), "differ in sizes"),
    "no arena": (lambda m: m["sizes"].update(arena_bytes=0), "differ in sizes"),
    "a negative arena": (lambda m: m["sizes"].update(arena_bytes=-1), "sizes.arena_bytes"),
    "an arena of all memory": (lambda m: m["sizes"].update(arena_bytes=1 << 61), "differ in sizes"),
    "an arena in words": (lambda m: m["sizes"].update(arena_bytes="64"), "expected int, got str"),
    "half a byte": (lambda m: m["sizes"].update(arena_bytes=0.5), "expected int, got float"),
    "a future schema": (lambda m: m.update(schema=99), "the schema is 99, not 1"),
    "a schema in words": (lambda m: m.update(schema="1"), "the schema is '1'"),
    "a schema that is true": (lambda m: m.update(schema=True), "the schema is True"),
    "no schema": (lambda m: m.pop("schema"), "is not the manifest of a bundle"),
    "no sizes": (lambda m: m.pop("sizes"), "missing required field sizes"),
    "null sizes": (lambda m: m.update(sizes=None), "sizes: expected object, got null"),
    "inputs by name": (lambda m: m.update(inputs={"image": {}}), "inputs: expected array"),
    "no inputs": (lambda m: m.update(inputs=[]), "differ in inputs"),
    "a smaller input": (lambda m: m["inputs"][0].update(shape=[1]), "differ in inputs"),
    "a smaller output": (lambda m: m["outputs"][0].update(shape=[1]), "differ in outputs"),
    "an output of bytes": (lambda m: m["outputs"][0].update(dtype="int8"), "differ in outputs"),
    "an unknown type": (lambda m: m["inputs"][0].update(dtype="float7"), "of no type or shape"),
    "a negative extent": (
        lambda m: m["inputs"][0].update(shape=[-1]),
        "inputs[0].shape[0]: expected int >= 0",
    ),
    "C in a symbol": (lambda m: m["inputs"][0].update(symbol="x; system(0)"), "symbol"),
    "code in a shape": (lambda m: m["inputs"][0].update(shape=["__import__('os')"]), "shape"),
    "a shape without end": (
        lambda m: m["inputs"][0].update(shape=["(" * 4000], room=1),
        "of no type or shape",
    ),
    "a shape of nothing": (lambda m: m["inputs"][0].update(shape=["M"], room=1), "of no type or shape"),
    "a division by zero": (lambda m: m["inputs"][0].update(shape=["1 // 0"], room=1), "of no type or shape"),
    "no room": (
        lambda m: m.update(params=[_range("N")]) or m["inputs"][0].update(shape=["N"]),
        "has no room",
    ),
    "bounds in disorder": (lambda m: m.update(params=[_range("N", 2, 1)]), "in disorder"),
    "an extent of no output": (lambda m: m.update(measured=[_range("N")]), "is no output"),
    "two inputs of one name": (lambda m: m["inputs"].append(m["inputs"][0]), "one name"),
    "a port of nothing": (lambda m: m.update(ports={"inputs": [_port()], "outputs": []}), "is of no tensor"),
    "a port in itself": (lambda m: m.update(ports={"inputs": [_port(20)], "outputs": []}), "port"),
    "a name that is a path": (lambda m: m.update(name="../net"), "name: expected str matching"),
    "another name": (lambda m: m.update(name="other"), "is of the bundle 'other'"),
    "a name of a megabyte": (lambda m: m.update(name="n" * (1 << 20)), "name"),
    "a file elsewhere": (lambda m: m["files"].update({"../../etc/passwd": "0" * 64}), "files"),
    "a file without a hash": (lambda m: m["files"].update({"net.c": ""}), "files"),
    "another api": (lambda m: m.update(api="static"), "differ in api"),
    "weights from outside": (lambda m: m.update(weights="external"), "differ in weights"),
    "another processor": (lambda m: m.update(target="s390x"), "differ in target"),
    "threads": (lambda m: m.update(threaded=True), "differ in threaded"),
    "fewer kernels": (lambda m: m["kernels"].pop(), "differ in kernels"),
    "kernels that are numbers": (lambda m: m.update(kernels=[1, 2]), "kernels[0]: expected object"),
    "flags that are a number": (lambda m: m["options"].update(cflags=7), "options.cflags"),
}


def _range(name: str, lo: int = 1, hi: int = 2) -> Document:
    return {"name": name, "symbol": name, "lo": lo, "hi": hi}


def _port(depth: int = 0) -> Document:
    if not depth:
        return {"name": "s", "kind": "tensor", "members": {"data": "nothing"}}
    return {"name": "s", "kind": "optional", "members": {"present": "s"}, "content": _port(depth - 1)}


@pytest.mark.parametrize("case", MANIFESTS)
def test_manifest(case: str, folder: Path) -> None:
    """The hash of the manifest is that of what stands in it: only its content gives it away."""
    edit, words = MANIFESTS[case]
    manifest = json.loads((folder / "net.json").read_text())
    edit(manifest)
    (folder / "net.json").write_text(text_of(sealed(manifest)))
    assert words in refused(folder, "run", folder, "--input", f"image={folder / 'x.npy'}")
    with pytest.raises(ingot.InputError, match="net"):
        ingot.load(folder / "net.json")


TEXTS: dict[str, Callable[[bytes], bytes]] = {
    "edited": lambda data: data.replace(b'"arena_bytes": ', b'"arena_bytes": 1'),
    "with a space": lambda data: data + b" ",
    "cut": lambda data: data[: len(data) // 2],
    "empty": lambda data: b"",
    "a key twice": lambda data: data.replace(b'"schema": 1,', b'"schema": 1, "schema": 1,'),
    "NaN": lambda data: data.replace(b'"schema": 1', b'"schema": NaN'),
    "too large a number": lambda data: data.replace(b'"schema": 1', b'"schema": 1e400'),
    "an endless number": lambda data: data.replace(b'"schema": 1', b'"schema": ' + b"9" * 9999),
    "half a character": lambda data: data.replace(b'"net"', b'"\\ud800"', 1),
    "not UTF-8": lambda data: data.replace(b'"net"', b'"\xff"', 1),
    "UTF-16": lambda data: data.decode().encode("utf-16"),
    "a byte order mark": lambda data: b"\xef\xbb\xbf" + data,
    "zeros": lambda data: bytes(1000),
    "deep": lambda data: b"[" * 100_000 + b"]" * 100_000,
    "deep objects": lambda data: b'{"a":' * 5000 + b"1" + b"}" * 5000,
    "quotes": lambda data: b'"' + b'\\"' * 500_000,
    "a list": lambda data: b"[1]",
    "a string": lambda data: b'"net"',
}


@pytest.mark.parametrize("case", TEXTS)
def test_text_of_a_manifest(case: str, folder: Path) -> None:
    path = folder / "net.json"
    path.write_bytes(TEXTS[case](path.read_bytes()))
    for command in ("run", "inspect", "audit", "asm"):
        assert "net.json" in refused(folder, command, folder)


@pytest.mark.parametrize("name", ["net.o", "net.h"])
def test_what_runs_is_what_was_written(name: str, folder: Path) -> None:
    data = (folder / name).read_bytes()
    for spoiled in (data[:-1], data[:100] + bytes([data[100] ^ 1]) + data[101:], b"", data + b"\n"):
        (folder / name).write_bytes(spoiled)
        assert "is not the file that was written" in refused(folder, "run", folder)


def test_an_object_says_what_it_is(folder: Path) -> None:
    """In a section that takes no memory, whatever its bits and its byte order."""
    for target in ("c99", "i386", "s390x", "armv7e-m"):
        code = ingot.compile(DIGITS, name="net", target=target, emit=("obj",)).object
        note = note_of(code)
        assert note is not None and json.loads(note)["target"] == target
        (section,) = [s for s in read_object(code).sections if s.name == SECTION]
        assert section.flags == 0 and section.type == "SHT_NOTE"
        assert note_of(with_note(compile_c("int x;", find(target)), "what it is")) == "what it is"


@pytest.mark.parametrize("note", [None, "", "[", "{}", "[]", "null", "{" * 1000])
def test_an_object_that_says_nothing_of_use(note: str | None, folder: Path) -> None:
    code = compile_c("int net;", find("c99"))
    manifest = json.loads((folder / "net.json").read_text())
    (folder / "net.o").write_bytes(code if note is None else with_note(code, note))
    manifest["files"]["net.o"] = sha256_of(folder / "net.o")
    (folder / "net.json").write_text(text_of(sealed(manifest)))
    assert "net.json" in refused(folder, "run", folder)


# ---- .npy


def _npy(header: str, data: bytes = bytes(256), version: int = 1) -> bytes:
    size = len(header).to_bytes(2 if version == 1 else 4, "little")
    return b"\x93NUMPY" + bytes([version, 0]) + size + header.encode() + data


def _fields(descr: str = "'<f4'", order: str = "False", shape: str = "(1, 1, 8, 8)") -> str:
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n"


ARRAYS: dict[str, bytes] = {
    "nothing": b"",
    "zeros": bytes(400),
    "a zip file": b"PK\x03\x04" + bytes(400),
    "the magic alone": b"\x93NUMPY",
    "a future version": _npy(_fields(), version=9),
    "a header without end": b"\x93NUMPY\x01\0\xff\xff{" + b" " * 99,
    "a header of 4 GB": b"\x93NUMPY\x02\0\xff\xff\xff\xff{",
    "an empty header": _npy(""),
    "an empty dictionary": _npy("{}"),
    "no shape": _npy("{'descr': '<f4', 'fortran_order': False}"),
    "two shapes": _npy(_fields().replace("}", "'shape': (1,)}")),
    "a shape that is a list": _npy(_fields(shape="[1, 1, 8, 8]")),
    "a number for a shape": _npy(_fields(shape="256")),
    "a negative extent": _npy(_fields(shape="(-1, 1, 8, 8)")),
    "an extent of 5000 digits": _npy(_fields(shape=f"({'9' * 5000},)")),
    "a million axes": _npy(_fields(shape=f"({'1,' * 20_000})")),
    "parentheses": _npy(_fields(shape="(" * 3000 + ")" * 3000)),
    "minus signs": _npy(_fields(shape="-" * 9000 + "1")),
    "a call": _npy(_fields(shape="__import__('os').abort()")),
    "2^62 elements": _npy(_fields(shape="(4611686018427387904,)")),
    "1e18 elements of nothing": _npy(_fields("'|S0'", shape="(1000000000000000000,)"), b""),
    "objects": _npy(_fields("'|O'")),
    "dates": _npy(_fields("'<M8'")),
    "records": _npy(_fields("[('a', '<f4')]")),
    "records in words": _npy(_fields("'<f4,<f4'")),
    "an unknown type": _npy(_fields("'<f3'")),
    "a type that is a number": _npy(_fields("4")),
    "a wide type": _npy(_fields("'<U999999999'")),
    "too few bytes": _npy(_fields(), bytes(255)),
    "too many bytes": _npy(_fields(), bytes(257)),
    "another shape": _npy(_fields(shape="(64,)")),
    "another type": _npy(_fields("'<i4'")),
    "another byte order": _npy(_fields("'>f4'")),
    "not ASCII": _npy(_fields().replace("descr", "d\u00e9scr")),
    "a NUL": _npy(_fields().replace("descr", "d\0scr")),
}


@pytest.mark.parametrize("case", ARRAYS)
def test_array(case: str, folder: Path) -> None:
    (folder / "x.npy").write_bytes(ARRAYS[case])
    refused(folder, "run", folder, "--input", f"image={folder / 'x.npy'}")


def test_an_array_is_read_as_numpy_writes_it(tmp_path: Path) -> None:
    for array in (
        np.arange(6.0).reshape(2, 3),
        np.arange(6, dtype=">i2").reshape(2, 3).T,
        np.array(3.5, np.float16),
        np.zeros((0, 4), np.int8),
        np.array([True, False]),
        np.array(["a", "Größe"]),
        np.asfortranarray(np.arange(24).reshape(2, 3, 4)),
    ):
        np.save(tmp_path / "x.npy", array)
        found = read_array(tmp_path / "x.npy", "string64" if array.dtype.kind == "U" else "float32")
        assert found.dtype in (array.dtype, object)
        np.testing.assert_array_equal(found, array)


# ---- whatever is no file, or too large

NO_FILES: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (lambda path: None, "no such file"),
    "folder": (Path.mkdir, "not a regular file"),
    "pipe": (os.mkfifo, "not a regular file"),
    "device": (lambda path: path.symlink_to("/dev/zero"), "not a regular file"),
    "terminal": (lambda path: path.symlink_to("/dev/ptmx"), "not a regular file"),
    "loop": (lambda path: path.symlink_to(path), "symbolic links"),
    "100 GB of nothing": (lambda path: _hole(path, 100 << 30), "bytes"),
}


def test_a_file_that_has_nothing_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as the system's log, which is a regular file: without waiting."""
    source, sink = os.pipe()
    os.set_blocking(source, False)
    monkeypatch.setattr(files, "open_file", lambda path, limit: source)
    with pytest.raises(InputError, match="cannot read log: it has nothing to be read now"):
        read_file(Path("log"))
    os.close(sink)


def _hole(path: Path, size: int) -> None:
    with path.open("wb") as file:
        file.truncate(size)


COMMANDS: dict[str, list[object]] = {
    "net.json": ["inspect", "net.json"],
    "x.npy": ["run", ".", "--input", "image=x.npy"],
    "t.json": ["compile", DIGITS, "--tuning", "t.json", "-o", "out"],
    "made.json": ["tune", DIGITS, "--seconds", "0", "-o", "made.json"],
    "m.onnx": ["compile", "m.onnx", "-o", "out"],
    "m.onnxtxt": ["compile", "m.onnxtxt", "-o", "out"],
    "m.pb": ["import", "m.pb"],
    "m.pbtxt": ["import", "m.pbtxt"],
    "m.meta": ["import", "m.meta"],
    "c.txt": ["import", "graph.pbtxt", "--config", "c.txt"],
    "m.net": ["compress", DIGITS, "--from", "m.net"],
    "m.o": ["audit", "m.o"],
    "m.s": ["asm", "m.s", "--triple", "x86_64"],
}


@pytest.mark.parametrize("kind", NO_FILES)
@pytest.mark.parametrize("name", COMMANDS)
def test_what_is_no_file(name: str, kind: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    make, words = NO_FILES[kind]
    (folder / "graph.pbtxt").write_text(GRAPH)
    (folder / name).unlink(missing_ok=True)
    make(folder / name)
    if (name, kind) in (("made.json", "missing"), ("m.s", "folder")):
        return  # that is where the file will be; a folder may be a bundle's
    said = refused(folder, *COMMANDS[name])
    others = ("holds no bundle", "is of no known format", "a folder in which no model lies")
    assert name in said and any(w in said for w in (words, *others))


REPORTS: dict[str, tuple[list[object], str]] = {
    "outputs": (["run", ".", "--input", "image=x.npy", "-o", "out"], "scores.npy"),
    "a benchmark": (["bench", DIGITS, "--seconds", "0", "--report", "out"], "report.json"),
    "Verilog": (["eie", "rtl", "-o", "out"], "b.v"),
}


@pytest.mark.parametrize("kind", ["FIFO", "folder", "file for a folder"])
@pytest.mark.parametrize("name", REPORTS)
def test_files_of_a_report(name: str, kind: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands in the place of one of them stays, and none of the others is written."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr("ingot.eie.rtl.verilog.verilog", lambda machine: {"a.v": "a", "b.v": "b"})
    words, file = REPORTS[name]
    if kind == "file for a folder":
        Path("out").write_text("mine")
    else:
        Path("out").mkdir()
        {"FIFO": os.mkfifo, "folder": os.mkdir}[kind](Path("out") / file)
    assert "cannot write out" in refused(folder, *words)
    assert kind == "file for a folder" or not (Path("out") / file).is_file()


APART: dict[str, tuple[list[object], str]] = {
    "compress": (["compress", DIGITS, "-o", "a/m.onnx", "--report", "b/m.md"], "m.md"),
    "eie run": (["eie", "run", "c.onnx", "--samples", 1, "--svg", "a/e.svg", "--html", "b/e.html"], "e.html"),
}


@pytest.mark.parametrize("name", APART)
def test_outputs_in_several_folders(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last of them finds no place: the first goes, and its folder, or what stood there comes back."""
    monkeypatch.chdir(tmp_path)
    words, last = APART[name]
    if name == "eie run":
        ingot.compress(DIGITS, density={"fc": 0.1}, bits={"fc": 4}).save("c.onnx")
    replace = os.replace

    def full(source: Path, target: Path) -> None:
        if Path(target).name == last:
            raise OSError(ENOSPC, os.strerror(ENOSPC))
        replace(source, target)

    monkeypatch.setattr("os.replace", full)
    for stood in (False, True):
        if stood:
            (tmp_path / "a").mkdir()
            (tmp_path / str(words[-3])).write_bytes(b"mine")
        before = {p: p.is_file() and p.read_bytes() for p in tmp_path.rglob("*")}
        result = CliRunner().invoke(app, list(map(str, words)))
        assert result.exit_code == 2 and result.stdout == "", result.output
        assert f"cannot write b/{last}: No space left on device" in result.stderr
        assert {p: p.is_file() and p.read_bytes() for p in tmp_path.rglob("*")} == before


def test_outputs_that_find_no_place(tmp_path: Path) -> None:
    made, again = tmp_path / "m.onnx", tmp_path / "." / "m.onnx"
    said = refused(tmp_path, "compress", DIGITS, "-o", made, "--report", again)
    assert "two outputs are to be one file" in said
    said = refused(tmp_path, "compress", DIGITS, "-o", made, "--report", tmp_path / ("m" * 300))
    assert "File name too long" in said


# ---- tuning files, configurations, objects

TUNING = {"schema": 1, "target": "c99", "choices": {}}
TUNED: dict[str, tuple[object, str]] = {
    "a list": ([], "expected object, got array"),
    "nothing": ({}, "missing required field"),
    "a future schema": ({**TUNING, "schema": 99}, "schema 99, not 1"),
    "a schema that is true": ({**TUNING, "schema": True}, "schema: expected int"),
    "choices that are a list": ({**TUNING, "choices": []}, "choices: expected object"),
    "a choice that is a number": ({**TUNING, "choices": {"a": 1}}, "expected str, got int"),
    "an unknown choice": ({**TUNING, "choices": {"a" * 9999: "b" * 9999}}, "wants 'bbb"),
    "a stage of another model": ({**TUNING, "choices": {"a" * 99: "direct"}}, "another model or version"),
    "a negative time": ({**TUNING, "measured": {"a": {"direct": -1}}}, "expected float >= 0"),
    "times that are words": ({**TUNING, "measured": {"a": {"direct": "fast"}}}, "expected float, got str"),
    "another target": ({**TUNING, "target": "s390x"}, "for 's390x', not for 'c99'"),
}


@pytest.mark.parametrize("case", TUNED)
def test_tuning_file(case: str, tmp_path: Path) -> None:
    document, words = TUNED[case]
    (tmp_path / "t.json").write_text(json.dumps(document))
    for command in ("compile", "tune"):
        more = ["--tuning", tmp_path / "t.json"] if command == "compile" else ["--seconds", "0"]
        said = refused(tmp_path, command, DIGITS, "--target", "c99", *more, "-o", tmp_path / "t.json")
        assert words in said or command == "tune"


@pytest.mark.parametrize("case", [c for c in TEXTS if c not in ("edited", "with a space")])
def test_text_of_a_tuning_file(case: str, tmp_path: Path) -> None:
    data = json.dumps({**TUNING, "ingot": "net"}, indent=1).encode()
    (tmp_path / "t.json").write_bytes(TEXTS[case](data))
    assert "t.json" in refused(
        tmp_path, "compile", DIGITS, "--tuning", tmp_path / "t.json", "-o", tmp_path / "o"
    )


GRAPH = """node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } }
  attr { key: "shape" value { shape { dim { size: 2 } } } } }
node { name: "y" op: "Relu" input: "x" attr { key: "T" value { type: DT_FLOAT } } }"""
CONFIGS = {
    "zeros": b"\0" * 100,
    "not UTF-8": b'feed { name: "\xff" }',
    "deep": b"feed { " * 100_000,
    "unfinished": b'feed { id { node_name: "x"',
    "a number for a name": b"feed { id { node_name: 7 } }",
    "a word for a number": b'feed { id { node_name: "x" output_index: first } }',
    "a number of 5000 digits": b'feed { id { node_name: "x" output_index: ' + b"9" * 5000 + b" } }",
    "a node that is not there": b'feed { id { node_name: "z" } }',
    "a feed of nothing": b"feed { }",
    "another port": b'feed { id { node_name: "x" output_index: 9 } } fetch { id { node_name: "y" } }',
    "a feed of a negative port": b'feed { id { node_name: "x" output_index: -5 } shape { dim { size: 2 } } }',
    "a feed of a port that no node has": b'feed { id { node_name: "y" output_index: 2147483647 } '
    b'shape { dim { size: 2 } } } fetch { id { node_name: "y" } }',
    "a negative port": b'fetch { id { node_name: "y" output_index: -1 } }',
    "an unknown type": b'feed { id { node_name: "x" } type: 999 } fetch { id { node_name: "y" } }',
    "another shape": b'feed { id { node_name: "x" } shape { dim { size: 3 } } }',
    "an impossible shape": b'feed { id { node_name: "x" } shape { dim { size: 9223372036854775807 } } }',
    "the same twice": b'feed { id { node_name: "x" } }' * 2 + b'fetch { id { node_name: "y" } }',
}


@pytest.mark.parametrize("case", CONFIGS)
def test_configuration(case: str, tmp_path: Path) -> None:
    (tmp_path / "g.pbtxt").write_text(GRAPH)
    (tmp_path / "c.txt").write_bytes(CONFIGS[case])
    refused(
        tmp_path, "import", tmp_path / "g.pbtxt", "--config", tmp_path / "c.txt", "-o", tmp_path / "o.onnx"
    )


@pytest.mark.parametrize("cut", range(0, 64, 7))
def test_object(cut: int, folder: Path) -> None:
    data = bytearray((folder / "net.o").read_bytes())
    (folder / "cut.o").write_bytes(data[: len(data) * cut // 64])
    refused(folder, "audit", folder / "cut.o")


@pytest.mark.parametrize("cut", [0, 4, 99, 1000])
def test_container(cut: int, tmp_path: Path) -> None:
    (tmp_path / "m.net").write_bytes(b"\xff" * cut)
    refused(tmp_path, "compress", DIGITS, "--from", tmp_path / "m.net", "-o", tmp_path / "o.onnx")


ASSEMBLY = {
    "nonsense": ("nonsense %rax", "unit.s:1"),
    "100 GB of zeros": (".space 100000000000", "too much time or memory"),
    "a file of nobody's": ('.include "m.s"', "Could not find include file"),
}


@pytest.mark.parametrize("case", ASSEMBLY)
def test_assembly(case: str, tmp_path: Path) -> None:
    text, words = ASSEMBLY[case]
    (tmp_path / "m.s").write_text(text)
    assert words in refused(tmp_path, "audit", tmp_path / "m.s", "--triple", "x86_64")


# ---- large models


@pytest.mark.parametrize("file", ["m.onnx", "m.pb", "saved_model.pb", "m.meta"])
def test_a_large_file_of_garbage_is_not_read(file: str, tmp_path: Path) -> None:
    """Behind a sound beginning; a gigabyte that takes no room on the disk, and none in memory."""
    command = "compile" if file == "m.onnx" else "import"
    with (tmp_path / file).open("wb") as out:
        out.write(DIGITS.read_bytes() if file == "m.onnx" else b"\x0a\x03abc")
        out.truncate(1 << 30)
    tracemalloc.start()
    try:
        refused(tmp_path, command, tmp_path if file.startswith("saved") else tmp_path / file)
        assert tracemalloc.get_traced_memory()[1] < 1 << 24
    finally:
        tracemalloc.stop()


def test_what_is_a_message() -> None:
    data = DIGITS.read_bytes()
    assert is_message(data, 0, len(data), PARTS) and is_message(b"", 0, 0, PARTS)
    for spoiled in (
        data[:-1],
        data + b"\x08",
        data + b"\x3a\x02\x08",
        data + b"\x0b\x0c",
        data + b"\x02\x00",
    ):
        assert not is_message(spoiled, 0, len(spoiled), PARTS)
    inner = b"\x3a\x03\x0a\x05a"  # a node that is longer than the graph it lies in
    assert is_message(inner, 0, len(inner), {}) and not is_message(inner, 0, len(inner), PARTS)
    endless = b"\xff" * 20
    assert not is_message(endless, 0, len(endless), PARTS)
