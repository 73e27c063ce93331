"""What is right: onnxruntime where it is installed and takes the model, else onnx's reference evaluator.

In: a ModelProto. Out: an `Oracle` that says which of the two it is. Called by `verify` and `bench`.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import onnx

from ingot.errors import InputError, UnsupportedError
from ingot.formula.expr import Array

# onnx's newest IR is ahead of what onnxruntime opens, and differs in nothing that matters here.
IR_VERSION = 10
NOT_IN_NUMPY = ("bfloat16", "float8", "float4", "int4", "int2")
DEEP_TREES = 5000  # nodes of a forest in which trees may be deeper than onnxruntime's recursion can go
ALLOWANCE = ("MatMulNBits", "accuracy_level")
Run = Callable[[Mapping[str, Array]], dict[str, Array]]


MISSING = "not installed"
INSTALL = "pip install 'ingot[verify]'"


@dataclass(frozen=True, slots=True)
class Oracle:
    """`name` is onnxruntime or reference; `reason` says why it is not onnxruntime."""

    name: str
    run: Run
    reason: str = ""


def excuse(reason: str) -> str:
    """What to tell a user whose model was not compared with onnxruntime."""
    instead = "onnx's reference evaluator, which errs more often, stood in"
    if reason == MISSING:
        return f"onnxruntime is not installed: {instead}; install it with {INSTALL}"
    return f"onnxruntime does not take the model ({reason}): {instead}"


def oracle(model: onnx.ModelProto) -> Oracle:
    """The best oracle for a model. Raises UnsupportedError where neither takes it."""
    try:
        return Oracle("onnxruntime", _onnxruntime(model))
    except _Refused as refused:
        reason = str(refused)
    try:
        return Oracle("reference", _reference(model), reason)
    except Exception as error:
        message = f"no oracle: onnxruntime: {reason}; reference evaluator: {_first_line(error)}"
        raise UnsupportedError(message, remedy=INSTALL if reason == MISSING else "") from None


def with_outputs(model: onnx.ModelProto, names: Iterable[str]) -> onnx.ModelProto:
    """The model with more of its values as outputs; their types are left to inference."""
    out = onnx.ModelProto()
    out.CopyFrom(model)
    present = {o.name for o in model.graph.output}
    out.graph.output.extend(onnx.ValueInfoProto(name=n) for n in names if n not in present)
    return out


def with_inputs(model: onnx.ModelProto, names: Iterable[str]) -> onnx.ModelProto:
    """The model with initializers as plain inputs, for the caller to feed."""
    wanted, out = set(names), onnx.ModelProto()
    if not wanted & {t.name for t in model.graph.initializer}:
        return model
    out.CopyFrom(model)
    graph, listed = out.graph, {v.name for v in out.graph.input}
    given = [t for t in graph.initializer if t.name in wanted]
    more = [t for t in given if t.name not in listed]
    graph.input.extend(onnx.helper.make_tensor_value_info(t.name, t.data_type, t.dims) for t in more)
    for t in given:
        graph.initializer.remove(t)
    return out


def with_copies(model: onnx.ModelProto, names: Iterable[str]) -> tuple[onnx.ModelProto, dict[str, str]]:
    """The model with copies of more of its values as outputs, and which output is a copy of what.

    The values themselves stay what they are in the model: an output of the bundle would be stored as its
    caller wants it, and computed accordingly.
    """
    out = onnx.ModelProto()
    out.CopyFrom(model)
    present = {o.name for o in model.graph.output}
    taken = {name for node in model.graph.node for name in (*node.input, *node.output)}
    copies: dict[str, str] = {}
    for name in names:
        copy = name
        if name not in present:
            while copy in taken:
                copy += "'"
            taken.add(copy)
            out.graph.node.append(onnx.helper.make_node("Identity", [name], [copy]))
            out.graph.output.append(onnx.ValueInfoProto(name=copy))
        copies[copy] = name
    return out, copies


def without_maps(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with the scores themselves instead of the maps that ZipMap makes of them."""
    zipped = {n.output[0] for n in model.graph.node if n.op_type == "ZipMap"}
    if not zipped:
        return model
    out = onnx.ModelProto()
    out.CopyFrom(model)
    for node in out.graph.node:
        if node.op_type == "ZipMap":
            node.CopyFrom(onnx.helper.make_node("Identity", node.input, node.output))
    for info in out.graph.output:
        if info.name in zipped:
            info.CopyFrom(onnx.helper.make_tensor_value_info(info.name, onnx.TensorProto.FLOAT, None))
    if not any(i.domain in ("", "ai.onnx") for i in out.opset_import):
        out.opset_import.append(onnx.helper.make_opsetid("", 17))
    return out


