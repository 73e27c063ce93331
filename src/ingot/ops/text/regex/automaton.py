"""A pattern as a table over bytes: for each state and class of bytes the next state.

The tree becomes a nondeterministic automaton over bytes (UTF-8 ranges of bytes, in sequence), whose sets of
states become the table's states. What a place such as ^ or \\b asks of its neighbours is answered when the
next byte is known; the byte before it is part of the state. Equal states are merged in the end.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ingot.formula.expr import Array
from ingot.ops.text.regex.characters import PERL, Ranges, byte_ranges
from ingot.ops.text.regex.syntax import (
    AnyByte,
    Assertion,
    Chars,
    Choice,
    Node,
    PatternError,
    Repeat,
    Sequence,
    parse,
)

MOST_PARTS = 50_000  # states of the nondeterministic automaton
MOST_STATES = 4096
MOST_WORK = 8_000_000  # states looked at while sets of them are made
REJECTED, ACCEPTED = 0, 1
START, NEWLINE, WORD, OTHER = range(4)
END = 0  # the byte behind a string


@dataclass(frozen=True, slots=True)
class Automaton:
    """`table[state, classes[byte]]` is the next state; a zero leads to ACCEPTED or REJECTED, which stay."""

    table: Array
    classes: Array
    start: int


def compiled(pattern: str) -> Automaton:
    """The automaton that accepts the strings that match as a whole. Raises PatternError."""
    nfa = _Nfa()
    start = nfa.state()
    nfa.final = nfa.add(parse(pattern), start)
    classes, samples = _byte_classes(nfa)
    return _merged(_Sets(nfa, samples).table(start), classes)


@dataclass(slots=True)
class _Nfa:
    """Per state: where it goes without a byte (if a place is right), and on which bytes."""

    free: list[list[tuple[str, int]]] = field(default_factory=list)
    moves: list[list[tuple[int, int, int]]] = field(default_factory=list)
    final: int = 0
    has_places: bool = False

    def state(self) -> int:
        if len(self.free) >= MOST_PARTS:
            raise PatternError(f"the pattern has more than {MOST_PARTS} parts")
        self.free.append([])
        self.moves.append([])
        return len(self.free) - 1

    def add(self, node: Node, at: int) -> int:
        """Append what a node matches behind `at`; the state where it ends."""
        match node:
            case Chars(ranges):
                end = self.state()
                tails: dict[Ranges, int] = {(): end}
                for lo, hi in ranges:
                    for first, *rest in byte_ranges(lo, hi):
                        self.moves[at].append((*first, self.tail(tuple(rest), tails)))
                return end
            case AnyByte():
                end = self.state()
                self.moves[at].append((1, 255, end))
                return end
            case Assertion(kind):
                self.has_places = True
                end = self.state()
                self.free[at].append((kind, end))
                return end
            case Sequence(parts):
                for part in parts:
                    at = self.add(part, at)
                return at
            case Choice(parts):
                end = self.state()
                for part in parts:
                    self.free[self.add(part, at)].append(("", end))
                return end
            case Repeat():
                return self.repeat(node, at)
        raise TypeError(f"{node!r} is no part of a pattern")

    def tail(self, sequence: Ranges, tails: dict[Ranges, int]) -> int:
        """The state before the last bytes of a character; those that end alike share it."""
        if sequence not in tails:
            tails[sequence] = at = self.state()
            self.moves[at].append((*sequence[0], self.tail(sequence[1:], tails)))
        return tails[sequence]

    def repeat(self, node: Repeat, at: int) -> int:
        for _ in range(node.least):
            at = self.add(node.part, at)
        if node.most is None:
            loop, end = self.state(), self.state()
            self.free[at].append(("", loop))
            self.free[self.add(node.part, loop)].append(("", loop))
            self.free[loop].append(("", end))
            return end
        end = self.state()
        for _ in range(node.most - node.least):
            self.free[at].append(("", end))
            fresh = self.state()
            self.free[at].append(("", fresh))
            at = self.add(node.part, fresh)
        self.free[at].append(("", end))
        return end


def _byte_classes(nfa: _Nfa) -> tuple[Array, list[int]]:
    """The class of each byte, and a byte of each class: those of one class are in the same ranges."""
    ranges = {(lo, hi) for moves in nfa.moves for lo, hi, _ in moves}
    cuts = {0, 1, 256, *(edge for lo, hi in ranges for edge in (lo, hi + 1))}
    if nfa.has_places:
        cuts |= {10, 11, *(edge for lo, hi in PERL["w"] for edge in (lo, hi + 1))}
    starts = sorted(cuts)[:-1]
    signatures: dict[object, int] = {}
    classes, samples = np.zeros(256, np.uint8), list[int]()
    for first, end in zip(starts, [*starts[1:], 256], strict=True):
        around = frozenset((lo, hi) for lo, hi in ranges if lo <= first <= hi)
        key = (first == END, around, _kind(first) if nfa.has_places else OTHER)
        if key not in signatures:
            signatures[key] = len(samples)
            samples.append(first)
        classes[first:end] = signatures[key]
    return classes, samples


def _kind(byte: int) -> int:
    """What a place asks of a byte: ASCII words only, as RE2 has it."""
    if byte == 10:
        return NEWLINE
    return WORD if any(lo <= byte <= hi for lo, hi in PERL["w"]) else OTHER


def _holds(place: str, before: int, after: int | None) -> bool:
    """Whether a place is right between two bytes; None is the end."""
    boundary = (before == WORD) != (after is not None and _kind(after) == WORD)
    return {
        "": True,
        "begin": before == START,
        "begin_line": before in (START, NEWLINE),
        "end": after is None,
        "end_line": after is None or after == 10,
        "word": boundary,
        "not_word": not boundary,
    }[place]


State = tuple[frozenset[int], int]


@dataclass(slots=True)
class _Sets:
    """The sets of states that bytes lead to, each with the kind of byte before it."""

    nfa: _Nfa
    samples: list[int]
    work: int = 0

    def table(self, start: int) -> Array:
        """The states from 2 on, in the order in which they are met; the first is the start."""
        first: State = (frozenset([start]), START)
        numbers: dict[State, int] = {first: 2}
        rows: list[list[int]] = [[REJECTED] * len(self.samples), [ACCEPTED] * len(self.samples)]
        waiting = [first]
        for state in waiting:  # grows
            rows.append([self.next(state, byte, numbers, waiting) for byte in self.samples])
        return np.array(rows, np.int32)

    def next(self, state: State, byte: int, numbers: dict[State, int], waiting: list[State]) -> int:
        reached = self.closure(state, None if byte == END else byte)
        if byte == END:
            return ACCEPTED if self.nfa.final in reached else REJECTED
        moved = frozenset(to for s in reached for lo, hi, to in self.nfa.moves[s] if lo <= byte <= hi)
        if not moved:
            return REJECTED
        new = (moved, _kind(byte) if self.nfa.has_places else START)
        if new not in numbers:
            if len(numbers) >= MOST_STATES:
                raise PatternError(f"the pattern needs more than {MOST_STATES} states")
            numbers[new] = len(numbers) + 2
            waiting.append(new)
        return numbers[new]

    def closure(self, state: State, after: int | None) -> set[int]:
        """What is reached without a byte, `after` being the next one."""
        states, before = state
        seen, waiting = set(states), list(states)
        while waiting:
            for place, to in self.nfa.free[waiting.pop()]:
                if to not in seen and _holds(place, before, after):
                    seen.add(to)
                    waiting.append(to)
        self.work += len(seen)
        if self.work > MOST_WORK:
            raise PatternError("the pattern is too complex to be made a table of states")
        return seen


def _merged(table: Array, classes: Array) -> Automaton:
    """The same with equal states made one, those that no string tells apart (Moore's refinement), and then
    equal classes.
    """
    groups = np.minimum(np.arange(len(table)), 2)
    while True:
        rows = np.column_stack([groups, groups[table]])
        _, first, finer = np.unique(rows, axis=0, return_index=True, return_inverse=True)
        finer = finer.reshape(-1)
        if len(first) == len(np.unique(groups)):
            break
        groups = finer
    order = np.argsort(first)  # by first appearance: 0 and 1 stay what they are
    names = np.empty(len(first), np.int64)
    names[order] = np.arange(len(first))
    small = names[finer][table[first[order]]].astype(np.uint8 if len(first) <= 256 else np.uint16)
    columns, same = np.unique(small, axis=1, return_inverse=True)  # classes that lead to the same
    return Automaton(columns, same.reshape(-1)[classes].astype(np.uint8), int(names[finer][2]))
