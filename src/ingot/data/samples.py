"""Data sets as what a model takes at once: one run's arrays for every input, cast and checked.

In: words such as `data.npz`, `samples/` or `x=x.npy`, or a folder of images, and the model's inputs. Out:
`Samples`, which reads when it is asked. Called by `ingot profile` and `ingot evaluate`.

A file may hold one sample or many along its first axis; what a model with a batch takes at once is as many
samples as its batch has, the last of them repeated where the data ends.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from ingot.data.archives import member_names, read_member
from ingot.data.arrays import mapped, read_array
from ingot.errors import InputError, ShapeError

if TYPE_CHECKING:
    import numpy as np

    from ingot.formula.expr import Array

LABELS = "labels"
Data: TypeAlias = "Sequence[str] | Mapping[str, Array]"
"""Words that name files, or arrays by the inputs' names."""


@dataclass(frozen=True)
class Input:
    """One input of a model: extents that only a run tells are names. With a `scale`, its integers stand for
    (integer - zero_point) * scale.
    """

    name: str
    dtype: str
    shape: tuple[int | str, ...]
    scale: float | None = None
    zero_point: int = 0

    @property
    def batch(self) -> int:
        """How many samples a run takes, if the first axis counts them."""
        return self.shape[0] if self.shape and isinstance(self.shape[0], int) else 1


class Column(Protocol):
    """What one input is fed: `count` samples, `per_run` of them at once."""

    @property
    def count(self) -> int: ...

    @property
    def per_run(self) -> int: ...

    def read(self, run: int) -> Array: ...


