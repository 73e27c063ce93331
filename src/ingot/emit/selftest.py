"""NAME_selftest: golden inputs through every layer, and which is the first that makes something else.

In: a `Unit` and what a run gave at compile time (`SelfTest`). Out: lines of C and of the header. The
function calls the kernels of the entry in the entry's order. Before each it looks at the constants that the
kernel is about to read, behind each at what it made (`digest.py` says how). It needs no libc and nothing
writable but the caller's memory: the arenas of the entry, and room for the outputs and the state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ingot.emit.digest import SelfTest, Sums, checksum, checksum_text, part_of, sums_struct, sums_text
from ingot.emit.entry import Beside, Used, address, local_lines, memory_checks, steps_text
from ingot.emit.expression import Printer
from ingot.emit.literals import floating, quoted
from ingot.emit.names import comment
from ingot.emit.statement import INDENT
from ingot.emit.unit import Unit
from ingot.emit.weights import array_text, ordered_words
from ingot.formula.expr import Array, Expr, Tensor, static
from ingot.formula.index import product, simplify
from ingot.formula.types import FLOAT32, FLOAT64, DType
from ingot.loops.program import Call, Repeat, Step, calls
from ingot.memory.plan import ALIGN
from ingot.memory.tree import base_of, padded

Lines = Iterator[str]
LONGEST_NAME = 80
OUTPUTS = "outputs"
"""What the last number stands for."""


def names(unit: Unit) -> list[str]:
    """What the numbers from 1 on stand for."""
    made = (c.nodes or c.kernel.nodes or (c.kernel.name,) for c in calls(unit.program.steps))
    return [*(" + ".join(nodes) for nodes in made), OUTPUTS]


def room_bytes(unit: Unit) -> int:
    """What the outputs and the state take."""
    return sum(padded(t.bytes) for t in unit.program.outputs) + padded(unit.state_bytes)


def parameters(unit: Unit) -> str:
    rows = ["const void *weights"] if unit.external else []
    return ", ".join([*rows, *(f"void *{a.parameter}" for a in unit.arenas), "void *room"])


def header_lines(unit: Unit) -> Lines:
    """What the header says of it."""
    if unit.selftest is None:
        return
    upper, named = unit.upper, names(unit)
    yield "/* Runs golden inputs through every layer and compares what each makes: 0, the number of the first"
    yield f" * layer that differs, from 1 to {upper}_SELFTEST_LAYERS, or an error below 0. Its name:"
    yield f" * static const char *const names[] = {upper}_SELFTEST_NAMES; names[number - 1]."
    yield f" * room: {upper}_SELFTEST_SIZE bytes, aligned to {ALIGN}, of any content; else as the entry. */"
    yield f"#define {upper}_SELFTEST_SIZE {max(room_bytes(unit), ALIGN)}u"
    yield f"#define {upper}_SELFTEST_LAYERS {len(named)}"
    yield f"#define {upper}_SELFTEST_NAMES {{ \\"
    rows = [f"{INDENT}{quoted(comment(n)[:LONGEST_NAME].encode())}" for n in named]
    yield from (f"{row}, \\" for row in rows[:-1])
    yield f"{rows[-1]}}}"
    yield f"int {unit.name}_selftest({parameters(unit)});"


def selftest_text(unit: Unit, used: Used) -> str:
    """The definition, with its golden numbers and functions before it; notes its helpers in `used`."""
    assert unit.selftest is not None
    return "\n".join(_Printed(unit, unit.selftest, used).text())


class _Printed:
    """The text of one function; what it calls is collected on the way."""

    def __init__(self, unit: Unit, test: SelfTest, used: Used) -> None:
        self.unit, self.test, self.used = unit, test, used
        self.functions: dict[str, str] = {}
        self.golden: list[str] = []
        self.checked: set[Tensor] = set()

    def text(self) -> Lines:
        unit = self.unit
        body = [INDENT + line for part in (self.locals(), self.steps(), self.outputs()) for line in part]
        yield from self.functions.values()
        yield "/* Golden vectors: inputs that Ingot drew, and what its evaluator makes of them. */"
        program = unit.program
        yield from (
            array_text(self.own("input", t), t, a)
            for t, a in zip(program.inputs, self.test.inputs, strict=True)
        )
        yield from (
            array_text(self.own("wanted", t), t, a)
            for t, a in zip(program.outputs, self.test.outputs, strict=True)
        )
        yield from self.golden
        yield ""
        yield f"int {unit.name}_selftest({parameters(unit)}) {{"
        yield from body
        yield f"{INDENT}return 0;"
        yield "}"

    def own(self, what: str, thing: object) -> str:
        """A name of the file for one of our things."""
        kind = f"{self.unit.name}_{what}"
        wanted = f"{kind}_{self.unit.argument(thing)}" if isinstance(thing, Tensor) else kind
        return self.unit.scope.name((what, thing), wanted)

    # ---- memory

    def locals(self) -> Lines:
        """The entry's parameters, but for the weights and the arenas."""
        unit, at = self.unit, 0
        yield from local_lines(unit)
        yield "unsigned char *const bytes = room;"
        for p, n in zip(unit.program.params, self.test.extents, strict=True):
            yield f"const int {unit.extent(p)} = {n};"
        for t in unit.program.inputs:
            name = self.own("input", t)
            yield f"const {t.type.edge} *const {unit.argument(t)} = {f'*{name}' if t.type.is_text else name};"
        for t in unit.program.outputs:
            yield f"{t.type.edge} *const {unit.argument(t)} = ({t.type.edge} *)(void *)(bytes + {at});"
            at += padded(t.bytes)
        if unit.program.states:
            structure = f"struct {unit.name}_state"
            yield f"{structure} *const state = ({structure} *)(void *)(bytes + {at});"
        if any(t.pitch and not t.type.is_float for made in self.test.made.values() for t in made):
            yield "uint32_t h;"
        if any(isinstance(d, Sums) for made in self.test.made.values() for d in made.values()):
            yield f"struct {self.sums()} s;"
        yield from memory_checks(unit, [], {"room": "ARENA"})
        if unit.program.states:
            yield f"{unit.name}_state_init(state);"
        if unit.has_tasks:
            yield f"const {unit.name}_parallel_for parallel_for = {unit.name}_serial;"
            yield "void *const user = 0;"

    def steps(self) -> Lines:
        beside = Beside(before=self.constants, behind=self.results)
        return steps_text(self.unit, self.unit.program.steps, self.used, beside)

    # ---- comparisons

    def constants(self, step: Step) -> Lines:
        """Weights that the step is the first to read; of a loop, before it begins."""
        for call in calls((step,)) if isinstance(step, Call | Repeat) else ():
            for t in dict.fromkeys(base_of(self.unit.program, a) for a in call.arguments):
                if t in self.unit.constants and t not in self.checked and not t.type.is_text:
                    self.checked.add(t)
                    yield from self.constant(t, self.unit.numbers[call] + 1)

    def constant(self, t: Tensor, number: int) -> Lines:
        assert t.value is not None
        words = ordered_words(t)
        where = f"{self.unit.part_of[t].local}->{self.unit.constant(t)}"
        call = f"{self.sum_function(t.type)}(0, (const uint{8 * t.type.bytes}_t *){where}, {words.size})"
        yield f"if ({call} != 0x{checksum(words):08x}u) return {number};"

    def results(self, step: Step) -> Lines:
        if not isinstance(step, Call):
            return
        for t, golden in self.test.made.get(step, {}).items():
            number = self.unit.numbers[step] + 1
            if isinstance(golden, Sums):
                yield from self.floats(t, golden, number)
            else:
                yield from self.integers(t, golden, number)

    def integers(self, t: Tensor, golden: int, number: int) -> Lines:
        c, function = f"uint{8 * t.type.bytes}_t", self.sum_function(t.type)
        if t.pitch is None:
            found = f"{function}(0, {address(self.unit, t, f'const {c} *')}, {self.count(t)})"
            yield f"if ({found} != 0x{golden:08x}u) return {number};"
            return
        yield "h = 0;"
        yield from self.runs(t, c, lambda at, n: f"h = {function}(h, {at}, {n});")
        yield f"if (h != 0x{golden:08x}u) return {number};"

    def floats(self, t: Tensor, golden: Sums, number: int) -> Lines:
        name = self.unit.scope.fresh(f"{self.unit.name}_golden_{number}")
        numbers = ", ".join(map(str, (*golden.sums, golden.beyond, golden.allowed)))
        self.golden.append(f"static const int64_t {name}[] = {{{numbers}}};")
        real = FLOAT64 if t.type.bits == 64 else FLOAT32
        function, scale = self.sums_function(t.type), floating(golden.scale, real)
        yield f"{self.sums()}_start(&s);"
        yield from self.runs(t, t.type.c, lambda at, n: f"{function}(&s, {at}, {n}, {scale});")
        yield f"if ({self.sums()}_differs(&s, {name})) return {number};"

    def runs(self, t: Tensor, c: str, call: Callable[[str, object], str]) -> Lines:
        """A call for every run of elements that lie side by side."""
        at = address(self.unit, t, f"const {c} *")
        if t.pitch is None:
            yield call(at, self.count(t))
            return
        loops, inner = _contiguous(tuple(map(static, t.shape)), tuple(map(static, t.spans)))
        indent = ""
        for d, (n, _) in enumerate(loops):
            yield f"{indent}for (int i{d} = 0; i{d} < {n}; i{d}++)"
            indent += INDENT
        offset = "".join(f" + i{d} * {stride}" for d, (_, stride) in enumerate(loops))
        first = f"({at})" if at.startswith("(") else at
        yield indent + call(first + offset, inner)

    def count(self, t: Tensor) -> str:
        """The elements of a tensor that is whole; an extent may be the caller's, or data."""
        if all(isinstance(n, int) for n in t.shape):
            return str(t.count)
        params = {p.name: self.unit.extent(p) for p in self.unit.program.params}
        measured = self.unit.program.measured
        params |= {p.name: f"(int)*{address(self.unit, h, 'const int64_t *')}" for p, h in measured.items()}
        count: Expr = simplify(product(t.shape))
        return Printer(self.unit.target, self.unit.argument, self.used, params=params).index(count)

    def outputs(self) -> Lines:
        """All elements, as the caller gets them."""
        number = len(self.unit.numbers) + 1
        for t, wanted in zip(self.unit.program.outputs, self.test.outputs, strict=True):
            found, golden = self.unit.argument(t), self.own("wanted", t)
            if t.type.is_text:
                found, golden, n = found, f"(*{golden})", wanted.size * t.type.bytes
                yield f"for (int i = 0; i < {n}; i++) if ({found}[i] != {golden}[i]) return {number};"
            elif t.type.is_float:
                yield from self.float_output(t, wanted, number)
            else:
                differs = f"{found}[i] != {golden}[i]"
                yield f"for (int i = 0; i < {wanted.size}; i++) if ({differs}) return {number};"

    def float_output(self, t: Tensor, wanted: Array, number: int) -> Lines:
        real = FLOAT64 if t.type.bits == 64 else FLOAT32
        plain = np.abs(wanted.astype(real.numpy))
        allowed = part_of(t.type) * float(plain[np.isfinite(plain)].max(initial=0))
        x, y = (self.widened(t.type, f"{a}[i]") for a in (self.unit.argument(t), self.own("wanted", t)))
        yield f"for (int i = 0; i < {wanted.size}; i++) {{"
        yield f"{INDENT}const {real.c} x = {x}, y = {y};"
        near = f"x - y <= {floating(allowed, real)} && y - x <= {floating(allowed, real)}"
        yield f"{INDENT}if (!({near}) && x != y && (x == x || y == y)) return {number};"
        yield "}"

    # ---- functions

    def sum_function(self, t: DType) -> str:
        bits = 8 * t.bytes
        name = self.own(f"sum{bits}", bits)
        self.functions.setdefault(name, checksum_text(name, bits))
        return name

    def sums(self) -> str:
        name = self.own("sums", "struct")
        self.functions.setdefault(name, sums_struct(name))
        return name

    def sums_function(self, t: DType) -> str:
        sums, name = self.sums(), self.own(f"sums_{t.name}", t)
        self.functions.setdefault(name, sums_text(sums, name, t, self.widened(t, "x[i]")))
        return name

    def widened(self, t: DType, element: str) -> str:
        """An element of floats as it is computed with."""
        if not t.is_narrow:
            return element
        return Printer(self.unit.target, self.unit.argument, self.used).widened(element, t)


def _contiguous(shape: tuple[int, ...], spans: tuple[int, ...]) -> tuple[list[tuple[int, int]], int]:
    """Loops (extent, stride) around runs of elements, and how long these are."""
    run, stride, at = 1, 1, len(shape)
    while at and stride == run:
        at -= 1
        run, stride = run * shape[at], stride * spans[at]
    loops: list[tuple[int, int]] = []
    for d in reversed(range(at)):
        loops.insert(0, (shape[d], stride))
        stride *= spans[d]
    return loops, run
