"""NAME_main.c and its Makefile: a program that runs a bundle on golden vectors, prints and checks.

In: a `Unit` and one run (`Golden`). Out: C99 with libc, written as a user of the convention would.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ingot.emit.board import includes
from ingot.emit.conventions import public
from ingot.emit.cycles import hook
from ingot.emit.statement import INDENT
from ingot.emit.unit import Arena, Unit, provenance
from ingot.emit.weights import array_text, chars, size, weights_file
from ingot.emit.wrap import wrap
from ingot.formula.expr import Array, Tensor
from ingot.memory.plan import ALIGN
from ingot.memory.tree import padded
from ingot.options import Options

Lines = Iterator[str]
Place = Callable[[Tensor], str]
TOLERANCE = 1e-4
NEEDED = ("-fno-strict-aliasing", "-ffp-contract=off")  # docs/bundle.md says why


@dataclass(frozen=True, slots=True)
class Golden:
    """One run: inputs, outputs and then the state, in the model's order; extents, status, who computed it."""

    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]
    extents: tuple[int, ...]
    status: int
    seed: int
    source: str


def main_source(unit: Unit, golden: Golden) -> str:
    """The text of NAME_main.c."""
    program = unit.program
    arrays = [array_text(_in(unit, t), t, a) for t, a in zip(program.inputs, golden.inputs, strict=True)]
    made = (*program.outputs, *program.members)
    arrays += [array_text(_want(unit, t), t, a) for t, a in zip(made, golden.outputs, strict=True)]
    arrays += [f"static {t.type.edge} {_out(unit, t)}[{max(t.count, 1)}]{chars(t)};" for t in made]
    parts = [
        provenance(unit),
        f'{includes(unit)}\n\n#include "{unit.name}.h"',
        f"/* inputs: random numbers, seed {golden.seed}; outputs: {golden.source} */",
        "\n".join(arrays),
        "\n".join(_MEMORY[unit.api](unit)),
        "\n".join(_RUN[unit.api](unit, golden)),
        hook(unit),
        *("\n".join(_check(unit, t, a.size)) for t, a in zip(made, golden.outputs, strict=True)),
        "\n".join(_main(unit, golden)),
    ]
    return wrap("\n\n".join(p for p in parts if p) + "\n")


def _passed(t: Tensor, name: str) -> str:
    """An array of this file as an argument."""
    return f"*{name}" if t.type.is_text else name


def _own(unit: Unit, name: str) -> str:
    """A name of this file, kept apart from the bundle's: one may be called `run`, or `in_x`."""
    return f"{name}_" if name in public(unit) else name


def _in(unit: Unit, t: Tensor) -> str:
    return _own(unit, f"in_{unit.argument(t)}")


def _out(unit: Unit, t: Tensor) -> str:
    return _own(unit, f"out_{unit.argument(t)}")


def _want(unit: Unit, t: Tensor) -> str:
    return _own(unit, f"want_{unit.argument(t)}")


def _glow(unit: Unit) -> tuple[str, str, str]:
    """Glow's three memories, as its documentation calls them."""
    return (_own(unit, "constantWeight"), _own(unit, "mutableWeight"), _own(unit, "activations"))


# ---- memory and one run, as each convention wants them


def _included(unit: Unit) -> Lines:
    yield f'#include "{unit.name}.weights.txt"'
    yield "};"


def _direct_memory(unit: Unit) -> Lines:
    aligned = f"__attribute__((aligned({ALIGN})))"
    if unit.external:
        yield f"static const unsigned char {_own(unit, 'weights')}[{size(unit)}] {aligned} = {{"
        yield from _included(unit)
    if not unit.plan.regions:
        yield f"static unsigned char {_own(unit, 'arena')}[{padded(unit.plan.arena_bytes)}] {aligned};"
    if unit.program.states and not unit.plan.regions:
        yield f"static struct {unit.name}_state {_own(unit, 'state')};"


def _arena(unit: Unit, arena: Arena) -> str:
    """The array of this file, or of NAME_memory.c."""
    return arena.symbol if unit.plan.regions else _own(unit, arena.parameter)


