"""Layers that prepare data: scaling, normalisation by saved statistics, images to a size, numbers to classes.

What augments images does nothing at inference. Strings and hashes are refused: there is no text in a
bundle's input.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ingot.errors import ModelError
from ingot.formula.expr import Array
from ingot.formula.types import FLOAT32, INT32, INT64, DType
from ingot.frontends.keras.configs import Layer
from ingot.frontends.keras.layers.reshaping import resized
from ingot.frontends.keras.settings import TYPES, Settings
from ingot.frontends.keras.table import Call, Result, layer
from ingot.frontends.keras.weights import Spec
from ingot.frontends.orders import Tensor, like, sliced
from ingot.graph.ir import Value

EPSILON = 1e-7
AUGMENTING = (
    *(
        "RandomFlip",
        "RandomRotation",
        "RandomZoom",
        "RandomTranslation",
        "RandomContrast",
        "RandomBrightness",
    ),
    *("RandomHeight", "RandomWidth", "RandomColorJitter", "RandomHue", "RandomSaturation", "RandomErasing"),
    *("RandomGrayscale", "RandomShear", "RandomSharpness", "RandomPosterization", "RandomPerspective"),
    *("RandomGaussianBlur", "RandomElasticTransform", "RandomColorDegeneration", "RandomInvert"),
    *("MixUp", "CutMix", "RandAugment", "AugMix"),
)
TEXT = (
    *("StringLookup", "TextVectorization", "Hashing", "HashedCrossing", "IntegerLookup", "MelSpectrogram"),
    "STFTSpectrogram",
)


@layer(*AUGMENTING)
def augmenting(c: Call) -> Result:
    """Random changes of images act in training only."""
    return c.x


@layer(*TEXT)
def refused(c: Call) -> Result:
    raise c.refuse(
        f"{c.layer.kind} is not supported",
        "compute it before the model: cut the model behind it and save that part, or register the layer",
    )


def numbers(settings: Settings, name: str, default: float) -> Array:
    """A number, or an array of them as lists or as Keras 3 saves one. Raises ModelError."""
    found: Any = settings.get(name, default)
    while isinstance(found, dict):
        found = found.get("config", found.get("value"))
    try:
        made = np.asarray(found, np.float64)
    except (ValueError, TypeError):
        made = np.asarray(np.nan)
    if not np.isfinite(made).all():
        raise ModelError(f"{settings.label}: its {name!r} is {str(found)[:60]!r}, not numbers")
    return made


@layer("Rescaling", mask="keep")
def rescaling(c: Call) -> Result:
    """x scale + offset; several of them are one for each channel, which is last."""
    s, x = c.settings, c.x
    value: Tensor = Tensor(c.b.cast(x.value, s.compute), x.order)
    for name, op, neutral in (("scale", "Mul", 1.0), ("offset", "Add", 0.0)):
        given = numbers(s, name, neutral)
        if given.ndim == 0 and given == neutral:
            continue
        factor = _along_last(c, given, value)
        value = Tensor(c.b.one(op, value.value, factor), value.order)
    return value


def _along_last(c: Call, given: Array, x: Tensor) -> Value:
    c.require(given.ndim <= x.rank, f"{given.ndim} axes of factors")
    if given.ndim == 0:
        return like(c.b, x.value, float(given))
    raised = c.b.constant(given.reshape((1,) * (x.rank - given.ndim) + given.shape), x.dtype)
    return c.b.held(Tensor(raised), x.order)


def _statistics(layer: Layer, settings: Settings) -> Spec:
    return Spec() if settings.has("mean") else Spec((), ("mean", "variance", "count"))


@layer("Normalization", weights=_statistics, mask="keep")
def normalization(c: Call) -> Result:
    """(x - mean) / max(sqrt(variance), 1e-7), or the other way round."""
    s, x = c.settings, c.x
    found = s.values.get("axis", -1)
    axes = [] if found is None else s.integers("axis", None, -1)
    c.require(all(-x.rank <= a < x.rank for a in axes), f"axes {axes}")
    kept = sorted({a % x.rank for a in axes})
    shape = [n if a in kept else 1 for a, n in enumerate(x.shape)]
    mean, variance = (_statistic(c, name, shape, kept) for name in ("mean", "variance"))
    spread = np.maximum(np.sqrt(variance), EPSILON)
    held = Tensor(c.b.cast(x.value, s.compute), x.order)
    steps = [("Sub", mean), ("Div", spread)] if not s.flag("invert") else [("Mul", spread), ("Add", mean)]
    value = held.value
    for op, factor in steps:
        value = c.b.one(op, value, c.b.held(Tensor(c.b.constant(factor, s.compute)), held.order))
    return Tensor(value, held.order)


def _statistic(c: Call, name: str, shape: list[int], kept: list[int]) -> Array:
    """In the input's axes, those that are not kept of extent 1."""
    if not c.settings.has("mean"):
        return c.array(name, [shape[a] for a in kept]).astype(np.float64).reshape(shape)
    given = numbers(c.settings, name, 0.0)
    flat = [shape[a] for a in kept]
    try:
        squeezed = given.reshape([n for n in given.shape if n != 1]) if given.size > 1 else given.reshape(())
        return np.broadcast_to(squeezed, flat).reshape(shape)
    except ValueError:
        raise ModelError(f"{c.layer.label}: its {name!r} of {given.shape} does not fit {flat}") from None


