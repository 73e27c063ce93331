"""What z/Architecture's instructions do to the stack pointer and where they go, as capstone prints them.

In: mnemonic and operands. Out: `Move`s and `Flow`s for `stack.py`. Registers are saved in the caller's frame,
which has 160 bytes for them.
"""

from __future__ import annotations

import re

from ingot.audit.moves import CONSTANT, KILLED, Flow, Move, number, plus, slack

_STACK_WORD = 8
"""Bytes that the stack pointer is a multiple of."""
_NO_RESULT = re.compile(r"st|c(?!s)|t[mbcd]|lt|br|j|nop|mv|xc|nc|oc|pfd")
_ADDRESS = re.compile(r"(-?\w+)\((%r\d+)\)")
_COMPARE_AND_JUMP = re.compile(r"cl?g?[ir]j[a-z]*")


def moves(op: str, operands: str) -> Move | None:
    """The register that an instruction changes, and how."""
    to, *rest = operands.split(", ")
    value = number(rest[-1]) if rest else None
    match op:
        case "aghi" | "agfi" | "algfi":
            return plus(to, to, value)
        case "slgfi":
            return plus(to, to, None if value is None else -value)
        case "aghik":
            return plus(to, rest[0], value)
        case "la" | "lay":
            found = _ADDRESS.fullmatch(", ".join(rest))
            return plus(to, found[2], number(found[1])) if found else Move(to, KILLED)
        case "lgr":
            return Move(to, rest[0])
        case "lghi" | "lgfi" if value is not None:
            return Move(to, CONSTANT, value)
        case "agr" | "sgr":
            return Move(to, to, by=rest[0], sign=1 if op == "agr" else -1)
        case "nill" if value is not None:  # the lowest sixteen bits
            step = slack(value - (1 << 16), 64, _STACK_WORD)
            return plus(to, to, None if step is None else -step)
        case "lmg" | "lg":  # what is reloaded was saved: the frame is left, and nothing is deeper
            return None
    return None if _NO_RESULT.match(op) else Move(to, KILLED)


def flow(op: str, operands: str) -> Flow:
    """A return on a condition goes on: below is how deep the stack is without it."""
    if op in ("brasl", "bras", "basr"):
        return "call"
    if op == "br":
        return "return" if operands == "%r14" else "jump"
    if op in ("j", "jg"):
        return "jump"
    is_branch = op.startswith(("j", "brc", "brx")) or _COMPARE_AND_JUMP.fullmatch(op)
    return "branch" if is_branch else ""