def _direct_run(unit: Unit, golden: Golden) -> Lines:
    arenas = [_arena(unit, arena) for arena in unit.arenas]
    rows = [_own(unit, "weights")] if unit.external else []
    rows += [str(n) for n in golden.extents]
    rows += [_passed(t, _in(unit, t)) for t in unit.program.inputs]
    rows += [_passed(t, _out(unit, t)) for t in unit.program.outputs]
    state = unit.own_state if unit.plan.regions else _own(unit, "state")
    rows += [f"&{state}"] if unit.program.states else []
    rows += ["NULL", "NULL"] if unit.is_threaded else []  # one task after the other
    yield f"static int {_own(unit, 'run')}(void) {{"
    yield from (f"{INDENT}memset({a}, 0xFF, sizeof {a}); /* may hold anything */" for a in arenas)
    if not unit.program.states:
        yield f"{INDENT}return {unit.name}({', '.join([*rows, *arenas])});"
        yield "}"
        return
    yield f"{INDENT}int status;"
    yield f"{INDENT}{unit.name}_state_init(&{state});"
    yield f"{INDENT}status = {unit.name}({', '.join([*rows, *arenas])});"
    yield from _state_out(unit, f"{state}.")
    yield f"{INDENT}return status;"
    yield "}"


def _static_memory(unit: Unit) -> Lines:
    align = f"GLOW_MEM_ALIGN({unit.upper}_MEM_ALIGN)"
    constant, mutable, activations = _glow(unit)
    yield f"{align} static uint8_t {constant}[{unit.upper}_CONSTANT_MEM_SIZE] = {{"
    yield from _included(unit)
    yield f"{align} static uint8_t {mutable}[{unit.upper}_MUTABLE_MEM_SIZE];"
    yield f"{align} static uint8_t {activations}[{unit.upper}_ACTIVATIONS_MEM_SIZE];"


def _static_run(unit: Unit, _: Golden) -> Lines:
    constant, mutable, activations = _glow(unit)

    def place(t: Tensor) -> str:
        return f"GLOW_GET_ADDR({mutable}, {unit.upper}_{unit.argument(t)})"

    yield f"static int {_own(unit, 'run')}(void) {{"
    yield f"{INDENT}int status;"
    yield f"{INDENT}memset({activations}, 0xFF, sizeof {activations}); /* may hold anything */"
    yield from _copies_in(unit, place)
    if unit.program.states:
        yield f"{INDENT}{unit.name}_state_init({_glow_state(unit)});"
    yield f"{INDENT}status = {unit.name}({constant}, {mutable}, {activations});"
    yield from _copies_out(unit, place)
    yield from _state_out(unit, f"{_glow_state(unit)}->")
    yield f"{INDENT}return status;"
    yield "}"


def _glow_state(unit: Unit) -> str:
    """The struct in the mutable memory, as a pointer."""
    return f"((struct {unit.name}_state *)(void *)({_glow(unit)[1]} + {unit.upper}_STATE))"


def _state_out(unit: Unit, state: str) -> Lines:
    """Copies of the members; `state` with the dot or arrow behind it."""
    for t in unit.program.members:
        if t.bytes:
            yield f"{INDENT}memcpy({_out(unit, t)}, {state}{unit.member(t)}, sizeof {_out(unit, t)});"


def _dynamic_memory(unit: Unit) -> Lines:
    yield f"static const uint8_t {_own(unit, 'weights')}[{size(unit)}] = {{"
    yield from _included(unit)
    yield f"""
static uint8_t *{_own(unit, "allocate")}(uint64_t bytes) {{
    uint8_t *const memory = malloc((size_t)(bytes + {unit.name}_config.alignment));
    if (!memory) exit(2);
    return memory + ({unit.name}_config.alignment - (uintptr_t)memory % {unit.name}_config.alignment);
}}

static uint8_t *{_own(unit, "find")}(uint8_t *memory, const char *name) {{
    for (uint64_t i = 0; i < {unit.name}_config.numSymbols; i++) {{
        const SymbolTableEntry *const entry = &{unit.name}_config.symbolTable[i];
        if (entry->kind == 1 && strcmp(entry->name, name) == 0) return memory + entry->offset;
    }}
    printf("no symbol %s\\n", name);
    exit(2);
}}"""


