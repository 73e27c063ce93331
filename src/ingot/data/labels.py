"""What samples are, as files and folders say it. In: paths. Out: class names, and labels by sample.

Called by `ingot run --labels` and `ingot evaluate`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ingot.data.archives import member_names, read_member
from ingot.data.arrays import mapped
from ingot.data.samples import LABELS
from ingot.errors import InputError
from ingot.files import read_text

if TYPE_CHECKING:
    from ingot.formula.expr import Array

CLASSES = 1 << 20


def class_names(path: Path) -> list[str]:
    """Return the names of classes 0, 1, ... from a text file, one in a line. Raises InputError."""
    names = [line.strip() for line in read_text(path).splitlines()]
    while names and not names[-1]:
        names.pop()
    if not names or len(names) > CLASSES:
        raise InputError(f"{path} has {len(names):,} lines, not the names of classes")
    return names


def read_labels(path: Path) -> Array:
    """Return the array of a .npy file, or that called `labels` of a .npz archive. Its first axis counts the
    samples. Raises InputError.
    """
    return _of_samples(path, read_member(path, LABELS) if path.suffix == ".npz" else mapped(path))


def _of_samples(path: Path, labels: Array) -> Array:
    if labels.ndim == 0:
        raise InputError(
            f"the labels in {path} are one number, not one for each sample",
            remedy="save them as an array with one axis",
        )
    return labels


def labels_beside(words: Sequence[str]) -> Array | None:
    """Return the labels in the archives that the data lies in, one behind the other; None without any."""
    import numpy as np

    paths = [Path(w) for w in words if w.endswith(".npz") and Path(w).is_file()]
    found = [_of_samples(p, read_member(p, LABELS)) for p in paths if LABELS in member_names(p)]
    return np.concatenate(found) if found else None


def labels_of_images(paths: Sequence[Path], folder: Path, table: Path | None, names: Sequence[str]) -> Array:
    """Return the class of each image: from a table of `file label` lines, else from the folder it lies in.

    Folders are classes in the order of `names`, or of their own names. A label of the table is a number or
    one of the names. Raises InputError for an image whose class is not known.
    """
    import numpy as np

    if table is not None:
        found = _table(table, names)
        keys = [(str(p.relative_to(folder)), p.name) for p in paths]
        missing = [path for path, both in zip(paths, keys, strict=True) if not found.keys() & set(both)]
        if missing:
            raise InputError(f"{table} has no label of {missing[0]}, and of {len(missing) - 1} more images")
        return np.array([found[both[0]] if both[0] in found else found[both[1]] for both in keys])
    classes = list(names) or sorted({p.parent.name for p in paths if p.parent != folder})
    number = {name: n for n, name in enumerate(classes)}
    for path in paths:
        if path.parent == folder or path.parent.name not in number:
            raise InputError(
                f"{path} is not in the folder of a class", remedy="give --labels FILE, lines of `file label`"
            )
    return np.array([number[p.parent.name] for p in paths])


def _table(path: Path, names: Sequence[str]) -> dict[str, int]:
    """Labels by file, from lines of a file's name and a label between which stands a comma or a space."""
    number, found = {name: n for n, name in enumerate(names)}, {}
    for at, line in enumerate(read_text(path).splitlines(), 1):
        if not line.strip():
            continue
        parts = [part.strip() for part in (line.split(",") if "," in line else line.rsplit(None, 1))]
        label = parts[-1]
        value = number.get(
            label, int(label) if label.isascii() and label.isdecimal() and len(label) < 8 else -1
        )
        if len(parts) < 2 or value < 0:
            raise InputError(f"{path}, line {at}: write `file label`, where a label is a number or a class")
        found[parts[0]] = value
    return found
