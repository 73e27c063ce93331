"""An ONNX model as a PyTorch module that can be trained.

In: a model of operators that the adapter `torch` has. Out: a `TorchModule`, whose `constants` are the model's
floats by name, so that what was trained can be written back. Called by the driver for `ingot compress
--finetune` and by `ingot sensitivity --script`, where a script makes no network of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import helper, numpy_helper

from ingot.peers.job import Refused
from ingot.peers.torch import OPERATORS

STATISTICS = (3, 4)  # of BatchNormalization: the stored mean and variance, which are not trained
MOMENTUM = 0.1  # what a batch counts for in the statistics
TRAINING = "is it training"  # the name of a truth that steps may read, not one of ONNX
UNTRAINED = {"LSTM"}  # the adapter copies their weights into a module of its own


class TorchModule(torch.nn.Module):  # type: ignore[misc]  # torch may be missing where types are checked
    """Computes the outputs of a graph from its inputs, in their order, with any number of samples along the
    first axis if the graph has a fixed one there.

    Floats of more than one element are parameters, but for the statistics of batch normalisations, which are
    buffers. In training, these compute with the statistics of the batch, and the buffers follow, as those of
    torch.nn.BatchNorm2d do. Raises Refused for operators that are not known.
    """

    def __init__(self, graph: onnx.GraphProto) -> None:
        super().__init__()
        arrays = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
        nodes, stated = _apart(graph.node)
        self.attributes = {n: f"constant_{i}" for i, n in enumerate(arrays) if _is_trained(arrays[n])}
        statistics = _statistics(nodes)
        for name, attribute in self.attributes.items():
            tensor = torch.from_numpy(arrays[name].copy())
            if name in statistics:
                self.register_buffer(attribute, tensor)
            else:
                self.register_parameter(attribute, torch.nn.Parameter(tensor))
        self.inputs = [v.name for v in graph.input if v.name not in arrays]
        self.outputs = [v.name for v in graph.output]
        stated.update((name, array) for name, array in arrays.items() if name not in self.attributes)
        self.fixed: dict[str, Any] = {"": None, **{n: _tensor(n, array) for n, array in stated.items()}}
        self.steps = _steps(nodes, {**self.fixed, **self.constants}, self._batch(graph))
        self.eval()  # as the file computes, until somebody trains it

    @property
    def constants(self) -> dict[str, Any]:
        """The tensors that hold the model's floats, by the names of its constants."""
        return {name: getattr(self, attribute) for name, attribute in self.attributes.items()}

    def forward(self, *inputs: Any) -> Any:
        """Return the output, or a tuple of the outputs."""
        values = {**self.fixed, **self.constants, **dict(zip(self.inputs, inputs, strict=True))}
        values[TRAINING] = self.training
        for call, names, results in self.steps:
            made = call(*(values[name] for name in names))
            values.update(zip(results, made if isinstance(made, tuple) else (made,), strict=False))
        found = tuple(values[name] for name in self.outputs)
        return found[0] if len(found) == 1 else found

    def _batch(self, graph: onnx.GraphProto) -> int | None:
        """The extent of the first axis that all inputs are fixed to."""
        shapes = [v.type.tensor_type.shape.dim for v in graph.input if v.name in self.inputs]
        found = {dims[0].dim_value for dims in shapes if dims and dims[0].HasField("dim_value")}
        return found.pop() if len(found) == 1 else None


Step = tuple[Any, Sequence[str], Sequence[str]]


def _tensor(name: str, array: np.ndarray[Any, Any]) -> Any:
    try:
        return torch.tensor(array)
    except TypeError:
        raise Refused(f"no {array.dtype} in PyTorch, of which {name!r} is") from None


def _is_trained(array: np.ndarray[Any, Any]) -> bool:
    return array.dtype == np.float32 and array.size > 1


def _apart(nodes: Sequence[onnx.NodeProto]) -> tuple[list[onnx.NodeProto], dict[str, np.ndarray[Any, Any]]]:
    """The nodes that compute, and the tensors of Constant nodes."""
    stated = {
        node.output[0]: numpy_helper.to_array(node.attribute[0].t)
        for node in nodes
        if node.op_type == "Constant" and node.attribute[0].name == "value"
    }
    return [node for node in nodes if node.output[0] not in stated], stated


def _statistics(nodes: Sequence[onnx.NodeProto]) -> set[str]:
    norms = [node for node in nodes if node.op_type == "BatchNormalization"]
    return {node.input[place] for node in norms for place in STATISTICS}


def _steps(nodes: Sequence[onnx.NodeProto], known: Mapping[str, Any], batch: int | None) -> list[Step]:
    """One call for each node: a function, the names of its operands, and those of its results."""
    steps: list[Step] = []
    for node in nodes:
        if node.op_type not in OPERATORS or node.op_type in UNTRAINED:
            raise Refused(f"no {node.op_type} that can be trained ({node.name or node.output[0]!r})")
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        constants = [known.get(name) for name in node.input]
        if node.op_type == "Reshape" and batch is not None and constants[0] is None:
            constants[1] = _of_any_batch(constants[1], batch)
        if node.op_type == "BatchNormalization":
            steps.append((_batch_norm(attributes), [*node.input, TRAINING], list(node.output)))
            continue
        steps.append((OPERATORS[node.op_type](attributes, constants), list(node.input), list(node.output)))
    return steps


def _batch_norm(attributes: Mapping[str, Any]) -> Any:
    epsilon = float(attributes.get("epsilon", 1e-5))
    return lambda x, w, b, mean, var, trains: F.batch_norm(x, mean, var, w, b, trains, MOMENTUM, epsilon)


def _of_any_batch(shape: Any, batch: int) -> Any:
    """A shape whose first axis is as long as there are samples, where it was as long as the model's batch."""
    if shape is None or len(shape) < 2 or int(shape[0]) != batch:
        return shape
    found = shape.clone()
    found[0] = 0 if (shape == -1).any() else -1
    return found