def _dynamic_run(unit: Unit, _: Golden) -> Lines:
    constant, mutable, activations = _glow(unit)
    config, weights = f"{unit.name}_config", _own(unit, "weights")

    def place(t: Tensor) -> str:
        return f'{_own(unit, "find")}({mutable}, "{unit.argument(t)}")'

    yield f"static int {_own(unit, 'run')}(void) {{"
    yield f"{INDENT}static uint8_t *{constant}, *{mutable}, *{activations};"
    yield f"{INDENT}int status;"
    yield f"{INDENT}if (!{constant}) {{"
    for memory, member in zip(
        _glow(unit), ("constantWeightVars", "mutableWeightVars", "activations"), strict=True
    ):
        yield f"{INDENT}{INDENT}{memory} = {_own(unit, 'allocate')}({config}.{member}MemSize);"
    yield f"{INDENT}{INDENT}memcpy({constant}, {weights}, sizeof {weights});"
    yield f"{INDENT}}}"
    yield f"{INDENT}memset({activations}, 0xFF, (size_t){config}.activationsMemSize); /* may hold anything */"
    yield from _copies_in(unit, place)
    if unit.program.states:
        yield f"{INDENT}{unit.name}_state_init({_glow_state(unit)});"
    yield f"{INDENT}status = {unit.name}({constant}, {mutable}, {activations});"
    yield from _copies_out(unit, place)
    yield from _state_out(unit, f"{_glow_state(unit)}->")
    yield f"{INDENT}return status;"
    yield "}"


def _argument_run(unit: Unit, _: Golden) -> Lines:
    inputs, outputs = unit.program.inputs, unit.program.outputs
    yield f"static int {_own(unit, 'run')}(void) {{"
    yield f"{INDENT}int status;"
    yield f"{INDENT}if (!{unit.name}_constructor()) return 1;"
    yield from _copies_in(unit, lambda t: f"{unit.name}_get_address_for_argument({inputs.index(t)})")
    yield f"{INDENT}status = {unit.name}_run();"
    yield from _copies_out(unit, lambda t: f"{unit.name}_get_address_for_result({outputs.index(t)})")
    yield from _state_out(unit, f"{unit.name}_get_state()->")
    yield f"{INDENT}{unit.name}_destructor();"
    yield f"{INDENT}return status;"
    yield "}"


def _copies_in(unit: Unit, place: Place) -> Lines:
    for t in unit.program.inputs:
        if t.bytes:
            yield f"{INDENT}memcpy({place(t)}, {_in(unit, t)}, sizeof {_in(unit, t)});"


def _copies_out(unit: Unit, place: Place) -> Lines:
    for t in unit.program.outputs:
        if t.bytes:
            yield f"{INDENT}memcpy({_out(unit, t)}, {place(t)}, sizeof {_out(unit, t)});"


def _no_memory(_: Unit) -> Lines:
    yield from ()


_MEMORY = {
    "direct": _direct_memory,
    "static": _static_memory,
    "dynamic": _dynamic_memory,
    "argument": _no_memory,
}
_RUN = {"direct": _direct_run, "static": _static_run, "dynamic": _dynamic_run, "argument": _argument_run}


# ---- checking


def _check(unit: Unit, t: Tensor, count: int) -> Lines:
    """A function that prints the first values of an output and counts those that are wrong."""
    name, out, want = unit.argument(t), _out(unit, t), _want(unit, t)
    if t.type.is_text:
        yield from _check_text(unit, t, count)
        return
    wide = "double" if t.type.is_float and t.type.bits >= 32 else "long long"
    show = "%.7g" if wide == "double" else "%lld"
    yield f"static int {_own(unit, f'check_{name}')}(void) {{"
    yield f"{INDENT}int wrong = 0;"
    if wide == "double":
        yield f"{INDENT}double allowed = 0;"
        yield f"{INDENT}for (int i = 0; i < {count}; i++) {{ /* {TOLERANCE} of the largest */"
        size = f"{want}[i] < 0 ? -{want}[i] : {want}[i]"
        yield f"{INDENT}{INDENT}const double most = {TOLERANCE} * ({size});"
        yield f"{INDENT}{INDENT}if (most - most == 0 && most > allowed) allowed = most;"
        yield f"{INDENT}}}"
    elif t.type.is_float:
        yield f"{INDENT}const long long allowed = 2; /* {t.type}, compared as integers */"
    else:
        yield f"{INDENT}const long long allowed = 0;"
    yield f'{INDENT}printf("{name}:");'
    yield f"{INDENT}for (int i = 0; i < {count}; i++) {{"
    yield f"{INDENT}{INDENT}const {wide} found = ({wide}){out}[i], wanted = ({wide}){want}[i];"
    yield f"{INDENT}{INDENT}const {wide} off = found < wanted ? wanted - found : found - wanted;"
    yield f'{INDENT}{INDENT}if (i < 10) printf(" {show}", found);'
    yield f"{INDENT}{INDENT}const int same = found == wanted || (found != found && wanted != wanted);"
    yield f"{INDENT}{INDENT}if (!same && !(off <= allowed)) wrong++;"
    yield f"{INDENT}}}"
    yield f'{INDENT}printf("{" ..." if count > 10 else ""}\\n{name}: %d of {count} values wrong\\n", wrong);'
    yield f"{INDENT}return wrong;"
    yield "}"


