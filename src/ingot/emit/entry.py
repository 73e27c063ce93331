"""The function with the direct convention: checks, then the kernels in order.

In: a `Unit`. Out: lines of C. The other conventions call the same function; `conventions.py` prints them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from ingot.emit.expression import Printer
from ingot.emit.extents import bounds_checks
from ingot.emit.literals import literal
from ingot.emit.state import final_copies, state_parameter
from ingot.emit.statement import INDENT
from ingot.emit.unit import Part, Unit
from ingot.emit.weights import tag
from ingot.formula.expr import Param, Tensor, static
from ingot.formula.index import product, simplify
from ingot.formula.types import INDEX
from ingot.loops.program import Branch, Call, Copy, Kernel, Repeat, Step, calls, params_of
from ingot.loops.program_passes.parallel import is_parallel

Used = set[tuple[str, ...]]

Lines = Iterator[str]

MOST_TESTED = 64  # pointers in one condition: a compiler takes the square of their number


@dataclass(frozen=True, slots=True)
class Beside:
    """What C does before and behind each call, copy and loop."""

    before: Callable[[Step], Lines]
    behind: Callable[[Step], Lines] = lambda _: iter(())


def is_static(t: Tensor) -> bool:
    return all(isinstance(n, int) for n in t.shape)


def pointer(t: Tensor, const: bool) -> str:
    """The type of a pointer to the tensor's first slice, as a kernel's parameter has it."""
    head = f"{'const ' if const else ''}{t.type.c} "
    if not is_static(t) or t.rank <= 1:
        return head + "*"
    return head + "(*)" + "".join(f"[{max(static(n), 1)}]" for n in t.spans[1:])


def entry_parameters(unit: Unit) -> str:
    """Parameters of the direct convention: [weights] [extents] inputs outputs [state] [parallel_for,
    user] arenas.
    """
    rows = ["const void *weights"] if unit.external else []
    rows += [f"int {unit.extent(p)}" for p in unit.program.params]
    rows += [f"const {t.type.edge} *{unit.argument(t)}" for t in unit.program.inputs]
    rows += [f"{t.type.edge} *{unit.argument(t)}" for t in unit.program.outputs]
    rows += [state_parameter(unit)] if unit.program.states else []
    rows += [f"{unit.name}_parallel_for parallel_for", "void *user"] if unit.is_threaded else []
    return ", ".join([*rows, *(f"void *{a.parameter}" for a in unit.arenas)]) or "void"


def entry_text(unit: Unit, used: Used) -> Iterator[str]:
    """The definition; static where another convention is the public one. Notes its helpers in `used`."""
    static = "" if unit.api == "direct" else "static "
    if unit.is_profiled:
        yield "/* Time counts for kernel call i from here on; one more: copies between them; -1: nothing. */"
        yield f"void {unit.name}_profile(int i);"
    yield f"{static}int {unit.entry}({entry_parameters(unit)}) {{"
    program = unit.program
    copies = tuple(Copy(made, member) for made, member in final_copies(program))
    steps = steps_text(unit, (*program.steps, *copies), used, Beside(partial(_account, unit)))
    for part in (local_lines(unit), _checks(unit), steps):
        yield from (INDENT + line for line in part)
    yield from (INDENT + line for line in _account(unit, None))
    yield f"{INDENT}return {unit.upper}_OK;"
    yield "}"


def _account(unit: Unit, step: Step | None) -> Iterator[str]:
    """The call that says what runs next."""
    if unit.is_profiled and not isinstance(step, Repeat):
        number = -1 if step is None else unit.numbers.get(step, len(unit.numbers))
        yield f"{unit.name}_profile({number});"


def local_lines(unit: Unit) -> Iterator[str]:
    """Weights, arenas, and what kernels answer."""
    for part in unit.parts:
        yield f"const struct {part.name} *const {part.local} = {_weights(unit, part)};"
    for a in unit.arenas:
        if a.bytes:
            yield f"unsigned char *const {a.local} = {a.parameter};"
    if any(c.kernel.may_fail for c in calls(unit.program.steps)):
        yield "int status;"


def _weights(unit: Unit, part: Part) -> str:
    return "weights" if unit.external else f"&{part.name}_data"


def _checks(unit: Unit) -> Iterator[str]:
    """What can be said about the arguments before they are used."""
    names = [*map(unit.argument, unit.edge), *(["state"] if unit.program.states else [])]
    yield from memory_checks(unit, names)
    if not unit.plan.regions and not unit.plan.arena_bytes:
        yield "(void)arena; /* nothing to keep between kernels: may be NULL */"
    if unit.is_threaded and not unit.has_tasks:
        yield "(void)parallel_for; /* no kernel has enough work to share */"
        yield "(void)user;"
    if unit.has_tasks:
        yield f"if (!parallel_for) parallel_for = {unit.name}_serial;"
    yield from bounds_checks(unit)


def memory_checks(unit: Unit, names: Sequence[str], more: Mapping[str, str] = {}) -> Iterator[str]:
    """Pointers are not NULL, memory is aligned, the weights are this bundle's. `more` is aligned memory with
    the macro of its alignment.
    """
    upper = unit.upper
    weights = {"weights": "WEIGHTS"} if unit.external else {}
    others = {a.parameter: "ARENA" for a in unit.arenas if a.bytes} | dict(more)
    pointers = [*weights, *names, *others]
    if len(pointers) > MOST_TESTED:
        yield f"const void *const given[] = {{{', '.join(pointers)}}};"
        yield f"for (int i = 0; i < {len(pointers)}; i++) if (!given[i]) return {upper}_ERR_NULL;"
    elif pointers:
        yield f"if ({' || '.join(f'!{n}' for n in pointers)}) return {upper}_ERR_NULL;"
    for name, macro in (weights | others).items():
        yield f"if ((uintptr_t){name} % {upper}_{macro}_ALIGN != 0) return {upper}_ERR_ALIGN;"
    if unit.external:
        low, high = tag(unit)
        yield f"if (w->tag[0] != 0x{low:08x}u || w->tag[1] != 0x{high:08x}u) return {upper}_ERR_WEIGHTS;"


def steps_text(unit: Unit, steps: tuple[Step, ...], used: Used, beside: Beside) -> Iterator[str]:
    """The steps in their order, with what stands beside each."""
    for step in steps:
        match step:
            case Call(kernel, _):
                call = _call(unit, step)
                yield from beside.before(step)
                yield f"if ((status = {call}) != 0) return status;" if kernel.may_fail else call + ";"
                yield from beside.behind(step)
                yield from [_pause(unit)] if step.pauses else []
            case Copy():
                yield from beside.before(step)
                yield from _copy(unit, step, used)
            case Branch(condition, then, other):
                yield f"if (*{address(unit, condition, 'const uint8_t *')}) {{"
                yield from (INDENT + line for line in steps_text(unit, then, used, beside))
                yield "} else {"
                yield from (INDENT + line for line in steps_text(unit, other, used, beside))
                yield "}"
            case Repeat():
                yield from beside.before(step)
                yield from _repeat(unit, step, used, beside)


def _repeat(unit: Unit, step: Repeat, used: Used, beside: Beside) -> Iterator[str]:
    counter = address(unit, step.counter, "int64_t *")
    tests = [] if step.trips is None else [f"*{counter} < *{address(unit, step.trips, 'const int64_t *')}"]
    tests += [] if step.condition is None else [f"*{address(unit, step.condition, 'const uint8_t *')}"]
    yield f"for (*{counter} = 0; {' && '.join(tests) or '1'}; ++*{counter}) {{"
    yield from (INDENT + line for line in steps_text(unit, step.body, used, beside))
    yield from [INDENT + _pause(unit)] if step.pauses else []
    yield "}"


def _pause(unit: Unit) -> str:
    """The caller may end the run: nothing has been copied into its state."""
    return f"if ({unit.name}_pause()) return {unit.errors['ERR_STOPPED']};"


def _copy(unit: Unit, step: Copy, used: Used) -> Iterator[str]:
    source, to = step.source, step.to
    if _is_nothing(unit, source, to):
        yield from [_pause(unit)] if step.pauses else []
        return
    params = {p.name: _extent(unit, p) for p in params_of(to)}
    printer = Printer(unit.target, unit.argument, used, params=params)
    count = printer.index(simplify(product(to.shape)))
    target, origin = (
        address(unit, to, f"{to.type.c} *"),
        address(unit, source, f"const {to.type.c} *"),
    )
    target, origin = (f"({p})" if p.startswith("(") else p for p in (target, origin))
    one = f"{target}[i] = {origin}[i]"
    if to.type.is_text:
        one = printer.call("copy", (to.type.name,), f"&{target}[i]", f"&{origin}[i]")
    if not step.pauses:
        yield f"for (int i = 0; i < {count}; i++) {one};"
        return
    yield f"for (int64_t first = 0; first < {count}; first += {step.pauses}) {{"
    yield f"{INDENT}for (int i = (int)first; i < {count} && i - first < {step.pauses}; i++) {one};"
    yield f"{INDENT}{_pause(unit)}"
    yield "}"


def _is_nothing(unit: Unit, source: Tensor, to: Tensor) -> bool:
    """Whether the plan has put both sides of a copy into the same bytes."""
    here, there = unit.program.place(source), unit.program.place(to)
    at = unit.plan.offsets.get(here.base)
    return at is not None and at == unit.plan.offsets.get(there.base) and here.start == there.start


def _call(unit: Unit, step: Call) -> str:
    kernel = unit.printed(step.kernel)
    arguments = [_extent(unit, p) for p in kernel.params] + _numbers(unit, step.kernel)
    written = kernel.written
    for parameter, argument in zip(kernel.parameters, step.arguments, strict=True):
        const = parameter not in written
        arguments.append(address(unit, argument, pointer(parameter, const), pointer(argument, const)))
    arguments += ["parallel_for", "user"] if is_parallel(step.kernel) else []
    return f"{unit.function(step.kernel)}({', '.join(arguments)})"


def _numbers(unit: Unit, kernel: Kernel) -> list[str]:
    """What a function that stands for several kernels is told of one."""
    if kernel not in unit.generals:
        return []
    general = unit.generals[kernel]
    kinds = (INDEX if isinstance(n, Param) else n.type for n in general.kernel.numbers)
    return [literal(n, dtype) for n, dtype in zip(general.given[kernel], kinds, strict=True)]


def _extent(unit: Unit, p: Param) -> str:
    """A run-time extent: the caller's, or what a kernel has counted."""
    if p not in unit.program.measured:
        return unit.extent(p)
    return f"(int)*{address(unit, unit.program.measured[p], 'const int64_t *')}"


def address(unit: Unit, t: Tensor, wanted: str, own: str = "") -> str:
    """Where a tensor's bytes are, as a pointer of type `wanted`; a cast has no parentheses around it."""
    place = unit.program.place(t)
    base = place.base
    if base in unit.constants:
        member = f"{unit.part_of[base].local}->{unit.constant(base)}"
        return member if base is t and wanted == own else f"({wanted}){member}"
    if base in unit.plan.offsets:
        arena, offset = unit.located(unit.plan.offsets[base])
        offset += place.start * t.type.bytes
        return f"({wanted})({arena} + {offset})" if offset else f"({wanted}){arena}"
    name = f"state->{unit.member(base)}" if base in unit.states else unit.argument(base)
    if place.start:
        start = place.start * (t.type.bytes if t.type.is_text else 1)
        return f"({wanted})({name} + {start})"
    is_own = base is t and not t.type.is_text  # strings come as plain characters
    return name if is_own and wanted in (f"const {t.type.c} *", f"{t.type.c} *") else f"({wanted}){name}"
