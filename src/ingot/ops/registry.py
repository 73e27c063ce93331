"""The operator registry and the builder in which one definition per operator is written.

    @op("Softmax", since=13)
    def softmax(f, x, *, axis=-1): ...

A definition takes a `Builder`, the node's inputs as tensors (None where an optional one is absent) and its
attributes as keywords with ONNX's names and defaults; it returns the output tensor, or a tuple of them.
Everything else about the operator (shapes, types, reference, loops, MACs, fusion) is read off the stages it
built.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from ingot.errors import InputError, ModelError, ShapeError, UnsupportedError
from ingot.formula.compute import Compute, Formula, Reduction, Scan, Stage, accumulator
from ingot.formula.expr import (
    Array,
    Byte,
    Const,
    Expr,
    Extent,
    Gathered,
    Joined,
    Load,
    Operand,
    Tensor,
    Var,
    cast,
    constant,
    data_extent,
    equal,
    maximum,
    measures,
    minimum,
    select,
    wrap,
)
from ingot.formula.extents import alike, extent
from ingot.formula.index import as_expr, interval, upper
from ingot.formula.prove import Scope
from ingot.formula.strings import encoded
from ingot.formula.types import INDEX, INT64, DType, text_type
from ingot.graph.ir import Graph, Node, Value

Outputs = Tensor | tuple[Tensor, ...]
Definition = Callable[..., Outputs]
D = TypeVar("D", bound=Definition)


@dataclass(frozen=True, slots=True)
class Operator:
    """One definition: from opset `since` of its domain until the next newer definition.

    `defaults` are those of float attributes, which are float32 as all float attributes are.
    """

    name: str
    domain: str
    since: int
    define: Definition
    inputs: tuple[str, ...]
    variadic: bool
    attributes: frozenset[str]
    needed: frozenset[str]
    defaults: Mapping[str, float]


KINDS = {
    "f": "floats",
    "i": "signed integers",
    "u": "unsigned integers",
    "b": "bool",
    "s": "strings",
    "n": "types for storage only",
}
_OPERATORS: dict[tuple[str, str], list[Operator]] = {}


def op(name: str, *, since: int = 1, domain: str = "") -> Callable[[D], D]:
    """Register a definition."""

    def register(define: D) -> D:
        _register(name, domain, since, define, list(inspect.signature(define).parameters.values())[1:])
        return define

    return register


def _register(
    name: str, domain: str, since: int, define: Definition, parameters: list[inspect.Parameter]
) -> None:
    """The parameters are inputs, or attributes where keyword-only; those without a default are needed, but
    for inputs that may be None.
    """
    inputs = tuple(p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD)
    variadic = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    attributes = frozenset(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)
    given = (p for p in parameters if p.default is p.empty and p.kind is not p.VAR_POSITIONAL)
    needed = frozenset(p.name for p in given if p.annotation != "Tensor | None")
    floats = (p for p in parameters if p.name in attributes and isinstance(p.default, float))
    defaults = {p.name: float(np.float32(p.default)) for p in floats}
    versions = _OPERATORS.setdefault((domain, name), [])
    versions.append(Operator(name, domain, since, define, inputs, variadic, attributes, needed, defaults))
    versions.sort(key=lambda o: -o.since)


def operators() -> Iterator[Operator]:
    """Every definition, by domain and name, newest first."""
    for key in sorted(_OPERATORS):
        yield from _OPERATORS[key]


def find(node: Node) -> Operator | None:
    """The definition that a node means by its opset, or None."""
    for operator in _OPERATORS.get((node.domain, node.op), ()):
        if operator.since <= node.version:
            return operator
    return None


@dataclass(slots=True)
class Builder:
    """Collects the stages of one operator's formula. `wanted[i]` tells whether output i is used.

    `view` is set by a definition whose output is that input's elements in row-major order.
    """

    node: Node
    wanted: tuple[bool, ...] = (True,)
    stages: list[Stage] = field(default_factory=list)
    view: Tensor | None = None
    cuts: list[int] = field(default_factory=list)
    aliases: dict[Compute, Tensor] = field(default_factory=dict)

    def axes(self, shape: tuple[Extent, ...], names: str = "") -> tuple[Var, ...]:
        """One axis per extent, named by the letters given or i0, i1, ..."""
        labels = names.split() or [f"i{k}" for k in range(len(shape))]
        return tuple(Var(label, extent(n)) for label, n in zip(labels, shape, strict=True))

    def map(self, axes: tuple[Var, ...], value: Expr, dtype: DType | None = None, name: str = "y") -> Tensor:
        """A tensor over `axes` with each element given by `value`. What only moves elements keeps their
        promise.
        """
        type, within = dtype or value.dtype, None
        if isinstance(value, Load) and value.outside is None and value.tensor.type is type:
            within = value.tensor.within
        out = Tensor(name, type, self._shape(axes), within=within)
        self.stages.append(Compute(out, axes, value))
        return out

    def reduce(
        self,
        combine: str,
        axes: tuple[Var, ...],
        over: tuple[Var, ...],
        term: Expr,
        *,
        init: Operand = 0,
        post: Callable[[Expr], Expr] = lambda acc: acc,
        dtype: DType | None = None,
        name: str = "y",
        into: tuple[Tensor, tuple[Operand, ...]] | None = None,
    ) -> Tensor:
        """A tensor over `axes`: `post` of the reduction of `term` over `over`, starting from `init`.

        `into` = (tensor, index): the results are put there, as by `put`.
        """
        reduction = Reduction(combine, over, wrap(init, term.dtype), term)
        value = post(accumulator(term.dtype))
        out, at = into or (Tensor(name, dtype or value.dtype, self._shape(axes)), ())
        self.stages.append(Compute(out, axes, value, reduction, tuple(wrap(i, INDEX) for i in at)))
        return out

    def empty(
        self,
        dtype: DType,
        shape: tuple[Extent, ...],
        name: str = "y",
        within: tuple[int, int] | None = None,
    ) -> Tensor:
        """A tensor to be written in parts by `put`; the parts must cover it.

        `within`: the least and the largest integer that is ever put there; indices made of it need no check.
        """
        return Tensor(name, dtype, tuple(extent(n) for n in shape), within=within)

    def put(self, out: Tensor, axes: tuple[Var, ...], at: tuple[Operand, ...], value: Expr) -> None:
        """out[at] = value over `axes`: a rectangle of `out`, or all of it again."""
        self.stages.append(Compute(out, axes, value, None, tuple(wrap(i, INDEX) for i in at)))

    def scan(
        self,
        axis: Var,
        carried: tuple[Tensor, ...],
        body: Callable[[], None],
        active: Tensor | None = None,
    ) -> None:
        """Run what `body` builds once per step of `axis`, in order; no more while `active` is false."""
        outer, self.stages = self.stages, []
        body()
        outer.append(Scan(axis, tuple(self.stages), carried, active))
        self.stages = outer

    def static(self, tensor: Tensor | None, what: str) -> Array:
        """The elements of an input that must be known at compile time."""
        if tensor is None:
            raise ModelError(f"{self.node.label}: the input '{what}' is missing")
        if tensor.value is None:
            raise UnsupportedError(
                f"{self.node.label}: '{what}' ({tensor.name}) is computed at run time, but the shapes "
                "of the bundle depend on it; make it a constant (initializer) of the model"
            )
        return tensor.value

    def integers(self, tensor: Tensor | None, what: str) -> tuple[int, ...]:
        """A static integer vector (or scalar) as a tuple. Raises ModelError for one of other elements."""
        found = np.asarray(self.static(tensor, what))
        if found.dtype.kind not in "iu":
            raise ModelError(f"{self.node.label}: '{what}' is {found.dtype}, integers are needed")
        self.require(found.shape[-1:] in ((), (found.size,)), f"'{what}' is no vector: {list(found.shape)}")
        return tuple(map(int, found.reshape(-1)))

    def extents(self, tensor: Tensor | None, what: str) -> tuple[Extent, ...]:
        """An integer vector that is static, or known in terms of run-time extents."""
        if tensor is not None and tensor.known is not None:
            return tuple(map(extent, tensor.known))
        return self.integers(tensor, what)

    def fixed(self, extents: Sequence[Extent], what: str) -> tuple[int, ...]:
        """Extents that the definition counts with, and that hence must be known at compile time."""
        known = tuple(n for n in extents if isinstance(n, int))
        if len(known) < len(extents):
            raise UnsupportedError(
                f"{self.node.label}: {what} in {shapes_text([tuple(extents)])} is known at run time only; "
                "give the dimension one value with --define"
            )
        return known

    def is_late(self, *parameters: Tensor | None) -> bool:
        """Whether one of the parameters is known at run time only."""
        return any(p is not None and p.value is None and p.known is None for p in parameters)

    def measured_shape(self, counts: Sequence[Expr], limits: Sequence[Extent | None]) -> tuple[Extent, ...]:
        """The shape of the first output where data decides it: an int64 count per axis, see `measured`."""
        scalars = [self.map((), c, INT64, "count") for c in counts]
        pairs = zip(scalars, limits, strict=True)
        return tuple(self.measured(t, limit, axis=d) for d, (t, limit) in enumerate(pairs))

    def declared(self, *parameters: Tensor | None, output: int = 0) -> tuple[Extent, ...] | None:
        """The shape the model declares for an output that depends on a parameter known at run time only.

        None where all are known now or nothing is declared: then `integers` answers, or says what is missing.
        """
        late = any(p is not None and p.value is None and not p.known for p in parameters)
        if not late or output >= len(self.node.outputs):
            return None
        value = self.node.outputs[output]
        return None if value is None else value.shape

    def measured(self, count: Tensor, limit: Extent | None, *, axis: int = 0, output: int = 0) -> Extent:
        """The extent of `axis` of an output that is data: the int64 scalar `count`, made by stages so far.

        It lies between 0 and `limit`, else the bundle returns ERR_CAPACITY; without a limit the capacity that
        the user gives for the output holds. Where the model declares the axis, the extent is what it says and
        `count` must be equal to it. Stages from here on may use the extent. Raises UnsupportedError if
        nothing bounds it.
        """
        if count.value is not None:
            return int(count.value)
        value, key = self._value(output), (output, axis)
        bounded = limit is not None or value.capacity is not None
        if value.shape is not None and not (value.is_doubted and bounded) and key not in self.node.measured:
            self.require(axis < len(value.shape), f"{value.name!r} is declared with {len(value.shape)} axes")
            self.confirm(count, value.shape[axis])
            return value.shape[axis]
        most = as_expr(self._capacity(axis, value) if limit is None else limit)
        if key not in self.node.measured:
            self.node.measured[key] = data_extent(f"{value.name}_extent{axis}", upper(most))
        found = self.node.measured[key]
        assert found.source is not None
        self._check(count, found.source, Const(0), most)
        self.cuts.append(len(self.stages))
        return found

    def counted(self, count: Tensor, limit: Extent, name: str) -> Extent:
        """An extent within the formula that is data: how far its loops and scratch tensors go from here on.

        `count` is as for `measured`, `name` tells it from others of the node.
        """
        found = data_extent(f"{self._value(0).name}_{name}", upper(limit))
        assert found.source is not None
        self._check(count, found.source, Const(0), as_expr(limit))
        self.cuts.append(len(self.stages))
        return found

    def length_of(self, count: Tensor, limit: int, output: int = 0) -> Tensor:
        """An int64 scalar output that is a length: 0 .. `limit`, else the bundle returns ERR_CAPACITY.

        What reads it knows its bounds.
        """
        if count.value is not None:
            return self.constant(count.value.reshape(()), "length")
        name, key = self._value(output).name, (output, 0)
        if key not in self.node.measured:
            self.node.measured[key] = data_extent(name, limit)
        found = self.node.measured[key]
        assert found.source is not None
        self._check(count, found.source, Const(0), Const(limit))
        object.__setattr__(found.source, "known", (found,))
        return found.source

    def confirm(self, count: Tensor, said: Extent) -> None:
        """The bundle returns ERR_CAPACITY where the int64 scalar `count` is not the extent `said`."""
        self._check(count, Tensor("count", INT64, ()), as_expr(said), as_expr(said))

    def reach(self, n: Extent, axis: int) -> Extent | None:
        """A limit for an axis of the first output that keeps `n` elements, or grows from one: see `measured`.

        It grows as far as the user's capacity for the output says, without one not at all.
        """
        value = self._value(0)
        if n == 1 or value.capacity is None:
            return None if n == 1 else n
        return max(upper(n), self._capacity(axis, value))

    def _value(self, output: int) -> Value:
        """An output of the node; one that nobody reads stands for itself."""
        found = self.node.outputs[output] if output < len(self.node.outputs) else None
        other = next((v.name for v in self.node.outputs if v is not None), "y")
        return found or Value(f"{other}_{output}")

    def _check(self, count: Tensor, to: Tensor, lo: Expr, hi: Expr) -> None:
        """to = count, which lies between lo and hi."""
        self.put(to, (), (), cast(Gathered(count[()], lo, hi + 1, "ERR_CAPACITY"), INT64))

    def _capacity(self, axis: int, value: Value) -> int:
        """What the user says of an axis that nothing else bounds."""
        given = value.capacity
        if isinstance(given, tuple):
            self.require(axis < len(given), f"--capacity has {len(given)} axes, the output has more")
            return given[axis]
        if given is None:
            reason = f"axis {axis} of {value.name!r} is known at run time only, and nothing bounds it"
            remedy = f"say how long it can get: --capacity {value.name}=AxBx..., or --capacity N for all"
            raise UnsupportedError(f"{self.node.label}: {reason}", remedy=remedy)
        return given

    def constant(self, array: Array, name: str = "table") -> Tensor:
        return constant(array, name)

    def texts(self, values: Iterable[object], name: str = "texts") -> Tensor:
        """Strings of an attribute as a constant of one axis: expressions compare its elements with others
        (`equal`, `<`). Raises InputError for what no string can be.
        """
        return constant(encoded(values, self.node.text), name)

    def bytes_of(self, x: Tensor) -> Tensor:
        """The bytes of strings, in their own memory: uint8 [..., capacity]."""
        if x.value is not None:
            flat = np.ascontiguousarray(x.value).reshape(-1).view(np.uint8)
            return constant(flat.reshape((*x.value.shape, x.type.bytes)), f"{x.name}_bytes")
        (*axes, k) = self.axes((*x.shape, x.type.bytes))
        return self._alias((*axes, k), Byte(x[tuple(axes)], k), x, f"{x.name}_bytes")

    def text_of(self, rows: Tensor) -> Tensor:
        """Rows of bytes as strings, in their own memory: one for each index but the last."""
        axes, capacity = self.axes(rows.shape[:-1]), rows.shape[-1]
        assert isinstance(capacity, int), "strings have a fixed capacity"
        return self._alias(axes, Joined(rows.at((*axes, 0)), text_type(capacity)), rows, "y")

    def _alias(self, axes: tuple[Var, ...], value: Expr, base: Tensor, name: str) -> Tensor:
        out = self.map(axes, value, name=name)
        stage = self.stages[-1]
        assert isinstance(stage, Compute)
        self.aliases[stage] = base
        return out

    def settled(self, t: Tensor, shape: tuple[Extent, ...], message: str) -> Tensor:
        """`t` in this shape. Where an extent is data the bundle checks it, else ERR_CAPACITY.

        Raises ShapeError with the message where a difference shows now.
        """
        self.require(t.rank == len(shape), message)
        apart = [(n, m) for n, m in zip(t.shape, shape, strict=True) if n != m]
        unsure = [(n, m) for n, m in apart if not alike(n, m)]
        self.require(all(is_data(n) or is_data(m) for n, m in unsure), message)
        if not apart:
            return t
        for n, m in unsure:
            self.confirm(self.map((), cast(as_expr(n), INT64), name="count"), m)
        axes = self.axes(shape)
        return self.map(axes, t.at(axes, outside=0), t.type, t.name)

    def element(self, t: Tensor, index: tuple[Expr, ...], axes: tuple[Var, ...]) -> Expr:
        """An element of `t` at a point of the axes, where it must be inside. If run-time extents keep that
        from being provable, what would lie beyond is 0: a guard that always holds.
        """
        if all(isinstance(n, int) for n in (*t.shape, *(a.extent for a in axes))):
            return t.at(index)
        scope = Scope()
        for a in axes:
            scope = scope.variable(a.name, Const(0), as_expr(a.extent or 0))
        sure = all(scope.inside(i, n) for i, n in zip(index, t.shape, strict=True))
        return t.at(index, outside=None if sure else 0)

    def require(self, condition: bool, message: str) -> None:
        """Raise ShapeError naming the node unless `condition` holds."""
        if not condition:
            raise ShapeError(f"{self.node.label}: {message}")

    def same_type(self, tensors: tuple[Tensor, ...], kinds: str) -> None:
        """Raise ModelError unless the tensors have one type, of one of `kinds` (letters of DType.kind).

        Floats of 8 bits and everything below need the letter n as well.
        """
        found = " and ".join(dict.fromkeys(t.type.name for t in tensors))
        if len({t.type for t in tensors}) > 1:
            raise ModelError(f"{self.node.label}: the inputs are of different types, {found}; cast them")
        stored = tensors and tensors[0].type.is_narrow and tensors[0].type.bits <= 8
        if tensors and (tensors[0].type.kind not in kinds or (stored and "n" not in kinds)):
            wanted = " or ".join(KINDS[k] for k in kinds)
            raise ModelError(f"{self.node.label}: an input is {found}, the operator takes {wanted}")

    def axis(self, axis: int, rank: int) -> int:
        """A possibly negative axis as 0 <= axis < rank. Raises ShapeError."""
        self.require(-rank <= axis < rank, f"axis {axis} is out of range for rank {rank}")
        return axis % rank

    def call(self, name: str, *inputs: Tensor | None, **attributes: Any) -> Tensor:
        """The first output of another operator's newest definition, built here: for composites."""
        out = _OPERATORS[("", name)][0].define(self, *inputs, **attributes)
        return out[0] if isinstance(out, tuple) else out

    @staticmethod
    def _shape(axes: tuple[Var, ...]) -> tuple[Extent, ...]:
        return tuple(a.extent if a.extent is not None else 1 for a in axes)


