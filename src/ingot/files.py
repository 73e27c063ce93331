"""Files that Ingot reads and writes: each read has one schema and one error, each write is whole or none.

In: paths that a user named, or that a file names. Out: bytes, text or checked JSON; an InputError for what is
missing, no regular file (a FIFO would block, a device has no end), too large, or not of its format. Called by
everything that opens a file.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import shutil
import stat
import sys
import tempfile
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from errno import EAGAIN, EISDIR
from itertools import accumulate
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from ingot.errors import InputError

T = TypeVar("T")
MODEL_BYTES = (1 << 31) - 1
"""The largest message that protobuf reads."""
TEXT_BYTES = 1 << 24
HASHED_BYTES = 1 << 34
"""The largest file that is hashed whole: ten seconds of work."""
DEPTH_LIMIT = 64
DIGITS_LIMIT = 40
SHOWN = 4  # paths in a message
_CHUNK = 1 << 20
_STRING = re.compile(rb'"(?:\\.?|[^"\\])*(?:"|\Z)', re.DOTALL)  # linear in any text
_NO_BRACKETS = bytes(c for c in range(256) if c not in b"{}[]")
_STEPS = [c in b"{[" or -(c in b"}]") for c in range(256)]


def open_file(path: Path, limit: int) -> int:
    """A descriptor of a regular file of at most `limit` bytes. Raises InputError.

    It is opened without blocking and then looked at, so that nothing can change in between.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except FileNotFoundError:
        raise InputError(f"cannot read {str(path)!r}: no such file") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"cannot read {str(path)!r}: {reason}") from None
    found = os.fstat(handle)
    if stat.S_ISREG(found.st_mode) and found.st_size <= limit:
        return handle
    os.close(handle)
    if not stat.S_ISREG(found.st_mode):
        raise InputError(f"cannot read {str(path)!r}: not a regular file")
    raise InputError(f"{path} has {found.st_size:,} bytes; at most {limit:,} are read of such a file")


def named(path: Path) -> Path:
    """Return the path, whole where its end is no name: `.` and `..`."""
    return path.resolve() if path.name in ("", "..") else path


