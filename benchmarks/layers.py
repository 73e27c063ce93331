"""Single layers of random sizes beside other runtimes: where layers outside the tuned shapes fall short.

In: a number of layers and a seed. Out: for every family the worst and the median ratio (how many times as
long the fastest peer takes), quantiles over all, and the worst ten by name; `layers.md` and `layers.json` in
`build/benchmarks`. A layer is a whole model here, so its inputs and outputs are the caller's: dense, channels
first. Layers that a peer finishes in less than 10 us say more about calls than about loops and are left out.
`--quantized` has them quantised by onnxruntime's tools first, every other one with uint8 weights.
`python -m benchmarks.layers 100 --seed 7 --family pool`.
"""

from __future__ import annotations

import argparse
import datetime
import json
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import onnx

from benchmarks.net import Net
from benchmarks.quantized import HOW, quantized
from benchmarks.random_models import Dice
from ingot.check.bench import Benchmark, bench
from ingot.driver import compile_with
from ingot.errors import IngotError
from ingot.options import Options

OUTPUT = Path("build/benchmarks")
SHORTEST = 10e-6  # seconds of the fastest peer
ACTIVATIONS = ("", "Relu", "Sigmoid", "Tanh", "LeakyRelu", "HardSwish")
SIZES = (7, 13, 14, 20, 28, 33, 40, 56, 57, 80, 112)
CHANNELS = (3, 8, 16, 20, 24, 32, 48, 64, 96, 128, 192, 240)


def conv(net: Net, dice: Dice) -> str:
    """A dense convolution of two dimensions, sometimes strided or dilated."""
    kernel = (dice.odd(1, 5), dice.odd(1, 5)) if dice.happens(0.4) else (3, 3)
    channels = dice.among(CHANNELS)
    dilation = 2 if dice.happens(0.15) else 1
    return net.conv("x", channels, kernel, dice.between(1, 2), dilation=dilation, then=dice.of(*ACTIVATIONS))


def few_outputs(net: Net, dice: Dice) -> str:
    """A convolution to one to four channels, as image-to-image networks end."""
    return net.conv("x", dice.between(1, 4), dice.odd(1, 7), then=dice.of("", "Sigmoid", "Tanh"))


def depthwise(net: Net, dice: Dice) -> str:
    return net.depthwise("x", dice.odd(3, 7), dice.between(1, 2), then=dice.of("", "Relu", "Relu6"))


def pool(net: Net, dice: Dice) -> str:
    """Maxima and averages, over small windows and large ones."""
    kernel = dice.odd(3, 13) if dice.happens(0.5) else dice.between(2, 3)
    kernel = min(kernel, min(net.shapes["x"][2:]))
    pads = kernel // 2 if dice.happens(0.6) else 0
    return net.pool("x", kernel, dice.between(1, 2), pads=pads, op=dice.of("MaxPool", "AveragePool"))


def transposed(net: Net, dice: Dice) -> str:
    """A transposed convolution that enlarges an image two or three times."""
    stride = dice.between(2, 3)
    kernel, channels = dice.between(stride, stride + 2), dice.among((1, 3, 16, 32, 64))
    return net.conv_transpose("x", channels, kernel, stride)


def conv_1d(net: Net, dice: Dice) -> str:
    return net.conv(
        "x", dice.among((1, 8, 32, 64)), dice.odd(3, 9), dice.between(1, 2), then=dice.of("", "Relu")
    )


def conv_3d(net: Net, dice: Dice) -> str:
    return net.conv("x", dice.among((1, 4, 8, 16)), 3, then=dice.of("", "Relu"))


def matmul(net: Net, dice: Dice) -> str:
    """A product of two operands of the caller's, the second of which may be transposed first."""
    _, k = net.shapes["x"]
    n = net.shapes["h"][0] if dice.happens(0.5) else 0
    if n:
        return net.one("MatMul", ["x", net.transpose("h", 1, 0)], (net.shapes["x"][0], n))
    m = dice.between(10, 600)
    return net.one("MatMul", ["x", net.weight(k, m, terms=k)], (net.shapes["x"][0], m))


def rows(net: Net, dice: Dice) -> str:
    """What goes along rows: softmaxes, norms, sums, the largest few."""
    m, n = net.shapes["x"]
    match dice.of("Softmax", "LogSoftmax", "LayerNorm", "ReduceMean", "TopK"):
        case "LayerNorm":
            return net.layer_norm("x")
        case "ReduceMean":
            return net.one("ReduceMean", ["x"], (m, 1), axes=[1])
        case "TopK":
            k = dice.between(1, 8)
            made = net.node("TopK", ["x", net.integers(k)], (m, k), (m, k), axis=-1)
            assert isinstance(made, tuple)
            return made[0]
        case op:
            return net.one(op, ["x"], (m, n), axis=-1)