def formulate(node: Node, inputs: list[Tensor | None]) -> Formula:
    """The formula of a node over concrete input tensors.

    Raises UnsupportedError for an unknown operator, ShapeError or ModelError where the node contradicts
    itself.
    """
    operator = find(node)
    if operator is None:
        raise UnsupportedError(f"{node.label}: operator {node.op} is not supported at opset {node.version}")
    builder = Builder(node, tuple(v is not None for v in node.outputs) or (True,))
    positional, keywords = _positional(operator, node, inputs), _keywords(operator, node)
    try:
        outputs = operator.define(builder, *positional, **keywords)
    except InputError as error:
        if node.label in str(error):
            raise
        raise type(error)(f"{node.label}: {error}") from None
    except (AssertionError, TypeError, ValueError, AttributeError, LookupError, ArithmeticError) as error:
        read = ", ".join("nothing" if t is None else f"{t.type}{shapes_text((t.shape,))}" for t in inputs)
        reason = f"{node.op} cannot take {read or 'no inputs'} with these attributes ({error})"
        raise ModelError(f"{node.label}: {reason}") from error
    results = outputs if isinstance(outputs, tuple) else (outputs,)
    results = tuple(_own(builder, t, inputs) for t in results)
    _agree(node, results)
    present = tuple(t for t in inputs if t is not None)
    needed, cuts = tuple(dict.fromkeys(present)), tuple(builder.cuts)
    return Formula(needed, tuple(builder.stages), results, builder.view, cuts, builder.aliases)


