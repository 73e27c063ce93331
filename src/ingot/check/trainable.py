"""The network of a model, for training. In: a ModelProto; out: a PyTorch module. Called by the driver for
`ingot compress --finetune`, and by `ingot sensitivity`, where a script makes no network of its own.
"""

from __future__ import annotations

from typing import Any

import onnx

from ingot.errors import InputError
from ingot.peers.job import Refused


def trainable(model: onnx.ModelProto) -> Any:
    """Return a `TorchModule` with the model's weights. Raises InputError for operators that it lacks."""
    from ingot.peers.torch_module import TorchModule

    try:
        return TorchModule(model.graph)
    except Refused as reason:
        raise InputError(
            f"no network to train can be made of the model: {reason}",
            remedy="write a function model() that returns the network into the script",
        ) from None