# ---- images


@layer("Resizing")
def resizing(c: Call) -> Result:
    """To height x width; the aspect ratio is not kept."""
    s, x = c.settings, c.x
    c.require(x.rank == 4, "an image of four axes is needed")
    for name in ("crop_to_aspect_ratio", "pad_to_aspect_ratio", "antialias"):
        if s.flag(name):
            raise c.refuse(f"{name} is not supported")
    order, how = c.order(4), s.text("interpolation", "bilinear")
    size = [s.count("height"), s.count("width")]
    made = resized(c, c.b.cast(c.b.held(x, order), s.compute), size, how)
    return Tensor(made, order)


@layer("CenterCrop")
def center_crop(c: Call) -> Result:
    """The middle of an image that is at least as large."""
    s, x = c.settings, c.x
    c.require(x.rank == 4, "an image of four axes is needed")
    order, size = c.order(4), [s.count("height"), s.count("width")]
    held = c.b.cast(c.b.held(x, order), s.compute)
    extents = Tensor(held).shape
    if any(n < m for n, m in zip(extents[2:], size, strict=True)):
        raise c.refuse("an image smaller than the crop is not supported", "crop to at most the image's size")
    starts = [0, 0, *((n - m) // 2 for n, m in zip(extents[2:], size, strict=True))]
    ends = [*extents[:2], *(a + m for a, m in zip(starts[2:], size, strict=True))]
    return Tensor(sliced(c.b, held, starts, ends, [1] * 4), order)


# ---- classes


@layer("Discretization")
def discretization(c: Call) -> Result:
    """In which interval each number lies: how many boundaries are not above it."""
    s, b = c.settings, c.b
    bounds = numbers(s, "bin_boundaries", float("nan")).reshape(-1) if s.has("bin_boundaries") else None
    if bounds is None:
        raise c.refuse("its boundaries are not in the configuration", "save it with bin_boundaries")
    x = b.cast(c.plain(c.x), FLOAT32)
    raised = b.one("Unsqueeze", x, b.ints([c.x.rank]))
    above = b.cast(b.one("GreaterOrEqual", raised, b.constant(bounds, FLOAT32)), INT32)
    found = b.one("ReduceSum", above, b.ints([c.x.rank]), keepdims=0)
    return encoded(c, found, s.text("output_mode", "int"), len(bounds) + 1)


@layer("CategoryEncoding")
def category_encoding(c: Call) -> Result:
    mode = c.settings.text("output_mode", "multi_hot")
    if c.argument(1, "count_weights") is not None:
        raise c.refuse("count_weights are not supported")
    return encoded(c, c.plain(c.x), "multi_hot" if mode == "binary" else mode, c.settings.count("num_tokens"))


def encoded(c: Call, classes: Value, mode: str, depth: int) -> Tensor:
    """Classes as they are, one-hot, or joined along the last axis: which are there, or how often."""
    b, s = c.b, c.settings
    if s.flag("sparse"):
        raise c.refuse("a sparse result is not supported")
    if mode == "int":
        return Tensor(b.cast(classes, _integers(s)))
    x = Tensor(classes)
    places = b.cast(classes, INT64)
    hot = b.cast(b.one("Equal", b.one("Unsqueeze", places, b.ints([x.rank])), b.counted(depth)), s.compute)
    if mode == "one_hot":
        return Tensor(b.reshape(hot, (*x.shape[:-1], depth)) if x.shape[-1:] == (1,) else hot)
    if mode in ("multi_hot", "count"):
        op = "ReduceMax" if mode == "multi_hot" else "ReduceSum"
        return Tensor(b.one(op, hot, b.ints([x.rank - 1]), keepdims=0))
    raise c.refuse(f"the output_mode {mode[:40]!r} is not supported")


def _integers(settings: Settings) -> DType:
    found = TYPES.get(str(settings.values.get("dtype")))
    return found if found is not None and found.kind == "i" else INT64