@dataclass(frozen=True)
class Samples:
    """A data set: for each input of the model a column."""

    columns: Mapping[str, Column]

    @property
    def runs(self) -> int:
        """How often the model runs."""
        return max((-(-c.count // c.per_run) for c in self.columns.values()), default=0)

    @property
    def count(self) -> int:
        """How many samples there are."""
        return max((c.count for c in self.columns.values()), default=0)

    @property
    def per_run(self) -> int:
        """How many samples the model takes at once."""
        return max((c.per_run for c in self.columns.values()), default=1)

    def read(self, run: int) -> dict[str, Array]:
        """Return the arrays of one run, by the inputs' names. Raises InputError."""
        return {name: column.read(run) for name, column in self.columns.items()}

    def held(self, run: int) -> int:
        """Return how many samples of a run are none that were repeated."""
        return min(self.per_run, self.count - run * self.per_run)


@dataclass(frozen=True)
class Block:
    """An array in a file: a .npy file, or the `member` of an archive."""

    path: Path
    member: str = ""

    def array(self, dtype: str) -> Array:
        """Return its elements, as they are."""
        return _loaded(self.path, self.member, dtype)

    def __str__(self) -> str:
        return f"{self.member!r} in {self.path}" if self.member else str(self.path)


@lru_cache(maxsize=8)
def _loaded(path: Path, member: str, dtype: str) -> Array:
    return read_member(path, member) if member else read_array(path, dtype) if dtype else mapped(path)


@dataclass(frozen=True)
class Held:
    """An array that a caller holds in memory."""

    name: str
    content: Array

    def array(self, dtype: str) -> Array:
        """Return its elements, as they are."""
        return self.content

    def __str__(self) -> str:
        return f"the array {self.name!r}"


@dataclass(frozen=True)
class ArrayColumn:
    """Arrays, one behind the other. `is_whole`: a sample is all that a run takes of the input."""

    input: Input
    blocks: tuple[Block | Held, ...]
    counts: tuple[int, ...]
    is_whole: bool

    @property
    def count(self) -> int:
        return sum(self.counts)

    @property
    def per_run(self) -> int:
        return 1 if self.is_whole else self.input.batch

    @cached_property
    def _ends(self) -> list[int]:
        return list(accumulate(self.counts))

    def read(self, run: int) -> Array:
        import numpy as np

        first = run * self.per_run
        rows = [self._sample(min(i, self.count - 1)) for i in range(first, first + self.per_run)]
        return rows[0] if self.is_whole else np.stack(rows)

    def _sample(self, number: int) -> Array:
        at = bisect_right(self._ends, number)
        block, inside = self.blocks[at], number - (self._ends[at] - self.counts[at])
        array = block.array(self.input.dtype)
        rank = len(self.input.shape) - (0 if self.is_whole else 1)
        if array.ndim > rank + 1:
            array = array.reshape(array.shape[0], *array.shape[2:])
        sample = array if array.ndim == rank else array[inside]
        return cast(sample, self.input, block)


def cast(array: Array, input: Input, source: object) -> Array:
    """Return a writable copy in the input's type: floats for quantised integers are quantised by its scale.

    Raises InputError where elements might not survive that.
    """
    import numpy as np

    from ingot.formula.types import dtype_named

    wanted = dtype_named(input.dtype)
    kinds = array.dtype.kind, wanted.numpy.kind
    if array.dtype == wanted.numpy or kinds == ("O", "S"):
        return np.array(array)
    if kinds[0] == "f" and kinds[1] in "iu" and input.scale is not None:
        return _quantised(array, input, wanted.numpy)
    if not (wanted.is_float and (kinds[0] == "f" or np.can_cast(array.dtype, np.float64))):
        raise InputError(
            f"{source} holds {array.dtype}, the input {input.name!r} takes {input.dtype}",
            remedy=f"convert it with astype('{input.dtype}')",
        )
    return np.asarray(array.astype(wanted.numpy))


def _quantised(array: Array, input: Input, dtype: np.dtype[Any]) -> Array:
    """As QuantizeLinear has it: halves to even, what is out of range clipped."""
    import numpy as np

    limits = np.iinfo(dtype)
    steps = np.rint(array.astype(np.float32) / np.float32(input.scale)) + input.zero_point
    return np.asarray(np.clip(steps, limits.min, limits.max).astype(dtype))


# ---- from words


def open_samples(data: Data, inputs: Sequence[Input]) -> Samples:
    """Return the samples in arrays by the inputs' names, or those that words name: files, folders, or
    NAME=FILE for one input each.

    Raises InputError for what does not fit the inputs, names the file and says what would.
    """
    known = {i.name: i for i in inputs}
    if isinstance(data, Mapping):
        return joined({name: _column(of, [_held(data, name)]) for name, of in known.items()})
    return _opened(data, known)


def _held(arrays: Mapping[str, Array], name: str) -> Held:
    import numpy as np

    if name not in arrays:
        listed = ", ".join(map(repr, arrays)) or "none"
        raise InputError(f"there is no array for the input {name!r} among: {listed}")
    return Held(name, np.asarray(arrays[name]))


def _opened(words: Sequence[str], known: Mapping[str, Input]) -> Samples:
    blocks: dict[str, list[Block]] = {name: [] for name in known}
    for word in words:
        said, path = _named(word, known)
        for name, block in _blocks(path, said, known):
            blocks[name].append(block)
    missing = [name for name, found in blocks.items() if not found]
    if missing:
        raise InputError(
            f"there is no data for the input {', '.join(map(repr, missing))}",
            remedy="give NAME=FILE.npy for each input, or a .npz file with arrays of the inputs' names",
        )
    return joined({name: _column(known[name], found) for name, found in blocks.items()})


def joined(columns: Mapping[str, Column]) -> Samples:
    """Return the samples of columns, which must have the same number of runs."""
    found = Samples(columns)
    for column in columns.values():
        if -(-column.count // column.per_run) != found.runs:
            counts = ", ".join(f"{n!r} {c.count:,}" for n, c in columns.items())
            raise InputError(f"the inputs have different numbers of samples: {counts}")
    return found


def _named(word: str, known: Mapping[str, Input]) -> tuple[str, Path]:
    names = [name for name in known if word.startswith(f"{name}=")]
    name = max(names, key=len, default="")
    return name, Path(word[len(name) + 1 :] if name else word)


def _blocks(path: Path, name: str, known: Mapping[str, Input]) -> list[tuple[str, Block]]:
    """The arrays in a file or folder, with the input that each is for."""
    if path.is_dir():
        files = sorted(p for p in path.iterdir() if p.suffix in (".npy", ".npz"))
        if not files:
            raise InputError(
                f"{path} has no .npy or .npz files", remedy="give a folder of images as --images"
            )
        return [pair for file in files for pair in _blocks(file, name, known)]
    if path.suffix != ".npz":
        return [(name or _only(known, path), Block(path))]
    members = member_names(path)
    if name:
        wanted = {name: name if name in members else _single(path, members)}
    else:
        wanted = {n: n for n in known if n in members}
        if not wanted:
            wanted = {_only(known, path): _single(path, members)}
    return [(name, Block(path, member)) for name, member in wanted.items()]


def _only(known: Mapping[str, Input], path: Path) -> str:
    """The model's only input."""
    if len(known) == 1:
        return next(iter(known))
    raise InputError(
        f"it is not clear which input {path} is for: {', '.join(known) or '(none)'}",
        remedy="write NAME=FILE",
    )


def _single(path: Path, members: Sequence[str]) -> str:
    """An archive's only array but for labels."""
    others = [m for m in members if m != LABELS]
    if len(others) == 1:
        return others[0]
    listed = ", ".join(map(repr, others[:8])) or "none"
    raise InputError(f"{path} has no array of an input's name; its arrays: {listed}")


def _column(input: Input, blocks: Sequence[Block | Held]) -> ArrayColumn:
    """The column of arrays that are all samples of the input, or all whole inputs."""
    fits = [_fit(input, block) for block in blocks]
    is_whole = all(whole for _, whole in fits)
    if not is_whole and any(whole for _, whole in fits):
        raise InputError(f"the files for {input.name!r} differ in whether they hold samples or batches")
    counts = tuple(count for count, _ in fits)
    if not sum(counts):
        raise InputError(f"{blocks[0]} holds no samples", remedy="its first axis counts them, and is empty")
    return ArrayColumn(input, tuple(blocks), counts, is_whole)


def _fit(input: Input, block: Block | Held) -> tuple[int, bool]:
    """How many samples an array holds, and whether each is all that a run takes."""
    shape = block.array(input.dtype).shape
    inner = input.shape[1:]
    if input.shape and len(shape) == len(input.shape) and _matches(shape[1:], inner):
        return shape[0], False
    if input.shape and _matches(shape, inner):
        return 1, False
    if input.batch == 1 and len(shape) == len(input.shape) + 1 and _matches(shape[1:], input.shape):
        return shape[0], not input.shape
    if len(shape) == len(input.shape) + 1 and _matches(shape[1:], input.shape):
        return shape[0], True
    if _matches(shape, input.shape):
        return 1, True
    raise ShapeError(
        f"{block} does not fit the input {input.name!r}",
        shapes=[shape, input.shape],
        remedy="give samples along the first axis, each of the shape the model takes without its first axis",
    )


def _matches(shape: Sequence[int], wanted: Sequence[int | str]) -> bool:
    return len(shape) == len(wanted) and all(
        isinstance(w, str) or w == n for n, w in zip(shape, wanted, strict=True)
    )


def inputs_of(tensors: Sequence[Mapping[str, Any]]) -> list[Input]:
    """The inputs that a manifest describes."""
    return [
        Input(t["name"], t["dtype"], tuple(t["shape"]), t.get("scale"), t.get("zero_point", 0))
        for t in tensors
    ]
