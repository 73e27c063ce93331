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


def vectors(code: bytes, at: int) -> tuple[str, str] | None:
    """Mnemonic and operands of an instruction of the vector extension, which capstone does not know: what
    names a register of integers, which it writes, or `nop`.
    """
    del at  # what the instructions of other machines count from
    word = int.from_bytes(code[:4], "little")
    opcode, width, first = word & 0x7F, word >> 12 & 7, word >> 26
    if opcode == _OP_V:
        is_length, is_moved = width == 7, width == 2 and first == 0b010000
        return ("vset", _NAMES[word >> 7 & 31]) if is_length or is_moved else ("nop", "")
    return ("nop", "") if opcode in _MEMORY and width in (0, 5, 6, 7) else None


_OP_V, _MEMORY = 0x57, (0x07, 0x27)
_NAMES = (
    *("zero", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "s0", "s1"),
    *(f"a{n}" for n in range(8)),
    *(f"s{n}" for n in range(2, 12)),
    *(f"t{n}" for n in range(3, 7)),
)
