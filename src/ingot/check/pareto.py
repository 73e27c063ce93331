"""A model compressed to several sizes, and what each costs.

In: a model, what is wished of it, ratios, bits, samples. Out: a `Frontier` of `Point`s. Every point is a task
for a process or a Dask worker. Its model and its record are written into a folder as soon as they are there,
so a second run computes only what is missing, or was made of other files. Called by `ingot pareto`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import msgspec

from ingot.check.evidence import LabelledData
from ingot.compression.choose import ratio as parsed_ratio
from ingot.compression.model import Compressed, Wish
from ingot.errors import IngotError, InputError
from ingot.files import parse_json, read_text, sha256_of, write_apart
from ingot.log import announce
from ingot.tables import Result, Table, table
from ingot.workers import spread

Compress = Callable[[Any, Wish, bool, LabelledData | None, bool], Compressed]
COLUMNS = ("ratio", "bits>", "file", "bytes>", "ratio, Huffman>", "plain>", "all constants>", "cost>", "best")


class Point(msgspec.Struct, frozen=True):
    """One compressed model. `digest` is of all that it was made of.

    The ratios are those of the report. `error` is that of the outputs, `right` the percentage of right
    answers, `score` that of the training script; `obstacle` says why there is no such model.
    """

    name: str
    wished: str
    bits: str
    digest: str
    bytes: int = 0
    ratio: float = 0.0
    plain_ratio: float = 0.0
    whole_ratio: float = 0.0
    error: float | None = None
    right: float | None = None
    score: float | None = None
    obstacle: str = ""

    @property
    def worth(self) -> float:
        """The larger the better: right answers or a score in percent, or minus the error in percent."""
        if self.right is not None:
            return self.right
        return -100 * self.error if self.error is not None else self.score or 0.0


@dataclass(frozen=True, slots=True, repr=False)
class Frontier(Result):
    """All points, and what the model before is worth: right answers or a score, None for errors."""

    points: tuple[Point, ...]
    before: float | None

    def best(self) -> set[str]:
        """Return the names of the points than which none is both smaller and better."""
        made = [p for p in self.points if not p.obstacle]
        return {p.name for p in made if not any(_beats(q, p) for q in made)}

    def as_dict(self) -> dict[str, Any]:
        """Return plain data."""
        best = self.best()
        points = [{**msgspec.to_builtins(p), "is_best": p.name in best} for p in self.points]
        return {"before": self.before, "points": points}

    def tables(self) -> list[Table]:
        """Return a row for each point."""
        best = self.best()
        rows = [_row(p, p.name in best) for p in self.points]
        title = "" if self.before is None else f"before: {self.before:.2f}"
        return [table(title, COLUMNS, rows)]


@dataclass(frozen=True, slots=True)
class Job:
    """What all points share: the file of the model, whether batch normalisations are folded and names
    shortened, data, and who compresses.
    """

    model: Path
    folds: bool
    data: LabelledData | None
    compress: Compress
    shortens: bool = False


@dataclass(frozen=True, slots=True)
class Task:
    """One point to be made."""

    name: str
    wish: Wish
    digest: str


def pareto(
    job: Job,
    wish: Wish,
    ratios: Sequence[str],
    bits: Sequence[str],
    folder: Path,
    workers: int = 1,
    scheduler: str | None = None,
) -> Frontier:
    """Make a point of every ratio with every number of bits. Raises InputError if none can be made."""
    tasks = _tasks(job, wish, ratios, bits)
    known = {task.name: point for task in tasks if (point := _known(folder, task)) is not None}
    missing = [task for task in tasks if task.name not in known]
    before: list[float] = []
    for done, found in enumerate(spread(_made, job, missing, workers, scheduler), 1):
        announce("compress", done, len(missing))
        point, content, first = found
        known[point.name] = point
        before.extend(() if first is None else (first,))
        if not point.obstacle:
            record = json.dumps({**msgspec.to_builtins(point), "before": first}, indent=2)
            stem = folder / point.name
            write_apart({Path(f"{stem}.onnx"): content, Path(f"{stem}.json"): record.encode()})
    points = tuple(known[task.name] for task in tasks)
    if all(p.obstacle for p in points):
        raise InputError(f"no point can be made: {points[0].obstacle}")
    return Frontier(points, next(iter(before), _recorded(folder, points)))


def _tasks(job: Job, wish: Wish, ratios: Sequence[str], bits: Sequence[str]) -> list[Task]:
    """One task for each combination, in the order of the words."""
    if not ratios or not bits:
        raise InputError("there is no point to make", remedy="name --ratios and --bits")
    shared = _digest(job, wish)
    return [
        Task(
            f"{parsed_ratio(r):g}x-{_stem(b)}bits",
            replace(wish, ratio=r, bits=(*wish.bits, b)),
            hashlib.sha256(f"{shared} {r} {b}".encode()).hexdigest(),
        )
        for r, b in product(ratios, bits)
    ]


def _stem(bits: str) -> str:
    """Bits as part of a file's name."""
    return re.sub(r"[^\w.,=-]", "_", bits)


