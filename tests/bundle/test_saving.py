"""The promise about files (docs/bundle.md): nothing is replaced or deleted that is not as a bundle wrote it,
and what is written is written whole or not at all.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import ingot
from ingot.bundle.schema import sealed

from .build import write
from .models import bundle
from .test_files import EVERYTHING


def test_saving_leaves_foreign_files_alone(tmp_path: Path) -> None:
    write(tmp_path, {"notes.txt": "mine", "net.c": "int mine;", "data.json": "[1]"})
    with pytest.raises(
        ingot.InputError, match=r"edited, or not written by a bundle, so not replaced: net\.c"
    ):
        bundle().save(tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["data.json", "net.c", "notes.txt"]
    (tmp_path / "net.c").unlink()
    bundle().save(tmp_path)
    bundle().save(tmp_path)  # its own files may be replaced
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert {p.name for p in tmp_path.iterdir()} == {"notes.txt", "data.json", *bundle().files}


def test_saving_takes_back_what_an_earlier_save_left(tmp_path: Path) -> None:
    """Nothing stale stays, so that the same command works again; what was edited is its editor's."""
    everything, plain = bundle(emit=EVERYTHING), bundle()
    everything.save(tmp_path)
    plain.save(tmp_path)
    assert {p.name for p in tmp_path.iterdir()} == {*plain.files}
    everything.save(tmp_path)
    write(tmp_path, {"net_main.c": "int mine;"})
    bundle("other").save(tmp_path)
    plain.save(tmp_path)
    assert (tmp_path / "net_main.c").read_text() == "int mine;"
    assert (tmp_path / "other.o").is_file() and not (tmp_path / "libnet.a").exists()
    with pytest.raises(ingot.InputError, match=r"so not replaced: net_main\.c"):
        everything.save(tmp_path)


def content(folder: Path) -> dict[str, bytes | None]:
    """What lies in a directory; None is no regular file."""
    return {p.name: p.read_bytes() if p.is_file() else None for p in folder.iterdir()}


@pytest.mark.parametrize("name", ["net.c", "net.h", "net.o", "net.weights.bin", "net.json"])
def test_an_edited_file_is_replaced_only_by_force(name: str, tmp_path: Path) -> None:
    bundle().save(tmp_path)
    path = tmp_path / name
    path.write_bytes(path.read_bytes() + b"\n")
    before = content(tmp_path)
    with pytest.raises(
        ingot.InputError, match=rf"so not replaced: .*\b{name}.*; move it away, or insist with --force"
    ):
        bundle("net", target="c99").save(tmp_path)
    assert content(tmp_path) == before
    bundle().save(tmp_path, force=True)
    assert content(tmp_path) == dict(bundle().files)


def test_every_file_in_the_way_is_named(tmp_path: Path) -> None:
    bundle().save(tmp_path)
    write(tmp_path, {"net.c": "mine", "net.h": "mine"})
    with pytest.raises(ingot.InputError, match=r"so not replaced: net\.c, net\.h;"):
        bundle().save(tmp_path)


def _listing(folder: Path) -> dict[str, object]:
    """A manifest, with its own hash, that says of a foreign file that it wrote it."""
    found = json.loads(bundle("other").files["other.json"])
    found["files"] = {"net.c": hashlib.sha256(b"something else").hexdigest()}
    return sealed(found)


FOREIGN: dict[str, Callable[[Path], object]] = {
    "other.json": _listing,
    "list.json": lambda _: {"schema": 1, "name": "x", "symbols": [], "files": {"net.c": "0" * 64}},
    "keys.json": lambda _: {"schema": 1, "name": "x", "symbols": [], "files": ["net.c"]},
    "hash.json": lambda _: {"files": {"net.c": hashlib.sha256(b"mine").hexdigest()}},
}


@pytest.mark.parametrize("name", FOREIGN)
def test_a_json_that_lists_a_foreign_file_does_not_make_it_ours(name: str, tmp_path: Path) -> None:
    write(tmp_path, {"net.c": "mine", name: json.dumps(FOREIGN[name](tmp_path))})
    with pytest.raises(ingot.InputError, match=r"so not replaced: net\.c"):
        bundle().save(tmp_path)
    assert (tmp_path / "net.c").read_text() == "mine" and len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("text", ["[" * 100_000, "{", "\xff", '{"a": 1, "a": 2}', "NaN", "[]", ""])
