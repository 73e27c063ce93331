"""`make replay BASE=COMMIT`: what this working copy emits otherwise than a commit does.

python -m tests.replay BASE [--quick] [--model NAME*] [--target NAME] [--workers N] [--shown N]

Out: for every model that differs its targets and functions, with a short diff of each kind of change once;
the last line is "replay: identical" or "replay: N of M texts differ". Exit code 0 only if nothing differs.
"""

from __future__ import annotations

import argparse
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from fnmatch import fnmatch

from rich.console import Console
from rich.progress import Progress

from ingot.check.machine import cache_folder
from ingot.targets.records import TARGETS as KNOWN
from tests.replay.compare import Change, changes
from tests.replay.corpus import QUICK_TARGETS, TARGETS, Model, models
from tests.replay.trees import HERE, Emitter, Store, Tree, model_key, snapshot, tree_of

DIFF_LINES = 16


@dataclass(frozen=True)
class Replayed:
    """What became of a model: its changes by target, none where the texts are equal; how many refuse it."""

    model: str
    changes: dict[str, list[Change]]
    refused: int

    @property
    def differing(self) -> list[str]:
        return [target for target, found in self.changes.items() if found]


class Replay:
    """Emits models by two trees; each thread that asks has a process of its own for each tree."""

    def __init__(self, base: Tree, head: Tree, store: Store) -> None:
        self.trees, self._store = (base, head), store
        self._own = threading.local()
        self._started: list[Emitter] = []

    def __call__(self, model: Model, targets: Sequence[str]) -> Replayed:
        data = model.make().SerializeToString(deterministic=True)
        options = {"name": model.name, **model.options}
        key = model_key(data, options)
        texts = []
        for tree in self.trees:
            known = self._store.load(tree, key)
            missing = [t for t in targets if t not in known]
            if missing:
                known |= self._emitter(tree).emit(data, options, missing)
                self._store.save(tree, key, known)
            texts.append(known)
        found = {t: changes(texts[0][t], texts[1][t]) for t in targets}
        return Replayed(model.name, found, sum(texts[1][t].count("\n") == 1 for t in targets))

    def _emitter(self, tree: Tree) -> Emitter:
        own: dict[str, Emitter] = self._own.__dict__
        if tree.digest not in own:
            own[tree.digest] = Emitter(tree)
            self._started.append(own[tree.digest])
        return own[tree.digest]

    def close(self) -> None:
        for emitter in self._started:
            emitter.close()


def replayed(
    replay: Replay, chosen: Sequence[Model], targets: Sequence[str], workers: int
) -> Iterator[Replayed]:
    """What became of each, in their order."""
    with ExitStack() as stack:
        stack.callback(replay.close)
        pool = stack.enter_context(ThreadPoolExecutor(workers))
        stack.callback(pool.shutdown, cancel_futures=True)
        yield from pool.map(lambda m: replay(m, targets), chosen)


@dataclass
class Report:
    """Prints what differs. A change that many functions share is shown once."""

    console: Console
    shown: int
    total: int = 0
    differing: int = 0
    refused: int = 0
    seen: set[tuple[str, ...]] = field(default_factory=set)

    def add(self, found: Replayed) -> None:
        self.total += len(found.changes)
        self.differing += len(found.differing)
        self.refused += found.refused
        by_names: dict[str, list[str]] = {}
        for target in found.differing:
            names = ", ".join(f"{c.name} {c.kind}" for c in found.changes[target])
            by_names.setdefault(names, []).append(target)
        for names, targets in by_names.items():
            self._say(f"{found.model} [{' '.join(targets)}]: {names}")
            for target in targets:
                for change in found.changes[target]:
                    self._diff(change, target)

    def _diff(self, change: Change, target: str) -> None:
        if change.sign in self.seen:
            return
        self.seen.add(change.sign)
        if len(self.seen) > self.shown:
            return
        self._say(f"  {change.name}, {target}:")
        for line in change.lines[:DIFF_LINES]:
            self._say(f"    {line}")
        if len(change.lines) > DIFF_LINES:
            self._say(f"    ... {len(change.lines) - DIFF_LINES} lines more")

    def end(self) -> bool:
        """Whether nothing differs; the summary is the last line."""
        if len(self.seen) > self.shown:
            self._say(
                f"{len(self.seen) - self.shown} other changes not shown: --shown {len(self.seen)} shows all"
            )
        texts = f"{self.total} texts" + (f", {self.refused} of them errors" if self.refused else "")
        self._say(
            f"replay: {self.differing} of {texts} differ"
            if self.differing
            else f"replay: identical ({texts})"
        )
        return not self.differing

    def _say(self, line: str) -> None:
        self.console.print(line, markup=False, highlight=False, soft_wrap=True)


def main(arguments: Sequence[str] | None = None) -> int:
    asked = _parser().parse_args(arguments)
    targets = asked.target or (QUICK_TARGETS if asked.quick else TARGETS)
    if unknown := set(targets) - set(KNOWN):
        raise SystemExit(f"replay: unknown targets {sorted(unknown)}; known are {', '.join(KNOWN)}")
    chosen = [m for m in models() if (m.is_light or not asked.quick) and fnmatch(m.name, asked.model)]
    if not chosen:
        raise SystemExit(f"replay: no model is called {asked.model!r}")
    report = Report(Console(), asked.shown)
    store = Store(cache_folder() / "replay")
    with ExitStack() as stack:
        progress = stack.enter_context(Progress(console=Console(stderr=True), transient=True))
        trees = (stack.enter_context(tree_of(asked.base)), stack.enter_context(snapshot(HERE)))
        store.keep(trees)
        done = replayed(Replay(*trees, store), chosen, targets, asked.workers)
        for found in progress.track(done, len(chosen), description="models"):
            report.add(found)
    return 0 if report.end() else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.replay", description=__doc__)
    parser.add_argument("base", help="the commit to compare with")
    parser.add_argument("--quick", action="store_true", help="light models and five targets")
    parser.add_argument("--model", default="*", metavar="NAME*", help="only models of these names")
    parser.add_argument("--target", action="append", help="only this target, and others so named")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--shown", type=int, default=20, help="how many kinds of change to show")
    return parser


if __name__ == "__main__":
    sys.exit(main())
