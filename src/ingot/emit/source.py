"""The bundle's C source: provenance, types, helpers, kernels, the entry, the convention's wrapper.

In: a `Unit`. Out: C99 text that compiles without a warning and needs no other header than its own and
target's.
"""

from __future__ import annotations

from ingot.emit.conventions import CONVENTIONS
from ingot.emit.entry import entry_text, is_static
from ingot.emit.helpers import helper, is_helper, text_types, vector_types
from ingot.emit.names import Scope, comment
from ingot.emit.parallel import OWN_NAMES, body_lines, is_parallel, serial, tasks_text
from ingot.emit.selftest import selftest_text
from ingot.emit.soft_floats import HELPERS
from ingot.emit.state import code_lines
from ingot.emit.statement import INDENT, lines
from ingot.emit.unit import Unit, describe, provenance
from ingot.emit.vector import VectorPrinter
from ingot.emit.weights import weights_struct
from ingot.emit.wrap import wrap
from ingot.formula.expr import Param, Tensor, static
from ingot.formula.statements import For, Let, flatten
from ingot.formula.types import DTYPES, INT32, DType
from ingot.loops.program import Kernel, touched
from ingot.targets.record import Target
from ingot.targets.routines import called

Key = tuple[str, ...]


def source(*units: Unit) -> str:
    """The text of NAME.c, or of the file of a group: each function that several call once."""
    used: set[Key] = set()
    first = units[0]
    printed = {unit.printed(k): unit for unit in reversed(units) for k in unit.program.kernels}
    order = dict.fromkeys(unit.printed(k) for unit in units for k in unit.program.kernels)
    kernels = [kernel_text(printed[k], k, used) for k in order]
    entries = [part for unit in units for part in _entry_parts(unit, used)]
    includes = "".join(f'#include "{unit.name}.h"\n' for unit in units)
    parts = [
        provenance(*units),
        includes + first.target.header.rstrip("\n"),
        text_types(set().union(*map(_types, units))),
        *map(weights_struct, units),
        *helper_texts(used, first.target),
        pause_text(first) if first.pauses else "",
        *kernels,
        *entries,
    ]
    return wrap("\n\n".join(p.rstrip("\n") for p in parts if p.strip()) + "\n")


def _entry_parts(unit: Unit, used: set[Key]) -> list[str]:
    """What is a bundle's own: the functions that its user calls, and what these alone need."""
    return [
        serial(unit) if unit.has_tasks else "",
        "\n".join(entry_text(unit, used)),
        "\n".join(code_lines(unit)) if unit.program.states and not unit.variant_of else "",
        "\n".join(CONVENTIONS[unit.api].code(unit)),
        selftest_text(unit, used) if unit.selftest else "",
    ]


def pause_text(unit: Unit) -> str:
    """What the caller defines."""
    return "\n".join(
        [
            "/* Called now and then: no vector register keeps its content. What is not 0 ends the run. */",
            f"int {unit.name}_pause(void);",
        ]
    )


def _types(unit: Unit) -> set[DType]:
    """The element types of everything the code touches."""
    program = unit.program
    tensors = {*program.inputs, *program.outputs, *program.members, *touched(program.steps)}
    return {t.type for t in tensors.union(*(k.parameters for k in program.kernels))}


def helper_texts(used: set[Key], target: Target) -> list[str]:
    """Vector types and helper functions, each after those it calls; `used` grows by those."""
    texts: dict[Key, str] = {}

    def visit(key: Key) -> None:
        if key in texts or key[0] == "type":
            return
        inner: set[Key] = set()
        text_ = _helper_text(key, target, inner)
        used.update(inner)
        for k in sorted(inner):
            visit(k)
        texts[key] = text_

    for key in sorted(used):
        visit(key)
    return ["\n".join(vector_types(used)), "\n".join(texts.values())]


def _helper_text(key: Key, target: Target, used: set[Key]) -> str:
    op, *types = key
    if op in HELPERS:
        used.update((inner, INT32.name) for inner in HELPERS[op].calls)
        return HELPERS[op].text
    if op == "routine":
        used.update(("routine", name) for name in called(types[0], target.routines))
    if is_helper(key) and not (
        types and DTYPES.get(types[0], DTYPES["bool"]).is_float and op in ("pow", "fmod", "mod")
    ):
        return helper(key, target)
    from ingot.emit.mathematics import function_text

    return function_text(key, target, used)


def kernel_text(unit: Unit, kernel: Kernel, used: set[Key]) -> str:
    """One static function, with a comment that says what it computes; its parallel loops' tasks before it."""
    locals_ = {s.var for s in flatten(kernel.body) if isinstance(s, For)}
    locals_ |= {s.name for s in flatten(kernel.body) if isinstance(s, Let)}
    scope = Scope({*locals_, *OWN_NAMES, *(n.name for n in kernel.numbers)}, unit.capitals)
    written = kernel.written
    params = {p.name: scope.name(p, p.name, "n") for p in kernel.params}
    pause = f"{unit.name}_pause"
    printer = VectorPrinter(unit.target, lambda t: scope.name(t, t.name, "t"), params=params, pause=pause)
    parameters = [f"int {name}" for name in params.values()]
    parameters += [f"{'int' if isinstance(n, Param) else n.type.c} {n.name}" for n in kernel.numbers]
    aliasing = unit.aliasing(kernel)
    parameters += [_parameter(t, scope, t not in written, t not in aliasing) for t in kernel.parameters]
    tasks = []
    if is_parallel(kernel):
        parameters += [f"{unit.name}_parallel_for parallel_for", "void *user"]
        tasks = list(tasks_text(unit, kernel, scope, printer))
        body = [INDENT + line for line in body_lines(unit, kernel, scope, printer)]
    else:
        body = [INDENT + line for line in lines(kernel.body, printer, unit.errors)]
    if kernel.may_fail:
        body.append(f"{INDENT}return 0;")
    used |= printer.used
    result = "int" if kernel.may_fail else "void"
    head = f"{unit.function(kernel)}({', '.join(parameters) or 'void'}) {{"
    for_size = "__cold__, " if unit.is_unhurried(kernel) else ""
    definition = f"static __attribute__(({for_size}__noinline__)) {result} {head}"
    return "\n".join([_kernel_comment(kernel, scope), *tasks, definition, *body, "}"])


def _parameter(t: Tensor, scope: Scope, const: bool, alone: bool) -> str:
    """`alone`: no other parameter points to the same bytes, and C may know."""
    name, qualifier = scope.name(t, t.name, "t"), "const " if const else ""
    restrict = "restrict " if alone else ""
    if not is_static(t):
        return f"{qualifier}{t.type.c} *{restrict}{name}"
    sizes = [str(max(static(n), 1)) for n in t.spans] or ["1"]
    return f"{qualifier}{t.type.c} {name}[{restrict}{sizes[0]}]" + "".join(f"[{n}]" for n in sizes[1:])


def _kernel_comment(kernel: Kernel, scope: Scope) -> str:
    """The nodes it computes, its parameters as C calls them and, where that differs, as the model does."""
    names = {t: scope.name(t, t.name, "t") for t in kernel.parameters}
    said = {t: name if name == t.name else f"{name} ({comment(t.name)})" for t, name in names.items()}
    shapes = "; ".join(f"{said[t]} {describe(t, '')}" for t in kernel.parameters)
    cost = f"; {kernel.macs} MACs" if kernel.macs else ""
    remark = f"\n   {comment(kernel.remark)}" if kernel.remark else ""
    return f"/* {comment(' + '.join(kernel.nodes))}{cost}\n   {shapes}{remark} */"
