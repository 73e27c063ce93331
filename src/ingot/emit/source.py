"""The bundle's C source: provenance, types, helpers, kernels, the entry.

In: a planned Program. Out: C99 text that compiles without a warning and needs no other header than its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ingot.emit.helpers import helper, is_helper, vector_types
from ingot.emit.names import Scope, comment
from ingot.emit.statement import INDENT, lines
from ingot.emit.vector import VectorPrinter
from ingot.formula.expr import Tensor, text
from ingot.formula.statements import For, Let, flatten
from ingot.formula.types import DTYPES
from ingot.loops.program import Branch, Call, Copy, Kernel, Program, Repeat, Step
from ingot.memory.plan import Plan, base_of
from ingot.targets.record import Target

Key = tuple[str, ...]


@dataclass(slots=True)
class Unit:
    """What the files of one bundle share: the program, its plan, and the identifiers given out."""

    program: Program
    plan: Plan
    target: Target
    name: str
    provenance: tuple[str, ...] = ()
    functions: Scope = field(default_factory=Scope)
    members: Scope = field(default_factory=Scope)
    arguments: Scope = field(default_factory=Scope)

    @property
    def errors(self) -> dict[str, str]:
        return {e: f"{self.name.upper()}_{e}" for e in ERRORS}

    def constant(self, t: Tensor) -> str:
        """The member of the weights struct that holds a constant."""
        return self.members.name(t, t.name, "c")

    def argument(self, t: Tensor) -> str:
        """The entry's parameter for an input or output."""
        return self.arguments.name(t, t.name, "x")

    def function(self, kernel: Kernel) -> str:
        return self.functions.name(kernel, f"{kernel.name}", "kernel")


ERRORS = {
    "ERR_NULL": -1,
    "ERR_ALIGN": -2,
    "ERR_INDEX": -3,
    "ERR_CAPACITY": -4,
    "ERR_WEIGHTS": -5,
}


def array(t: Tensor) -> str:
    """`[1][8][8]`: the dimensions of a static tensor as C writes them; an empty one gets one element."""
    return "".join(f"[{max(int(n), 1)}]" for n in t.shape) or "[1]"  # type: ignore[arg-type]


def is_static(t: Tensor) -> bool:
    return all(isinstance(n, int) for n in t.shape)


def pointer(t: Tensor, const: bool) -> str:
    """The type of a pointer to the tensor's first slice, as a kernel's parameter has it."""
    head = f"{'const ' if const else ''}{t.type.c} "
    if not is_static(t) or t.rank <= 1:
        return head + "*"
    return head + "(*)" + "".join(f"[{max(int(n), 1)}]" for n in t.shape[1:])  # type: ignore[arg-type]


def source(unit: Unit, header: str) -> str:
    """The text of NAME.c. `header` is the name of NAME.h."""
    used: set[Key] = set()
    kernels = [kernel_text(unit, k, used) for k in unit.program.kernels]
    entry = "\n".join(entry_text(unit))
    parts = [
        provenance(unit),
        f'#include "{header}"\n' + unit.target.header.rstrip("\n"),
        weights_struct(unit),
        *_helpers(unit, used),
        *kernels,
        entry,
    ]
    return "\n\n".join(p.rstrip("\n") for p in parts if p.strip()) + "\n"


def provenance(unit: Unit) -> str:
    """The comment on top of every file."""
    rows = ["SPDX-License-Identifier: 0BSD", "", *unit.provenance]
    return "/*\n" + "\n".join(f" * {comment(r)}".rstrip() for r in rows) + "\n */"


def weights_struct(unit: Unit) -> str:
    """The constants as one struct, every member aligned as the plan aligns tensors."""
    if not unit.program.constants:
        return ""
    rows = [
        f"{INDENT}{t.type.c} {unit.constant(t)}{array(t)} __attribute__((aligned(64)));"
        for t in unit.program.constants
    ]
    extern = f"extern const struct {unit.name}_weights {unit.name}_weights_data;"
    return f"struct {unit.name}_weights {{\n" + "\n".join(rows) + "\n};\n" + extern


def _helpers(unit: Unit, used: set[Key]) -> list[str]:
    """Vector types and helper functions, each after those it calls."""
    texts: dict[Key, str] = {}

    def visit(key: Key) -> None:
        if key in texts or key[0] == "type":
            return
        inner: set[Key] = set()
        text_ = _helper_text(unit, key, inner)
        used.update(inner)
        for k in sorted(inner):
            visit(k)
        texts[key] = text_

    for key in sorted(used):
        visit(key)
    return ["\n".join(vector_types(used)), "\n".join(texts.values())]


def _helper_text(unit: Unit, key: Key, used: set[Key]) -> str:
    op, *types = key
    if is_helper(key) and not (
        types and DTYPES.get(types[0], DTYPES["bool"]).is_float and op in ("pow", "fmod", "mod")
    ):
        return helper(key, unit.target)
    from ingot.emit.mathematics import function_text

    return function_text(key, unit.target, used)


def kernel_text(unit: Unit, kernel: Kernel, used: set[Key]) -> str:
    """One static function, with a comment that says what it computes."""
    locals_ = {s.var for s in flatten(kernel.body) if isinstance(s, For)}
    locals_ |= {s.name for s in flatten(kernel.body) if isinstance(s, Let)} | {p.name for p in kernel.params}
    scope = Scope(locals_)
    printer = VectorPrinter(unit.target, lambda t: scope.name(t, t.name, "t"))
    parameters = [f"int {p.name}" for p in kernel.params]
    parameters += [_parameter(t, scope, t not in kernel.written) for t in kernel.parameters]
    body = [INDENT + line for line in lines(kernel.body, printer, unit.errors)]
    if kernel.may_fail:
        body.append(f"{INDENT}return 0;")
    used |= printer.used
    result = "int" if kernel.may_fail else "void"
    head = f"static __attribute__((noinline)) {result} {unit.function(kernel)}({', '.join(parameters) or 'void'})"
    return "\n".join([_kernel_comment(kernel), head + " {", *body, "}"])


