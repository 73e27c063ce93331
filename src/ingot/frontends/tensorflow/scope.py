"""The import proper: nodes are evaluated on demand, from what is wanted back to what is given.

A `Scope` is one activation of a body: the main graph, a function's call, one turn of a loop. It evaluates
each node it is asked for once, by writing ONNX operations to its builder; what follows from constants is
known at once, so that conditions of loops and branches mostly are. What nobody asks for (training, savers) is
never looked at. Loops and branches are in `control`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import ingot.frontends.tensorflow.ops  # noqa: F401  (fills the table)
from ingot.errors import InputError, ModelError, UnsupportedError
from ingot.frontends.orders import Builder
from ingot.frontends.tensorflow import control
from ingot.frontends.tensorflow.activation import World
from ingot.frontends.tensorflow.config import PLACEHOLDERS
from ingot.frontends.tensorflow.model import Body, Node, Ref
from ingot.frontends.tensorflow.ops.table import OPS, Call, Result
from ingot.frontends.tensorflow.values import DEAD, Dead, Item, Resource, Tensor
from ingot.graph.ir import Value

DEPTH_LIMIT = 32
VARIABLES = frozenset(("VariableV2", "Variable", "VarHandleOp"))
NOT_LISTED = PLACEHOLDERS | {"_Arg"}


@dataclass(slots=True)
class Scope:
    """One activation of a body. `outer` is the scope around a while frame."""

    world: World
    body: Body
    b: Builder
    made: dict[str, list[Item]] = field(default_factory=dict)
    outer: Scope | None = None
    depth: int = 0
    exits: dict[str, dict[str, Item]] = field(default_factory=dict)
    prefix: str = ""

    def inside(self, body: Body, b: Builder, made: Mapping[str, list[Item]], *, frame: bool = False) -> Scope:
        """A scope for a function's call, or a turn of a frame of this body."""
        b.names.count()
        if self.depth == DEPTH_LIMIT:
            raise UnsupportedError(
                f"{b.names.label}: calls and loops are nested more than {DEPTH_LIMIT} deep"
            )
        prefix = self.prefix if frame else f"{b.names.place}/"
        outer = self if frame else None
        return Scope(self.world, body, b, dict(made), outer, self.depth + 1, prefix=prefix)

    def item(self, ref: Ref, reader: str = "the graph's output") -> Item:
        """What output PORT of a node yields. Raises ModelError for what is not there, or needs itself."""
        name, port = ref
        if name not in self.made:
            self._evaluate(name, reader)
        found = self.made[name]
        if found == [DEAD]:
            return DEAD
        if not 0 <= port < len(found):
            raise ModelError(f"{reader} reads output {port} of {name!r}, which has {len(found)}")
        return found[port]

    def _evaluate(self, name: str, reader: str) -> None:
        """Depth first, without recursion: graphs are thousands of nodes deep."""
        stack, opened = [(name, reader)], set[str]()
        while stack:
            name, reader = stack[-1]
            if name in self.made:
                stack.pop()
                continue
            node = self.body.node(name, reader)
            needed = [n for n in control.needed(self, node) if n not in self.made]
            if not needed:
                self.made[name] = self._convert(node)
                stack.pop()
                continue
            if name in opened:  # all it needs is made when the walk comes back, unless it needs itself
                raise ModelError(f"{node.label} is part of a cycle that is no loop of TensorFlow's")
            opened.add(name)
            stack.extend((n, node.label) for n in reversed(needed))

    def _convert(self, node: Node) -> list[Item]:
        """The outputs of one node whose inputs are evaluated. A single DEAD stands for all outputs."""
        if node.op in control.LAZY:
            return control.LAZY[node.op](self, node)
        items = [self.item(ref, node.label) for ref in node.inputs]
        self.b.names.label, self.b.names.place = node.label, self.prefix + node.name
        if node.op in control.MERGES:
            return control.merge(self, node, items)
        pivots = [self.item((n, 0), node.label) for n in control.pivots(self.body, node)]
        if any(isinstance(i, Dead) for i in (*items, *pivots)):
            return [DEAD]
        call = control.call_of(self, node)
        if call is not None:
            return call(self, node, items)
        guards = frozenset(g for i in (*items, *pivots) if isinstance(i, Tensor) for g in i.guards)
        return [_guarded(i, guards) for i in self._operation(node, items)]

    def _operation(self, node: Node, items: list[Item]) -> list[Item]:
        if node.op in VARIABLES:
            return [self._variable(node)]
        if node.op in ("Const", "HostConst") and node in self.world.constants:
            return [self.world.constants[node]]
        if node.op in PLACEHOLDERS:
            raise InputError(
                f"the outputs depend on {node.name!r}, which is no input", remedy="add it to --inputs"
            )
        if node.op not in OPS:
            raise self._unsupported(node)
        if node.op in ("ReadVariableOp", "ResourceGather"):
            items = [self.value_of(i) for i in items]
        call = Call(self.b, node, items)
        try:
            made = _items(OPS[node.op](call))
        except (AssertionError, TypeError, ValueError, AttributeError, LookupError, ArithmeticError) as error:
            reason = f"cannot take {call.shown()} with these attributes ({error})"
            raise ModelError(f"{node.label} {reason}") from error
        if node.op in ("Const", "HostConst"):
            self.world.constants[node] = made[0]
        return made

    def _variable(self, node: Node) -> Item:
        """Old variables are values, new ones are handles that are read later."""
        if node.op == "VarHandleOp":
            return Resource(node.name)
        return self.value_of(Resource(node.name))

    def value_of(self, item: Item) -> Item:
        """The elements of a variable; other items as they are."""
        if not isinstance(item, Resource):
            return item
        return Tensor(self.b.constant(self.world.variable(item.name)))

    def _unsupported(self, node: Node) -> UnsupportedError:
        """Every operator at once that stands in the way, with one node for each."""
        found = {node.op: node.name}
        bodies, seen = [(self.world.model.main, self.world.wanted)], set[str]()
        while bodies:
            body, wanted = bodies.pop()
            for one in body.reached(wanted):
                if not (known(one.op) or one.op in self.world.model.functions):
                    found.setdefault(one.op, one.name)
                for name in control.functions_of(one):
                    if name in self.world.model.functions and name not in seen:
                        seen.add(name)
                        inner = self.world.model.functions[name]
                        bodies.append((inner, list(inner.outputs)))
        listed = ", ".join(f"{op} (at {name!r})" for op, name in sorted(found.items()))
        return UnsupportedError(f"operators of TensorFlow that are not supported: {listed}")


def supported() -> list[str]:
    """The operators of TensorFlow that can be imported, by name."""
    names = {*OPS, *control.LAZY, *control.CALLS, *control.MERGES, *VARIABLES, *PLACEHOLDERS}
    return sorted(names, key=lambda n: (n.lstrip("_").lower(), n))


def known(op: str) -> bool:
    """Whether an operator can be imported."""
    return any(
        op in table for table in (OPS, control.LAZY, control.CALLS, control.MERGES, VARIABLES, NOT_LISTED)
    )


def _items(result: Result) -> list[Item]:
    found = result if isinstance(result, list) else [result]
    return [Tensor(i) if isinstance(i, Value) else i for i in found]


def _guarded(item: Item, guards: frozenset[tuple[Value, bool]]) -> Item:
    return replace(item, guards=guards) if guards and isinstance(item, Tensor) else item
