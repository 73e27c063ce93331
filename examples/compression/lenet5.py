"""LeNet-5 of `lenets.py`: run as a program, it trains the network and writes it; `ingot compress
--finetune` takes it as the training script.

    python examples/compression/lenet5.py
    ingot compress build/compression/lenet5.onnx --finetune examples/compression/lenet5.py ...
"""

from pathlib import Path

import torch
from lenets import LeNet5, evaluate, export, from_onnx, train

__all__ = ["evaluate", "model", "train"]

PATH = Path("build/compression/lenet5.onnx")


def model() -> torch.nn.Module:
    """The network as it was written."""
    torch.manual_seed(1)
    return from_onnx(LeNet5, PATH)


if __name__ == "__main__":
    export(LeNet5, PATH)
