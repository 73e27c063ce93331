"""Machine code as instructions, with what an audit asks of each: features, distances, alignment.

In: code of one function and the file it is from. Out: `Instruction`s. Called by `audit.py`. iced-x86 knows
which CPUID bits every x86 instruction needs, capstone decodes the rest; what neither knows is said to be
unknown, and is never passed over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import capstone
import iced_x86

from ingot.binary.objects import Function
from ingot.binary.record import ObjectFile

UNKNOWN = "unknown"
Access = tuple[int, str]
"""Bytes that an address must be a multiple of, and the kind of base: stack, frame, constant or pointer."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """`offset` is in the section, as is `goal`, the place that it names by a distance from itself.

    `patched`: the bytes of the instruction, from and to, that hold this distance. `realigns`: what the stack
    pointer is a multiple of behind it. `features` are x86's CPUID bits, or that it is unknown. `mode`: arm or
    thumb.
    """

    offset: int
    code: bytes
    text: str
    features: frozenset[str]
    goal: int | None = None
    patched: tuple[int, int] = (0, 0)
    aligned: Access | None = None
    realigns: int = 0
    mode: str = ""


def decodes(file: ObjectFile) -> bool:
    """Whether there is a decoder for this machine."""
    return file.machine in _X86_BITS or _engine(file, False) is not None


def instructions(file: ObjectFile, function: Function) -> Iterator[Instruction]:
    """All of a function but the constants between its instructions."""
    if file.machine in _X86_BITS:
        yield from _x86(_X86_BITS[file.machine], function)
        return
    engine = _engine(file, function.is_arm)
    if engine is None:
        return
    start = 0
    for hole, end in (*function.data, (len(function.code), len(function.code))):
        for found in engine.disasm(function.code[start:hole], function.start + start):
            if found.id or any(found.bytes):  # PowerPC has words of zeros behind functions
                yield _other(file.machine, found, function.is_arm)
        start = end


# ---- x86 ---------------------------------------------------------------------------------------------------

_X86_BITS = {"EM_X86_64": 64, "EM_386": 32}
CPUID = {value: name.lower() for name, value in vars(iced_x86.CpuidFeature).items() if isinstance(value, int)}
_MNEMONICS = {value: name for name, value in vars(iced_x86.Mnemonic).items() if isinstance(value, int)}
_UNALIGNED = re.compile("MOVU|MOVDQU|LDDQU|PCMP[EI]STR|MOV[HL]P|MOVS[SDHL]")
_ALIGNED = re.compile("V?MOV(AP[SD]|DQA|DQA32|DQA64|NTP[SD]|NTDQ|NTDQA)$")
_SAVES = {"FXSAVE": 16, "FXSAVE64": 16, "FXRSTOR": 16, "FXRSTOR64": 16, "CMPXCHG16B": 16}
_Operand = iced_x86.OpKind
_Register = iced_x86.Register


def _x86(bits: int, function: Function) -> Iterator[Instruction]:
    decoder = iced_x86.Decoder(bits, function.code, ip=function.start)
    formatter = iced_x86.Formatter(iced_x86.FormatterSyntax.GAS)
    for found in decoder:
        at = found.ip - function.start
        code = function.code[at : at + found.len]
        if found.is_invalid:
            yield Instruction(found.ip, code, "", frozenset({UNKNOWN}))
            continue
        goal, patched = _x86_goal(decoder, found)
        yield Instruction(
            found.ip,
            code,
            formatter.format(found),
            frozenset(CPUID[f] for f in found.cpuid_features()),
            goal,
            patched,
            _x86_alignment(found),
            _x86_realigns(found, bits),
        )


def _x86_goal(decoder: iced_x86.Decoder, i: iced_x86.Instruction) -> tuple[int | None, tuple[int, int]]:
    places = decoder.get_constant_offsets(i)
    if i.op_count and i.op_kind(0) in (_Operand.NEAR_BRANCH64, _Operand.NEAR_BRANCH32):
        start = places.immediate_offset
        return i.near_branch_target, (start, start + places.immediate_size)
    if i.is_ip_rel_memory_operand:
        start = places.displacement_offset
        return i.ip_rel_memory_address, (start, start + places.displacement_size)
    return None, (0, 0)


def _x86_alignment(i: iced_x86.Instruction) -> Access | None:
    """What the instruction faults on otherwise; `lea` and `nop` touch no memory."""
    if not any(i.op_kind(n) == _Operand.MEMORY for n in range(i.op_count)):
        return None
    name = _MNEMONICS[i.mnemonic]
    size = iced_x86.MemorySizeExt.size(i.memory_size)
    if i.encoding == iced_x86.EncodingKind.LEGACY:
        needs = _SAVES.get(name, 16 if size == 16 and not _UNALIGNED.match(name) else 0)
    else:
        needs = size if _ALIGNED.match(name) else 0
    return (needs, _x86_base(i)) if needs > 1 else None


def _x86_base(i: iced_x86.Instruction) -> str:
    if i.memory_base in (_Register.RSP, _Register.ESP):
        return "stack"
    if i.memory_base in (_Register.RBP, _Register.EBP):
        return "frame"
    if i.is_ip_rel_memory_operand or i.memory_base == _Register.NONE:
        return "constant"
    return "pointer"


def _x86_realigns(i: iced_x86.Instruction, bits: int) -> int:
    """`and $-64, %rsp`: 64."""
    if i.mnemonic != iced_x86.Mnemonic.AND or i.op0_register not in (_Register.RSP, _Register.ESP):
        return 0
    if i.op_count != 2 or i.op_kind(1) in (_Operand.REGISTER, _Operand.MEMORY):
        return 0
    size = -int(i.immediate(1)) % (1 << bits)
    return size if size and size & (size - 1) == 0 else 0


# ---- everything else ---------------------------------------------------------------------------------------


def _engine(file: ObjectFile, is_arm: bool) -> capstone.Cs | None:
    """Capstone for the machine, its size and its byte order; None where capstone has nothing."""
    big = capstone.CS_MODE_BIG_ENDIAN if file.endian == "big" else 0
    wide = file.bits == 64
    thumb = capstone.CS_MODE_THUMB | capstone.CS_MODE_MCLASS | capstone.CS_MODE_V8
    riscv = capstone.CS_MODE_RISCV64 if wide else capstone.CS_MODE_RISCV32
    mips = capstone.CS_MODE_MIPS64 if wide else capstone.CS_MODE_MIPS32
    known = {
        "EM_AARCH64": (capstone.CS_ARCH_ARM64, 0),
        "EM_ARM": (capstone.CS_ARCH_ARM, capstone.CS_MODE_V8 if is_arm else thumb),
        "EM_RISCV": (capstone.CS_ARCH_RISCV, riscv | capstone.CS_MODE_RISCVC),
        "EM_PPC64": (capstone.CS_ARCH_PPC, capstone.CS_MODE_64 | big),
        "EM_PPC": (capstone.CS_ARCH_PPC, capstone.CS_MODE_32 | big),
        "EM_S390": (capstone.CS_ARCH_SYSZ, capstone.CS_MODE_BIG_ENDIAN),
        "EM_MIPS": (capstone.CS_ARCH_MIPS, mips | big),
        "EM_SPARC": (capstone.CS_ARCH_SPARC, capstone.CS_MODE_BIG_ENDIAN),
        "EM_SPARCV9": (capstone.CS_ARCH_SPARC, capstone.CS_MODE_BIG_ENDIAN | capstone.CS_MODE_V9),
    }
    if file.machine not in known:
        return None
    engine = capstone.Cs(*known[file.machine])
    engine.detail = True
    engine.skipdata = True
    return engine


_BRANCHES = {"jump", "call", "branch_relative"}
_LITERAL = re.compile(r"(adr|ldr\w*|vldr)(\.w)?$")
_HINT = re.compile(r"\[(\w+)[^\]]*:0x([0-9a-f]+)\]")
_VMX = re.compile(r"(lvx|stvx)l?$")


def _other(machine: str, found: capstone.CsInsn, is_arm: bool) -> Instruction:
    mode = ("arm" if is_arm else "thumb") if machine == "EM_ARM" else ""
    text = f"{found.mnemonic} {found.op_str}".strip()
    if found.id == 0:
        return Instruction(found.address, bytes(found.bytes), "", frozenset({UNKNOWN}))
    groups = {str(found.group_name(g)).lower() for g in found.groups}
    goal = _goal(machine, found, groups)
    return Instruction(
        found.address,
        bytes(found.bytes),
        text,
        frozenset(),
        goal,
        (0, found.size) if goal is not None else (0, 0),
        _alignment(machine, found),
        mode=mode,
    )


def _goal(machine: str, found: capstone.CsInsn, groups: set[str]) -> int | None:
    """The place that a branch or a load of a constant names by its distance, if the operand is one."""
    number = re.search(r"(?:^|, |#)(-?)(0x[0-9a-f]+|\d+)$", found.op_str)
    if machine == "EM_ARM" and (literal := re.search(r"\[pc, #(-?)(0x[0-9a-f]+|\d+)\]$", found.op_str)):
        base = (int(found.address) + 4) & ~3
        return base + int(literal[2], 0) * (-1 if literal[1] else 1)
    is_branch = bool(groups & _BRANCHES) and not re.search(r"\(|\[", found.op_str)
    if number is None or not (is_branch or (machine == "EM_AARCH64" and _LITERAL.match(found.mnemonic))):
        return None
    if found.mnemonic in ("adrp",) or (machine == "EM_AARCH64" and "[" in found.op_str):
        return None
    value = int(number[2], 0) * (-1 if number[1] else 1)
    return int(found.address) + value if machine == "EM_RISCV" else value


def _alignment(machine: str, found: capstone.CsInsn) -> Access | None:
    """Arm's `[r0:0x80]` faults on other addresses, PowerPC's lvx reads the multiple below."""
    if machine == "EM_ARM" and (hint := _HINT.search(found.op_str)):
        return int(hint[2], 16) // 8, "stack" if hint[1] == "sp" else "pointer"
    if machine in ("EM_PPC64", "EM_PPC") and _VMX.match(found.mnemonic):
        return 16, "stack" if re.search(r"\br1\b", found.op_str) else "pointer"
    return None
