"""Products with a matrix, embeddings, and layers that change nothing at inference."""

from __future__ import annotations

import re

from ingot.formula.types import BOOL, FLOAT32, INT8, INT32
from ingot.frontends.keras.configs import Layer
from ingot.frontends.keras.layers.activation import activated
from ingot.frontends.keras.settings import Settings
from ingot.frontends.keras.table import Call, Result, layer
from ingot.frontends.keras.weights import Spec
from ingot.frontends.orders import Tensor, like
from ingot.graph.ir import Value

EQUATION = re.compile(r"(\.{3})?[A-Za-z]*(\.{3})?,[A-Za-z]+->(\.{3})?[A-Za-z]*(\.{3})?", re.ASCII)
IDENTITY = (
    *("Dropout", "SpatialDropout1D", "SpatialDropout2D", "SpatialDropout3D", "AlphaDropout", "Identity"),
    *("GaussianNoise", "GaussianDropout", "ActivityRegularization"),
)


@layer(*IDENTITY, mask="keep")
def unchanged(c: Call) -> Result:
    """What regularises acts in training only."""
    return c.x


@layer("Lambda")
def lambda_(c: Call) -> Result:
    raise c.refuse(
        "a Lambda holds Python bytecode, which is never run",
        "write it as a registered layer, or of keras.ops, or say what it computes: "
        f"ingot.frontends.keras.register({'Lambda'!r})(function), see docs/keras.md",
    )


# ---- matrices


def kernel_and_bias(layer: Layer, settings: Settings) -> Spec:
    own = ("kernel", "bias") if settings.flag("use_bias", True) else ("kernel",)
    return Spec(own)


def _dense_weights(layer: Layer, settings: Settings) -> Spec:
    found = kernel_and_bias(layer, settings)
    return Spec((*found.own, "kernel_scale")) if settings.quantization == "int8" else found


def require_floats(c: Call) -> None:
    """Raises UnsupportedError for a layer that is quantised."""
    if mode := c.settings.quantization:
        raise c.refuse(
            f"it is quantised ({mode}), of which only Dense in int8 is read", "save it before quantize()"
        )


def biased(c: Call, y: Value, count: int) -> Value:
    """y plus the layer's bias along the last axis."""
    return c.b.one("Add", y, c.weight("bias", [count])) if c.settings.flag("use_bias", True) else y


@layer("Dense", weights=_dense_weights, mask="keep")
def dense(c: Call) -> Result:
    """The last axis times the kernel."""
    x, units = c.x, c.settings.count("units")
    c.require(x.rank >= 2, "an input of two axes or more is needed")
    if c.settings.quantization == "int8":
        return activated(c, Tensor(biased(c, _in_bytes(c, x, units), units)))
    require_floats(c)
    kernel = c.weight("kernel", [x.shape[-1], units])
    held = c.b.cast(c.plain(x), c.settings.compute)
    return activated(c, Tensor(biased(c, c.b.one("MatMul", held, kernel), units)))


def _in_bytes(c: Call, x: Tensor, units: int) -> Value:
    """Keras quantises the input by its largest element along the last axis, then multiplies bytes.

    q = round(x s), s = 127 / (max|x| + 1e-7); y = q k / (s kernel_scale)
    """
    b, held = c.b, c.b.cast(c.plain(x), FLOAT32)
    largest = b.one("ReduceMax", b.one("Abs", held), b.ints([-1]), keepdims=1)
    scale = b.one("Div", like(b, held, 127), b.one("Add", largest, like(b, held, 1e-7)))
    rounded = b.one("Round", b.one("Mul", held, scale))
    small = b.cast(b.one("Clip", rounded, like(b, held, -127), like(b, held, 127)), INT8)
    kernel = c.weight("kernel", [x.shape[-1], units], INT8)
    product = b.cast(b.one("MatMulInteger", small, kernel), FLOAT32)
    factor = b.one("Mul", scale, c.weight("kernel_scale", [units], FLOAT32))
    return b.cast(b.one("Div", product, factor), c.settings.compute)


def _einsum_weights(layer: Layer, settings: Settings) -> Spec:
    return Spec(("kernel", "bias") if settings.has("bias_axes") else ("kernel",))


@layer("EinsumDense", weights=_einsum_weights)
def einsum_dense(c: Call) -> Result:
    """Any product of the input with a kernel; the bias lies along the axes that `bias_axes` names."""
    require_floats(c)
    equation = c.settings.text("equation").replace(" ", "")
    c.require(EQUATION.fullmatch(equation) is not None, f"the equation {equation[:80]!r}")
    kernel = c.weight("kernel", None)
    y = c.b.one("Einsum", c.plain(c.x), kernel, equation=equation)
    if c.settings.has("bias_axes"):
        y = c.b.one("Add", y, c.weight("bias", None))  # saved in a shape that broadcasts
    return activated(c, Tensor(y))


# ---- embeddings


def _embedding_weights(layer: Layer, settings: Settings) -> Spec:
    if settings.quantization:
        return Spec(("embeddings", "embeddings_scale"))
    return Spec(("embeddings",))


@layer("Embedding", weights=_embedding_weights, mask="own")
def embedding(c: Call) -> Result:
    """Rows of a table; with mask_zero, 0 stands for nothing."""
    require_floats(c)
    s, x = c.settings, c.plain(c.x)
    table = c.weight("embeddings", [s.count("input_dim"), s.count("output_dim")])
    places = c.b.cast(x, INT32)
    made = Tensor(c.b.one("Gather", table, places, axis=0))
    if not s.flag("mask_zero"):
        return made
    return c.mask(made, c.b.one("Not", c.b.one("Equal", places, c.b.constant(0, INT32))))


@layer("ReversibleEmbedding", weights=_embedding_weights, mask="own")
def reversible(c: Call) -> Result:
    raise c.refuse("an embedding that is also its own inverse is not supported")


@layer("Masking", mask="own")
def masking(c: Call) -> Result:
    """Steps whose elements all are mask_value are hidden, and 0."""
    b, x = c.b, c.plain(c.x)
    c.require(c.x.rank >= 2, "an input of two axes or more is needed")
    same = b.one("Equal", x, like(b, x, c.settings.number("mask_value", 0.0)))
    shown = b.one("ReduceMax", b.cast(b.one("Not", same), INT32), b.ints([-1]), keepdims=1)
    made = b.one("Mul", x, b.cast(shown, c.x.dtype))
    return c.mask(Tensor(made), b.cast(b.reshape(shown, c.x.shape[:-1]), BOOL))
