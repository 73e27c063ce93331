"""A few lines that build an ONNX model: nodes are called like functions, weights are seeded random numbers.

In: what a model of the corpus says. Out: its ModelProto, and the inputs it is tested with.
"""

from __future__ import annotations

import zlib
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Array = np.ndarray[Any, Any]
VERSIONS = {"ai.onnx.ml": 3, "com.microsoft": 1}


def onnx_type(dtype: Any) -> int:
    """ONNX's number of a numpy element type."""
    if dtype == ml_dtypes.bfloat16:
        return int(TensorProto.BFLOAT16)
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


class Net:
    """A model in the making. Every method that makes a value returns its name.

    >>> net = Net("example")
    >>> x = net.input("x", 1, 3)
    >>> net.model(net("Relu", x)).graph.node[0].op_type
    'Relu'
    """

    def __init__(self, name: str, opset: int = 17) -> None:
        self.name, self.opset = name, opset
        self.rng = np.random.default_rng(zlib.crc32(name.encode()))
        self.feeds: dict[str, Array] = {}
        self._inputs: list[onnx.ValueInfoProto] = []
        self._constants: list[onnx.TensorProto] = []
        self._nodes: list[onnx.NodeProto] = []

    def random(self, *shape: int, dtype: Any = np.float32, scale: float = 1.0) -> Array:
        """Normal values."""
        return np.asarray(self.rng.standard_normal(shape) * scale).astype(dtype)

    def input(self, name: str, *shape: int, dtype: Any = np.float32) -> str:
        """A graph input that is tested with normal values."""
        return self.feed(name, self.random(*shape, dtype=dtype))

    def feed(self, name: str, values: Array, shape: tuple[Any, ...] | None = None) -> str:
        """A graph input that is tested with `values`; `shape` where the model declares symbols."""
        self.feeds[name] = values
        declared = list(values.shape if shape is None else shape)
        self._inputs.append(helper.make_tensor_value_info(name, onnx_type(values.dtype), declared))
        return name

    def const(self, values: Any, dtype: Any = None) -> str:
        """An initializer."""
        name = f"{self.name}_c{len(self._constants)}"
        self._constants.append(numpy_helper.from_array(np.asarray(values, dtype), name))
        return name

    def weight(self, *shape: int, dtype: Any = np.float32, fan: int | None = None) -> str:
        """A random initializer whose products keep the size of what they meet; `fan` terms make a sum."""
        terms = fan or int(np.prod(shape[1:])) or 1
        return self.const(self.random(*shape, dtype=dtype, scale=(2 / terms) ** 0.5))

    def __call__(self, op: str, *inputs: str, outputs: int | list[str] = 1, **attributes: Any) -> Any:
        """A node: the name of its output, or the names where it has several."""
        number = len(self._nodes)
        names = (
            [f"{self.name}_{op}_{number}_{i}" for i in range(outputs)]
            if isinstance(outputs, int)
            else outputs
        )
        self._nodes.append(helper.make_node(op, inputs, names, name=f"{op}_{number}", **attributes))
        return names[0] if outputs == 1 else names

    def conv(self, x: str, c_in: int, c_out: int, kernel: tuple[int, ...], **attributes: Any) -> str:
        """A convolution with bias."""
        group = attributes.get("group", 1)
        weights = self.weight(c_out, c_in // group, *kernel), self.const(self.random(c_out, scale=0.1))
        return str(self("Conv", x, *weights, **attributes))

    def norm(self, x: str, channels: int) -> str:
        """A batch normalisation."""
        shift, mean = self.random(channels, scale=0.1), self.random(channels, scale=0.1)
        scale, variance = (self.rng.uniform(0.5, 1.5, channels).astype(np.float32) for _ in range(2))
        return str(self("BatchNormalization", x, *map(self.const, (scale, shift, mean, variance))))

    def dense(self, x: str, n_in: int, n_out: int) -> str:
        """x @ W + b."""
        return str(self("Add", self("MatMul", x, self.weight(n_in, n_out, fan=n_in)), self.weight(n_out)))

    def graph(self, *outputs: str) -> onnx.GraphProto:
        """What was built, as a graph; the branches of an If and the body of a Loop are such graphs."""
        results = [helper.make_empty_tensor_value_info(o) for o in outputs]
        return helper.make_graph(self._nodes, self.name, self._inputs, results, self._constants)

    def model(self, *outputs: str) -> onnx.ModelProto:
        """The model, its shapes inferred, its format one that every onnxruntime in use opens."""
        others = sorted({n.domain for n in self._nodes} - {""})
        imports = [
            helper.make_opsetid("", self.opset),
            *(helper.make_opsetid(d, VERSIONS[d]) for d in others),
        ]
        made = helper.make_model(self.graph(*outputs), opset_imports=imports, ir_version=8)
        return onnx.shape_inference.infer_shapes(made)
