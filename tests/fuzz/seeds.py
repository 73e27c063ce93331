"""Well-formed models to begin with: what the readers of ONNX and of GraphDefs have most lines for."""

from __future__ import annotations

from onnx import parser

from tests.tensorflow.graphs import FLOAT, Graph

HEAD = '<ir_version: 10, opset_import: ["" : 20, "own" : 1, "ai.onnx.ml" : 3, "com.microsoft" : 1]>\n'
TEXTS = (
    """g (float[4, 3] x, int64 n, bool on) => (float[3] y, float[4, 3] z, float[3] v, float[T, 3] w) {
        zero = Constant <value_floats = [0.0, 0.0, 0.0]> ()
        y, z = Scan <num_scan_inputs = 1, scan_output_directions = [1],
                     body = b (float[3] s, float[3] e) => (float[3] t, float[3] u)
                            { t = Add (s, e) u = Relu (t) }> (zero, x)
        v, w = Loop (n, on, y) <body = l (int64 i, bool c, float[3] a) => (bool d, float[3] e, float[3] f)
                                { k = Constant <value_int = 5> () d = Less (i, k)
                                  e = Neg (a) f = Mul (a, y) }>
    }""",
    """g (float[2, 6] x, float[1, 6] z) => (float[M, 6] y, int64 n, float[2, 2] a, bool b) {
        two = Constant <value_int = 2> ()  one = Constant <value_int = 1> ()
        s = SplitToSequence <axis = 1> (x, two)  a = SequenceAt (s, one)
        e = SequenceEmpty ()  t = SequenceInsert (e, x)  u = SequenceInsert (t, z)  r = SequenceErase (u, one)
        n = SequenceLength (u)  y = ConcatFromSequence <axis = 0> (u)
        o = Optional (x)  b = OptionalHasElement (o)
    }""",
    """g (float[2, 3] x, seq(float[2, 3]) s, optional(float[2, 3]) o) => (float[2, 3] y, seq(float[2, 3]) m) {
        h = OptionalHasElement (o)
        p = If (h) <then_branch = a () => (float[2, 3] q) { q = OptionalGetElement (o) },
                    else_branch = c () => (float[2, 3] r) { r = own.shift <by = 2.0> (x) }>
        m = SequenceMap (s) <body = f (float[2, 3] e) => (float[2, 3] g) { g = Tanh (e) }>
        y = Celu <alpha = 0.5> (p)
    }
    <domain: "own", opset_import: ["" : 20]> shift <by> (a) => (b) {
        c = Constant <value_float : float = @by> ()  b = Add (a, c)
    }""",
    """g (float[2, 4] x, string[3] t, int64[2] k) => (float[2, 2] y, int64[3] l, float[2, 4] n, float[2, 4] d)
    <float[4] scale = {1, 2, 3, 4}> {
        y = ai.onnx.ml.LinearRegressor <coefficients = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0],
                                        intercepts = [0.5, 1.5], targets = 2> (x)
        l = ai.onnx.ml.LabelEncoder <keys_strings = ["a", "b"], values_int64s = [1, 2]> (t)
        n = ai.onnx.ml.Normalizer <norm = "L2"> (x)
        g = com.microsoft.QuickGelu (x)  p = LayerNormalization (g, scale)  d = Elu (p)
    }""",
)
UNARY = (
    "Abs",
    "Exp",
    "Sigmoid",
    "Tanh",
    "Relu6",
    "Elu",
    "Selu",
    "Softplus",
    "Rsqrt",
    "Square",
    "Neg",
    "Round",
)
BINARY = ("AddV2", "Sub", "Mul", "RealDiv", "Maximum", "Minimum", "SquaredDifference", "FloorDiv", "Pow")
REDUCED = ("Sum", "Mean", "Max", "Min", "Prod")


def models() -> list[bytes]:
    return [parser.parse_model(HEAD + text).SerializeToString() for text in TEXTS]


def elementwise() -> Graph:
    """Maps, reductions and what moves elements."""
    g = Graph()
    g.input("x", 2, 6)
    for name in UNARY:
        g.node(name, name, "x", T=FLOAT)
    last = "x"
    for name, other in zip(BINARY, UNARY, strict=False):
        last = g.node(name, name, last, other, T=FLOAT)
    g.const("axis", [1])
    for name in REDUCED:
        g.node(name, name, last, "axis", keep_dims=True, T=FLOAT)
    g.const("one", 1)
    g.node("joined", "ConcatV2", *REDUCED, "one", N=len(REDUCED), T=FLOAT)
    g.const("shape", [5, 2])
    g.node("flat", "Reshape", "joined", "shape", T=FLOAT)
    g.const("turn", [1, 0])
    g.node("turned", "Transpose", "flat", "turn", T=FLOAT)
    g.node("several", "Split", "zero", "turned", num_split=2, T=FLOAT)
    g.const("zero", 0)
    g.const("pads", [[0, 1], [1, 0]])
    g.node("padded", "Pad", "several:1", "pads", T=FLOAT)
    g.const("many", [2, 1])
    g.node("tiled", "Tile", "padded", "many", T=FLOAT)
    g.const("picks", [1, 0])
    g.node("picked", "GatherV2", "tiled", "picks", "one", T=FLOAT)
    g.node("packed", "Pack", "picked", "picked", axis=1, N=2, T=FLOAT)
    g.node("softmax", "Softmax", "packed", T=FLOAT)
    g.node("y", "Identity", "softmax", T=FLOAT)
    return g


def windows() -> Graph:
    """Convolutions, pools, normalisation and resizing."""
    g = Graph()
    g.input("x", 1, 8, 8, 2)
    g.const("w", [[[[0.5, -1.0, 2.0]] * 2] * 3] * 3)
    g.node("c", "Conv2D", "x", "w", strides=[1, 1, 1, 1], padding="SAME", data_format="NHWC", T=FLOAT)
    g.const("b", [1.0, 2.0, 3.0])
    g.node("a", "BiasAdd", "c", "b", data_format="NHWC", T=FLOAT)
    g.node("n", "FusedBatchNormV3", "a", "b", "b", "b", "b", epsilon=0.001, is_training=False, T=FLOAT)
    g.node("m", "MaxPool", "n", ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="VALID", T=FLOAT)
    g.const("v", [[[[1.0], [2.0], [3.0]]] * 2] * 2)
    g.node("d", "DepthwiseConv2dNative", "m", "v", strides=[1, 1, 1, 1], padding="SAME", T=FLOAT)
    g.node("p", "AvgPool", "d", ksize=[1, 2, 2, 1], strides=[1, 1, 1, 1], padding="SAME", T=FLOAT)
    g.const("size", [8, 8])
    g.node("r", "ResizeBilinear", "p", "size", align_corners=False, half_pixel_centers=True, T=FLOAT)
    g.const("block", 2)
    g.node("s", "SpaceToDepth", "r", block_size=2, data_format="NHWC", T=FLOAT)
    g.node("y", "LeakyRelu", "s", alpha=0.1, T=FLOAT)
    return g


def graphs() -> list[bytes]:
    return [g.proto.SerializeToString() for g in (elementwise(), windows())]
