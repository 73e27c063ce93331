"""How much stack a compiled object needs, read from its machine code (`machine.py` has the instruction sets).

In: object bytes. Out: `StackUsage`. Called by `bundle` (the header's STACK_MAX), `inspect` and tests.

The compilers' own numbers are no bounds: clang's `.stack_sizes` leaves out the return address, arguments
pushed for a call, and what `and rsp, -64` can cost (every kernel that spills vectors). So the stack pointer
is followed through each function's control flow, and calls through relocations. Recursion, indirect calls,
calls out of the object and instructions that are not understood give None: unknown, never too small.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import capstone

from ingot.audit.machine import Machine, machine_of
from ingot.audit.moves import CONSTANT, Flow, Move
from ingot.binary.objects import Function, functions
from ingot.binary.read import read_object
from ingot.binary.record import ObjectFile

DEEPEST, VISITS = 256, 8
SLOT = "@"
UNNAMED = "(unknown)"
# Linux's: `ret` and calls through a register are jumps to them.
RETURN_THUNK, INDIRECT_THUNK = "__x86_return_thunk", "__x86_indirect_thunk_"
HOOKS = ("__fentry__",)  # of tracers, which bring their own stack; nothing as long as nobody traces
Registers = dict[str, int]
"""What is known: register -> bytes relative to the stack pointer at entry, `#register` -> constant in it,
`@OFFSET` -> what was pushed there."""


@dataclass(frozen=True, slots=True)
class Depth:
    """Bytes that a call takes and the functions on the deepest path; or why that is not known.

    `least`: what it takes at least, by all that is known.
    """

    bytes: int | None = None
    path: tuple[str, ...] = ()
    why: str = ""
    least: int = 0


@dataclass(frozen=True)
class StackUsage:
    """`frames`: bytes of each function by itself, x86's return address included; None is unknown."""

    frames: dict[str, int | None]
    calls: dict[str, tuple[tuple[str | None, int], ...]] = field(repr=False)  # (callee, bytes in use then)
    indirect: int | None = None
    red_zone: dict[str, int] = field(default_factory=dict)  # bytes below the stack pointer that are touched

    def bytes(self, function: str) -> int | None:
        """Stack of a call of `function`, return address included, along the deepest path below it."""
        return self._deepest[function].bytes

    def path(self, function: str) -> tuple[str, ...]:
        """The functions on that path, `function` first; empty if unknown."""
        return self._deepest[function].path

    def why_unknown(self, function: str) -> str:
        """What hides the depth of a call of `function`; empty if it is known."""
        return self._deepest[function].why

    def least(self, function: str) -> int:
        """What a call takes at least, where the whole of it is not known."""
        return self._deepest[function].least

    @cached_property
    def _deepest(self) -> dict[str, Depth]:
        done: dict[str, Depth] = {}
        for name in self.frames:
            self._descend(name, (), done)
        return done

    def _descend(self, name: str, callers: tuple[str, ...], done: dict[str, Depth]) -> Depth:
        if name in done:
            return done[name]
        if name not in self.frames:
            unnamed = "code is called that no symbol names"
            return Depth(why=unnamed if name == UNNAMED else f"'{name}' is not in this file")
        if name in callers:
            return Depth(why=f"'{name}' calls itself, at once or by way of others")
        if len(callers) > DEEPEST:
            return Depth(why=f"more than {DEEPEST} calls are inside each other")
        done[name] = self._below(name, callers, done)
        return done[name]

    def _below(self, name: str, callers: tuple[str, ...], done: dict[str, Depth]) -> Depth:
        """The function itself, or the deepest of what it calls."""
        own = self.frames[name]
        if own is None:
            return Depth(why=f"the stack pointer cannot be followed through '{name}'")
        best, why = Depth(own, (name,), least=own), ""
        for callee, used in self.calls.get(name, ()):
            if callee is None:
                below = Depth(
                    self.indirect, why=f"'{name}' calls through a pointer", least=self.indirect or 0
                )
            else:
                below = self._descend(callee, (*callers, name), done)
            why = why or (below.why if below.bytes is None else "")
            if used + below.least > best.least:
                best = Depth(used + below.least, (name, *below.path), least=used + below.least)
        return replace(best, bytes=None, path=(), why=why) if why else best


def stack_usage(object_bytes: bytes, *, indirect: int | None = None) -> StackUsage:
    """Frames and call paths of an object; `indirect` is what a call through a pointer may take, if known."""
    file = read_object(object_bytes)
    return stack_of_file(file, functions(file), indirect)


