"""Small ONNX models for tests, what compiling first does with one, and how a bad one must be refused."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import onnx
import pytest
from onnx import helper, parser

from ingot.errors import InputError
from ingot.frontends.onnx import read_model
from ingot.graph.ir import Graph
from ingot.graph.verify import verify
from ingot.ops.infer import infer

SECONDS = 10.0
PATIENCE = 12


@contextmanager
def limit(seconds: float) -> Iterator[None]:
    """Fail what is inside when it computes longer, or waits `PATIENCE` times as long: others may work too."""

    def ring(*_: Any) -> None:
        raise TimeoutError(f"took more than {seconds} s")

    clocks = {signal.SIGPROF: (signal.ITIMER_PROF, 1), signal.SIGALRM: (signal.ITIMER_REAL, PATIENCE)}
    before = {alarm: signal.signal(alarm, ring) for alarm in clocks}
    for clock, times in clocks.values():
        signal.setitimer(clock, times * seconds)
    try:
        yield
    finally:
        for alarm, (clock, _) in clocks.items():
            signal.setitimer(clock, 0)
            signal.signal(alarm, before[alarm])


def take(source: Any, **options: Any) -> Graph:
    """What compiling does with a model before it lowers it."""
    with limit(SECONDS):
        return verify(infer(verify(read_model(source, **options))))


def refuse(source: Any, kind: type[InputError], words: str, **options: Any) -> None:
    with pytest.raises(kind) as caught:
        take(source, **options)
    message = str(caught.value)
    assert words in message and "\n" not in message and len(message) < 1000, message


def text(
    body: str, signature: str = "(float[2,3] x) => (float[2,3] y)", opset: str = '"" : 17'
) -> onnx.ModelProto:
    return parser.parse_model(f"<ir_version: 8, opset_import: [{opset}]>\ng {signature} {body}")


def model(
    nodes: list[onnx.NodeProto],
    inputs: dict[str, list[Any]] | None = None,
    outputs: dict[str, list[Any]] | None = None,
    constants: tuple[onnx.TensorProto, ...] = (),
    opset: int | None = 17,
    ir_version: int = 8,
) -> onnx.ModelProto:
    def infos(values: dict[str, list[Any]]) -> list[onnx.ValueInfoProto]:
        return [helper.make_tensor_value_info(name, 1, shape) for name, shape in values.items()]

    ends = infos(inputs or {"x": [2, 3]}), infos({"y": [2, 3]} if outputs is None else outputs)
    graph = helper.make_graph(nodes, "g", *ends, list(constants))
    imports = [] if opset is None else [helper.make_opsetid("", opset)]
    out = helper.make_model(graph, ir_version=ir_version, opset_imports=imports or None)
    if opset is None:
        del out.opset_import[:]
    return out


def node(op: str, inputs: str, outputs: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op, inputs.split(), outputs.split(), **attributes)
