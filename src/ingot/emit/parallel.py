"""Parallel loops as C: the body becomes a task with a context, the loop a call of the caller's
`parallel_for`.

    typedef void (*NAME_parallel_for)(void *user, int n, void (*task)(void *context, int i), void *context);
"""

from __future__ import annotations

from collections.abc import Iterator

from ingot.emit.entry import pointer
from ingot.emit.names import Scope
from ingot.emit.statement import INDENT, lines
from ingot.emit.unit import Unit
from ingot.emit.vector import VectorPrinter
from ingot.formula.expr import Tensor, Var, loads
from ingot.formula.statements import For, expressions, flatten
from ingot.loops.program import Kernel
from ingot.loops.program_passes.parallel import is_parallel, tasks

OWN_NAMES = ("context", "task", "shared", "parallel_for", "user")
"""Names that tasks and the kernels that start them use beside the model's."""


def tasks_text(unit: Unit, kernel: Kernel, scope: Scope, p: VectorPrinter) -> Iterator[str]:
    """The context and the tasks of a kernel's parallel loops."""
    yield _context(unit, kernel, scope)
    loops = [s for s in kernel.body if isinstance(s, For) and s.parallel]
    for number, loop in enumerate(loops):
        yield _task(unit, kernel, scope, loop, number, p)


def serial(unit: Unit) -> str:
    """What runs the tasks when the caller brings no `parallel_for`."""
    task = "void (*task)(void *context, int i)"
    head = f"static void {unit.name}_serial(void *user, int n, {task}, void *context)"
    body = ["(void)user;", "for (int i = 0; i < n; i++) task(context, i);"]
    return "\n".join([f"{head} {{", *(INDENT + row for row in body), "}"])


def _context(unit: Unit, kernel: Kernel, scope: Scope) -> str:
    """The struct that carries a kernel's tensors to its tasks."""
    rows = [
        f"{INDENT}{_declarator(t, t not in kernel.written, scope.name(t, t.name, 't'))};"
        for t in kernel.parameters
    ]
    return "\n".join([f"struct {unit.function(kernel)}_context {{", *rows, "};"])


def _declarator(t: Tensor, const: bool, name: str) -> str:
    """`const float (*name)[8][8]`"""
    kind = pointer(t, const)
    return kind.replace("(*)", f"(*{name})") if "(*)" in kind else f"{kind}{name}"


def _task(unit: Unit, kernel: Kernel, scope: Scope, loop: For, number: int, p: VectorPrinter) -> str:
    """One task: iteration `task` of the loop."""
    function = unit.function(kernel)
    rows = [f"const struct {function}_context *const shared = context;"]
    used = {load.tensor for s in flatten(loop.body) for e in expressions(s) for load in loads(e)}
    for t in (t for t in kernel.parameters if t in used):
        name = scope.name(t, t.name, "t")
        alone = "" if t in unit.plan.aliasing(kernel) else "restrict "
        rows.append(f"{_declarator(t, t not in kernel.written, alone + name)} = shared->{name};")
    rows.append(f"const int {loop.var} = {p.index(loop.lo + Var('task') * loop.step)};")
    rows += lines(loop.body, p, unit.errors)
    head = f"static void {function}_task{number}(void *context, int task) {{"
    return "\n".join([head, *(INDENT + r for r in rows), "}"])


def body_lines(unit: Unit, kernel: Kernel, scope: Scope, p: VectorPrinter) -> Iterator[str]:
    """The kernel's own statements; each parallel loop is handed over."""
    members = ", ".join(scope.name(t, t.name, "t") for t in kernel.parameters)
    function = unit.function(kernel)
    yield f"struct {function}_context context = {{{members}}};"
    number = 0
    for s in kernel.body:
        if isinstance(s, For) and s.parallel:
            yield f"parallel_for(user, {tasks(s)}, {function}_task{number}, &context);"
            number += 1
        else:
            yield from lines((s,), p, unit.errors)


__all__ = ["OWN_NAMES", "body_lines", "is_parallel", "serial", "tasks_text"]