def without_allowances(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model whose MatMulNBits are computed as written: an `accuracy_level` allows to round operands."""

    def allowances(of: onnx.ModelProto) -> list[tuple[onnx.NodeProto, onnx.AttributeProto]]:
        nodes = (n for part in (of.graph, *of.functions) for n in _with_inner(part.node))
        return [(n, a) for n in nodes for a in n.attribute if (n.op_type, a.name) == ALLOWANCE]

    if not allowances(model):
        return model
    out = onnx.ModelProto()
    out.CopyFrom(model)
    for node, allowed in allowances(out):
        node.attribute.remove(allowed)
    return out


def _with_inner(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Nodes and those of their graphs."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                yield from _with_inner(graph.node)


class _Refused(Exception):
    """onnxruntime does not take the model; the text says why."""


def session_options() -> Any:
    """One thread, in order, quiet."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return options


def _onnxruntime(model: onnx.ModelProto) -> Run:
    try:
        import onnxruntime as ort
    except ImportError:
        raise _Refused(MISSING) from None
    options = session_options()
    # Nothing fused, nothing laid out anew: the model as it is written.
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    data = stamped(without_allowances(model))
    if _tree_nodes(model) > DEEP_TREES and not _opens(data):
        raise _Refused("it crashes on trees so deep")
    try:
        session = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise _Refused(_first_line(error)) from None
    types = [t.type for t in (*session.get_inputs(), *session.get_outputs())]
    foreign = [t for t in types if any(f"({name}" in t for name in NOT_IN_NUMPY)]
    if foreign:
        raise _Refused(f"it has no numpy arrays of {foreign[0]}")
    names = [o.name for o in session.get_outputs()]

    def run(inputs: Mapping[str, Array]) -> dict[str, Array]:
        return dict(zip(names, _called("onnxruntime", lambda: session.run(names, dict(inputs))), strict=True))

    return run


def _tree_nodes(model: onnx.ModelProto) -> int:
    """The number of nodes of the largest forest."""
    forests = (n for n in model.graph.node if n.op_type.startswith("TreeEnsemble"))
    return max((len(a.floats) for n in forests for a in n.attribute if a.name == "nodes_values"), default=0)


def _opens(data: bytes) -> bool:
    """Whether onnxruntime survives the opening of a model, which it tries in a process of its own."""
    program = "import sys, onnxruntime; onnxruntime.InferenceSession(sys.stdin.buffer.read())"
    return subprocess.run([sys.executable, "-c", program], input=data, capture_output=True).returncode >= 0


def stamped(model: onnx.ModelProto) -> bytes:
    """The model's bytes with an IR version that onnxruntime opens."""
    out = onnx.ModelProto()
    out.CopyFrom(model)
    out.ir_version = min(out.ir_version, IR_VERSION)
    try:
        data: bytes = out.SerializeToString()
        return data
    except ValueError as error:
        raise UnsupportedError(f"the model is too large for one message: {error}") from None


def _reference(model: onnx.ModelProto) -> Run:
    from onnx.reference import ReferenceEvaluator

    evaluator = ReferenceEvaluator(model)
    names = [o.name for o in model.graph.output]

    def run(inputs: Mapping[str, Array]) -> dict[str, Array]:
        found = _called("the reference evaluator", lambda: evaluator.run(names, dict(inputs)))
        return dict(zip(names, found, strict=True))

    return run


def _called(who: str, call: Callable[[], Any]) -> Any:
    """What an oracle raises on inputs it rejects is bad input, not our bug."""
    try:
        return call()
    except Exception as error:
        raise InputError(f"{who} cannot run the model on these inputs: {_first_line(error)}") from None


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