def _own(f: Builder, t: Tensor, inputs: list[Tensor | None]) -> Tensor:
    """A result with a name of its own, where an operator that changes nothing gives its input back."""
    if t not in inputs or t.value is not None:
        return t
    axes = f.axes(t.shape)
    if not f.stages:
        f.view = t
    return f.map(axes, t[axes], t.type)


def _agree(node: Node, results: tuple[Tensor, ...]) -> None:
    """Raise ModelError where the model, or an earlier step, says otherwise of an output than its formula."""
    for value, tensor in zip(node.outputs, results, strict=False):
        if value is None:
            continue
        if value.is_doubted:
            continue
        said = tensor.shape if value.shape is None else value.shape
        fits = len(said) == tensor.rank and all(
            a == b or not (isinstance(a, int) and isinstance(b, int))
            for a, b in zip(said, tensor.shape, strict=True)
        )
        if value.type not in (None, tensor.type) or not fits:
            declared = f"{value.type or tensor.type}{shapes_text((said,))}"
            reason = f"declared as {declared}, but it is {tensor.type}{shapes_text((tensor.shape,))}"
            remedy = "correct the model, or give --infer-shapes to believe the operators"
            raise ModelError(f"{node.label}: the output {value.name!r} is {reason}", remedy=remedy)


