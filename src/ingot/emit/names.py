"""C identifiers for the model's names: readable where they can be, unique always, never anything but [A-Za-z0-9_].

A scope hands out identifiers; the same thing always gets the same one, two things never share one, and no name that the
scope was told is taken (keywords, loop variables, our own functions) is ever given out.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable

KEYWORDS = frozenset(
    [
        "alignas",
        "alignof",
        "asm",
        "auto",
        "bool",
        "break",
        "case",
        "catch",
        "char",
        "char16_t",
        "char32_t",
        "char8_t",
        "class",
        "compl",
        "concept",
        "const",
        "const_cast",
        "consteval",
        "constexpr",
        "constinit",
        "continue",
        "decltype",
        "default",
        "delete",
        "do",
        "double",
        "dynamic_cast",
        "else",
        "enum",
        "explicit",
        "export",
        "extern",
        "false",
        "float",
        "for",
        "friend",
        "goto",
        "if",
        "inline",
        "int",
        "long",
        "mutable",
        "namespace",
        "new",
        "noexcept",
        "not",
        "nullptr",
        "operator",
        "or",
        "private",
        "protected",
        "public",
        "register",
        "reinterpret_cast",
        "requires",
        "restrict",
        "return",
        "short",
        "signed",
        "sizeof",
        "static",
        "static_assert",
        "static_cast",
        "struct",
        "switch",
        "template",
        "this",
        "thread_local",
        "throw",
        "true",
        "try",
        "typedef",
        "typeid",
        "typename",
        "typeof",
        "typeof_unqual",
        "union",
        "unsigned",
        "using",
        "virtual",
        "void",
        "volatile",
        "wchar_t",
        "while",
        "xor",
        "and",
        "bitand",
        "bitor",
        "linux",
        "unix",
        "i386",
        "near",
        "far",
        "main",
        "a",
        "w",
        "status",
        "NULL",
        "EOF",
    ]
)
LONGEST = 48


def identifier(name: str, fallback: str = "t") -> str:
    """The name with every other character as `_`, cut to a length that a reader can bear; not yet unique."""
    plain = re.sub(r"[^A-Za-z0-9_]+", "_", name, flags=re.ASCII).strip("_")[:LONGEST].strip("_")
    if not plain:
        return fallback
    return f"{fallback}_{plain}" if plain[0].isdigit() else plain


class Scope:
    """Identifiers of one C scope (a file, a function, a struct)."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken: set[str] = {*KEYWORDS, *taken}
        self._names: dict[Hashable, str] = {}

    def name(self, thing: Hashable, wanted: str, fallback: str = "t") -> str:
        """The identifier of `thing`, made from `wanted` on first use."""
        if thing not in self._names:
            self._names[thing] = self.fresh(wanted, fallback)
        return self._names[thing]

    def fresh(self, wanted: str, fallback: str = "t") -> str:
        """An identifier nobody has yet."""
        plain, n = identifier(wanted, fallback), 1
        candidate = plain
        while candidate in self._taken or candidate.startswith("__") or _is_ours(candidate):
            n += 1
            candidate = f"{plain}_{n}"
        self._taken.add(candidate)
        return candidate


def _is_ours(name: str) -> bool:
    """Names of stdint and of the printer's own helpers end so (`int8_t`, `max_f32`, `f32x8`)."""
    return bool(
        re.search(r"_t$|_(f|i|u)(8|16|32|64)(x\d+)?$|^[fiu](8|16|32|64)x\d+$|^i(max|min|floordiv|mod)$", name)
    )


def comment(text: str) -> str:
    """Text that is safe inside a C comment: printable ASCII, no comment marks, no trigraphs, no line ends."""
    plain = "".join(c if " " <= c <= "~" else "?" for c in text)
    return re.sub(r"\?\?+", "?", plain.replace("*/", "* /").replace("/*", "/ *").replace("\\", "/"))[:200]
