"""What single instructions do to the stack pointer and where they go: x86, AArch64, Thumb, and the tables of
all machines.

In: mnemonic and operands as capstone prints them. Out: `Move`s between registers and a `Flow`. Called by
`stack.py`, which follows them through a function. What is not understood kills the register it writes; a
killed stack pointer makes the function's stack unknown, never wrong.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import capstone

from ingot.audit import mips, powerpc, riscv, zarch
from ingot.audit.moves import CONSTANT, KILLED, Flow, Move, number, plus, slack
from ingot.binary.record import ObjectFile


@dataclass(frozen=True, slots=True)
class Machine:
    """One instruction set; a call pushes `word`, a function without calls may write `red_zone` below sp.

    `beyond` gives mnemonic and operands of four bytes that capstone does not know, if it knows them itself.
    `pairs`: a far jump is two instructions, of which the first holds where it goes; near ones say how far.
    `delays`: what stands behind a jump is carried out before it. `written` gives operands as x86 writes them.
    """

    architecture: int
    mode: int
    sp: str
    word: int
    section_bias: int  # added to the addend of a call relocated against a section
    moves: Callable[[str, str], Move | None]
    flow: Callable[[str, str], Flow]
    red_zone: int = 0
    pairs: bool = False
    delays: bool = False
    written: Callable[[str], str] = str
    beyond: Callable[[bytes, int], tuple[str, str] | None] = lambda code, at: None


# ---- x86 ---------------------------------------------------------------------------------------------------

_X86_READS = ("cmp", "test", "bt", "call", "jmp", "nop", "ucomiss", "comiss", "prefetch")


def _x86_name(operand: str) -> str:
    """Full-width name, so that writing ebp or r8d is seen to change rbp or r8."""
    operand = re.sub(r"^e([a-ds][a-z])$", r"r\1", operand)
    return re.sub(r"^(r\d+)[dwb]$", r"\1", "rbp" if operand == "ebp" else operand)


def _x86_moves(word: int, op: str, operands: str) -> Move | None:
    to, _, rest = operands.partition(", ")
    to, value = _x86_name(to), number(rest)
    match op:
        case "push" | "pop":
            return Move("rsp", "rsp", word if op == "pop" else -word)
        case "leave":
            return Move("rsp", "rbp", word)
        case "add" | "sub":
            return plus(to, to, value if op == "add" or value is None else -value)
        case "and" if value is not None:
            step = slack(value, 8 * word, word)
            return plus(to, to, None if step is None else -step)
        case "lea":
            return _x86_address(to, rest)
        case "mov":  # reloading a saved register keeps what is known of it
            return None if "[" in operands else Move(to, _x86_name(rest))
    return None if op.startswith(_X86_READS) or "[" in to else Move(to, KILLED)


def _x86_address(to: str, operand: str) -> Move:
    """lea: `[rbp - 8]`."""
    found = re.fullmatch(r"\[(\w+)(?: ([+-]) (\w+))?\]", operand)
    offset = number(found[3] or "0") if found else None
    if found is None or offset is None:
        return Move(to, KILLED)
    return Move(to, _x86_name(found[1]), -offset if found[2] == "-" else offset)


def _x86_flow(op: str, operands: str) -> Flow:
    if op == "call":
        return "call"
    if op.startswith("ret") or op in ("ud2", "hlt", "int3"):
        return "return"
    if op == "jmp":
        return "jump"
    return "branch" if op.startswith(("j", "loop")) else ""


# ---- AArch64 -----------------------------------------------------------------------------------------------

_A64_READS = ("st", "cmp", "cmn", "tst", "b", "cb", "tb", "ccmp", "nop", "prfm", "fcmp", "ld")


def _a64_moves(op: str, operands: str) -> Move | None:
    stepped = re.search(r"\[(\w+), #(-?\w+)\]!|\[(\w+)\], #(-?\w+)", operands)
    if stepped:  # pre- or post-indexed access
        register = stepped[1] or stepped[3]
        return plus(register, register, number(stepped[2] or stepped[4]))
    to, source, *rest = [*operands.split(", ", 2), ""]
    to = re.sub(r"^w(\d+)$", r"x\1", to)
    value = number(rest[0]) if rest else None
    match op:
        case "add" | "sub" if re.fullmatch(r"x\d+", rest[0]):
            return Move(to, source, by=rest[0], sign=1 if op == "add" else -1)
        case "add" | "sub":
            return plus(to, source, value if op == "add" or value is None else -value)
        case "and":
            step = slack(value, 64, 16)
            return plus(to, source, None if step is None else -step)
        case "mov":
            value = number(source)
            return Move(to, source) if value is None else Move(to, CONSTANT, value)
    return None if op.startswith(_A64_READS) else Move(to, KILLED)


def _a64_flow(op: str, operands: str) -> Flow:
    if op in ("bl", "blr"):
        return "call"
    if op in ("ret", "brk", "udf"):
        return "return"
    if op in ("b", "br"):
        return "jump"
    return "branch" if op.startswith(("b.", "cbz", "cbnz", "tbz", "tbnz")) else ""


# ---- Thumb -------------------------------------------------------------------------------------------------

_THUMB_READS = ("st", "vst", "vld", "ld", "cmp", "cmn", "tst", "b", "cb", "it", "nop", "vcmp", "vmov")


_CONDITION = "(eq|ne|hs|lo|mi|pl|vs|vc|hi|ls|ge|lt|gt|le|cs|cc)"
_CONDITIONS = re.compile(f"b{_CONDITION}")
_RELEASES = re.compile(f"(add|addw|pop|vpop){_CONDITION}")


def _thumb_moves(op: str, operands: str) -> Move | None:
    op = op.removesuffix(".w")
    if _RELEASES.fullmatch(op) and re.fullmatch(r"sp, (sp, )?#\w+|{.*}", operands):
        return None  # on a condition, as of an early return: below is how deep the stack is without it
    if op in ("push", "vpush", "pop", "vpop") or operands.startswith("sp!, {"):
        registers = operands.strip("sp!, {}").split(", ")
        size = sum(8 if name.startswith("d") else 4 for name in registers)
        return Move("sp", "sp", -size if op in ("push", "vpush", "stmdb", "vstmdb") else size)
    stepped = re.search(r"\[(\w+), #(-?\w+)\]!|\[(\w+)\], #(-?\w+)", operands)
    if stepped:
        register = stepped[1] or stepped[3]
        return plus(register, register, number(stepped[2] or stepped[4]))
    return _thumb_arithmetic(op.removesuffix("s"), operands)


def _thumb_arithmetic(op: str, operands: str) -> Move | None:
    to, *rest = operands.split(", ")
    source, value = (rest[0] if len(rest) > 1 else to), number(rest[-1]) if rest else None
    match op:
        case "movw" if value is not None:
            return Move(to, CONSTANT, value)
        case "add" | "sub" if value is None and rest:
            return Move(to, source, by=rest[-1], sign=1 if op == "add" else -1)
        case "add" | "addw" | "sub" | "subw":
            return plus(to, source, value if op.startswith("add") or value is None else -value)
        case "mov" if rest:
            return Move(to, rest[0])
        case "bfc" if rest and rest[0] == "#0" and value is not None:  # clears the low bits: an alignment
            return Move(to, to, 4 - (1 << value))
    return None if op.startswith(_THUMB_READS) else Move(to, KILLED)


def _thumb_flow(op: str, operands: str) -> Flow:
    op = op.removesuffix(".w")
    if op in ("bl", "blx"):
        return "call"
    if (op in ("bx", "b") and operands == "lr") or op == "udf" or (op in ("pop", "ldm") and "pc" in operands):
        return "return"
    if op in ("b", "bx", "tbb", "tbh"):
        return "jump"
    return "branch" if _CONDITIONS.fullmatch(op) or op in ("cbz", "cbnz", "wls") else ""


def _armv81m(code: bytes, at: int) -> tuple[str, str] | None:
    """Loops and vectors of integers of Armv8.1-M: where they go, and the register that they change.

    Encodings are those of the Armv8-M Architecture Reference Manual (DDI 0553), C2.4.
    """
    first, second = int.from_bytes(code[:2], "little"), int.from_bytes(code[2:4], "little")
    if first in (0xF00F, 0xF01F, 0xF02F) and second & 0xF001 == 0xC001:  # LE, LETP
        back = (second >> 1 & 0x3FF) << 2 | (second >> 11 & 1) << 1
        return "ble", f"#{at + 4 - back}"
    if first & 0xFF80 == 0xF000 and first & 15 != 15 and second & 0xF001 == 0xE001:  # DLS, DLSTP
        return "dls", "lr"
    if first & 0xFFF0 in (0xEEF0, 0xFEF0) and second & 0x0F10 == 0x0F00:  # VMLADAV, VMLAV, VADDV
        return "vmladav", f"r{second >> 13 << 1}"
    if first & 0xEE00 == 0xEC00 and second & 0x1E00 in (0x1E00, 0x0E00):  # VLDR, VSTR, gathers, scatters
        if not first & 1 << 5:
            return "vldr", ""
        return "step", _NAMES[first & (15 if second & 0x1000 else 7)]  # those that widen have r0 to r7 only
    if first & 0xFF81 == 0xEE01 and second & 0x1F7E == 0x0F6E:  # VIDUP, VDDUP: a number and the next ones
        return "vidup", f"r{(first >> 1 & 7) << 1}"
    if first & 0xFFA0 == 0xEEA0 and second & 0x1FF0 == 0x0FC0:  # VSHLC: what falls out goes to a register
        return "vshlc", f"r{second & 15}"
    if first & 0xEFB1 == 0xEE31 and (second & 0x0F51 == 0x0E01 or second & 0x0F50 == 0x0E40):
        return "vorr", "q0"  # VQMOVN, VQMOVUN, or VFMA and VMUL of floats by a number
    if first & 0xEFA0 == 0xEEA0 and second & 0x0FD1 == 0x0F40:  # VMOVL, VSHLL: every other lane, widened
        return "vorr", "q0"
    if first & 0xEF80 == 0xEE00 and second & 0x0F10 == 0x0E00:  # products, by vectors or by a number
        return "vorr", "q0"
    if first & 0xFF80 == 0xEE00 and second & 0x0F50 == 0x0F40:  # a vector and a number make a vector
        return "vorr", "q0"
    if first in (0xEEED, 0xEEFD) and second & 0x0FFF == 0x0A10:  # VMSR and VMRS of a loop's predicates
        return ("vorr", "q0") if first == 0xEEED else ("vmladav", f"r{second >> 12}")
    if first & 0xFFBF == 0xFE31 and second & 0x1FFF == 0x0F4D:  # VPST
        return "vorr", "q0"
    return ("vorr", "q0") if first & 0xEF00 == 0xEF00 else None  # among vectors


_NAMES = (*(f"r{i}" for i in range(13)), "sp", "lr", "pc")
_X86, _A64, _ARM = capstone.CS_ARCH_X86, capstone.CS_ARCH_ARM64, capstone.CS_ARCH_ARM
_EITHER_ORDER = (capstone.CS_ARCH_PPC, capstone.CS_ARCH_MIPS)
"""Of bytes in an instruction: the object's."""
_CORTEX_M = capstone.CS_MODE_THUMB | capstone.CS_MODE_MCLASS | capstone.CS_MODE_V8


