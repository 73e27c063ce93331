"""Networks whose results are images: segmentation, super-resolution, noise removal.

In: nothing. Out: ModelProtos with random weights, of the shapes of published networks. Called by `models.py`.
"""

from __future__ import annotations

import onnx

from benchmarks.net import Net


def unet(size: int = 128, widths: tuple[int, ...] = (16, 32, 64, 128)) -> onnx.ModelProto:
    """Segmentation by an encoder and a decoder that reads what the encoder had at each size (O. Ronneberger,
    P. Fischer, T. Brox, "U-Net", 2015), an eighth to a quarter of the width, with padding.
    """
    net = Net("unet", (1, 3, size, size))

    def two(x: str, channels: int) -> str:
        return net.conv(net.conv(x, channels, 3, then="Relu"), channels, 3, then="Relu")

    *outer, inner = widths
    x, passed = "x", list[tuple[str, int]]()
    for channels in outer:
        passed.append((two(x, channels), channels))
        x = net.pool(passed[-1][0], 2)
    x = two(x, inner)
    for beside, channels in reversed(passed):
        x = two(net.concat(net.conv_transpose(x, channels, 2, 2), beside), channels)
    return net.model(y=net.then(net.conv(x, 1, 1), "Sigmoid"))


def espcn(size: int = 96, scale: int = 3) -> onnx.ModelProto:
    """Super-resolution of a grey image, whose enlarged pixels are channels up to the end (W. Shi and others,
    "Real-Time Single Image and Video Super-Resolution Using an Efficient Sub-Pixel Convolutional Neural
    Network", 2016).
    """
    net = Net("espcn", (1, 1, size, size))
    x = net.conv(net.conv("x", 64, 5, then="Tanh"), 32, 3, then="Tanh")
    x = net.conv(x, scale * scale, 3)
    large = (1, 1, scale * size, scale * size)
    return net.model(y=net.one("DepthToSpace", [x], large, blocksize=scale))


def dncnn(size: int = 64, layers: int = 17) -> onnx.ModelProto:
    """Noise removal: the network says what the noise is (K. Zhang and others, "Beyond a Gaussian Denoiser",
    2017).
    """
    net = Net("dncnn", (1, 1, size, size))
    x = net.conv("x", 64, 3, then="Relu")
    for _ in range(layers - 2):
        x = net.conv(x, 64, 3, then="Relu")
    return net.model(y=net.binary("Sub", "x", net.conv(x, 1, 3)))