def stack_of_file(file: ObjectFile, found: Sequence[Function], indirect: int | None = None) -> StackUsage:
    """The same of a file that is read already, and of its functions."""
    machine = machine_of(file)
    if machine is None:
        return StackUsage({function.name: None for function in found}, {}, indirect)
    places = {(function.section, function.start): function.name for function in found}
    frames: dict[str, int | None] = {}
    calls: dict[str, tuple[tuple[str | None, int], ...]] = {}
    red_zone: dict[str, int] = {}
    for function in found:
        walk = _Walk(function, machine, places)
        known = walk.follow() and frames.get(function.name, 0) is not None
        frames[function.name] = max(walk.deepest, frames.get(function.name) or 0) if known else None
        calls[function.name] = calls.get(function.name, ()) + tuple(sorted(walk.calls, key=str))
        red_zone[function.name] = max(walk.red_zone, red_zone.get(function.name, 0))
    return StackUsage(frames, calls, indirect, red_zone)


@dataclass
class _Walk:
    """One function: worklist over its instructions, each with the registers known before it."""

    function: Function
    machine: Machine
    places: dict[tuple[int, int], str]
    deepest: int = 0
    below: int = 0  # red zone included
    red_zone: int = 0  # what accesses that hold no index reach of it
    leaf: bool = True
    calls: set[tuple[str | None, int]] = field(default_factory=set)

    def follow(self) -> bool:
        """Visit every reachable instruction; False if the stack pointer was lost."""
        self.code = {at: (size, op, args) for at, size, op, args in _disassemble(self.function, self.machine)}
        self.seen: dict[int, int] = {}
        self.pending: list[tuple[int, Registers]] = [(0, {self.machine.sp: -self.machine.word})]
        self.deepest = self.machine.word
        self.budget = VISITS * len(self.code) + 1024  # a loop that keeps pushing would never end
        while self.pending:
            at, registers = self.pending.pop()
            depth = -registers[self.machine.sp]
            if self.seen.get(at, -1) >= depth or at == len(self.function.code):
                continue  # known; or behind a call that never returns
            self.seen[at] = depth
            self.budget -= 1
            if self.budget < 0 or at not in self.code or not self._visit(at, registers):
                return False
        self.deepest = max(self.deepest, self.below if self.leaf else 0)
        return True

    def _visit(self, at: int, registers: Registers) -> bool:
        size, op, operands = self.code[at]
        if op == ".byte":
            return False
        flow = self.machine.flow(op, operands)
        if flow:
            behind = self._delayed(at + size, registers) if self.machine.delays else 0
            return behind is not None and self._go(flow, at, size, operands, registers, at + size + behind)
        written = self.machine.written(operands)
        self._note_red_zone(written, registers)
        if op == "pop":
            self._pop(operands, registers)
        if not self._step(self.machine.moves(op, operands), registers):
            return False
        if op == "push" and operands in registers:  # saved: gcc keeps the caller's stack pointer so
            registers[f"{SLOT}{registers[self.machine.sp]}"] = registers[operands]
        self._note(written, registers)
        self.pending.append((at + size, registers))
        return True

    def _delayed(self, at: int, registers: Registers) -> int | None:
        """Carry out what stands behind a jump, and give its size; None if the stack pointer is lost by it."""
        if at not in self.code:
            return None
        size, op, operands = self.code[at]
        return size if self._step(self.machine.moves(op, operands), registers) else None

    def _pop(self, register: str, registers: Registers) -> None:
        """What was pushed there; registers that hold nothing known keep what they are believed to hold."""
        slot = f"{SLOT}{registers[self.machine.sp]}"
        if slot in registers:
            registers[register] = registers[slot]

    def _step(self, move: Move | None, registers: Registers) -> bool:
        """Apply a move in place; False if it makes the stack pointer unknown."""
        if move is None:
            return True
        base = registers.get(move.source)
        by = registers.get(CONSTANT + move.by) if move.by else 0
        constant = registers.get(CONSTANT + move.source) if not move.by else None
        registers.pop(CONSTANT + move.to, None)
        if base is not None and by is not None:
            registers[move.to] = base + move.offset + move.sign * by
            return True
        registers.pop(move.to, None)
        if move.source == CONSTANT:
            registers[CONSTANT + move.to] = move.offset
        elif constant is not None:
            registers[CONSTANT + move.to] = constant + move.offset
        return move.to != self.machine.sp

    def _note(self, operands: str, registers: Registers) -> None:
        """Depth reached: the stack pointer, or an access below it in the red zone."""
        used = -registers[self.machine.sp]
        self.deepest = max(self.deepest, used)
        for base, offset in re.findall(r"\[(\w+)[^\]]* - (0x[0-9a-f]+|\d+)\]", operands):
            if base in registers and self.machine.red_zone:
                # With an index register the true address is higher; the red zone ends the guess.
                reach = min(int(offset, 0) - registers[base], used + self.machine.red_zone)
                self.below = max(self.below, reach)

    def _note_red_zone(self, operands: str, registers: Registers) -> None:
        """An access at a known distance below the stack pointer, or its address; no move of the pointer."""
        if not self.machine.red_zone or operands.startswith(f"{self.machine.sp}, ["):
            return
        for base, offset in re.findall(r"\[(\w+) - (0x[0-9a-f]+|\d+)\]", operands):
            if base in registers:
                reach = int(offset, 0) - registers[base] + registers[self.machine.sp]
                self.red_zone = max(self.red_zone, reach)

    def _go(self, flow: Flow, at: int, size: int, operands: str, registers: Registers, behind: int) -> bool:
        """`behind`: where control goes on that does not jump."""
        if flow == "return":
            return True
        used = -registers[self.machine.sp]
        self.leaf = self.leaf and flow != "call"
        local, callee = self._target(at, size, operands)
        if callee == RETURN_THUNK:
            return True
        callee = None if callee and callee.startswith(INDIRECT_THUNK) else callee
        if callee in HOOKS:
            self.pending.append((behind, registers))
            return True
        if flow == "call" or (local is None and flow != "branch") or callee is not None:
            # A jump out of the function is a tail call: its return address is already on the stack.
            self.calls.add((callee, used if flow == "call" else used - self.machine.word))
        if local is not None and flow != "call":
            self.pending.append((local, dict(registers)))
        if flow != "jump":
            self.pending.append((behind, registers))
        return True

    def _target(self, at: int, size: int, operands: str) -> tuple[int | None, str | None]:
        """(offset in this function, None), (None, other function) or (None, None) if through a register."""
        function = self.function
        for offset in range(self._pair(at, operands), at + size):
            if offset in function.targets:
                symbol, addend = function.targets[offset]
                # MIPS keeps a part of the addend, or all of it, in the jump itself
                return self._named(symbol, addend + (_distance(operands) if self.machine.delays else 0))
        found = re.search(r"(?:^|[ ,#])(0x[0-9a-f]+|\d+)$", operands)
        if found is None or "[" in operands:
            return None, None
        place = _signed(int(found[1], 0)) if not self.machine.pairs else at + _distance(operands)
        name = self.places.get((function.section, function.start + place))
        inside = 0 <= place < len(function.code)
        return (place, name if place == 0 else None) if inside else (None, name or UNNAMED)

    def _named(self, symbol: str, addend: int) -> tuple[int | None, str | None]:
        if not symbol.startswith("#"):
            return None, symbol
        function, place = self.function, (int(symbol[1:]), addend + self.machine.section_bias)
        inside = place[1] - function.start
        if place[0] == function.section and 0 < inside < len(function.code):
            return inside, None
        return None, self.places.get(place, UNNAMED)

    def _pair(self, at: int, register: str) -> int:
        """Where a jump begins: at the instruction before it, if that makes the register with the goal."""
        before = self.code.get(at - 4)
        is_pair = self.machine.pairs and before is not None and before[1] == "auipc"
        return at - 4 if is_pair and before and before[2].partition(",")[0] == register else at


def _distance(operands: str) -> int:
    """How far a jump goes from itself."""
    return int(operands.rpartition(" ")[2], 0)


def _signed(place: int) -> int:
    """A place before the function is printed as a number of the machine's width that wraps around."""
    return place - (1 << 64) if place >= 1 << 63 else place - (1 << 32) if place >= 1 << 31 else place


def _disassemble(function: Function, machine: Machine) -> Iterator[tuple[int, int, str, str]]:
    """(offset, size, mnemonic, operands) of the code between the function's constants."""
    engine = capstone.Cs(machine.architecture, machine.mode)
    engine.skipdata = True
    start = 0
    for hole, end in (*function.data, (len(function.code), len(function.code))):
        while start < hole:
            at = hole  # what is too short for an instruction ends the code too
            for place, size, mnemonic, operands in engine.disasm_lite(function.code[start:hole], start):
                known = (
                    machine.beyond(function.code[place : place + 4], place) if mnemonic == ".byte" else None
                )
                yield (place, 4, *known) if known else (place, size, mnemonic, operands)
                if known:
                    at = place + 4
                    break
            start = at
        start = end