def _riscv(bits: int, mode: int) -> Machine:
    decoder = capstone.CS_ARCH_RISCV, mode | capstone.CS_MODE_RISCVC
    rules = partial(riscv.moves, bits), riscv.flow
    return Machine(*decoder, "sp", 0, 0, *rules, pairs=True, beyond=riscv.vectors)


def _mips(mode: int) -> Machine:
    return Machine(capstone.CS_ARCH_MIPS, mode, "$sp", 0, 0, mips.moves, mips.flow, delays=True)


def _powerpc(mode: int, red_zone: int) -> Machine:
    rules = powerpc.moves, powerpc.flow
    return Machine(capstone.CS_ARCH_PPC, mode, "r1", 0, 0, *rules, red_zone, written=powerpc.rewritten)


MACHINES = {
    "EM_X86_64": Machine(
        _X86, capstone.CS_MODE_64, "rsp", 8, 4, partial(_x86_moves, 8), _x86_flow, red_zone=128
    ),
    "EM_386": Machine(_X86, capstone.CS_MODE_32, "rsp", 4, 4, partial(_x86_moves, 4), _x86_flow),
    "EM_AARCH64": Machine(_A64, capstone.CS_MODE_ARM, "sp", 0, 0, _a64_moves, _a64_flow),
    "EM_RISCV32": _riscv(32, capstone.CS_MODE_RISCV32),
    "EM_RISCV64": _riscv(64, capstone.CS_MODE_RISCV64),
    "EM_PPC": _powerpc(capstone.CS_MODE_32, 0),
    "EM_PPC64": _powerpc(capstone.CS_MODE_64, powerpc.RED_ZONE),
    "EM_S390": Machine(
        capstone.CS_ARCH_SYSZ, capstone.CS_MODE_BIG_ENDIAN, "%r15", 0, -2, zarch.moves, zarch.flow
    ),
    "EM_MIPS32": _mips(capstone.CS_MODE_MIPS32),
    "EM_MIPS64": _mips(capstone.CS_MODE_MIPS64),
    "EM_ARM": Machine(_ARM, _CORTEX_M, "sp", 0, 4, _thumb_moves, _thumb_flow, beyond=_armv81m),
}


def machine_of(file: ObjectFile) -> Machine | None:
    """The rules for an object's code, if there are any."""
    found = MACHINES.get(file.machine) or MACHINES.get(f"{file.machine}{file.bits}")
    if found is None or file.endian == "little" or found.architecture not in _EITHER_ORDER:
        return found
    return replace(found, mode=found.mode | capstone.CS_MODE_BIG_ENDIAN)