def _positional(operator: Operator, node: Node, inputs: list[Tensor | None]) -> list[Tensor | None]:
    if operator.variadic:
        if not inputs or None in inputs:
            raise ModelError(f"{node.label}: an input is missing")
        return inputs
    if len(inputs) > len(operator.inputs):
        extra = [t for t in inputs[len(operator.inputs) :] if t is not None]
        if extra:
            raise ModelError(f"{node.label}: {len(inputs)} inputs, at most {len(operator.inputs)} are known")
    padded = (inputs + [None] * len(operator.inputs))[: len(operator.inputs)]
    for name, tensor in zip(operator.inputs, padded, strict=True):
        if tensor is None and name in operator.needed:
            raise ModelError(f"{node.label}: the input {name!r} is missing")
    return padded


def _keywords(operator: Operator, node: Node) -> dict[str, Any]:
    given = {
        k: v for k, v in node.attributes.items() if k != "consumed_inputs"
    }  # opset 1: a hint, no meaning
    unknown = given.keys() - operator.attributes
    if unknown:
        raise UnsupportedError(f"{node.label}: attribute {', '.join(sorted(unknown))} is not supported")
    missing = (operator.attributes & operator.needed) - given.keys()
    if missing:
        raise ModelError(f"{node.label}: the attribute {', '.join(sorted(missing))} is missing")
    return {**operator.defaults, **{k: v for k, v in given.items() if not isinstance(v, Graph)}}