def read_file(path: Path, limit: int = MODEL_BYTES) -> bytes:
    """The bytes of a regular file. Raises InputError."""
    try:
        with os.fdopen(open_file(path, limit), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            data = _read(file, size + 1)  # no more room is taken than the file needs
            while size < len(data) <= limit and (piece := _read(file, _CHUNK)):
                data += piece
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from None
    if len(data) > limit:  # it grew, or its file system does not know its size
        raise InputError(f"{path} has more than {limit:,} bytes, the most that are read of such a file")
    return data


def _read(file: BinaryIO, count: int) -> bytes:
    """So many bytes. Raises OSError where a file of the system's has none now, and may have some later."""
    data: bytes | None = file.read(count)
    if data is None:
        raise BlockingIOError(EAGAIN, "it has nothing to be read now")
    return data


def read_part(path: Path, offset: int, count: int) -> bytes:
    """So many bytes of a regular file of any size from an offset on, fewer at its end. Raises InputError."""
    try:
        with os.fdopen(open_file(path, 1 << 62), "rb") as file:
            file.seek(offset)
            return _read(file, min(count, max(os.fstat(file.fileno()).st_size - offset, 0)))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from None


def read_text(path: Path, limit: int = TEXT_BYTES) -> str:
    """The text of a regular file in UTF-8. Raises InputError."""
    try:
        return read_file(path, limit).decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not text in UTF-8: {error.reason} at byte {error.start}") from None


def read_toml(path: Path) -> dict[str, Any]:
    """Return what a file of TOML holds. Raises InputError, naming line and column."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        text = read_text(path)
        if max(part.count(".") for part in re.split(r"[=,{\n]", text)) > DEPTH_LIMIT:
            raise ValueError(f"a name has more than {DEPTH_LIMIT} parts")
        document: dict[str, Any] = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # Python's own, of a number of thousands of digits, too
        raise InputError(f"{path} is not valid TOML: {error}") from None
    return document


def sha256_of(path: Path, parts: Iterable[tuple[int, int]] | None = None) -> str:
    """The hash of a regular file, read in pieces. Raises InputError.

    Of a file of any size it is that of some parts, (from which byte, how many), each byte once.
    """
    total, at = hashlib.sha256(), 0
    try:
        with os.fdopen(open_file(path, HASHED_BYTES if parts is None else 1 << 62), "rb") as file:
            for start, count in sorted([(0, HASHED_BYTES)] if parts is None else parts):
                at = max(at, start)
                file.seek(at)
                while piece := _read(file, max(min(_CHUNK, start + count - at), 0)):
                    total.update(piece)
                    at += len(piece)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from None
    return total.hexdigest()


# ---- JSON


def parse_json(text: str, source: object) -> Any:
    """The value of a JSON text, which comes from `source`. Raises InputError.

    Stricter than Python's reader: every key once, numbers finite, characters whole, brackets not nested
    deeper than 64.
    """
    try:
        if _depth(text) > DEPTH_LIMIT:
            raise ValueError(f"nested deeper than {DEPTH_LIMIT}")
        found = json.loads(
            text,
            object_pairs_hook=_once,
            parse_constant=_no_number,
            parse_float=_finite,
            parse_int=_integer,
        )
        if "\\ud" in text.lower():
            json.dumps(found, ensure_ascii=False).encode()  # UnicodeEncodeError: half of a surrogate pair
    except ValueError as error:
        raise InputError(f"{source} is not JSON: {error}") from None
    return found


def conform(document: Any, schema: type[T], what: str) -> T:
    """A document as its schema has it. Raises InputError that names the first place that differs."""
    import msgspec  # only what reads a document waits for it

    try:
        return msgspec.convert(document, schema)
    except msgspec.ValidationError as error:
        reason, _, place = str(error).partition(" - at ")
        where = re.sub(r"`|\$\.?", "", place)
        reason = reason[:1].lower() + reason[1:].replace("`", "")
        raise InputError(f"{what}: {f'{where}: ' if where else ''}{reason}") from None


def _depth(text: str) -> int:
    """How deep brackets outside of strings are nested."""
    brackets = _STRING.sub(b"", text.encode()).translate(None, _NO_BRACKETS)
    return max(accumulate(map(_STEPS.__getitem__, brackets)), default=0)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        (twice, _), *_ = Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f"the key {twice[:DIGITS_LIMIT]!r} is given twice")
    return found


def _no_number(word: str) -> float:
    raise ValueError(f"{word} is no number of JSON")


def _finite(word: str) -> float:
    value = float(word)
    if math.isinf(value):
        raise ValueError(f"{word[:DIGITS_LIMIT]} is too large a number")
    return value


def _integer(word: str) -> int:
    if len(word) > DIGITS_LIMIT:
        raise ValueError(f"an integer of {len(word)} digits")
    return int(word)


# ---- writing


def write_file(path: Path, data: bytes) -> None:
    """Write a file by way of a temporary one beside it; folders that are missing are made.

    Raises InputError where it cannot, and for what is there and no file: a folder, a device."""
    write_apart({path: data})


def write_apart(files: Mapping[Path, bytes]) -> None:
    """Write files that may lie in different folders as `write_file` does, all or none. Raises InputError."""
    require_place(*files)
    with ExitStack() as written:
        for path, data in files.items():
            written.enter_context(_written(path.parent, {path.name: data}))


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write the files of a report into a folder, all or none, in the place of those that it wrote before.

    Raises InputError where it cannot, and for what is there and no file."""
    require_place(*(folder / name for name in files))
    write_files(folder, files)


def require_place(*paths: Path | None) -> None:
    """What a command that writes several files asks before it begins, so that it leaves none or all.

    Raises InputError where a folder or a device stands, or a file where a folder has to be, and for one path
    that is given twice."""
    given = [path for path in paths if path is not None]
    if len({path.absolute() for path in given}) < len(given):
        raise InputError(f"two outputs are to be one file: {', '.join(map(str, given[:SHOWN]))}")
    for path in given:
        try:
            _require_place(path)
        except (OSError, ValueError) as error:  # a name of hundreds of characters, or with a NUL
            reason = error.strerror if isinstance(error, OSError) else error
            raise InputError(f"cannot write {path}: {reason}") from None


def _require_place(path: Path) -> None:
    if path.is_dir():
        raise InputError(f"cannot write {path}: {os.strerror(EISDIR)}")
    if path.exists() and not path.is_file():
        raise InputError(f"cannot write {path}: not a regular file")
    nearest = next(p for p in path.parents if os.path.lexists(p))
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        raise InputError(f"cannot write {path}: {nearest} is not a folder")


def write_files(folder: Path, files: Mapping[str, bytes], remove: Collection[str] = ()) -> None:
    """Put files into a folder, which is made if it is missing, and take others out: all of it or nothing.

    New content is whole before anything is replaced; a failure puts back what was there. Raises InputError.
    """
    with _written(folder, files, remove):
        pass  # nothing follows that could fail


@contextmanager
def _written(folder: Path, files: Mapping[str, bytes], remove: Collection[str] = ()) -> Iterator[None]:
    """Files as `write_files` puts them; whatever fails in the block puts back what was there, too."""
    made = [p for p in (folder, *folder.parents) if not os.path.lexists(p)]  # the innermost first
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".ingot-") as staging:
            new, old = Path(staging) / "new", Path(staging) / "old"
            new.mkdir()
            old.mkdir()
            for name, content in files.items():
                _room(new / name).write_bytes(content)
            with _exchanged(folder, new, old, files, remove):
                yield
    except BaseException as error:
        for path in made:
            if path.is_dir() and not any(path.iterdir()):
                path.rmdir()
        if not isinstance(error, OSError | ValueError):  # ValueError: a NUL in a name
            raise
        where = folder / next(iter(files)) if len(files) == 1 else folder
        reason = error.strerror if isinstance(error, OSError) else ""
        raise InputError(f"cannot write {where}: {reason or error}") from None


@contextmanager
def _exchanged(
    folder: Path, new: Path, old: Path, files: Collection[str], remove: Collection[str]
) -> Iterator[None]:
    """Every file is at each moment the old one or the new; on failure the old ones come back."""
    touched: list[str] = []
    try:
        for name in (*remove, *files):
            touched.append(name)
            if os.path.lexists(folder / name):
                _keep(folder / name, _room(old / name))
            if name in files:
                os.replace(new / name, _room(folder / name))
            else:
                (folder / name).unlink(missing_ok=True)
                _without_empty(folder, (folder / name).parent)
        yield
    except BaseException:
        for name in touched:
            if os.path.lexists(old / name):
                os.replace(old / name, folder / name)
            elif name in files and not (new / name).exists():
                (folder / name).unlink(missing_ok=True)
        raise


def _room(path: Path) -> Path:
    """The path, with the directories that it lies in."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _without_empty(folder: Path, inner: Path) -> None:
    """Directories inside `folder` that hold nothing any more go, from the innermost out."""
    while inner != folder and inner.is_dir() and not any(inner.iterdir()):
        inner.rmdir()
        inner = inner.parent


def _keep(path: Path, under: Path) -> None:
    """A second name for a file, or a copy where the file system has no such names."""
    try:
        os.link(path, under, follow_symlinks=False)
    except OSError:
        shutil.copy2(path, under, follow_symlinks=False)
