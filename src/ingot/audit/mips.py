"""What MIPS' instructions do to the stack pointer and where they go, as capstone prints them.

In: mnemonic and operands. Out: `Move`s and `Flow`s for `stack.py`, which carries out the instruction behind a
jump before the jump. Aligned frames are unknown.
"""

from __future__ import annotations

import re

from ingot.audit.moves import CONSTANT, KILLED, Flow, Move, number, plus

_SP = "$sp"
_COP1X = "bc3"
"""What capstone calls products of floats that are added: a third coprocessor's branches once had the code."""
_NO_RESULT = re.compile(
    r"s[bhwd][lr]?|s[wd]c1|nop|c\..*|mt.*|ct.*|b.*|j.*|t(eq|ne|lt|ge).*|sync|break|div.*|d?mult.*"
)


def moves(op: str, operands: str) -> Move | None:
    """The register that an instruction changes, and how."""
    if op.startswith(_COP1X):
        return None
    if _is_likely(op):
        return Move(_SP, KILLED)
    to, *rest = operands.strip().split(", ")
    value = number(rest[-1]) if rest else None
    match op:
        case "addiu" | "daddiu" if value is not None and rest[0] == "$zero":
            return Move(to, CONSTANT, value)
        case "addiu" | "daddiu":
            return plus(to, rest[0] if len(rest) > 1 else to, value)
        case "lui" if value is not None:  # the upper half of 32 bits, with its sign
            return Move(to, CONSTANT, ((value << 16) + (1 << 31)) % (1 << 32) - (1 << 31))
        case "move":
            return Move(to, rest[0])
        case "addu" | "daddu" | "subu" | "dsubu" if len(rest) == 2:
            return Move(to, rest[0], by=rest[1], sign=1 if op.endswith("addu") else -1)
    if _NO_RESULT.fullmatch(op) or (op.startswith("l") and to != _SP):  # what is reloaded was saved
        return None
    return Move(to, KILLED)


def flow(op: str, operands: str) -> Flow:
    """What a jump is, if it carries out what is behind it whether it jumps or not."""
    operands = operands.strip()
    if op.startswith(_COP1X) or _is_likely(op):
        return ""
    if op in ("jal", "jalr", "bal", "jalx"):
        return "call"
    if op == "jr":
        return "return" if operands == "$ra" else "jump"
    if op in ("break", "teq") and not operands:
        return "return"
    if op in ("j", "b"):
        return "jump"
    return "branch" if op.startswith("b") and op not in ("break", "bitrev", "bitswap") else ""


def _is_likely(op: str) -> bool:
    """A branch that skips what is behind it, and so makes a depth unknown; no compiler writes one."""
    return bool(re.fullmatch(r"b\w+l", op)) and not op.endswith("zal")
