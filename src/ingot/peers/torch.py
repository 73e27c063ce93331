"""PyTorch, eager, in inference mode on one thread: the model's nodes as calls of torch, one after the other.

Covers the operators of common nets; anything else is refused by name. What does not depend on the inputs
(weights, shapes) is converted once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import helper, numpy_helper

from ingot.peers.job import Array, Called, Job, Refused

Attributes = Mapping[str, Any]
Make = Callable[[Attributes, Sequence[Any]], Any]
Step = tuple[Callable[[dict[str, Any]], Any], Sequence[str]]


@contextmanager
def open_session(job: Job) -> Iterator[Called]:
    """The model as a list of steps, run in order."""
    torch.set_num_threads(1)
    graph = onnx.load(job.model).graph
    known = {t.name: torch.from_numpy(numpy_helper.to_array(t).copy()) for t in graph.initializer}
    given = {name: torch.from_numpy(np.ascontiguousarray(a)) for name, a in job.inputs.items()}
    steps = list(_steps(graph.node, known))
    result: dict[str, Any] = {}

    def run() -> None:
        values = {"": None, **known, **given}
        for call, names in steps:
            made = call(values)
            values.update(zip(names, made, strict=False) if isinstance(made, tuple) else ((names[0], made),))
        result.update({name: values[name] for name in job.outputs})

    def read() -> dict[str, Array]:
        return {name: result[name].reshape(like.shape).numpy().copy() for name, like in job.outputs.items()}

    with torch.inference_mode():
        yield Called(run, read)


def _steps(nodes: Sequence[onnx.NodeProto], known: dict[str, Any]) -> Iterator[Step]:
    """One call per node; nodes of constants are computed at once."""
    for node in nodes:
        if node.op_type not in OPERATORS:
            raise Refused(f"no {node.op_type} in this adapter")
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        constants = [known.get(i) for i in node.input]
        step = _bound(OPERATORS[node.op_type](attributes, constants), list(node.input))
        if all(c is not None for c in constants):
            made = step({"": None, **known})
            known.update(zip(node.output, made if isinstance(made, tuple) else (made,), strict=False))
        else:
            yield step, list(node.output)


def _bound(function: Callable[..., Any], names: Sequence[str]) -> Callable[[dict[str, Any]], Any]:
    return lambda values: function(*(values[name] for name in names))


def _ints(constant: Any) -> list[int]:
    if constant is None:
        raise Refused("a shape that depends on the inputs")
    return [int(v) for v in constant.reshape(-1)]


def _require_pads(a: Attributes) -> None:
    if a.get("auto_pad", b"NOTSET") not in (b"NOTSET", b"VALID"):
        raise Refused("pads that auto_pad chooses")


def _conv(a: Attributes, known: Sequence[Any]) -> Any:
    _require_pads(a)
    rank = known[1].ndim - 2
    pads = list(a.get("pads", [0] * 2 * rank))
    even = pads[:rank] == pads[rank:]
    stride, dilation = list(a.get("strides", [1] * rank)), list(a.get("dilations", [1] * rank))
    function = (F.conv1d, F.conv2d, F.conv3d)[rank - 1]
    group, padding = int(a.get("group", 1)), pads[:rank] if even else [0] * rank

    def call(x: Any, w: Any, b: Any = None) -> Any:
        return function(x if even else F.pad(x, _sides(pads)), w, b, stride, padding, dilation, group)

    return call


def _sides(pads: Sequence[int]) -> list[int]:
    """ONNX's begins and ends as torch wants them: the last axis first."""
    rank = len(pads) // 2
    return [side for axis in reversed(range(rank)) for side in (pads[axis], pads[rank + axis])]