def _parameter(t: Tensor, scope: Scope, const: bool) -> str:
    name, qualifier = scope.name(t, t.name, "t"), "const " if const else ""
    if not is_static(t):
        return f"{qualifier}{t.type.c} *restrict {name}"
    sizes = [str(max(int(n), 1)) for n in t.shape] or ["1"]  # type: ignore[arg-type]
    return f"{qualifier}{t.type.c} {name}[restrict {sizes[0]}]" + "".join(f"[{n}]" for n in sizes[1:])


def _kernel_comment(kernel: Kernel) -> str:
    shapes = "; ".join(
        f"{comment(t.name)} {t.type} {'x'.join(map(text, t.shape)) or 'scalar'}" for t in kernel.parameters
    )
    cost = f"; {kernel.macs} MACs" if kernel.macs else ""
    remark = f"\n   {comment(kernel.remark)}" if kernel.remark else ""
    return f"/* {comment(' + '.join(kernel.nodes))}{cost}\n   {shapes}{remark} */"


def entry_text(unit: Unit) -> Iterator[str]:
    """The public function: checks, then the calls in order."""
    yield f"int {unit.name}({entry_parameters(unit)}) {{"
    yield from (INDENT + line for line in _entry_body(unit))
    yield "}"


def entry_parameters(unit: Unit) -> str:
    """The parameter list of the direct convention: [extents] inputs outputs arena."""
    rows = [f"int {p.name}" for p in unit.program.params]
    rows += [f"const {t.type.c} *{unit.argument(t)}" for t in unit.program.inputs]
    rows += [f"{t.type.c} *{unit.argument(t)}" for t in unit.program.outputs]
    return ", ".join([*rows, "void *arena"])


def _entry_body(unit: Unit) -> Iterator[str]:
    upper = unit.name.upper()
    if unit.program.constants:
        yield f"const struct {unit.name}_weights *const w = &{unit.name}_weights_data;"
    if unit.plan.arena_bytes:
        yield "unsigned char *const a = arena;"
    if any(k.may_fail for k in unit.program.kernels):
        yield "int status;"
    names = [unit.argument(t) for t in (*unit.program.inputs, *unit.program.outputs)]
    names += ["arena"] if unit.plan.arena_bytes else []
    if names:
        yield f"if ({' || '.join(f'!{n}' for n in names)}) return {upper}_ERR_NULL;"
    if unit.plan.arena_bytes:
        yield f"if ((uintptr_t)arena % {upper}_ARENA_ALIGN != 0) return {upper}_ERR_ALIGN;"
    else:
        yield "(void)arena;"
    for p in unit.program.params:
        yield f"if ({p.name} < {p.lo} || {p.name} > {p.hi}) return {upper}_ERR_CAPACITY;"
    yield from _steps(unit, unit.program.steps)
    yield f"return {upper}_OK;"


def _steps(unit: Unit, steps: tuple[Step, ...]) -> Iterator[str]:
    for step in steps:
        match step:
            case Call(kernel, _):
                call = _call(unit, step)
                yield f"if ((status = {call}) != 0) return status;" if kernel.may_fail else call + ";"
            case Copy(source_, to):
                yield from _copy(unit, source_, to)
            case Branch(condition, then, other):
                yield f"if ({_address(unit, condition, 'const uint8_t *')}[0]) {{"
                yield from (INDENT + line for line in _steps(unit, then))
                yield "} else {"
                yield from (INDENT + line for line in _steps(unit, other))
                yield "}"
            case Repeat():
                yield from _repeat(unit, step)


def _repeat(unit: Unit, step: Repeat) -> Iterator[str]:
    counter = _address(unit, step.counter, "int64_t *")
    tests = [] if step.trips is None else [f"*{counter} < *{_address(unit, step.trips, 'const int64_t *')}"]
    tests += [] if step.condition is None else [f"*{_address(unit, step.condition, 'const uint8_t *')}"]
    yield f"for (*{counter} = 0; {' && '.join(tests) or '1'}; ++*{counter}) {{"
    yield from (INDENT + line for line in _steps(unit, step.body))
    yield "}"


def _copy(unit: Unit, source_: Tensor, to: Tensor) -> Iterator[str]:
    count = " * ".join(text(n) for n in to.shape) or "1"
    a, b = _address(unit, to, f"{to.type.c} *"), _address(unit, source_, f"const {to.type.c} *")
    yield f"for (int i = 0; i < {count}; i++) {a}[i] = {b}[i];"


def _call(unit: Unit, step: Call) -> str:
    arguments = [p.name for p in step.kernel.params]
    for parameter, argument in zip(step.kernel.parameters, step.arguments, strict=True):
        const = parameter not in step.kernel.written
        arguments.append(_address(unit, argument, pointer(parameter, const), pointer(argument, const)))
    return f"{unit.function(step.kernel)}({', '.join(arguments)})"


def _address(unit: Unit, t: Tensor, wanted: str, own: str = "") -> str:
    """Where a tensor's bytes are, as a pointer of type `wanted`."""
    base = base_of(unit.program, t)
    if base in unit.program.constants:
        member = f"w->{unit.constant(base)}"
        return member if base is t and wanted == own else f"(({wanted}){member})"
    if base in unit.plan.offsets:
        return f"(({wanted})(a + {unit.plan.offsets[base]}))"
    name = unit.argument(base)
    return name if wanted in (f"const {t.type.c} *", f"{t.type.c} *") and base is t else f"(({wanted}){name})"
