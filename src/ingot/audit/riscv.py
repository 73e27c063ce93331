"""What RISC-V's instructions do to the stack pointer and where they go, as capstone prints them.

In: mnemonic and operands. Out: `Move`s and `Flow`s for `stack.py`. Compressed instructions are the same with
`c.` before them, and one operand less where the first two are equal.
"""

from __future__ import annotations

import re

from ingot.audit.moves import CONSTANT, KILLED, Flow, Move, number, plus, slack

_BRANCH = re.compile(r"b(eq|ne|lt|ge|gt|le)(u|z)?")
_STORES = frozenset(("sb", "sh", "sw", "sd", "fsw", "fsd", "swsp", "sdsp", "fswsp", "fsdsp", "nop", "fence"))
_STACK_WORD = 16
"""Bytes that the stack pointer is a multiple of."""


def moves(bits: int, op: str, operands: str) -> Move | None:
    """The register that an instruction changes, and how."""
    op = op.removeprefix("c.")
    if op in _STORES:
        return None
    to, *rest = operands.split(", ")
    value = number(rest[-1]) if rest else None
    source = rest[0] if len(rest) > 1 else to
    match op:
        case "addi" | "addi16sp" | "addi4spn":
            return plus(to, source, value)
        case "mv" if rest:
            return Move(to, rest[0])
        case "li" if value is not None:
            return Move(to, CONSTANT, value)
        case "lui" if value is not None:  # the upper twenty of 32 bits, with their sign
            return Move(to, CONSTANT, ((value << 12) + (1 << 31)) % (1 << 32) - (1 << 31))
        case "add" | "sub" if rest:
            return Move(to, source, by=rest[-1], sign=1 if op == "add" else -1)
        case "andi":
            step = slack(value, bits, _STACK_WORD)
            return plus(to, source, None if step is None else -step)
    return Move(to, KILLED)


def flow(op: str, operands: str) -> Flow:
    """`jal` and `jalr` that keep where they were are calls."""
    op = op.removeprefix("c.")
    if op in ("jal", "jalr"):
        return "jump" if operands.startswith("zero, ") else "call"
    if op in ("ret", "ebreak", "unimp") or (op == "jr" and operands == "ra"):
        return "return"
    if op in ("j", "jr"):
        return "jump"
    return "branch" if _BRANCH.fullmatch(op) else ""
