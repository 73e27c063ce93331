"""The verifier of formulas: types agree, names are in scope, reads are inside and follow a write.

In: the stages of one kernel or one operator, with what stands in memory before them. Out: nothing, or
InternalError naming the stage: a model cannot cause one, a wrong definition or pass can. What cannot be
proved of dimensions known at run time only is an UnsupportedError: fixing one helps. Run after each step
that makes or rewrites formulas.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ingot.errors import InternalError, UnsupportedError
from ingot.formula.compute import COMBINERS, Compute, Formula, Reduction, Scan, Stage, reads, writes
from ingot.formula.expr import (
    Binary,
    Expr,
    Gathered,
    Load,
    Param,
    Pick,
    Select,
    Tensor,
    Unary,
    Var,
    children,
    text,
    walk,
)
from ingot.formula.index import as_expr
from ingot.formula.prove import Scope, keeps_within
from ingot.formula.types import BOOL, INDEX


def verify_formula(formula: Formula, where: str) -> None:
    """Stages are sound over the inputs, and every output is one of them or written."""
    known = set(formula.inputs)
    verify_stages(formula.stages, known, where)
    for t in formula.outputs:
        if t not in known and t.value is None:
            raise InternalError(f"{where}: output {t.name} is never written")


def verify_stages(
    stages: tuple[Stage, ...],
    known: set[Tensor],
    where: str,
    sound: set[Stage] | None = None,
    outside: Scope | None = None,
) -> None:
    """Stages run on memory in which `known` is written; what they write is added to it.

    Those of `sound` are proved already; what is proved now is added. `outside` is the scope around them,
    which remembers the loops that were entered: groups of one model loop over the same extents.
    """
    sound = set() if sound is None else sound
    _stages(tuple(s for s in stages if s not in sound), outside or Scope(), where)
    sound.update(stages)
    _flow(stages, known, where)


def _flow(stages: tuple[Stage, ...], known: set[Tensor], where: str) -> None:
    """What is read was written."""
    for stage in stages:
        if isinstance(stage, Scan):
            _carried(stage, known, f"{where}, scan over {stage.axis.name}")
            _flow(stage.body, known, where)
            continue
        for t in reads(stage):
            if t.value is None and t not in known:
                raise InternalError(f"{where}, {stage.out.name}: {t.name} is read before it is written")
        known.add(stage.out)


def _carried(scan: Scan, known: set[Tensor], here: str) -> None:
    """What a step reads was made in the same step, before the scan, or is carried and has a first value."""
    made, fresh = {t for s in scan.body for t in writes(s)}, set[Tensor]()
    for t in scan.carried:
        if t not in known and t.value is None:
            raise InternalError(f"{here}: carried {t.name} has no first value")
    if scan.active is not None and (scan.active not in scan.carried or scan.active.shape != ()):
        raise InternalError(f"{here}: {scan.active.name} cannot end it, it is not one carried element")
    for stage in scan.body:
        for t in _wants(stage):
            if t in made - fresh and t not in scan.carried:
                raise InternalError(f"{here}: {t.name} lives from step to step but is not carried")
        fresh |= set(writes(stage))


def _wants(stage: Stage) -> Iterator[Tensor]:
    """What must have been written before the stage; of a scan not what each step makes for itself."""
    own = frozenset(writes(stage)) - {*stage.carried} if isinstance(stage, Scan) else frozenset()
    return (t for t in reads(stage) if t not in own)


def _stages(stages: tuple[Stage, ...], scope: Scope, where: str) -> None:
    for stage in stages:
        if isinstance(stage, Compute):
            _compute(stage, scope, where)
        else:
            here = f"{where}, scan over {stage.axis.name}"
            _stages(stage.body, _over((stage.axis,), scope, here), where)


def _compute(c: Compute, scope: Scope, where: str) -> None:
    here = f"{where}, {c.out.name}"
    if c.out.value is not None:
        raise InternalError(f"{here}: a constant is written")
    inner = _over(c.axes, scope, here)
    registers: dict[str, Var] = {}
    if c.reduction is not None:
        _reduction(c.reduction, inner, here)
        registers["acc"] = Var("acc", None, c.reduction.term.dtype)
    if c.value.dtype not in (c.out.type, c.out.type.compute):
        raise InternalError(f"{here}: a {c.value.dtype} value becomes {c.out.type} without a cast")
    _expression(c.value, inner, registers, here)
    if not keeps_within(c.out, c.value, inner):
        raise InternalError(f"{here}: {text(c.value)} may lie beyond {c.out.within}")
    _place(c, inner, here)


def _place(c: Compute, scope: Scope, here: str) -> None:
    """The element that is written lies inside the tensor."""
    if len(c.index) != c.out.rank:
        raise InternalError(f"{here}: {len(c.index)} indices for rank {c.out.rank}")
    for i, n in zip(c.index, c.out.shape, strict=True):
        _expression(i, scope, {}, here)
        if not scope.inside(i, n):
            raise InternalError(f"{here}: index {text(i)} of the result may leave 0 .. {text(n)}")


def _reduction(r: Reduction, scope: Scope, here: str) -> None:
    if r.combine not in COMBINERS:
        raise InternalError(f"{here}: unknown combiner {r.combine}")
    if r.init.dtype is not r.term.dtype:
        raise InternalError(f"{here}: a {r.init.dtype} start for a reduction of {r.term.dtype}")
    _expression(r.init, scope, {}, here)
    _expression(r.term, _over(r.axes, scope, here), {}, here)


def _over(axes: tuple[Var, ...], scope: Scope, here: str) -> Scope:
    """Inside loops over the axes."""
    key = tuple((a.name, a.extent, a.dtype) for a in axes)
    if (entered := scope.entered.get(key)) is not None:
        return entered
    outer = scope
    for a in axes:
        if a.extent is None or a.dtype is not INDEX:
            raise InternalError(f"{here}: axis {a.name} has no extent")
        if a.name in scope.order:
            raise InternalError(f"{here}: two axes are called {a.name}")
        scope = scope.variable(a.name, as_expr(0), as_expr(a.extent))
    outer.entered[key] = scope
    return scope


def _expression(e: Expr, scope: Scope, registers: dict[str, Var], here: str) -> None:
    """Names, types, and places of reads of an expression, the innermost first."""
    if isinstance(e, Select):
        _expression(e.condition, scope, registers, here)
        _expression(e.a, scope.given(e.condition), registers, here)
        _expression(e.b, scope.given(e.condition, False), registers, here)
    else:
        for child in children(e):
            _expression(child, scope, registers, here)
    check_types(e, here)
    if isinstance(e, Load):
        _load(e, scope, here)
    if isinstance(e, Var):
        register = registers.get(e.name)
        if e.name not in scope.order and (register is None or register.dtype is not e.dtype):
            raise InternalError(f"{here}: {e.name} ({e.dtype}) is not in scope")


def _load(e: Load, scope: Scope, here: str) -> None:
    if len(e.index) != e.tensor.rank:
        raise InternalError(f"{here}: {len(e.index)} indices for {e.tensor.name} of rank {e.tensor.rank}")
    if e.outside is not None:
        return
    for i, n in zip(e.index, e.tensor.shape, strict=True):
        if scope.inside(i, n):
            continue
        why = f"{here}: {text(e)} may leave the tensor: {text(i)} in 0 .. {text(n)} is not provable"
        params = {p for x in (i, as_expr(n)) for p in walk(x) if isinstance(p, Param)}
        if params:
            raise UnsupportedError(why, remedy=_remedy(params))
        raise InternalError(why)


def _remedy(params: Iterable[Param]) -> str:
    """What the user can do about extents that may be anything: only those that have names can be defined."""
    named = sorted(p.name for p in params if p.source is None)
    if named:
        return f"give {' or '.join(named)} one value with --define"
    return "what the extents are taken from is known at run time only: make it a constant of the model"


def check_types(e: Expr, here: str) -> None:
    """The operand types of one node fit; the checks that loops and formulas share."""
    match e:
        case Binary(op, a, b) if a.dtype is not b.dtype:
            raise InternalError(f"{here}: {op} of {a.dtype} and {b.dtype}")
        case Select(condition, a, b) if condition.dtype is not BOOL or a.dtype is not b.dtype:
            raise InternalError(f"{here}: select of {a.dtype} and {b.dtype} by {condition.dtype}")
        case Load(tensor, index, outside):
            if any(i.dtype is not INDEX for i in index):
                raise InternalError(f"{here}: {tensor.name} is indexed by {[str(i.dtype) for i in index]}")
            if outside is not None and outside.dtype is not tensor.type.compute:
                raise InternalError(f"{here}: {outside.dtype} stands for what is outside {tensor.name}")
        case Gathered(value, lo, hi):
            if not value.dtype.is_integer or lo.dtype is not INDEX or hi.dtype is not INDEX:
                raise InternalError(f"{here}: an index is gathered from {value.dtype}")
        case Pick(tables, index):
            if not index.dtype.is_integer or index.dtype.bits != e.dtype.bits:
                raise InternalError(f"{here}: lanes of {e.dtype} are picked by {index.dtype}")
            if any(t.dtype is not e.dtype for t in tables):
                raise InternalError(f"{here}: lanes are picked from registers of several types")
        case Unary("not", a) if a.dtype is not BOOL:
            raise InternalError(f"{here}: not of {a.dtype}")