def _check_text(unit: Unit, t: Tensor, count: int) -> Lines:
    """The same for strings, whose bytes must all be right."""
    name, out, want = unit.argument(t), _out(unit, t), _want(unit, t)
    yield f"static int {_own(unit, f'check_{name}')}(void) {{"
    yield f"{INDENT}int wrong = 0;"
    yield f'{INDENT}printf("{name}:");'
    yield f"{INDENT}for (int i = 0; i < {count}; i++) {{"
    yield f'{INDENT}{INDENT}if (i < 10) printf(" \\"%.{t.type.bytes}s\\"", {out}[i]);'
    yield f"{INDENT}{INDENT}if (memcmp({out}[i], {want}[i], sizeof {out}[i]) != 0) wrong++;"
    yield f"{INDENT}}}"
    yield f'{INDENT}printf("{" ..." if count > 10 else ""}\\n{name}: %d of {count} values wrong\\n", wrong);'
    yield f"{INDENT}return wrong;"
    yield "}"


def _main(unit: Unit, golden: Golden) -> Lines:
    yield "int main(void) {"
    yield f"{INDENT}int wrong = 0;"
    if unit.is_profiled:
        yield f"{INDENT}{unit.name}_ticks_start();"
    yield f"{INDENT}for (int i = 0; i < 2; i++) {{ /* twice: a run leaves nothing behind but its state */"
    yield f"{INDENT}{INDENT}const int status = {_own(unit, 'run')}();"
    yield f"{INDENT}{INDENT}if (status != {golden.status}) {{"
    yield f'{INDENT}{INDENT}{INDENT}printf("{unit.name} returned %d, expected {golden.status}\\n", status);'
    yield f"{INDENT}{INDENT}{INDENT}return 1;"
    yield f"{INDENT}{INDENT}}}"
    if golden.status == 0:
        yield from (
            f"{INDENT}{INDENT}wrong += {_own(unit, f'check_{unit.argument(t)}')}();"
            for t in (*unit.program.outputs, *unit.program.members)
        )
    yield f"{INDENT}}}"
    if unit.is_profiled:
        yield f"{INDENT}{unit.name}_print_ticks(); /* of both runs */"
    yield f'{INDENT}printf("%s\\n", wrong ? "FAILED" : "OK");'
    yield f"{INDENT}return wrong != 0;"
    yield "}"


def makefile(unit: Unit, options: Options, has_object: bool) -> str:
    """The text of the Makefile: links the shipped object, or compiles the C where there is none."""
    name, target = unit.name, unit.target
    weights = weights_file(unit)
    static = (options.relocation or target.relocation) == "static"
    parts = [f"{name}.o"] if has_object else [f"{name}.c", *([weights] if weights else [])]
    parts += [f"{name}_memory.c"] if unit.plan.regions else []
    needs = [f"{name}.h", *([f"{name}.weights.txt"] if unit.external else [])]
    needs += [f"{name}.weights.bin"] if weights and weights.endswith(".S") else []
    machine = " ".join(target.gcc[1:] if target.gcc else ())
    link = "-static" if target.runner else "-no-pie" if static else ""
    libraries = ""
    if target.board:  # no library of C there: what the program calls is in NAME_board.c
        parts.append(f"{name}_board.c")
        needs += [f"{name}_board.h", f"{name}_board.ld"]
        machine += " -ffreestanding -DINGOT_BOARD"
        link, libraries = f"-nostdlib -Wl,--no-enum-size-warning,-z,noexecstack -T {name}_board.ld", " -lgcc"
    return f"""\
# SPDX-License-Identifier: 0BSD
# make run: build {name}_main and run it: it prints the outputs and checks them.
ifeq ($(origin CC),default)
CC = {target.gcc[0] if target.gcc else "cc"}
endif
CFLAGS ?= {f"{unit.priority.level} {' '.join(NEEDED)} {machine}".strip()}
LDFLAGS ?= {link}
RUN ?= {" ".join(target.runner)}

.PHONY: run clean
run: {name}_main
\t$(RUN) ./{name}_main

{name}_main: {" ".join([f"{name}_main.c", *parts, *needs])}
\t$(CC) $(CFLAGS) $(LDFLAGS) -o $@ {" ".join([f"{name}_main.c", *parts])}{libraries}

clean:
\trm -f {name}_main
"""
