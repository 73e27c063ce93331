"""LeNet-300-100 and LeNet-5 on scikit-learn's digits: the data, the networks, their training, and ONNX files.

The 8x8 digits are enlarged to 28x28 pixels, so that the networks have the layers they have on MNIST:
266,200 and 430,500 weights. `lenet300.py` and `lenet5.py` give each its name and the functions that `ingot
compress --finetune` asks for. Needs the `train` extra.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn

TEST_IMAGES = 360
PIXEL_MAX = 16.0
CLASSES = 10
BATCH = 64
STEPS = 1000


@dataclass(frozen=True)
class Digits:
    """Images float32 [n,1,28,28] of 0..1 and labels int64 [n], to train with and to test with."""

    train_images: Tensor
    train_labels: Tensor
    test_images: Tensor
    test_labels: Tensor


@cache
def digits() -> Digits:
    """The 1797 images, the same 360 of them held out every time."""
    data = load_digits()
    small = torch.from_numpy(data.images.astype(np.float32) / PIXEL_MAX)[:, None]
    images = nn.functional.interpolate(small, size=(28, 28), mode="bilinear", align_corners=False)
    labels = data.target.astype(np.int64)
    train, test = train_test_split(
        np.arange(len(labels)), test_size=TEST_IMAGES, stratify=labels, random_state=7
    )
    targets = torch.from_numpy(labels)
    return Digits(images[train], targets[train], images[test], targets[test])


class LeNet300(nn.Module):
    """Three dense layers: 784, 300, 100, 10."""

    def __init__(self) -> None:
        super().__init__()
        self.ip1, self.ip2, self.ip3 = nn.Linear(784, 300), nn.Linear(300, 100), nn.Linear(100, CLASSES)

    def forward(self, image: Tensor) -> Tensor:
        """[n,1,28,28] -> logits [n,10]."""
        return self.ip3(self.ip2(self.ip1(image.flatten(1)).relu()).relu())


class LeNet5(nn.Module):
    """Two convolutions with pooling, two dense layers, as in Caffe's example."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 20, 5), nn.Conv2d(20, 50, 5)
        self.ip1, self.ip2 = nn.Linear(800, 500), nn.Linear(500, CLASSES)

    def forward(self, image: Tensor) -> Tensor:
        """[n,1,28,28] -> logits [n,10]."""
        first = nn.functional.max_pool2d(self.conv1(image), 2)
        second = nn.functional.max_pool2d(self.conv2(first), 2)
        return self.ip2(self.ip1(second.flatten(1)).relu())


def train(network: nn.Module, steps: int) -> None:
    """Trains in place; the optimiser lives as long as this call."""
    data = digits()
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    network.train()
    for _ in range(steps):
        chosen = torch.randint(0, len(data.train_images), (BATCH,))
        images = shifted(data.train_images[chosen])
        loss = nn.functional.cross_entropy(network(images), data.train_labels[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()


def shifted(images: Tensor) -> Tensor:
    """A batch moved by up to two pixels either way."""
    down, right = torch.randint(-2, 3, (2,)).tolist()
    return torch.roll(images, (down, right), (2, 3))


def evaluate(network: nn.Module) -> float:
    """How many of the held-out images are recognised."""
    data = digits()
    with torch.no_grad():
        return float((network(data.test_images).argmax(1) == data.test_labels).sum())


def trained(kind: type[nn.Module], seed: int) -> nn.Module:
    """A network after its training."""
    torch.manual_seed(seed)
    network = kind()
    train(network, STEPS)
    return network.eval()


def dense(name: str, source: str) -> onnx.NodeProto:
    """The node of a dense layer."""
    return helper.make_node("Gemm", [source, f"{name}.weight", f"{name}.bias"], [name], name, transB=1)


def convolution(name: str, source: str) -> list[onnx.NodeProto]:
    """The nodes of a convolution and its pooling."""
    pool = {"kernel_shape": [2, 2], "strides": [2, 2]}
    return [
        helper.make_node("Conv", [source, f"{name}.weight", f"{name}.bias"], [name], name),
        helper.make_node("MaxPool", [name], [f"{name}.pool"], f"{name}.pool", **pool),
    ]


def relu(source: str) -> onnx.NodeProto:
    """The node of an activation."""
    return helper.make_node("Relu", [source], [f"{source}.relu"], f"{source}.relu")


def nodes(network: nn.Module) -> list[onnx.NodeProto]:
    """The network as ONNX nodes, from `image` to the last layer."""
    flatten = helper.make_node("Flatten", ["image"], ["pixels"], "pixels")
    if isinstance(network, LeNet300):
        return [
            flatten,
            dense("ip1", "pixels"),
            relu("ip1"),
            dense("ip2", "ip1.relu"),
            relu("ip2"),
            dense("ip3", "ip2.relu"),
        ]
    flatten = helper.make_node("Flatten", ["conv2.pool"], ["features"], "features")
    convolutions = [*convolution("conv1", "image"), *convolution("conv2", "conv1.pool")]
    return [*convolutions, flatten, dense("ip1", "features"), relu("ip1"), dense("ip2", "ip1.relu")]


def to_onnx(network: nn.Module) -> onnx.ModelProto:
    """`image` float32 [1,1,28,28] of 0..1 -> logits float32 [1,10]; constants have the parameters' names."""
    body = nodes(network)
    weights = [numpy_helper.from_array(p.detach().numpy(), name) for name, p in network.named_parameters()]
    graph = helper.make_graph(
        body,
        type(network).__name__.lower(),
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 1, 28, 28])],
        [helper.make_tensor_value_info(body[-1].output[0], TensorProto.FLOAT, [1, CLASSES])],
        weights,
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.checker.check_model(made, full_check=True)
    return made


def from_onnx(kind: type[nn.Module], path: Path) -> nn.Module:
    """The network with the weights of a file that `to_onnx` made."""
    found = {
        t.name: torch.from_numpy(numpy_helper.to_array(t).copy()) for t in onnx.load(path).graph.initializer
    }
    network = kind()
    network.load_state_dict(found)
    return network.eval()


def export(kind: type[nn.Module], path: Path, seed: int = 0) -> None:
    """Trains a network and writes it."""
    network = trained(kind, seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(to_onnx(network), path)
    print(f"{path}: {evaluate(network):.0f} of {TEST_IMAGES} held-out images")
