"""LeNet-300-100 of `lenets.py`: run as a program, it trains the network and writes it; `ingot compress
--finetune` takes it as the training script.

    python examples/compression/lenet300.py
    ingot compress build/compression/lenet300.onnx --finetune examples/compression/lenet300.py ...
"""

from pathlib import Path

import torch
from lenets import LeNet300, evaluate, export, from_onnx, train

__all__ = ["evaluate", "model", "train"]

PATH = Path("build/compression/lenet300.onnx")


def model() -> torch.nn.Module:
    """The network as it was written."""
    torch.manual_seed(1)
    return from_onnx(LeNet300, PATH)


if __name__ == "__main__":
    export(LeNet300, PATH)
