"""The C of many rows as one library: the compiler, the assembler and the linker start once for all of them.

In: rows. Out: for each the arrays its code computes, or the exception it was stopped by. Called by
`test_ops.py`. A row's C is what its bundle would ship, compiled with the same flags but for QUICK; the object
is shared.
"""

from __future__ import annotations

import ctypes
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ingot.bundle.run import aligned, load_library
from ingot.driver import Stages, stages
from ingot.emit.header import header
from ingot.emit.source import source
from ingot.emit.unit import Unit
from ingot.emit.weights import assembly, image
from ingot.errors import ToolchainError
from ingot.formula.expr import Extent
from ingot.formula.index import interval
from ingot.formula.packing import pack, unpack
from ingot.loops.program import Program
from ingot.options import Options
from ingot.targets.process import Content
from ingot.targets.records import find
from ingot.targets.toolchain import compile_c, exported, link_shared
from tests.ops.rows import Array, Row, feeds, model

TARGET = "c99"
QUICK = "-O1"  # half the time of -O3, with which test_ops.py compiles one row of sixteen as it is shipped
HELPER = re.compile(r"^static inline (?:const )?\w+ \*?(\w+)\(", re.MULTILINE)


@dataclass(frozen=True)
class Member:
    """One row's C: `NAME.h` and `NAME.c`."""

    stages: Stages
    unit: Unit
    header: str
    source: str

    @property
    def name(self) -> str:
        return self.unit.name

    @property
    def included(self) -> str:
        """The source within the batch's: helpers have the same names in every row, and are each row's own."""
        helpers = HELPER.findall(self.source)
        before = "".join(f"#define {h} {self.name}_{h}\n" for h in helpers)
        after = "".join(f"#undef {h}\n" for h in helpers)
        return f'{before}#include "{self.name}.c"\n{after}'


class Batch:
    """Compiled rows. What goes wrong with a row is kept for that row's test."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._failures: dict[Row, Exception] = {}
        self._members: dict[Row, Member] = {}
        for i, row in enumerate(rows):
            try:
                self._members[row] = _member(row, f"row{i}")
            except Exception as e:
                self._failures[row] = e
        try:
            objects = _objects(list(self._members.values()))
        except ToolchainError:
            objects = self._one_by_one()
        names = [m.name for m in self._members.values()]
        self._library = load_library(link_shared(objects, names)) if names else None

    def _one_by_one(self) -> list[bytes]:
        """The objects of the rows that compile; the others' errors are kept."""
        objects = []
        for row, member in list(self._members.items()):
            try:
                objects += _objects([member])
            except ToolchainError as e:
                self._failures[row] = e
                del self._members[row]
        return objects

    def stages(self, row: Row) -> Stages:
        """What the row's C was printed from."""
        if row in self._failures:
            raise self._failures[row]
        return self._members[row].stages

    def run(self, row: Row) -> list[list[Array]]:
        """The outputs of the row's code, called twice in a row on an arena that was full of 0xFF."""
        program, placed = self.stages(row).program, self.stages(row).plan
        function = getattr(self._library, exported(self._members[row].name))
        given, arena = feeds(row), aligned(placed.arena_bytes)
        inputs = [
            np.ascontiguousarray(given[t.name]) if t.packed is None else pack(given[t.name])
            for t in program.inputs
        ]
        found = []
        for _ in range(2):
            outputs = [np.zeros(t.count, t.type.numpy) for t in program.outputs]
            status = function(*(ctypes.c_void_p(a.ctypes.data) for a in (*inputs, *outputs, arena)))
            assert status == 0, f"C: status {status}"
            found.append(_trimmed(program, outputs))
        return found


def _size(n: Extent, extents: Mapping[str, int]) -> int:
    return interval(n, {name: (e, e) for name, e in extents.items()})[0]


def _trimmed(program: Program, outputs: Sequence[Array]) -> list[Array]:
    """The outputs in their true shapes; the bundle gives the extents that are data as outputs too."""
    held = dict(zip(program.outputs, outputs, strict=True))
    extents = {p.name: int(held[t][0]) for p, t in program.measured.items() if t in held}
    found = []
    for t, array in zip(program.outputs, outputs, strict=True):
        whole = tuple(_size(n, extents) for n in (t.shape if t.packed is None else t.packed.shape))
        if t.packed is not None:
            found.append(unpack(array, t.packed.type, whole))
        else:
            found.append(array[: math.prod(whole)].reshape(whole))
    return found


def _member(row: Row, name: str) -> Member:
    made = stages(model(row), Options(name=name, target=TARGET))
    unit = Unit(made.program, made.plan, made.target, made.program.name)
    return Member(made, unit, header(unit, None), source(unit))


def _objects(members: Sequence[Member]) -> list[bytes]:
    """The code of all members in one object, their constants in another."""
    files: dict[str, Content] = {"rows.c": "".join(m.included for m in members)}
    for m in members:
        files |= {f"{m.name}.h": m.header, f"{m.name}.c": m.source}
    made = [compile_c(files, find(TARGET), name="rows.c", optimize=QUICK)]
    weighty = [m.unit for m in members if m.unit.has_weights]
    if weighty:
        data: dict[str, Content] = {f"{u.name}.weights.bin": image(u) for u in weighty}
        data["weights.S"] = "\n".join(map(assembly, weighty))
        made.append(compile_c(data, find(TARGET), name="weights.S"))
    return made
