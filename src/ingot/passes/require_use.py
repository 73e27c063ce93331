"""Options that would do nothing to a model are errors: who gave one believes that it did.

Needs an inferred graph, whose constants are folded; changes nothing. Called by the driver, before the passes
that the options ask for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ingot.errors import InputError
from ingot.formula.expr import Param, walk
from ingot.formula.index import as_expr
from ingot.graph.ir import Graph, Value
from ingot.log import remark
from ingot.options import Options
from ingot.passes.byte_activations import MOVES

REMEDY = {
    "--activations int8": "to compute in int8, quantise the model first: ingot profile, then ingot quantize "
    "(what is quantised already is computed in int8 without this option)",
    "--huffman": "ingot compress MODEL -o FILE.onnx encodes them; compile that file",
}
"""What helps whoever gave an option that does nothing to the model."""


def require_use(graph: Graph, options: Options) -> Graph:
    """Return the graph. Raises InputError for `activations` and `huffman` where no weights are encoded, for
    the `capacity` of a value whose shape is known, and for `string_bytes` where there are no strings.
    """
    graphs = list(_all_graphs(graph))
    read = [v for g in graphs for node in g.nodes for v in node.inputs if v is not None]
    values = [*read, *(v for g in graphs for v in g.values())]
    multiplied = [v for g in graphs for n in g.nodes if n.op not in MOVES for v in n.inputs if v is not None]
    kinds = {v.encoding.values.dtype.kind for v in multiplied if v.encoding is not None}
    if options.activations == "int8" and "f" not in kinds:
        raise _nothing_encoded("--activations int8", "floats")
    if options.huffman and not kinds:
        raise _nothing_encoded("--huffman", "weights")
    if options.huffman and kinds == {"f"} and options.math == "exact":
        raise InputError(
            "--huffman is of entries, and --math exact multiplies zeros too", remedy="leave one out"
        )
    if not any(p.kind != "tensor" for ports in graph.ports for p in ports):
        for name in options.capacity:
            if name:
                _require_open(name, [v for v in values if v.name == name])
            else:
                _remark_known(values)
    room = options.string_bytes
    if room != Options().string_bytes and not any(v.type and v.type.is_text for v in values):
        raise InputError(f"--string-bytes {room}: the model has no strings", remedy="leave it out")
    return graph


def _nothing_encoded(option: str, what: str) -> InputError:
    return InputError(
        f"{option} is for {what} that `ingot compress` encoded, and the model has none", remedy=REMEDY[option]
    )


def _require_open(name: str, values: Sequence[Value]) -> None:
    """Raises InputError where the extents of these values are known, so that they have no capacity."""
    shapes = [v.shape for v in values if v.shape is not None]
    if shapes and all(isinstance(n, int) for shape in shapes for n in shape):
        shown = "x".join(map(str, shapes[0])) or "a scalar"
        raise InputError(
            f"--capacity {name}: its extents are known, it is {shown}",
            remedy="a capacity is of what only the data tells",
        )


def _remark_known(values: Sequence[Value]) -> None:
    """Say where no extent of any value is data: a capacity for all that there are is then for none."""
    extents = (as_expr(n) for v in values for n in v.shape or ())
    if not any(isinstance(p, Param) and p.source is not None for n in extents for p in walk(n)):
        remark("--capacity does nothing: no value of the model has extents that only the data tells")


def _all_graphs(graph: Graph) -> Iterator[Graph]:
    """A graph and the graphs within it."""
    yield graph
    for node in graph.nodes:
        for inner in node.subgraphs.values():
            yield from _all_graphs(inner)
