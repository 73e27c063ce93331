"""The four calling conventions: what each adds to the header, and its wrapper around the direct function.

In: a `Unit` with its `api`. Out: header lines, C text, and the names of the public symbols. `static` and
`dynamic` are Glow's bundle interfaces (`GLOW_GET_ADDR`, `BundleConfig` are theirs); `argument` is Indigo's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ingot.emit.entry import entry_parameters
from ingot.emit.extents import prototype, size_lines
from ingot.emit.regions import declarations
from ingot.emit.statement import INDENT
from ingot.emit.unit import Unit
from ingot.emit.weights import offsets, size
from ingot.errors import InputError
from ingot.formula.expr import Tensor
from ingot.memory.plan import ALIGN
from ingot.memory.tree import padded

Lines = Iterator[str]


@dataclass(frozen=True, slots=True)
class Convention:
    """`header` declares, `code` defines; `entries` are the public functions, `symbols` all public names.

    `brings_weights`: callers always pass the weights; `takes_weights`: they may.
    """

    header: Callable[[Unit], Lines]
    code: Callable[[Unit], Lines]
    entries: tuple[str, ...] = ("{name}",)
    data: tuple[str, ...] = ()
    brings_weights: bool = False
    takes_weights: bool = True
    takes_extents: bool = True

    def symbols(self, name: str) -> list[str]:
        return [s.format(name=name) for s in (*self.entries, *self.data)]


def public(unit: Unit) -> list[str]:
    """The names of every public symbol."""
    found = CONVENTIONS[unit.api].symbols(unit.name)
    if unit.program.params and not unit.plan.regions:
        found.append(f"{unit.name}_arena_size")
    if unit.program.states:
        found += [f"{unit.name}_state_init", f"{unit.name}_state_reset"]
        found += [f"{unit.name}_get_state"] if unit.api == "argument" else []
    return [*found, *([f"{unit.name}_selftest"] if unit.selftest else [])]


def check(api: str, weights: str | None, has_params: bool, threads: bool) -> bool:
    """Whether the caller brings the weights; InputError where a convention has no place for what is asked."""
    convention = CONVENTIONS[api]
    if has_params and not convention.takes_extents:
        raise InputError(f"--api {api} cannot pass dimensions at run time", remedy="give them with --define")
    if threads and api != "direct":
        raise InputError(f"--api {api} has no argument for threads", remedy="use --api direct")
    if weights == "embedded" and convention.brings_weights:
        raise InputError(f"--api {api} takes its weights from the caller", remedy="leave --weights out")
    if weights == "external" and not convention.takes_weights:
        raise InputError(f"--api {api} has no argument for weights", remedy="use --weights embedded")
    return convention.brings_weights or weights == "external"


# ---- direct


def _direct_header(unit: Unit) -> Lines:
    if unit.is_threaded:
        yield "/* Runs task(context, i) for 0 <= i < n, in any order, at once if it can; NULL: one by one. */"
        task = "void (*task)(void *context, int i)"
        yield f"typedef void (*{unit.name}_parallel_for)(void *user, int n, {task}, void *context);"
    if unit.program.params and not unit.variant_of and not unit.plan.regions:
        yield "/* The bytes of arena that a run with these extents needs, at most"
        yield f" * {unit.upper}_ARENA_SIZE; {unit.upper}_ERR_CAPACITY where they are out of bounds. */"
        yield f"{prototype(unit)};"
    yield f"/* One inference: {unit.upper}_OK or an error. {_memory(unit)} */"
    yield f"int {unit.name}({entry_parameters(unit)});"
    yield from declarations(unit)


def _memory(unit: Unit) -> str:
    """What the caller brings, in words."""
    weights = f"weights: the bytes of {unit.name}.weights.bin, aligned to {ALIGN}; " if unit.external else ""
    if unit.plan.regions:
        sizes = [f"{a.parameter}: {unit.upper}_{a.macro}_SIZE bytes" for a in unit.arenas]
        return f"{weights}{', '.join(sizes)}, aligned to {ALIGN}, of any content." if sizes else weights
    if not unit.plan.arena_bytes:
        return f"{weights}arena: may be NULL."
    return f"{weights}arena: {unit.upper}_ARENA_SIZE bytes, aligned to {ALIGN}, of any content."


def _direct_code(unit: Unit) -> Lines:
    if unit.program.params and not unit.variant_of and not unit.plan.regions:
        yield from size_lines(unit, [unit])


# ---- static and dynamic: Glow

GLOW_SUCCESS = """\
#ifndef GLOW_SUCCESS
#define GLOW_SUCCESS 0
#endif"""
GLOW_MACROS = """\
#ifndef GLOW_MEM_ALIGN
#define GLOW_MEM_ALIGN(size) __attribute__((aligned(size)))
#endif
#ifndef GLOW_GET_ADDR
#define GLOW_GET_ADDR(base, offset) (((uint8_t *)(base)) + (offset))
#endif"""
GLOW_TYPES = """\
#ifndef INGOT_GLOW_TYPES
#define INGOT_GLOW_TYPES
typedef struct SymbolTableEntry {
    const char *name;
    uint64_t offset; /* bytes from the start of its memory */
    uint64_t size;   /* elements */
    char kind;       /* 1: input or output, in mutableWeight; 0: constant, in constantWeight */
} SymbolTableEntry;
typedef struct BundleConfig {
    uint64_t constantWeightVarsMemSize;
    uint64_t mutableWeightVarsMemSize;
    uint64_t activationsMemSize;
    uint64_t alignment;
    uint64_t numSymbols;
    const SymbolTableEntry *symbolTable;
} BundleConfig;
#endif"""