def elementwise(
    name: str, f: Callable[..., Expr], *, since: int = 1, domain: str = "", kinds: str = "fiu"
) -> None:
    """Register an operator that maps elements to elements: one line per operator.

    The inputs are of one type, whose kind is among `kinds`, and broadcast as numpy does.
    """

    def define(b: Builder, *inputs: Tensor | None, **attributes: Any) -> Tensor:
        present = tuple(t for t in inputs if t is not None)
        b.same_type(present, kinds)
        return broadcast_map(b, present, lambda *args: f(*args, **attributes))

    _register(name, domain, since, define, list(inspect.signature(f).parameters.values()))


def broadcast_map(
    b: Builder, inputs: tuple[Tensor, ...], f: Callable[..., Expr], dtype: DType | None = None
) -> Tensor:
    """f over the inputs' elements; narrow floats stay narrow in storage."""
    axes = b.axes(broadcast_shape(b, *(t.shape for t in inputs)))
    value = f(*(stretched(b, t, axes) for t in inputs))
    first = dtype or inputs[0].type
    return b.map(axes, value, first if value.dtype is first.compute else value.dtype)


def broadcast_shape(b: Builder, *shapes: tuple[Extent, ...]) -> tuple[Extent, ...]:
    """numpy's rule. Raises ShapeError naming the node and the shapes."""
    rank = max(map(len, shapes))
    out: list[Extent] = [1] * rank
    for shape in shapes:
        for i, n in enumerate(shape, rank - len(shape)):
            if out[i] == 1 or (isinstance(n, int) and n != 1 and is_data(out[i])):
                out[i] = n
            elif n != 1 and not alike(n, out[i]):
                late = is_data(n) or is_data(out[i])
                b.require(late, f"shapes {shapes_text(shapes)} do not broadcast")
                if not isinstance(out[i], int):
                    out[i] = _together(as_expr(out[i]), as_expr(n))
    return tuple(out)


