"""Long lines of C, broken where a reader would break them.

In: C text. Out: the same tokens in lines of at most 120 columns wherever a space allows it. Called last.
"""

from __future__ import annotations

import re

COLUMNS = 120
_BREAKS = (", ", "; ", "&& ", "|| ", "+ ", "* ", "? ", ": ")
_TOKENS = re.compile(r'"(?:\\.|[^"\\])*"|\S+?(?=["\s]|$)|\s+|\S')


def wrap(text: str) -> str:
    """Break the lines that are too long; preprocessor lines stay whole."""
    return "\n".join(part for line in text.split("\n") for part in _parts(line))


def _parts(line: str) -> list[str]:
    if len(line) <= COLUMNS or line.lstrip().startswith("#"):
        return [line]
    body = line.lstrip(" ")
    indent = line[: len(line) - len(body)]
    inner = indent + ("   " if body.startswith("/*") else "        ")
    words, out, start = _words(body), [], indent
    while words:
        n = _fitting(words, COLUMNS - len(start))
        out.append((start + "".join(words[:n])).rstrip())
        words, start = words[n:], inner
    return out


def _fitting(words: list[str], room: int) -> int:
    """How many words make the next line: to the last comma or operator in its second half, or all."""
    n, used = 0, 0
    good = 0
    while n < len(words) and (n == 0 or used + len(words[n].rstrip()) <= room):
        used += len(words[n])
        n += 1
        if used > room // 2 and words[n - 1].endswith(_BREAKS):
            good = n
    return n if n == len(words) else good or n


def _words(body: str) -> list[str]:
    """Runs without a space, each with the space behind it; a string literal is never cut."""
    words = [""]
    for token in _TOKENS.findall(body):
        words[-1] += token
        if token.isspace():
            words.append("")
    return [w for w in words if w]