def _prototype(unit: Unit) -> str:
    return f"int {unit.name}(uint8_t *constantWeight, uint8_t *mutableWeight, uint8_t *activations)"


def _sizes(unit: Unit) -> dict[str, int]:
    """Glow's three memories; each is at least one cache line, for users declare arrays of these sizes."""
    return {
        "CONSTANT_MEM_SIZE": size(unit),
        "MUTABLE_MEM_SIZE": max(unit.mutable_bytes, ALIGN),
        "ACTIVATIONS_MEM_SIZE": padded(unit.plan.arena_bytes),
    }


def _static_header(unit: Unit) -> Lines:
    yield from (
        GLOW_SUCCESS,
        GLOW_MACROS,
        "",
        "/* offsets of inputs and outputs in mutableWeight, in bytes */",
    )
    yield from (f"#define {unit.upper}_{unit.argument(t)} {at}" for t, at in unit.mutable.items())
    yield from _state_offset(unit)
    yield ""
    yield from (f"#define {unit.upper}_{macro} {n}" for macro, n in _sizes(unit).items())
    yield f"#define {unit.upper}_MEM_ALIGN {ALIGN}"
    yield ""
    yield _prototype(unit) + ";"


def _dynamic_header(unit: Unit) -> Lines:
    yield from (GLOW_SUCCESS, GLOW_TYPES, "", f"extern BundleConfig {unit.name}_config;")
    yield from _state_offset(unit)
    yield _prototype(unit) + ";"


def _state_offset(unit: Unit) -> Lines:
    if unit.program.states:
        yield f"/* where the struct {unit.name}_state is in mutableWeight; {unit.name}_state_init it first */"
        yield f"#define {unit.upper}_STATE {unit.state_offset}"


def _static_code(unit: Unit) -> Lines:
    """Inputs and outputs at their offsets in the mutable memory."""

    def place(t: Tensor, const: str) -> str:
        at = f"(mutableWeight + {unit.mutable[t]})" if unit.mutable[t] else "mutableWeight"
        return f"({const}{t.type.edge} *)(void *){at}"

    rows = ["constantWeight", *(place(t, "const ") for t in unit.program.inputs)]
    rows += [place(t, "") for t in unit.program.outputs]
    if unit.program.states:
        rows.append(f"(struct {unit.name}_state *)(void *)(mutableWeight + {unit.state_offset})")
    rows.append("activations")
    yield _prototype(unit) + " {"
    yield f"{INDENT}if (!mutableWeight) return {unit.upper}_ERR_NULL;"
    yield f"{INDENT}if ((uintptr_t)mutableWeight % {ALIGN} != 0) return {unit.upper}_ERR_ALIGN;"
    yield f"{INDENT}return {unit.entry}({', '.join(rows)});"
    yield "}"