def _pool(kind: str) -> Make:
    def make(a: Attributes, _: Sequence[Any]) -> Any:
        _require_pads(a)
        kernel, rank = list(a["kernel_shape"]), len(a["kernel_shape"])
        stride, pads = list(a.get("strides", [1] * rank)), list(a.get("pads", [0] * 2 * rank))
        function = getattr(F, f"{kind}_pool{rank}d")
        even, upwards = pads[:rank] == pads[rank:], bool(a.get("ceil_mode", 0))
        if kind == "avg" and (not even or upwards):
            raise Refused("an AveragePool with uneven pads or ceil_mode")
        more = {"count_include_pad": bool(a.get("count_include_pad", 0))} if kind == "avg" else {}
        if even and all(2 * p <= k for p, k in zip(pads, kernel, strict=False)):
            return lambda x: function(x, kernel, stride, pads[:rank], ceil_mode=upwards, **more)
        sides = _sides(pads)
        return lambda x: function(F.pad(x, sides, value=-torch.inf), kernel, stride, ceil_mode=upwards)

    return make


def _gemm(a: Attributes, _: Sequence[Any]) -> Any:
    if a.get("alpha", 1.0) != 1.0 or a.get("beta", 1.0) != 1.0 or a.get("transA", 0):
        raise Refused("a Gemm with alpha, beta or transA")
    if a.get("transB", 0):
        return lambda x, w, b=None: F.linear(x, w, b)
    return lambda x, w, b=None: F.linear(x, w.t(), b)


def _lstm(a: Attributes, known: Sequence[Any]) -> Any:
    """ONNX orders the gates i o f c, torch i f c o."""
    if a.get("direction", b"forward") != b"forward" or known[1] is None or known[2] is None:
        raise Refused("an LSTM that is not forward with constant weights")
    w, r = (torch.cat([k[0].chunk(4)[g] for g in (0, 2, 3, 1)]) for k in known[1:3])
    module = torch.nn.LSTM(w.shape[1], r.shape[1], bias=len(known) > 3 and known[3] is not None)
    module.weight_ih_l0.data, module.weight_hh_l0.data = w, r
    if module.bias:
        parts = known[3][0].chunk(8)
        module.bias_ih_l0.data = torch.cat([parts[g] for g in (0, 2, 3, 1)])
        module.bias_hh_l0.data = torch.cat([parts[4 + g] for g in (0, 2, 3, 1)])

    def call(x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None, h: Any = None, c: Any = None) -> Any:
        y, (hn, cn) = module(x, None if h is None or c is None else (h, c))
        return y.unsqueeze(1), hn, cn

    return call


def _norm(a: Attributes, _: Sequence[Any]) -> Any:
    if a.get("axis", -1) != -1:
        raise Refused("a LayerNormalization of several axes")
    return lambda x, w, b=None: F.layer_norm(x, x.shape[-1:], w, b, float(a.get("epsilon", 1e-5)))


def _flatten(a: Attributes, _: Sequence[Any]) -> Any:
    axis = int(a.get("axis", 1))
    return lambda x: x.reshape(int(np.prod(x.shape[:axis])), -1)


def _reshape(_: Attributes, known: Sequence[Any]) -> Any:
    shape = _ints(known[1])
    return lambda x, _s: x.reshape([x.shape[i] if n == 0 else n for i, n in enumerate(shape)])


def _axes(function: str) -> Make:
    def make(_: Attributes, known: Sequence[Any]) -> Any:
        axes = sorted(_ints(known[1]), reverse=function == "squeeze")

        def call(x: Any, _a: Any) -> Any:
            for axis in axes:
                x = getattr(x, function)(axis)
            return x

        return call

    return make


