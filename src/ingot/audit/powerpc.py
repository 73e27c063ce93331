"""What PowerPC's instructions do to the stack pointer and where they go, as capstone prints them.

In: mnemonic and operands. Out: `Move`s and `Flow`s for `stack.py`. An access that updates its base register
moves it by its distance; frames of more than 32 kB and aligned ones, which are made otherwise, are unknown.
"""

from __future__ import annotations

import re

from ingot.audit.moves import CONSTANT, KILLED, Flow, Move, number, plus

RED_ZONE = 288
"""Bytes below the stack pointer that a function without calls may use, by the 64-bit ABIs."""
_SP = "r1"
_CALLS = frozenset(("bl", "bla", "bctrl", "blrl", "bcl"))
_UPDATE = re.compile(r"(st[bhwd]|l[bhwd]z?|lha|lf[sd]|stf[sd])u")
_INDEXED_UPDATE = re.compile(r"(st[bhwd]|l[bhwd]z?|lha|lf[sd]|stf[sd])ux")
_NO_RESULT = re.compile(r"st|cmp|fcmp|mt|b|nop|trap|tw|td|sync|isync|dcb")
_ADDRESS = re.compile(r"\w+, (-?\w+)\((\w+)\)")


def moves(op: str, operands: str) -> Move | None:
    """The register that an instruction changes, and how."""
    to, *rest = operands.split(", ")
    value = number(rest[-1]) if rest else None
    if _UPDATE.fullmatch(op):
        found = _ADDRESS.fullmatch(operands)
        return plus(found[2], found[2], number(found[1])) if found else Move(_SP, KILLED)
    if _INDEXED_UPDATE.fullmatch(op):
        return Move(rest[0], rest[0], by=rest[1])
    match op:
        case "addi":
            return plus(to, rest[0], value)
        case "mr":
            return Move(to, rest[0])
        case "li" if value is not None:
            return Move(to, CONSTANT, value)
        case "add":
            return Move(to, rest[0], by=rest[1])
    if _NO_RESULT.match(op) or (op.startswith("l") and to != _SP):  # what is reloaded was saved
        return None
    return Move(to, KILLED)


def flow(op: str, operands: str) -> Flow:
    """A return on a condition goes on: below is how deep the stack is without it."""
    op = op.rstrip("+-")
    if op in _CALLS:
        return "call"
    if op in ("blr", "trap", "rfi"):
        return "return"
    if op in ("b", "ba", "bctr"):
        return "jump"
    is_branch = op.startswith("b") and not op.endswith(("lr", "lrl", "ctr")) and not op.startswith("bper")
    return "branch" if is_branch else ""


def rewritten(operands: str) -> str:
    """Accesses as they are written for x86: `[r1 - 0x10]`, so that those below the stack pointer are seen."""
    return re.sub(r"-(0x[0-9a-f]+|\d+)\((\w+)\)", r"[\2 - \1]", operands)