def _dynamic_code(unit: Unit) -> Lines:
    symbols = [(unit.argument(t), at, t.count, 1) for t, at in unit.mutable.items()]
    symbols += [(unit.constant(t), at, t.count, 0) for t, at in offsets(unit).items()]
    if symbols:
        yield f"static const SymbolTableEntry {unit.name}_symbols[] = {{"
        yield from (f'{INDENT}{{"{name}", {at}, {n}, {kind}}},' for name, at, n, kind in symbols)
        yield "};"
    sizes = ", ".join(str(n) for n in (*_sizes(unit).values(), ALIGN, len(symbols)))
    table = f"{unit.name}_symbols" if symbols else "0"
    yield f"BundleConfig {unit.name}_config = {{{sizes}, {table}}};"
    yield ""
    yield from _static_code(unit)


# ---- argument: Indigo


def _argument_header(unit: Unit) -> Lines:
    n = unit.name
    yield f"int {n}_constructor(void); /* 1: ready, all inputs and outputs 0 */"
    yield f"void {n}_destructor(void);"
    yield f"void *{n}_get_address_for_argument(int index); /* 0 where there is none */"
    yield f"int {n}_run(void);"
    yield f"void *{n}_get_address_for_result(int index);"
    if unit.program.states:
        yield f"struct {n}_state *{n}_get_state(void); /* the instance's: copy it to save it */"


def _argument_code(unit: Unit) -> Lines:
    """One instance in static memory; inputs and outputs keep their content between runs."""
    name, arena = unit.name, unit.plan.arena_bytes
    fields = [
        f"{t.type.edge} {unit.argument(t)}[{max(t.count, 1) * _chars(t)}] __attribute__((aligned({ALIGN})));"
        for t in unit.edge
    ]
    fields += [f"struct {name}_state state;"] if unit.program.states else []
    yield "/* This convention has no argument for memory: the bundle owns one instance. */"
    yield f"static struct {name}_instance {{"
    yield from (f"{INDENT}{field}" for field in fields)
    yield f"{INDENT}unsigned char arena[{max(arena, 1)}] __attribute__((aligned({ALIGN})));"
    yield f"}} {name}_instance;"
    yield ""
    yield f"int {name}_constructor(void) {{"
    yield f"{INDENT}unsigned char *const bytes = (unsigned char *)&{name}_instance;"
    yield f"{INDENT}for (uintptr_t i = 0; i < sizeof {name}_instance; i++) bytes[i] = 0;"
    if unit.program.states:
        yield f"{INDENT}{name}_state_init(&{name}_instance.state);"
    yield f"{INDENT}return 1;"
    yield "}"
    yield ""
    yield f"void {name}_destructor(void) {{}}"
    yield ""
    yield from _address_function(unit, "argument", unit.program.inputs)
    yield ""
    rows = [f"{name}_instance.{unit.argument(t)}" for t in unit.edge]
    rows += [f"&{name}_instance.state"] if unit.program.states else []
    yield f"int {name}_run(void) {{"
    yield f"{INDENT}return {unit.entry}({', '.join([*rows, f'{name}_instance.arena'])});"
    yield "}"
    yield ""
    yield from _address_function(unit, "result", unit.program.outputs)
    if unit.program.states:
        yield from ("", f"struct {name}_state *{name}_get_state(void) {{")
        yield from (f"{INDENT}return &{name}_instance.state;", "}")


def _chars(t: Tensor) -> int:
    """How many of what the caller sees make one element."""
    return t.type.bytes if t.type.is_text else 1


def _address_function(unit: Unit, kind: str, tensors: tuple[Tensor, ...]) -> Lines:
    yield f"void *{unit.name}_get_address_for_{kind}(int index) {{"
    for i, t in enumerate(tensors):
        yield f"{INDENT}if (index == {i}) return {unit.name}_instance.{unit.argument(t)};"
    if not tensors:
        yield f"{INDENT}(void)index;"
    yield f"{INDENT}return 0;"
    yield "}"


_INDIGO = (
    *("{name}_constructor", "{name}_destructor", "{name}_get_address_for_argument", "{name}_run"),
    "{name}_get_address_for_result",
)
CONVENTIONS = {
    "direct": Convention(_direct_header, _direct_code),
    "static": Convention(_static_header, _static_code, brings_weights=True, takes_extents=False),
    "dynamic": Convention(
        _dynamic_header, _dynamic_code, data=("{name}_config",), brings_weights=True, takes_extents=False
    ),
    "argument": Convention(
        _argument_header, _argument_code, entries=_INDIGO, takes_weights=False, takes_extents=False
    ),
}
