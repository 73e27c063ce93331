"""A change of a register and where control goes on: what every instruction set's rules are written in.

In: operands as capstone prints them. Out: `Move`, `Flow`. Called by `machine.py` and `riscv.py`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Flow = Literal["", "call", "jump", "branch", "return"]
KILLED = ""
CONSTANT = "#"


@dataclass(frozen=True, slots=True)
class Move:
    """to := source + offset + sign * by, in bytes; an alignment is the largest step down it can make.

    `source` is a register, KILLED (anything) or CONSTANT (the offset alone); `by` holds a constant.
    """

    to: str
    source: str
    offset: int = 0
    by: str = ""
    sign: int = 1


def number(text: str) -> int | None:
    """`0x10`, `#16`, `#1, lsl #12`; None if it is no constant."""
    found = re.fullmatch(r"#?(-?)(0x[0-9a-f]+|\d+)(?:, lsl #(\d+))?", text)
    if found is None:
        return None
    value = int(found[2], 0) << int(found[3] or 0)
    return -value if found[1] else value


def slack(mask: int | None, bits: int, word: int) -> int | None:
    """Largest step down of `sp & mask` when sp is a multiple of `word`: -64 -> 64 - word."""
    size = 0 if mask is None else -mask % (1 << bits)
    return size - word if size and size & (size - 1) == 0 else None


def plus(to: str, source: str, offset: int | None) -> Move:
    return Move(to, KILLED) if offset is None else Move(to, source, offset)
