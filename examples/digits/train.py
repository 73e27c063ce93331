"""Trains the digit classifier of this example and writes the files the demo reads.

In: scikit-learn's `load_digits` (1797 images of 8x8 pixels, values 0 to 16). Out, beside this file:

* `digits.onnx`, the network, written node by node from the trained weights (opset 21, no exporter involved);
* `test_images.npz`, the 360 held-out images (`images` uint8 [360,1,8,8], `labels` uint8 [360]) and what
  onnxruntime answers to them (`scores` float32 [360,10]).

The input of the network is the raw pixel value as float32: the scaling to 0..1 is part of the first
convolution, as is the batch normalisation after each one. Needs the `train` extra; the same seed on the same
torch gives the same files.
"""

from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn

HERE = Path(__file__).parent
SEED = 7
TEST_IMAGES = 360
PIXEL_MAX = 16.0
CLASSES = 10
CHANNELS = (8, 16, 24)
EPOCHS = 60
BATCH = 32
REQUIRED_ACCURACY = 0.985

Weights = dict[str, np.ndarray]


def split_digits() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Returns training images, test images (uint8 [n,1,8,8]), training labels, test labels (uint8 [n])."""
    digits = load_digits()
    images = digits.images.astype(np.uint8)[:, None]
    labels = digits.target.astype(np.uint8)
    split = train_test_split(images, labels, test_size=TEST_IMAGES, stratify=labels, random_state=SEED)
    return tuple(split)


def build_network() -> nn.Sequential:
    """Returns the network to train: pixels 0..1 [n,1,8,8] -> logits [n,10]."""
    first, second, third = CHANNELS
    return nn.Sequential(
        nn.Conv2d(1, first, 3, padding=1, bias=False),
        nn.BatchNorm2d(first),
        nn.ReLU(),
        nn.Conv2d(first, second, 3, padding=1, bias=False),
        nn.BatchNorm2d(second),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(second, third, 3, padding=1, bias=False),
        nn.BatchNorm2d(third),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.3),
        nn.Linear(third * 2 * 2, CLASSES),
    )


def shifted(images: Tensor) -> Tensor:
    """Moves each image of a batch by -1, 0 or 1 pixel either way; what moves in is 0."""
    padded = nn.functional.pad(images, (1, 1, 1, 1))
    offsets = torch.randint(0, 3, (len(images), 2))
    moved = [image[:, y : y + 8, x : x + 8] for image, (y, x) in zip(padded, offsets.tolist(), strict=True)]
    return torch.stack(moved)


def train(network: nn.Module, images: np.ndarray, labels: np.ndarray) -> None:
    """Trains the network in place and leaves it in inference mode."""
    pixels = torch.from_numpy(images.astype(np.float32) / PIXEL_MAX)
    targets = torch.from_numpy(labels.astype(np.int64))
    batches = -(-len(pixels) // BATCH)
    optimizer = torch.optim.AdamW(network.parameters(), lr=0.01, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.01, total_steps=EPOCHS * batches)
    network.train()
    for epoch in range(EPOCHS):
        total = 0.0
        for chosen in torch.randperm(len(pixels)).split(BATCH):
            loss = nn.functional.cross_entropy(network(shifted(pixels[chosen])), targets[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item() * len(chosen)
        print(f"epoch {epoch + 1:2}/{EPOCHS}  loss {total / len(pixels):.4f}")
    network.eval()


def fold_norm(conv: nn.Conv2d, norm: nn.BatchNorm2d) -> tuple[np.ndarray, np.ndarray]:
    """Returns the weight and bias of the convolution that does the work of both."""
    # (w*x - mean) * s + beta  ->  (w*s)*x + (beta - mean*s),  s = gamma / sqrt(variance + eps)
    assert norm.running_mean is not None and norm.running_var is not None
    scale = norm.weight / torch.sqrt(norm.running_var + norm.eps)
    weight = conv.weight * scale[:, None, None, None]
    bias = norm.bias - norm.running_mean * scale
    return weight.detach().numpy(), bias.detach().numpy()


def folded_weights(network: nn.Sequential) -> Weights:
    """Returns the initializers of the exported network, batch normalisation and pixel scaling folded in."""
    convolutions = [
        fold_norm(layer, after)
        for layer, after in pairwise(network)
        if isinstance(layer, nn.Conv2d) and isinstance(after, nn.BatchNorm2d)
    ]
    weights: Weights = {}
    for number, (weight, bias) in enumerate(convolutions, start=1):
        # conv(x / 16, w) -> conv(x, w / 16)
        weights[f"conv{number}.weight"] = weight / PIXEL_MAX if number == 1 else weight
        weights[f"conv{number}.bias"] = bias
    dense = network[-1]
    assert isinstance(dense, nn.Linear)
    weights["dense.weight"] = dense.weight.detach().numpy()
    weights["dense.bias"] = dense.bias.detach().numpy()
    return {name: value.astype(np.float32) for name, value in weights.items()}


def conv_relu(number: int, source: str) -> list[onnx.NodeProto]:
    """Returns the two nodes of a 3x3 convolution block that reads `source` and writes `relu<number>`."""
    name = f"conv{number}"
    inputs = [source, f"{name}.weight", f"{name}.bias"]
    conv = helper.make_node("Conv", inputs, [name], name, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    return [conv, helper.make_node("Relu", [name], [f"relu{number}"], f"relu{number}")]


def max_pool(number: int, source: str) -> onnx.NodeProto:
    """Returns a 2x2 pooling node that reads `source` and writes `pool<number>`."""
    name = f"pool{number}"
    return helper.make_node("MaxPool", [source], [name], name, kernel_shape=[2, 2], strides=[2, 2])


def build_model(weights: Weights) -> onnx.ModelProto:
    """Returns the checked ONNX model: `image` float32 [1,1,8,8] of 0..16 -> `scores` float32 [1,10]."""
    nodes = [
        *conv_relu(1, "image"),
        *conv_relu(2, "relu1"),
        max_pool(1, "relu2"),
        *conv_relu(3, "pool1"),
        max_pool(2, "relu3"),
        helper.make_node("Flatten", ["pool2"], ["features"], "flatten"),
        helper.make_node("Gemm", ["features", "dense.weight", "dense.bias"], ["logits"], "dense", transB=1),
        helper.make_node("Softmax", ["logits"], ["scores"], "softmax", axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 1, 8, 8])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, CLASSES])],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    opset = helper.make_opsetid("", 21)
    model = helper.make_model(graph, opset_imports=[opset], ir_version=10, producer_name="ingot-examples")
    onnx.checker.check_model(model, full_check=True)
    return model


def reference_scores(model: onnx.ModelProto, images: np.ndarray) -> np.ndarray:
    """Returns what onnxruntime answers to each image, float32 [n,10]."""
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    answers = [session.run(["scores"], {"image": image[None].astype(np.float32)})[0] for image in images]
    return np.concatenate(answers)


def main() -> None:
    """Trains, exports, checks the exported model and writes both files."""
    torch.manual_seed(SEED)
    torch.set_num_threads(1)  # the order of additions, and with it the result, depends on the thread count
    train_images, test_images, train_labels, test_labels = split_digits()
    network = build_network()
    train(network, train_images, train_labels)

    model = build_model(folded_weights(network))
    scores = reference_scores(model, test_images)
    with torch.no_grad():
        trained = network(torch.from_numpy(test_images.astype(np.float32) / PIXEL_MAX)).softmax(1).numpy()
    accuracy = float(np.mean(scores.argmax(1) == test_labels))
    print(f"accuracy {accuracy:.4f}, exported against trained: max |d| {np.abs(scores - trained).max():.1e}")
    if accuracy < REQUIRED_ACCURACY:
        raise SystemExit(f"accuracy is below {REQUIRED_ACCURACY}: nothing written")

    onnx.save(model, HERE / "digits.onnx")
    np.savez_compressed(HERE / "test_images.npz", images=test_images, labels=test_labels, scores=scores)


if __name__ == "__main__":
    main()
