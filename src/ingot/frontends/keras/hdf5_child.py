"""The part of the reader that runs in a process of its own: h5py's library may crash on a damaged file.

In: `model.h5` in the working directory. Out: `read.bin` beside it: the length of a JSON text in eight bytes,
the text (attributes, what arrays there are and where, what is refused), then the elements. It imports
nothing of Ingot's; `hdf5` starts it and checks everything that it says.
"""

from __future__ import annotations

import json
import resource
from pathlib import Path
from typing import Any

import h5py
import numpy as np

BYTES_LIMIT = (1 << 31) - 1
SECONDS, BYTES_PER_SECOND = 5, 1 << 25  # damage may send the library round in circles
ROOM = 1 << 30  # for the library, beside two copies of the elements
RATIO, SPARE = 100, 1 << 26  # by how much a compressed file, or one that leaves elements out, may grow
OBJECTS_LIMIT = 200_000
DEPTH_LIMIT = 64
FILTERS = ("gzip", "lzf", None)
WANTED = ("model_config", "keras_version", "backend", "layer_names", "weight_names", "dtype")


class Reading:
    """What was found so far. `left` is how many bytes of elements may still be read."""

    def __init__(self, left: int = BYTES_LIMIT) -> None:
        self.attributes: dict[str, dict[str, Any]] = {}
        self.arrays: dict[str, Any] = {}
        self.refused: dict[str, str] = {}
        self.pieces: list[bytes] = []
        self.at = 0
        self.left = left

    def walk(self, root: Any) -> None:
        """Everything that hard links lead to, each group once: links may go in circles."""
        stack: list[tuple[str, Any, int]] = [("", root, 0)]
        seen: set[int] = set()
        while stack:
            path, place, depth = stack.pop()
            address = h5py.h5o.get_info(place.id).addr
            if address in seen or depth > DEPTH_LIMIT or len(seen) > OBJECTS_LIMIT:
                self.refused[path] = "is a link in a circle, or too deep"
                continue
            seen.add(address)
            self.attributes[path] = {n: _plain(place.attrs[n]) for n in place.attrs if n.startswith(WANTED)}
            for name in place:
                inner = f"{path}/{name}" if path else name
                if not isinstance(place.get(name, getlink=True), h5py.HardLink):
                    self.refused[inner] = "is a link to somewhere else"
                elif isinstance(found := place[name], h5py.Group):
                    stack.append((inner, found, depth + 1))
                elif isinstance(found, h5py.Dataset):
                    self.take(inner, found)

    def take(self, path: str, data: Any) -> None:
        """The elements of one data set, or why they are not read."""
        size = int(data.size or 0) * int(data.dtype.itemsize)
        if data.external or data.is_virtual:
            self.refused[path] = "lies in another file"
        elif data.shape is None or (data.dtype.kind not in "fiubV" or data.dtype.names):
            self.refused[path] = f"is of type {data.dtype}"
        elif data.compression not in FILTERS or data.scaleoffset is not None:
            self.refused[path] = "is compressed in an unusual way"
        elif size > self.left:
            self.refused[path] = f"has {size:,} bytes, more than are read"
        elif size and data.id.get_storage_size() == 0:
            self.refused[path] = "was never written"
        else:
            self.left -= size
            held = np.ascontiguousarray(data[()]).tobytes()
            mark = str(_plain(data.attrs.get("dtype")))
            kind = "bfloat16" if mark == "bfloat16" and data.dtype.itemsize == 2 else data.dtype.str
            self.arrays[path] = [kind, list(data.shape), self.at]
            self.pieces.append(held)
            self.at += len(held)


def _plain(value: Any) -> Any:
    """An attribute as text, or as a list of texts; None for anything else."""
    if isinstance(value, bytes | str):
        return value.decode() if isinstance(value, bytes) else value
    words = np.asarray(value).reshape(-1).tolist()
    texts = [w.decode() if isinstance(w, bytes) else w for w in words]
    if getattr(value, "shape", None) == () and len(texts) == 1:
        return texts[0] if isinstance(texts[0], str) else None
    return texts if all(isinstance(t, str) for t in texts) else None


def _bounded(held: int, left: int) -> None:
    """The system ends this process where it takes longer, or more memory, than a sound file of its size."""
    seconds = SECONDS + held // BYTES_PER_SECOND
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_AS, (2 * left + ROOM,) * 2)


def main() -> None:
    held = Path("model.h5").stat().st_size
    found = Reading(min(BYTES_LIMIT, RATIO * held + SPARE))
    _bounded(held, found.left)
    try:
        with h5py.File("model.h5", "r") as file:
            found.walk(file)
        error = ""
    except (OSError, KeyError, ValueError, TypeError, RuntimeError, MemoryError, AttributeError) as reason:
        error = (str(reason).strip("'\"").splitlines() or [type(reason).__name__])[0][:200]
    head = {
        "error": error or "",
        "attributes": found.attributes,
        "arrays": found.arrays,
        "refused": found.refused,
    }
    text = json.dumps(head).encode()
    Path("read.bin").write_bytes(b"".join((len(text).to_bytes(8, "little"), text, *found.pieces)))


if __name__ == "__main__":
    main()