def movement(net: Net, dice: Dice) -> str:
    """Transposes, pads, concatenations and resizes of images."""
    n, c, h, w = net.shapes["x"]
    match dice.of("Transpose", "Pad", "Concat", "Resize"):
        case "Transpose":
            return net.transpose("x", *((0, 2, 3, 1) if dice.happens(0.5) else (0, 2, 1, 3)))
        case "Pad":
            sides = [dice.between(0, 3) for _ in range(4)]
            pads = net.integers(0, 0, *sides[:2], 0, 0, *sides[2:])
            return net.one("Pad", ["x", pads], (n, c, h + sides[0] + sides[2], w + sides[1] + sides[3]))
        case "Concat":
            return net.concat("x", net.then("x", "Relu"))
        case _:
            mode = dice.of("nearest", "linear")
            sizes = net.integers(n, c, 2 * h, 2 * w)
            return net.one("Resize", ["x", "", "", sizes], (n, c, 2 * h, 2 * w), mode=mode)


def maps(net: Net, dice: Dice) -> str:
    """Elementwise operators, with and without broadcasting."""
    c = net.shapes["x"][1]
    x = net.binary(dice.of("Add", "Mul"), "x", net.uniform(0.5, 1.5, c, 1, 1))
    return net.then(x, dice.of("Relu", "Sigmoid", "Tanh", "Exp", "HardSwish", "Sqrt"))


Shapes = tuple[Sequence[int], ...]


def image(dice: Dice) -> Shapes:
    size = dice.among(SIZES)
    return ((1, dice.among(CHANNELS), size, size if dice.happens(0.7) else dice.among(SIZES)),)


def signal(dice: Dice) -> Shapes:
    return ((1, dice.among((1, 2, 8, 32, 64)), dice.between(500, 8000)),)


def volume(dice: Dice) -> Shapes:
    return ((1, dice.among((1, 4, 8, 16)), *[dice.between(10, 28)] * 3),)


def matrices(dice: Dice) -> Shapes:
    k = dice.among((33, 64, 100, 256, 512, 1024))
    return (dice.among((1, 5, 16, 64, 128)), k), (dice.among((10, 33, 100, 512, 1000)), k)


def matrix(dice: Dice) -> Shapes:
    return ((dice.between(16, 1024), dice.between(20, 1200)),)


Layer = Callable[[Net, Dice], str]
FAMILIES: dict[str, tuple[Callable[[Dice], Shapes], Layer]] = {
    "conv": (image, conv),
    "few outputs": (image, few_outputs),
    "depthwise": (image, depthwise),
    "pool": (image, pool),
    "transposed": (image, transposed),
    "conv 1-D": (signal, conv_1d),
    "conv 3-D": (volume, conv_3d),
    "matmul": (matrices, matmul),
    "rows": (matrix, rows),
    "movement": (image, movement),
    "maps": (image, maps),
}


def draw(family: str, number: int, seed: int) -> tuple[str, onnx.ModelProto]:
    """A layer of a family and what it is in words; equal seeds give equal bytes."""
    shapes, layer = FAMILIES[family]
    dice = Dice(seed, f"{family}_{number}")
    net = Net(f"{family.replace(' ', '_').replace('-', '')}_{number}", *shapes(dice))
    y = layer(net, dice)
    used = {i for node in net.nodes for i in node.input}
    net.inputs = [name for name in net.inputs if name in used]
    return _words(net, y), net.model(y=y)


def _words(net: Net, y: str) -> str:
    """`Conv 1x32x56x56 -> 1x64x56x56 kernel_shape 3 3 strides 1 1 Relu`"""

    def size(name: str) -> str:
        return "x".join(map(str, net.shapes[name]))

    parts = []
    for node in net.nodes:
        shown = (a for a in node.attribute if a.name in ("kernel_shape", "strides", "pads", "mode", "group"))
        words = (f"{a.name} {' '.join(map(str, a.ints)) or a.i or a.s.decode()}" for a in shown)
        parts.append(" ".join([node.op_type, *words]))
    return f"{', '.join(map(size, net.inputs))} -> {size(y)}: {', '.join(parts)}"


