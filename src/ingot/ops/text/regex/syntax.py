"""RE2's syntax, read into a tree. In: a pattern; out: a `Node`, or a PatternError that says where.

Greediness and groups make no difference to whether a whole string matches: they are read and forgotten.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ingot.ops.text.regex.characters import LAST, PERL, POSIX, Ranges, category, complement, folded, union

MOST_REPEATS = 1000
DEEPEST = 100
ESCAPES = {"a": 7, "f": 12, "t": 9, "n": 10, "r": 13, "v": 11}


class PatternError(ValueError):
    """The pattern is no regular expression of RE2, or beyond what is supported."""


@dataclass(frozen=True, slots=True)
class Chars:
    """One character of a set."""

    ranges: Ranges


@dataclass(frozen=True, slots=True)
class AnyByte:
    """One byte, of whatever character."""


@dataclass(frozen=True, slots=True)
class Assertion:
    """A place: begin or end, of the text or of a line; word or not_word boundary."""

    kind: str


@dataclass(frozen=True, slots=True)
class Sequence:
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """`part` from `least` to `most` times; None: any number."""

    part: Node
    least: int
    most: int | None


Node = Chars | AnyByte | Assertion | Sequence | Choice | Repeat


@dataclass(frozen=True, slots=True)
class Flags:
    ignore_case: bool = False
    multi_line: bool = False
    dot_all: bool = False


FLAGS = {"i": "ignore_case", "m": "multi_line", "s": "dot_all", "U": ""}


def parse(pattern: str) -> Node:
    """The tree of a pattern. Raises PatternError."""
    reader = _Reader(pattern)
    found = reader.choice(Flags(), 0)
    if reader.at < len(pattern):
        raise reader.error("an unexpected )")
    return found


@dataclass(slots=True)
class _Reader:
    text: str
    at: int = 0

    def error(self, what: str) -> PatternError:
        return PatternError(f"{what} at character {self.at}")

    def peek(self, count: int = 1) -> str:
        return self.text[self.at : self.at + count]

    def take(self, count: int = 1) -> str:
        found = self.peek(count)
        if len(found) < count:
            raise self.error("the pattern ends too early")
        self.at += count
        return found

    def accept(self, text: str) -> bool:
        if self.text.startswith(text, self.at):
            self.at += len(text)
            return True
        return False

    def until(self, end: str) -> str:
        stop = self.text.find(end, self.at)
        if stop < 0:
            raise self.error(f"a missing {end}")
        found, self.at = self.text[self.at : stop], stop + len(end)
        return found

    # -- structure

    def choice(self, flags: Flags, depth: int) -> Node:
        """Alternatives up to a ) or the end."""
        if depth > DEEPEST:
            raise self.error(f"groups are nested more than {DEEPEST} deep")
        parts: list[list[Node]] = [[]]
        while self.at < len(self.text) and self.peek() != ")":
            if self.accept("|"):
                parts.append([])
            elif (new := self.setting(flags)) is not None:
                flags = new
            elif self.accept("\\Q"):
                stop = self.text.find("\\E", self.at)
                literal = self.text[self.at :] if stop < 0 else self.until("\\E")
                self.at = len(self.text) if stop < 0 else self.at
                parts[-1] += [_literal(c, flags) for c in literal]
                if literal:
                    parts[-1][-1] = self.repeated(parts[-1][-1])
            else:
                parts[-1].append(self.repeated(self.atom(flags, depth)))
        made = [Sequence(tuple(p)) for p in parts]
        return made[0] if len(made) == 1 else Choice(tuple(made))

    def setting(self, flags: Flags) -> Flags | None:
        """(?i) and the like, which hold from here to the end of the group."""
        start = self.at
        if not self.accept("(?"):
            return None
        new = self.flags(flags)
        if new is not None and self.accept(")"):
            return new
        self.at = start
        return None

    def flags(self, flags: Flags) -> Flags | None:
        """Letters of flags, those behind a - switched off."""
        on = True
        while self.peek() and self.peek() in "imsU-":
            c = self.take()
            if c == "-":
                on = False
            elif FLAGS[c]:
                flags = replace(flags, **{FLAGS[c]: on})
        return flags if self.peek() in (")", ":") else None

    def repeated(self, part: Node) -> Node:
        """What stands behind a part: * + ? {n,m}, once, and a ? that makes no difference."""
        bounds = self.bounds()
        if bounds is None:
            return part
        self.accept("?")
        if self.bounds() is not None:
            raise self.error("a repetition of a repetition")
        return Repeat(part, *bounds)

    def bounds(self) -> tuple[int, int | None] | None:
        for sign, found in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self.accept(sign):
                return found
        start = self.at
        if not self.accept("{") or "}" not in self.text[self.at :]:
            self.at = start
            return None
        low, comma, high = self.until("}").partition(",")
        if not low.isascii() or not low.isdigit() or (high and not (high.isascii() and high.isdigit())):
            self.at = start  # RE2: a brace that begins no repetition is a brace
            return None
        if len(low) > 4 or len(high) > 4 or max(int(low), int(high or 0)) > MOST_REPEATS:
            raise self.error(f"more than {MOST_REPEATS} repetitions")
        least, most = int(low), int(high) if high else None if comma else int(low)
        if most is not None and most < least:
            raise self.error("a repetition whose lower bound exceeds its upper bound")
        return least, most

    # -- one character, group or place

    def atom(self, flags: Flags, depth: int) -> Node:
        c = self.take()
        match c:
            case "(":
                return self.group(flags, depth)
            case "[":
                return self.set(flags)
            case ".":
                return Chars(((0, LAST),) if flags.dot_all else complement(((10, 10),)))
            case "^":
                return Assertion("begin_line" if flags.multi_line else "begin")
            case "$":
                return Assertion("end_line" if flags.multi_line else "end")
            case "*" | "+" | "?":
                raise self.error("a repetition of nothing")
            case "\\":
                return self.escape(flags)
        return _literal(c, flags)

    def group(self, flags: Flags, depth: int) -> Node:
        if self.accept("?P<") or (self.peek(2) == "?<" and self.peek(3) not in ("?<=", "?<!")):
            self.accept("?<")
            if not self.until(">").isidentifier():
                raise self.error("a bad name of a group")
        elif self.accept("?"):
            new = self.flags(flags)
            if new is None or not self.accept(":"):
                raise self.error("a kind of group that RE2 does not have")
            flags = new
        inner = self.choice(flags, depth + 1)
        if not self.accept(")"):
            raise self.error("a missing )")
        return inner

    def escape(self, flags: Flags) -> Node:
        c = self.peek()
        places = {"A": "begin", "z": "end", "b": "word", "B": "not_word"}
        if c and c in places:
            self.take()
            return Assertion(places[c])
        if self.accept("C"):
            return AnyByte()
        found = self.named(flags)
        return _fold(self.code(), flags) if found is None else Chars(found)

    def named(self, flags: Flags) -> Ranges | None:
        r"""\d \w \s \p{L} and their opposites, behind the backslash; those of ASCII know no other case."""
        c = self.peek()
        if c and c in "dswDSW":
            self.take()
            return PERL[c] if c in PERL else complement(PERL[c.lower()])
        if c not in ("p", "P"):
            return None
        self.take()
        name = self.until("}") if self.accept("{") else self.take()
        found = category(name.removeprefix("^"))
        if found is None:
            raise self.error(f"the class of characters {name!r}, which is not a general category,")
        found = folded(found) if flags.ignore_case else found
        return complement(found) if (c == "P") != name.startswith("^") else found

    def code(self) -> Ranges:
        """An escaped character, behind the backslash."""
        c = self.take()
        if c in ESCAPES:
            return _one(ESCAPES[c])
        if c == "x":
            digits = self.until("}") if self.accept("{") else self.take(2)
            return self.number(digits, 16)
        if c in "01234567":
            digits = c
            while len(digits) < 3 and self.peek() and self.peek() in "01234567":
                digits += self.take()
            if c != "0" and len(digits) < 3:
                raise self.error("a reference to a group, which RE2 does not have,")
            return self.number(digits, 8)
        if c.isascii() and c.isalnum():
            raise self.error(f"an unknown escape \\{c}")
        return _one(ord(c))

    def number(self, digits: str, base: int) -> Ranges:
        try:
            value = int(digits, base) if digits.isalnum() else -1
        except ValueError:
            value = -1
        if not 0 <= value <= LAST:
            raise self.error(f"{digits!r} is no character")
        return _one(value)

    # -- sets

    def set(self, flags: Flags) -> Node:
        """[...], behind the opening bracket."""
        negated, found, first = self.accept("^"), list[tuple[int, int]](), True
        while first or self.peek() != "]":
            found += self.member(flags)
            first = False
        self.take()
        ranges = union(found)
        return Chars(complement(ranges) if negated else ranges)

    def member(self, flags: Flags) -> Ranges:
        """A class, a character or a range of them."""
        if self.accept("[:"):
            name = self.until(":]")
            if name.removeprefix("^") not in POSIX:
                raise self.error(f"the unknown class [:{name}:]")
            ranges = POSIX[name.removeprefix("^")]
            return complement(ranges) if name.startswith("^") else ranges
        low = self.single(flags)
        if isinstance(low, tuple):
            return low
        high = low
        if self.peek() == "-" and self.peek(2) not in ("-", "-]"):
            self.take()
            end = self.single(flags)
            if isinstance(end, tuple) or end < low:
                raise self.error("a bad range of characters")
            high = end
        return folded(((low, high),)) if flags.ignore_case else ((low, high),)

    def single(self, flags: Flags) -> Ranges | int:
        """A class, or the code of one character."""
        if not self.accept("\\"):
            return ord(self.take())
        found = self.named(flags)
        return self.code()[0][0] if found is None else found


def _one(code: int) -> Ranges:
    return ((code, code),)


def _fold(ranges: Ranges, flags: Flags) -> Chars:
    return Chars(folded(ranges) if flags.ignore_case else ranges)


def _literal(c: str, flags: Flags) -> Chars:
    return _fold(_one(ord(c)), flags)
