"""Networks in plain PyTorch, small, with random weights. Read by `oracle.py`, which needs PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

Tensors = tuple[torch.Tensor, ...]
IMAGE = (1, 3, 32, 32)


class Lambda(nn.Module):
    """Parts, and how their results are put together."""

    def __init__(self, forward: Callable[..., Any], **parts: nn.Module) -> None:
        super().__init__()
        self.write = forward
        for name, part in parts.items():
            self.add_module(name, part)

    def forward(self, *given: torch.Tensor) -> Any:
        return self.write(self, *given)


def conv(i: int, o: int, k: int = 3, stride: int = 1, groups: int = 1, act: Any = nn.ReLU) -> nn.Sequential:
    """A convolution, its normalisation, and an activation."""
    window = nn.Conv2d(i, o, k, stride, k // 2, groups=groups, bias=False)
    return nn.Sequential(window, nn.BatchNorm2d(o), act())


def head(i: int, o: int = 10) -> nn.Sequential:
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(i, o))


def residual(i: int, o: int, stride: int = 1) -> nn.Module:
    body = nn.Sequential(conv(i, o, 3, stride), conv(o, o, act=nn.Identity))
    short = conv(i, o, 1, stride, act=nn.Identity) if (i, stride) != (o, 1) else nn.Identity()
    return Lambda(lambda s, x: F.relu(s.body(x) + s.short(x)), body=body, short=short)


def excite(n: int, gate: Any = nn.Sigmoid) -> nn.Module:
    squeeze = nn.Sequential(
        nn.AdaptiveAvgPool2d(1), nn.Conv2d(n, n // 4, 1), nn.ReLU(), nn.Conv2d(n // 4, n, 1)
    )
    return Lambda(lambda s, x: x * s.gate(s.squeeze(x)), squeeze=squeeze, gate=gate())


def inverted(i: int, o: int, stride: int, act: Any, gate: Any = None, k: int = 3) -> nn.Module:
    """MobileNet v2's block; with `gate` that of v3 and of EfficientNet."""
    parts = [conv(i, 4 * i, 1, act=act), conv(4 * i, 4 * i, k, stride, 4 * i, act)]
    parts += [excite(4 * i, gate)] if gate else []
    body = nn.Sequential(*parts, conv(4 * i, o, 1, act=nn.Identity))
    is_short = (i, stride) == (o, 1)
    return Lambda(lambda s, x: x + s.body(x) if is_short else s.body(x), body=body)


def separable(i: int, o: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(conv(i, i, 3, stride, i), conv(i, o, 1))


def vgg() -> nn.Module:
    pairs = [(3, 8), (8, 16), (16, 32)]
    blocks = [nn.Sequential(nn.Conv2d(i, o, 3, 1, 1), nn.ReLU(), nn.MaxPool2d(2)) for i, o in pairs]
    return nn.Sequential(
        *blocks, nn.Flatten(), nn.Linear(512, 64), nn.ReLU(), nn.Dropout(), nn.Linear(64, 10)
    )


def dense_net() -> nn.Module:
    layers = [nn.Sequential(nn.BatchNorm2d(n), nn.ReLU(), nn.Conv2d(n, 8, 3, 1, 1)) for n in (16, 24, 32)]

    def forward(s: Any, x: torch.Tensor) -> Any:
        x = s.stem(x)
        for layer in s.layers:
            x = torch.cat([x, layer(x)], 1)
        return s.head(F.avg_pool2d(s.transition(x), 2))

    parts = {"stem": conv(3, 16, 3, 2), "transition": conv(40, 20, 1), "head": head(20)}
    return Lambda(forward, layers=nn.ModuleList(layers), **parts)


def inception() -> nn.Module:
    ways = [
        conv(16, 8, 1),
        nn.Sequential(conv(16, 4, 1), conv(4, 8)),
        nn.Sequential(conv(16, 4, 1), conv(4, 8, 5)),
    ]
    pool = nn.Sequential(nn.MaxPool2d(3, 1, 1), conv(16, 8, 1))

    def forward(s: Any, x: torch.Tensor) -> Any:
        x = s.stem(x)
        return s.head(torch.cat([way(x) for way in s.ways], 1))

    return Lambda(forward, stem=conv(3, 16, 3, 2), ways=nn.ModuleList([*ways, pool]), head=head(32))


def u_net() -> nn.Module:
    def forward(s: Any, x: torch.Tensor) -> Any:
        a = s.a(x)
        b = s.b(F.max_pool2d(a, 2))
        c = s.c(F.max_pool2d(b, 2))
        b = s.d(torch.cat([s.up1(c), b], 1))
        a = s.e(torch.cat([F.interpolate(s.up2(b), scale_factor=2, mode="bilinear"), a], 1))
        return torch.softmax(s.out(a), 1)

    up = {"up1": nn.ConvTranspose2d(32, 16, 2, 2), "up2": nn.Conv2d(16, 8, 1), "out": nn.Conv2d(8, 2, 1)}
    return Lambda(forward, a=conv(3, 8), b=conv(8, 16), c=conv(16, 32), d=conv(32, 16), e=conv(16, 8), **up)


def text(cell: Any, is_two_way: bool) -> nn.Module:
    width = 24 if is_two_way else 12
    parts = {"words": nn.Embedding(50, 16), "out": nn.Linear(width, 3)}
    cells = cell(16, 12, num_layers=2, batch_first=True, bidirectional=is_two_way)
    return Lambda(lambda s, x: s.out(s.cells(s.words(x))[0][:, -1]), cells=cells, **parts)


def transformer() -> nn.Module:
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, activation="gelu", norm_first=True)
    parts = {"words": nn.Embedding(50, 16), "out": nn.Linear(16, 3)}
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    return Lambda(lambda s, x: s.out(s.encoder(s.words(x)).mean(1)), encoder=encoder, **parts)