def test_other_json_in_the_directory_is_in_nobodys_way(text: str, tmp_path: Path) -> None:
    (tmp_path / "data.json").write_bytes(text.encode("latin-1"))
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "folder.json").mkdir()
    for _ in range(2):
        bundle().save(tmp_path)
    assert ingot.load(tmp_path).files == bundle().files
    assert (tmp_path / "data.json").read_bytes() == text.encode("latin-1")


@pytest.mark.parametrize("kind", ["link", "loose link", "folder", "pipe"])
def test_what_is_no_file_is_not_replaced(kind: str, tmp_path: Path) -> None:
    folder, outside = tmp_path / "out", tmp_path / "mine.o"
    folder.mkdir()
    match kind:
        case "link":
            outside.write_bytes(bundle().files["net.o"])
            (folder / "net.o").symlink_to(outside)
        case "loose link":
            (folder / "net.o").symlink_to(outside)
        case "folder":
            (folder / "net.o").mkdir()
        case "pipe":
            os.mkfifo(folder / "net.o")
    with pytest.raises(ingot.InputError, match=r"so not replaced: net\.o"):
        bundle().save(folder)
    assert [p.name for p in folder.iterdir()] == ["net.o"]
    if kind == "folder":
        with pytest.raises(ingot.InputError, match="Is a directory"):
            bundle().save(folder, force=True)
        assert [p.name for p in folder.iterdir()] == ["net.o"]
    else:
        bundle().save(folder, force=True)
        assert content(folder) == dict(bundle().files)
        assert outside.exists() == (kind == "link")


def test_no_manifest_can_name_a_file_elsewhere(tmp_path: Path) -> None:
    folder = bundle().save(tmp_path / "net")
    write(tmp_path, {"notes.txt": "mine"})
    listed = json.loads((folder / "net.json").read_text())
    listed["files"]["../notes.txt"] = hashlib.sha256(b"mine").hexdigest()
    write(folder, {"net.json": json.dumps(sealed(listed))})
    with pytest.raises(ingot.InputError, match=r"so not replaced: net\.json"):
        bundle().save(folder)
    bundle().save(folder, force=True)
    assert (tmp_path / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("count", range(1, 7))
def test_a_save_that_fails_changes_nothing(
    count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever it stops: files, new ones, and those that would have been taken away."""
    bundle(emit=EVERYTHING).save(tmp_path)
    before, real, calls = content(tmp_path), os.replace, iter(range(1, 1000))

    def replace(source: Path, target: Path) -> None:
        if next(calls) == count:
            raise OSError(28, "No space left on device")
        real(source, target)

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(ingot.InputError, match="No space left on device"):
        bundle(target="c99").save(tmp_path)
    assert content(tmp_path) == before


def test_a_full_disk(tmp_path: Path) -> None:
    """The system refuses to write on: nothing new is there, and nothing old is lost."""
    bundle(target="c99").save(tmp_path / "from")
    for name in ("new", "old"):
        before = content(bundle().save(tmp_path / name)) if name == "old" else {}
        code = f"import ingot; ingot.load({str(tmp_path / 'from')!r}).save({str(tmp_path / name)!r})"
        done = subprocess.run(
            ["sh", "-c", 'ulimit -f 1 && exec "$0" -c "$1"', sys.executable, code],
            capture_output=True,
            text=True,
        )
        assert "InputError: cannot write" in done.stderr and "File too large" in done.stderr, done.stderr
        assert (content(tmp_path / name) if before else (tmp_path / name).exists()) == (before or False)


def test_force_on_the_command_line(tmp_path: Path) -> None:
    from .test_docs import DIGITS

    command = [
        sys.executable,
        "-m",
        "ingot",
        "compile",
        DIGITS,
        "-o",
        tmp_path,
        "--name",
        "net",
        "--target",
        "c99",
    ]
    subprocess.run(command, check=True, capture_output=True)
    write(tmp_path, {"net.c": "mine"})
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "so not replaced: net.c" in done.stderr
    subprocess.run([*command, "--force"], check=True, capture_output=True)
    assert (tmp_path / "net.c").read_text() != "mine"