@dataclass(frozen=True, slots=True)
class Result:
    """One layer: seconds of ours and of the fastest peer, by minima and by medians of the same turns."""

    family: str
    words: str
    ours: float
    theirs: float
    ratio: float
    ratio_of_minima: float
    peer: str


def measured(family: str, words: str, found: Benchmark) -> Result | None:
    """The layer's row, or None where a peer is so fast that the call counts."""
    timed = [(r, r.timing) for r in found.rivals if r.timing is not None and r.agrees]
    if not timed:
        return None
    rival, timing = min(timed, key=lambda pair: pair[1].median)
    if timing.minimum < SHORTEST:
        return None
    least = min(t.minimum for _, t in timed) / found.ours.minimum
    return Result(
        family, words, found.ours.median, timing.median, timing.median / found.ours.median, least, rival.name
    )


def measure(arguments: argparse.Namespace) -> Iterator[Result]:
    """Layers of every family in turn, until there are as many as were asked for."""
    families = arguments.family or list(FAMILIES)
    options = Options(target=arguments.target)
    with tempfile.TemporaryDirectory(prefix="ingot-layers-") as folder:
        for number in range(arguments.layers):
            family = families[number % len(families)]
            words, model = draw(family, number, arguments.seed)
            if arguments.quantized:
                model = quantized(model, arguments.quantized, unsigned=number // len(families) % 2 == 1)
            path = Path(folder) / "layer.onnx"
            onnx.save(model, path)
            try:
                found = bench(
                    path, options, compile_with, against=arguments.against, seconds=arguments.seconds
                )
            except IngotError as error:
                print(f"{words}: {error}", file=sys.stderr)
                continue
            row = measured(family, words, found)
            if row is not None:
                print(f"{row.ratio_of_minima:6.2f}  {words}", file=sys.stderr, flush=True)
                yield row


def table(found: Sequence[Result], target: str) -> str:
    """Families, quantiles and the worst ten, as Markdown, by minima: other programs disturb these least."""
    lines = ["| family | layers | slower | worst | median |", "|---|---:|---:|---:|---:|"]
    for family in dict.fromkeys(r.family for r in found):
        lines.append(_row(family, [r.ratio_of_minima for r in found if r.family == family]))
    lines.append(_row("all", [r.ratio_of_minima for r in found]))
    lines += ["", "| ratio | ours | theirs | layer |", "|---:|---:|---:|---|"]
    for r in sorted(found, key=lambda r: r.ratio_of_minima)[:10]:
        lines.append(
            f"| {r.ratio_of_minima:.2f} | {r.ours * 1e6:.1f} us | {r.theirs * 1e6:.1f} us | {r.words} |"
        )
    ratios = sorted(r.ratio_of_minima for r in found)
    low = ratios[len(ratios) // 20] if ratios else 0.0
    return "\n".join(
        [*lines, "", f"5 % quantile {low:.2f}; target {target}; measured on {datetime.date.today()}."]
    )


def _row(name: str, ratios: Sequence[float]) -> str:
    slower = sum(r < 0.95 for r in ratios)
    return f"| {name} | {len(ratios)} | {slower} | {min(ratios):.2f} | {statistics.median(ratios):.2f} |"


def main() -> int:
    """Measure, write, print."""
    parser = argparse.ArgumentParser(description="Random single layers beside other runtimes.")
    parser.add_argument("layers", type=int, nargs="?", default=110)
    parser.add_argument("--seed", type=int, default=20261123)
    parser.add_argument("--family", action="append", choices=list(FAMILIES))
    parser.add_argument("--against", action="append", metavar="PEER", help="as for ingot bench")
    parser.add_argument("--target", default="native")
    parser.add_argument("--quantized", choices=HOW, help="as onnxruntime's tools quantise")
    parser.add_argument("--seconds", type=float, default=0.3, help="for each layer and contender")
    arguments = parser.parse_args()
    arguments.against = arguments.against or ["onnxruntime"]
    found = list(measure(arguments))
    if not found:
        print("no layer took a peer 10 us", file=sys.stderr)
        return 1
    OUTPUT.mkdir(parents=True, exist_ok=True)
    (OUTPUT / "layers.json").write_text(json.dumps([asdict(r) for r in found], indent=1))
    (OUTPUT / "layers.md").write_text(table(found, arguments.target) + "\n")
    print(table(found, arguments.target))
    return 0


if __name__ == "__main__":
    sys.exit(main())