def _digest(job: Job, wish: Wish) -> str:
    """Of the model, the options, the samples, and the training script."""
    files = [job.model]
    if job.data is not None:
        words = job.data.words if not isinstance(job.data.words, dict) else ()
        files += [Path(w.rpartition("=")[2]) for w in words]
        files += [job.data.labels] if isinstance(job.data.labels, Path) else []
    plan: tuple[Any, ...] = ()
    if wish.training is not None and isinstance(wish.training.script, Path):
        files.append(wish.training.script)
        plan = (wish.training.rounds, wish.training.steps, wish.training.share_rounds)
    options = replace(wish, training=None)
    held = [sha256_of(path) for each in files for path in _files(each)]
    return hashlib.sha256(repr((job.folds, job.shortens, options, plan, held)).encode()).hexdigest()


def _files(path: Path) -> list[Path]:
    return sorted(p for p in path.iterdir() if p.is_file()) if path.is_dir() else [path]


def _known(folder: Path, task: Task) -> Point | None:
    """The point of an earlier run, if it was made of the same."""
    path = folder / f"{task.name}.json"
    if not path.is_file() or not (folder / f"{task.name}.onnx").is_file():
        return None
    try:
        point = msgspec.convert(parse_json(read_text(path), path), Point)
    except (IngotError, msgspec.ValidationError):
        return None
    return point if point.digest == task.digest else None


def _recorded(folder: Path, points: Sequence[Point]) -> float | None:
    """What the records say of the model before."""
    names = [p.name for p in points if not p.obstacle]
    found = parse_json(read_text(folder / f"{names[0]}.json"), names[0]).get("before")
    return None if found is None else float(found)


def _made(job: Job, task: Task) -> tuple[Point, bytes, float | None]:
    """The point, the file of its model, and what the model before is worth."""
    bits = task.wish.bits[-1]
    point = Point(task.name, task.wish.ratio, bits, task.digest)
    try:
        made = job.compress(job.model, task.wish, job.folds, job.data, job.shortens)
    except InputError as error:
        return msgspec.structs.replace(point, obstacle=str(error)), b"", None
    content = made.model.SerializeToString()
    ratios = {n: getattr(made.account, n) for n in ("ratio", "plain_ratio", "whole_ratio")}
    scores, worth = dict(made.scores), made.worth
    found: dict[str, Any] = {"score": scores[made.scores[-1][0]]} if scores else {}
    before = made.scores[0][1] if scores else None
    if worth is not None:
        found |= {"error": worth.error, "right": worth.after}
        before = worth.before
    return msgspec.structs.replace(point, bytes=len(content), **ratios, **found), content, before


def _beats(one: Point, other: Point) -> bool:
    """Whether one is as small and as good as another, and better in one of both."""
    as_good = one.ratio >= other.ratio and one.worth >= other.worth
    return as_good and (one.ratio > other.ratio or one.worth > other.worth)


def _row(p: Point, is_best: bool) -> tuple[Any, ...]:
    if p.obstacle:
        return (p.wished, p.bits, p.obstacle, "", "", "", "", "", "")
    ratios = (f"{r:.1f}x" for r in (p.ratio, p.plain_ratio, p.whole_ratio))
    cost = f"{p.worth:.2f}" if p.right is not None or p.error is None else f"{-p.worth:.3g} %"
    return (p.wished, p.bits, f"{p.name}.onnx", p.bytes, *ratios, cost, is_best)