def _split(a: Attributes, known: Sequence[Any]) -> Any:
    sizes = _ints(known[1]) if len(known) > 1 else None
    axis, parts = int(a.get("axis", 0)), a.get("num_outputs")
    return lambda x, _s=None: tuple(torch.split(x, sizes or -(-x.shape[axis] // int(parts or 1)), axis))


def _reduced(function: str) -> Make:
    def make(a: Attributes, known: Sequence[Any]) -> Any:
        axes = _ints(known[1]) if len(known) > 1 else [int(v) for v in a.get("axes", [])]
        keep = bool(a.get("keepdims", 1))
        return lambda x, _a=None: getattr(torch, function)(x, axes or list(range(x.ndim)), keepdim=keep)

    return make


def _clip(_: Attributes, known: Sequence[Any]) -> Any:
    return lambda x, low=None, high=None: torch.clamp(x, low, high)


def _batch_norm(a: Attributes, _: Sequence[Any]) -> Any:
    epsilon = float(a.get("epsilon", 1e-5))
    return lambda x, w, b, mean, var: F.batch_norm(x, mean, var, w, b, False, 0.0, epsilon)


def _lrn(a: Attributes, _: Sequence[Any]) -> Any:
    size, alpha, beta, bias = a["size"], a.get("alpha", 1e-4), a.get("beta", 0.75), a.get("bias", 1.0)
    return lambda x: F.local_response_norm(x, size, alpha, beta, bias)


def _plain(function: Callable[..., Any]) -> Make:
    return lambda _a, _k: function


def _along(function: Callable[..., Any], default: int) -> Make:
    return lambda a, _: lambda *x: function(*x, int(a.get("axis", default)))


OPERATORS: Mapping[str, Make] = {
    "Add": _plain(torch.add),
    "AveragePool": _pool("avg"),
    "BatchNormalization": _batch_norm,
    "Clip": _clip,
    "Concat": lambda a, _: lambda *x: torch.cat(x, int(a["axis"])),
    "Constant": lambda a, _: lambda: torch.from_numpy(numpy_helper.to_array(a["value"]).copy()),
    "Conv": _conv,
    "Div": _plain(torch.div),
    "Dropout": _plain(lambda x, *_: x),
    "Elu": lambda a, _: lambda x: F.elu(x, float(a.get("alpha", 1.0))),
    "Erf": _plain(torch.erf),
    "Exp": _plain(torch.exp),
    "Flatten": _flatten,
    "Gelu": lambda a, _: lambda x: F.gelu(x, approximate=a.get("approximate", b"none").decode()),
    "Gemm": _gemm,
    "GlobalAveragePool": _plain(lambda x: x.mean(list(range(2, x.ndim)), keepdim=True)),
    "HardSigmoid": lambda a, _: (
        lambda x: torch.clamp(x * float(a.get("alpha", 0.2)) + float(a.get("beta", 0.5)), 0, 1)
    ),
    "HardSwish": _plain(F.hardswish),
    "Identity": _plain(lambda x: x),
    "LRN": _lrn,
    "LSTM": _lstm,
    "LayerNormalization": _norm,
    "LeakyRelu": lambda a, _: lambda x: F.leaky_relu(x, float(a.get("alpha", 0.01))),
    "MatMul": _plain(torch.matmul),
    "MaxPool": _pool("max"),
    "Mul": _plain(torch.mul),
    "PRelu": _plain(lambda x, slope: torch.where(x < 0, x * slope, x)),
    "Pow": _plain(torch.pow),
    "ReduceMean": _reduced("mean"),
    "ReduceSum": _reduced("sum"),
    "Relu": _plain(torch.relu),
    "Reshape": _reshape,
    "Sigmoid": _plain(torch.sigmoid),
    "Softmax": _along(torch.softmax, -1),
    "Split": _split,
    "Sqrt": _plain(torch.sqrt),
    "Squeeze": _axes("squeeze"),
    "Sub": _plain(torch.sub),
    "Sum": _plain(lambda *x: sum(x[1:], x[0])),
    "Tanh": _plain(torch.tanh),
    "Transpose": lambda a, _: lambda x: x.permute(list(a.get("perm", range(x.ndim)[::-1]))),
    "Unsqueeze": _axes("unsqueeze"),
}
