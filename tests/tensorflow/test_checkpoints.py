"""Checkpoints that are broken or hostile: one error each, after work that the file's size bounds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ingot.errors import InputError
from ingot.frontends.tensorflow.checkpoint import FOOTER, MAGIC, open_checkpoint
from ingot.frontends.tensorflow.protos import message
from tests.models import SECONDS, limit
from tests.tensorflow.graphs import block, floats, save_checkpoint, set_shape, varint

TRAILER = bytes(5)
Rows = list[tuple[int, bytes, bytes]]


def header() -> bytes:
    made = message("BundleHeader")
    made.num_shards = 1
    return bytes(made.SerializeToString())


def entry(offset: int = 0, size: int = 4, shape: tuple[int, ...] = (1,), shard: int = 0) -> bytes:
    made = message("BundleEntry")
    made.dtype, made.offset, made.size, made.shard_id = 1, offset, size, shard
    set_shape(made.shape, shape)
    return bytes(made.SerializeToString())


def shared_block(rows: Rows) -> bytes:
    """Rows of how much of the last key comes before the rest, that rest, and the value."""
    body = b"".join(varint(n) + varint(len(key)) + varint(len(v)) + key + v for n, key, v in rows)
    return body + bytes(4) + (1).to_bytes(4, "little")


def table(blocks: list[bytes], places: Callable[[int, int], list[tuple[int, int]]] | None = None) -> bytes:
    """Blocks, the index of them (or of other places, which are given the first one's), the footer."""
    at, found, data = 0, [], b""
    for one in blocks:
        found.append((at, len(one)))
        data += one + TRAILER
        at = len(data)
    found = places(*found[0]) if places else found
    rows = {b"%08d" % i: varint(o) + varint(n) for i, (o, n) in enumerate(found)}
    index = block(rows)
    footer = varint(0) + varint(0) + varint(at) + varint(len(index))
    return data + index + TRAILER + footer.ljust(FOOTER - len(MAGIC), b"\0") + MAGIC


def plain(**entries: bytes) -> bytes:
    return table([block({b"": header(), **{k.encode(): v for k, v in entries.items()}})])


ONE = block({b"": header(), b"a": entry()})
TABLES: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "is not the index"),
    "zeros": (bytes(1000), "is not the index"),
    "another end": (plain(a=entry())[:-1] + b"\0", "is not the index"),
    "a footer alone": (bytes(FOOTER - 8) + MAGIC, "a block"),
    "no header": (table([block({b"a": entry()})]), "holds no header"),
    "a header that is none": (table([block({b"": b"\xff"})]), "is no BundleHeader"),
    "an entry that is none": (plain(a=b"\xff\xff"), "is no BundleEntry"),
    "no parts": (table([block({b"": b"", b"a": entry()})]), "0 parts"),
    "one block 10,000 times": (table([ONE], lambda o, n: [(o, n)] * 10_000), "overlap, or do not ascend"),
    "a block within another": (table([ONE], lambda o, n: [(o, n), (o + 1, n - 1)]), "overlap"),
    "blocks in disorder": (table([ONE, ONE], lambda o, n: [(n + 5, n), (o, n)]), "do not ascend"),
    "a block beyond the file": (table([ONE], lambda o, n: [(1 << 40, n)]), "overlap"),
    "a block of 2^60 bytes": (table([ONE], lambda o, n: [(o, 1 << 60)]), "overlap"),
    "a key twice": (table([ONE, ONE]), "keys do not ascend"),
    "keys in disorder": (table([shared_block([(0, b"", header()), (0, b"b", entry()), (0, b"a", entry(4))])]),
                         "keys do not ascend"),
    "a megabyte repeated": (
        table([shared_block([(0, b"", header()), (0, b"a" * 100_000, entry()),
                             *((100_000, b"%06d" % i, entry()) for i in range(8_000))])]),
        "repeat more than it holds",
    ),
    "a key that begins with nothing": (
        table([shared_block([(0, b"", header()), (7, b"a", entry())])]),
        "an entry leaves",
    ),
    "restarts without end": (table([ONE[:-4] + b"\xff\xff\xff\xff"]), "restarts"),
    "a number without end": (table([b"\xff" * 40]), "restarts"),
    "Snappy": (ONE + b"\x01" + table([ONE])[len(ONE) + 1 :], "Snappy"),
    "a key that is not UTF-8": (table([block({b"": header(), b"\xff": entry()})]), "not UTF-8"),
    "two variables in one place": (plain(a=entry(0, 8, (2,)), b=entry(4, 8, (2,))), "another variable's too"),
    "a negative offset": (plain(a=entry(-4)), "another variable's too"),
    "a negative size": (plain(a=entry(0, -4)), "another variable's too"),
}  # fmt: skip


