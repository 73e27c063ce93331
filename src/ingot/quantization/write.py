"""A plan written into the network: QuantizeLinear and DequantizeLinear around every quantised tensor.

    y = Conv(x, w, b)      ->      y_float = Conv(x, DequantizeLinear(w_quantized, ...), ...)
                                   y_quantized = QuantizeLinear(y_float, scale, zero point)
                                   y = DequantizeLinear(y_quantized, scale, zero point)

In: a network and a plan. Out: the same network, changed. The dequantised tensor keeps the name that it has
in the float model, so that nodes which read it, and whoever compares tensors by name, read the same. A
graph input NAME is dequantised as NAME_dequantized, for its name is the caller's; so is an output which the
caller gets as integers.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper

from ingot.formula.expr import Array
from ingot.quantization.network import Network, is_own, label
from ingot.quantization.parameters import Parameters
from ingot.quantization.plan import Plan, Stored


def write(net: Network, plan: Plan, is_edge_float: bool) -> Network:
    """Write in place, and return the network."""
    return _Writer(net, plan, is_edge_float).written()


class _Writer:
    def __init__(self, net: Network, plan: Plan, is_edge_float: bool) -> None:
        self.net, self.plan, self.is_edge_float = net, plan, is_edge_float
        self.nodes: list[onnx.NodeProto] = []
        self.read_as: dict[str, str] = {}
        self.raw: dict[str, str] = {}
        self.floats_of: dict[str, str] = {}
        self.constants: dict[tuple[str, bytes], str] = {}
        self.weights: dict[tuple[str, bytes, bytes], str] = {}

    def written(self) -> Network:
        for name in self.net.inputs:
            if name in self.plan.tensors:
                self.graph_input(name)
        for node in self.net.nodes:
            self.node(node)
        self.net.nodes = self.nodes
        return self.net

    def node(self, node: onnx.NodeProto) -> None:
        """A node with its operands as it reads them, and its results as others do."""
        made = onnx.NodeProto()
        made.CopyFrom(node)
        is_float = label(node) in self.plan.floats
        for place, name in enumerate(node.input):
            stored = self.plan.constants.get((label(node), place)) if is_own(node) else None
            if stored is not None:
                made.input[place] = self.constant(name, stored)
            elif is_float and name in self.floats_of:
                made.input[place] = self.floats_of[name]
            else:
                made.input[place] = self.read_as.get(name, name)
        for place, name in enumerate(node.output):
            if name in self.plan.tensors:
                made.output[place] = self.net.unused(f"{name}_float")
        self.nodes.append(made)
        for name, raw in zip(node.output, made.output, strict=True):
            if name in self.plan.tensors:
                if is_float:
                    self.floats_of[name] = raw
                self.result(name, raw)

    def graph_input(self, name: str) -> None:
        """The caller's tensor, in floats or integers, dequantised under another name."""
        how, read = self.plan.tensors[name], self.net.unused(f"{name}_dequantized")
        self.read_as[name] = read
        if self.is_edge_float:
            self.pair(name, self.net.unused(f"{name}_quantized"), read, how)
            self.floats_of[name] = name
            return
        self.retype(self.net.model.graph.input, name, how)
        self.dequantize(name, read, how, name)

    def result(self, name: str, raw: str) -> None:
        """What a node makes, quantised and dequantised."""
        how = self.plan.tensors[name]
        if self.is_edge_float or name not in self.net.outputs:
            self.pair(raw, self.net.unused(f"{name}_quantized"), name, how)
            return
        self.retype(self.net.model.graph.output, name, how)
        self.quantize(raw, name, how, name)
        read = self.net.unused(f"{name}_dequantized")
        self.read_as[name] = read
        self.dequantize(name, read, how, name)

    def pair(self, source: str, integers: str, made: str, how: Parameters) -> None:
        name = made.removesuffix("_dequantized")
        self.quantize(source, integers, how, name)
        self.dequantize(integers, made, how, name)

    def quantize(self, source: str, integers: str, how: Parameters, name: str) -> None:
        operands = [source, *self.numbers(name, how)]
        self.nodes.append(helper.make_node("QuantizeLinear", operands, [integers], f"{name}_quantize"))

    def dequantize(self, integers: str, made: str, how: Parameters, name: str) -> None:
        operands = [integers, *self.numbers(name, how)]
        self.nodes.append(helper.make_node("DequantizeLinear", operands, [made], f"{name}_dequantize"))

    def numbers(self, name: str, how: Parameters) -> tuple[str, str]:
        """The names of scale and zero point; equal ones are one constant."""
        return self.shared(f"{name}_scale", how.scale), self.shared(f"{name}_zero_point", how.zero)

    def shared(self, name: str, array: Array) -> str:
        key = (f"{array.dtype} {array.shape}", array.tobytes())
        if key not in self.constants:
            self.constants[key] = self.net.add_constant(name, array)
        return self.constants[key]

    def constant(self, name: str, stored: Stored) -> str:
        """A constant operand as integers, dequantised; the same integers of one constant are written once."""
        about = name or "bias"
        integers = np.ascontiguousarray(stored.integers)
        key = (f"{about} {integers.shape} {stored.how.axis}", integers.tobytes(), stored.how.scale.tobytes())
        if key not in self.weights:
            made = self.weights[key] = self.net.unused(f"{about}_dequantized")
            # Constants of its own: onnxruntime's rewriting for AVX2 fails on zero points that layers share.
            arrays = {"quantized": integers, "scale": stored.how.scale, "zero_point": stored.how.zero}
            operands = [self.net.add_constant(f"{about}_{what}", array) for what, array in arrays.items()]
            node = helper.make_node("DequantizeLinear", operands, [made], f"{about}_dequantize")
            if stored.how.axis is not None:
                node.attribute.append(helper.make_attribute("axis", stored.how.axis))
            self.nodes.append(node)
        return self.weights[key]

    @staticmethod
    def retype(infos: list[onnx.ValueInfoProto], name: str, how: Parameters) -> None:
        """The caller gives or gets integers."""
        for info in infos:
            if info.name == name:
                kind = helper.np_dtype_to_tensor_dtype(np.dtype(how.type))
                info.type.tensor_type.elem_type = kind