def _together(a: Expr, b: Expr) -> Expr:
    """The extent of two that are equal, or one of which is 1: the larger, but 0 beside 1 stays 0."""
    if min(interval(a)[0], interval(b)[0]) > 0:
        return maximum(a, b)
    return maximum(a, b) * minimum(Const(1), minimum(a, b))


def is_data(n: Extent) -> bool:
    """Whether an extent depends on one that is data: what it equals shows when the bundle runs."""
    return any(True for _ in measures(n))


def stretched(b: Builder, t: Tensor, axes: tuple[Var, ...]) -> Expr:
    """The element at a point of the broadcast axes; extents that are data are 1 or as the axis, or else
    ERR_CAPACITY.
    """
    last = axes[len(axes) - t.rank :]
    pairs = list(zip(t.shape, last, strict=True))
    if all(n in (1, a.extent) for n, a in pairs):
        return t[broadcast_index(t, axes)]
    index: list[Expr] = []
    for n, a in pairs:
        sure, size = n in (1, a.extent), as_expr(n)
        index.append(Const(0) if n == 1 else a if sure else select(equal(size, 1), Const(0), a))
        if not sure and not alike(n, a.extent or 0):
            asked = as_expr(a.extent or 0)
            b.confirm(b.map((), cast(select(equal(size, 1), asked, size), INT64)), extent(asked))
    return t.at(tuple(index), outside=0)


def broadcast_index(t: Tensor, axes: tuple[Var, ...]) -> tuple[Expr, ...]:
    """The index into `t` of a point of the broadcast axes."""
    last = axes[len(axes) - t.rank :]
    return tuple(Const(0) if n == 1 else a for n, a in zip(t.shape, last, strict=True))


def shapes_text(shapes: Iterable[tuple[Extent, ...]]) -> str:
    """[2, N] and [3, (N * 4)], for messages."""
    from ingot.formula.expr import text

    return " and ".join("[" + ", ".join(map(text, s)) + "]" for s in shapes)