@pytest.mark.parametrize("case", TABLES)
def test_index(case: str, tmp_path: Path) -> None:
    data, words = TABLES[case]
    (tmp_path / "m.index").write_bytes(data)
    with limit(SECONDS), pytest.raises(InputError) as caught:
        open_checkpoint(tmp_path / "m")
    assert words in str(caught.value) and "\n" not in str(caught.value) and len(str(caught.value)) < 500


VARIABLES: dict[str, tuple[bytes, str]] = {
    "another size": (entry(0, 8, (1,)), "8 bytes at 0 for float32[1]"),
    "an offset before the file": (entry(-1, 0, (0,)), "0 bytes at -1"),
    "beyond the file": (entry(1 << 40), "leave m.data"),
    "2^62 elements": (entry(0, 4, (1 << 31, 1 << 31)), "too large"),
    "a negative extent": (entry(0, 4, (-1,)), "negative or too large"),
    "another part": (entry(shard=7), "there is no part 7"),
    "1 GB of a file of 64 bytes": (entry(0, 1 << 30, (1 << 28,)), "leave m.data"),
    "2 GB": (entry(0, 1 << 31, (1 << 29,)), "more than 2,147,483,647 bytes"),
}


@pytest.mark.parametrize("case", VARIABLES)
def test_variable(case: str, tmp_path: Path) -> None:
    data, words = VARIABLES[case]
    (tmp_path / "m.index").write_bytes(plain(a=data))
    (tmp_path / "m.data-00000-of-00001").write_bytes(bytes(64))
    made = open_checkpoint(tmp_path / "m")
    with limit(SECONDS), pytest.raises(InputError, match="variable 'a'") as caught:
        made.read("a")
    assert words in str(caught.value)


def test_variables_count_once(tmp_path: Path) -> None:
    """What is read again is no more of a model; what is not there twice over is."""
    save_checkpoint(tmp_path / "m", {"v": floats(3), "w": floats(5)})
    made = open_checkpoint(tmp_path / "m")
    made.room = 31
    for _ in range(3):
        made.read("w")
    with pytest.raises(InputError, match=r"'v'.* more than"):
        made.read("v")


@pytest.mark.parametrize("name", ["m.index", "m.data-00000-of-00001"])
@pytest.mark.parametrize("make", [Path.mkdir, Path.touch, None])
def test_files_that_are_none(name: str, make: Callable[[Path], object] | None, tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "m", {"w": floats(3)})
    (tmp_path / name).unlink()
    if make:
        make(tmp_path / name)
    with pytest.raises(InputError, match=r"m\.(index|data)"):
        open_checkpoint(tmp_path / "m").read("w")


def test_keys_that_share_their_beginning(tmp_path: Path) -> None:
    """As TensorFlow writes them: fifteen of sixteen keys say only what is new."""
    rows: Rows = [(0, b"", header())]
    rows += [
        (0, b"layer/%04d" % i, entry(4 * i)) if i % 16 == 0 else (6, b"%04d" % i, entry(4 * i))
        for i in range(999)
    ]
    (tmp_path / "m.index").write_bytes(table([shared_block(rows)]))
    values: Any = floats(999)
    (tmp_path / "m.data-00000-of-00001").write_bytes(values.tobytes())
    made = open_checkpoint(tmp_path / "m")
    assert made.read("layer/0500") == values[500]
