"""Which parameter of a PyTorch network is which constant of its ONNX model. In: both; out: pairs.

They are paired by their elements, since exporters rename, transpose and reorder (the gates of an LSTM):
equal in place, equal transposed, or the same distinct elements in another order. Called by `finetune`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ingot.formula.expr import Array


@dataclass(frozen=True, slots=True, eq=False)
class Bond:
    """A tensor of the network and a constant of shape `shape`: flat constant[i] is flat tensor[at[i]]."""

    name: str
    tensor: Any
    shape: tuple[int, ...]
    at: Array

    def read(self) -> Array:
        """The tensor's elements as the constant has them: float32 of `shape`."""
        flat = self.tensor.detach().cpu().numpy().reshape(-1).astype(np.float32)
        return np.asarray(flat[self.at].reshape(self.shape))

    def turned(self, array: Array) -> Array:
        """What belongs to the constant's elements, in the order and shape of the tensor."""
        out = np.zeros(array.size, array.dtype)
        out[self.at] = array.reshape(-1)
        return out.reshape(tuple(self.tensor.shape))


def bind_named(tensors: Mapping[str, Any]) -> dict[str, Bond]:
    """The pairs of a network whose tensors are known by the constants' names, and lie as these do."""
    return {n: Bond(n, t, tuple(t.shape), np.arange(t.numel())) for n, t in tensors.items()}


def bind(network: Any, constants: Mapping[str, Array]) -> dict[str, Bond]:
    """The pairs, by the constants' names. A tensor has one partner; an equal name goes before an equal
    size."""
    tensors = {
        n: t for n, t in (*network.named_parameters(), *network.named_buffers()) if t.is_floating_point()
    }
    found: dict[str, Bond] = {}
    for name, tensor in tensors.items():
        elements = tensor.detach().cpu().numpy().astype(np.float32)
        for candidate in _candidates(name, elements.size, constants, found):
            at = _same(constants[candidate], elements)
            if at is not None:
                found[candidate] = Bond(candidate, tensor, tuple(constants[candidate].shape), at)
                break
    return found


def _candidates(
    name: str, size: int, constants: Mapping[str, Array], taken: Mapping[str, Bond]
) -> Iterable[str]:
    fit = [n for n, c in constants.items() if c.size == size and n not in taken]
    return sorted(fit, key=lambda n: n != name)


def _same(constant: Array, tensor: Array) -> Array | None:
    """Where each element of the constant lies in the tensor, if they have the same ones."""
    flat = constant.reshape(-1).astype(np.float32)
    places = np.arange(flat.size).reshape(tensor.shape)
    for order in (places, places.T):
        if np.allclose(flat, tensor.reshape(-1)[order.reshape(-1)], rtol=1e-5, atol=1e-7):
            return np.asarray(order.reshape(-1))
    ours, theirs = np.argsort(flat), np.argsort(tensor.reshape(-1))
    ordered = flat[ours]
    if not np.array_equal(ordered, tensor.reshape(-1)[theirs]) or (np.diff(ordered) == 0).any():
        return None
    at = np.empty(flat.size, np.int64)
    at[ours] = theirs
    return at