def two_inputs() -> nn.Module:
    parts = {
        "image": nn.Sequential(conv(3, 8, 3, 2), head(8, 8)),
        "rest": nn.Linear(5, 8),
        "out": nn.Linear(16, 4),
    }
    return Lambda(
        lambda s, x, y: {
            "scores": s.out(torch.cat([s.image(x), torch.tanh(s.rest(y))], 1)),
            "rest": s.rest(y),
        },
        **parts,
    )


def series() -> nn.Module:
    causal = [nn.Conv1d(8, 8, 3, dilation=d, padding=2 * d) for d in (1, 2, 4)]

    def forward(s: Any, x: torch.Tensor) -> Any:
        x = s.stem(x)
        for layer in s.causal:
            x = x + F.gelu(layer(x)[..., : x.shape[-1]])
        return s.out(F.layer_norm(x.transpose(1, 2), (8,)).amax(1))

    return Lambda(forward, stem=nn.Conv1d(4, 8, 1), causal=nn.ModuleList(causal), out=nn.Linear(8, 2))


def autoencoder() -> nn.Module:
    sizes = (40, 24, 8, 24, 40)
    parts: list[nn.Module] = []
    for i, o in pairwise(sizes):
        parts += [nn.Linear(i, o), nn.SELU()]
    return nn.Sequential(*parts)


def image(*shape: int) -> Callable[[], Tensors]:
    return lambda: (torch.randn(*(shape or IMAGE)),)


def words() -> Tensors:
    return (torch.randint(0, 50, (1, 12)),)


Row = tuple[str, Callable[[], nn.Module], Callable[[], Tensors]]
NETWORKS: Sequence[Row] = (
    ("ResNet", lambda: nn.Sequential(conv(3, 16), residual(16, 16), residual(16, 32, 2), head(32)), image()),
    ("VGG", vgg, image()),
    (
        "MobileNet v1",
        lambda: nn.Sequential(conv(3, 8, 3, 2), separable(8, 16), separable(16, 32, 2), head(32)),
        image(),
    ),
    (
        "MobileNet v2",
        lambda: nn.Sequential(
            conv(3, 8, 3, 2, act=nn.ReLU6),
            inverted(8, 8, 1, nn.ReLU6),
            inverted(8, 16, 2, nn.ReLU6),
            head(16),
        ),
        image(),
    ),
    (
        "MobileNet v3",
        lambda: nn.Sequential(
            conv(3, 8, 3, 2, act=nn.Hardswish),
            inverted(8, 8, 1, nn.Hardswish, nn.Hardsigmoid),
            inverted(8, 16, 2, nn.Hardswish, nn.Hardsigmoid, 5),
            head(16),
        ),
        image(),
    ),
    (
        "EfficientNet",
        lambda: nn.Sequential(
            conv(3, 8, 3, 2, act=nn.SiLU),
            inverted(8, 8, 1, nn.SiLU, nn.Sigmoid),
            inverted(8, 16, 2, nn.SiLU, nn.Sigmoid, 5),
            head(16),
        ),
        image(),
    ),
    ("DenseNet", dense_net, image()),
    ("Inception", inception, image()),
    ("U-Net", u_net, image()),
    ("LSTM text", lambda: text(nn.LSTM, True), words),
    ("GRU text", lambda: text(nn.GRU, False), words),
    ("transformer encoder", transformer, words),
    ("two inputs", two_inputs, lambda: (torch.randn(*IMAGE), torch.randn(1, 5))),
    ("causal 1-D", series, image(1, 4, 30)),
    ("autoencoder", autoencoder, image(1, 40)),
)
