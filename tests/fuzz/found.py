"""Models that once failed, as small as `minimise` made them: what is wrong once stays tested.

Each is a text in ONNX's own notation; its inputs are random. `test_fuzz.py` runs them at every level.
"""

from __future__ import annotations

import zlib

import onnx
from onnx import helper, parser

from tests.corpus.cases import onnxruntime_outputs
from tests.fuzz.grow import Garden, Grown, Known

FOUND = {
    # A sum of products over one term is a map: there is no reduction to ask about.
    "a_product_of_one_term": """
        <ir_version: 10, opset_import: ["" : 13]>
        g (float[1, 2, 1, 1] x) => (float[1, 4, 3, 1] y)
        <int64[8] by = {0, 1, 0, 0, 0, 1, 0, 0}, float[1, 4, 3, 1] w = {FILL}> {
            wide = Pad <mode = "edge"> (x, by)
            y = MatMul (w, wide)
        }""".replace("FILL", ", ".join(str(i % 5 - 2) for i in range(12))),
    # A bool that all lanes share is no mask: the C chooses between two vectors by it.
    "one_condition_for_all_lanes": """
        <ir_version: 10, opset_import: ["" : 20]>
        g (float[2, 6] x, bool on, float other) => (float[2, 16] y)
        <float[6, 16] w = {FILL}> {
            m = MatMul (x, w)
            y = Where (on, m, other)
        }""".replace("FILL", ", ".join(str(i % 7 - 3) for i in range(96))),
    # So is a bool that is one of two conditions.
    "one_of_two_conditions_for_all_lanes": """
        <ir_version: 10, opset_import: ["" : 20]>
        g (float[2, 2, 11, 3] x, float[1, 2, 3, 1] w, float[1] bias, float[1, 8, 1] other)
            => (float[2, 1, 8, 1] y, float[2, 1, 8, 1] z) <bool[2, 1, 1, 1] on = {1, 0}> {
            p = AveragePool <kernel_shape = [2, 1]> (x)
            c = Conv <strides = [1, 3]> (p, w, bias)
            more = Greater (c, other)
            either = Or (more, on)
            y = Where (either, c, other)
            d = Conv <strides = [1, 3]> (p, w, bias)
            less = Less (d, other)
            both = And (on, less)
            z = Where (both, d, other)
        }""",
    # The memory plan's proof took a kernel that reads what it wrote for one that reads what nobody wrote.
    "output_read_back": """
        <ir_version: 10, opset_import: ["" : 18]>
        g (float[8] x) => (float[8] y) <int64[2] at = {1, 5}, float[2] new = {0.5, -2}> {
            s = ScatterElements <axis: int = 0, reduction: string = "min"> (x, at, new)
            y = Clip (s)
        }""",
    # A constant laid out channels last for the convolution, copied as it lies by the loop.
    "constant_read_twice": """
        <ir_version: 10, opset_import: ["" : 17]>
        g (float[3, 2, 3] x, float[2, 2, 3] w) => (float[3, 2, 3] y, float[3, 2, 1] z)
        <int64 trips = {2}, float[3, 2, 3] c = {1, 2, 3, 4, 5, 6, 7, 8, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0}> {
            y = Loop (trips, "", c) <body: graph = body (int64 i, bool on, float[3, 2, 3] s)
                    => (bool go, float[3, 2, 3] n) {
                n = Add (s, x)
                go = Identity (on)
            }>
            z = Conv (c, w)
        }""",
    # Slice counts a start before the beginning from the beginning, backwards too; numpy does not.
    "slice_from_before_the_start": """
        <ir_version: 10, opset_import: ["" : 18]>
        g (float[17, 1] x) => (float[8, 1] y)
        <int64[2] start = {-9, -3}, int64[2] end = {-1, -99}, int64[2] axes = {0, 1}, int64[2] by = {1, -2}> {
            y = Slice (x, start, end, axes, by)
        }""",
    # The row of a statistic lies in a tensor without rows: the walk that should begin it never comes.
    "smallest_of_nothing": """
        <ir_version: 10, opset_import: ["" : 13]>
        g (float[0, 6] x) => (float[0, 6] a, float y) {
            a = Asin (x)
            y = ReduceMin <axes = [0, 1], keepdims = 0> (a)
        }""",
    # A view is known where it begins; what its operator made beside it was never written.
    "mask_beside_a_view": """
        <ir_version: 10, opset_import: ["" : 13]>
        g (float[3] x) => (float[3] z, bool[3] mask) {
            y, mask = Dropout (x)
            z = Abs (y)
        }""",
    # A vector of doubles needs a name of its own, whatever other types begin with float6.
    "vector_of_doubles": """
        <ir_version: 10, opset_import: ["" : 13]>
        g (double[64] x) => (double[64] y) { y = Ceil (x) }""",
    # Updates that meet at one element, by an index that is a constant: folded at once, the last one won.
    "updates_that_meet": """
        <ir_version: 10, opset_import: ["" : 18]>
        g (float[2] u) => (float[3] y, float[3] z)
        <float[3] x = {1, 2, 3}, int64[2, 1] at = {1, 1}, float[2] by = {2, 3}> {
            y = ScatterND <reduction = "mul"> (x, at, by)
            z = ScatterND <reduction = "mul"> (x, at, u)
        }""",
    # An operator that changes nothing gave back its input, which is no result of its own.
    "nothing_to_resize": """
        <ir_version: 10, opset_import: ["" : 17]>
        g (float[1, 2, 3, 3] x) => (float[1, 2, 3, 3] y) <float[4] by = {1, 1, 1, 1}> {
            y = Resize <mode = "linear"> (x, "", by)
        }""",
    # The condition of a loop may be a tensor of one element: before it, in it, or both.
    "conditions_of_one_element": """
        <ir_version: 10, opset_import: ["" : 13]>
        g (float[1] x) => (float[1] y, float[1] z) <float[1] most = {5}, int64 n = {3}, bool[1] go = {1}> {
            y = Loop (n, "", x) <body: graph = body (int64 i, bool on, float[1] s)
                    => (bool[1] again, float[1] t) {
                t = Add (s, s)
                again = Less (t, most)
            }>
            z = Loop (n, go, x) <body: graph = body (int64 i, bool[1] on, float[1] s)
                    => (bool[1] again, float[1] t) {
                t = Add (s, s)
                again = Identity (on)
            }>
        }""",
    # The number of the turn may be a tensor of one element, and what is made of it then has an axis more.
    "a_counter_of_one_element": """
        <ir_version: 10, opset_import: ["" : 13]>
        g (float[1] x) => (float[1] y, float[4, 1] all) <int64[1] n = {4}> {
            y, all = Loop (n, "", x) <body: graph = body (int64[1] i, bool[1] on, float[1] s)
                    => (bool[1] again, float[1] t, float[1] k) {
                k = Cast <to = 1> (i)
                t = Add (s, k)
                again = Identity (on)
            }>
        }""",
    # A store of one vector, without any loop around it.
    "one_vector": """
        <ir_version: 10, opset_import: ["" : 17]>
        g (float[8] x, float[8] z) => (float[8] y) <int64 trips = {2}> {
            y, all = Loop (trips, "", x) <body: graph = body (int64 i, bool c, float[8] s)
                    => (bool go, float[8] n, float[8] k) {
                t = Add (s, z)
                n = Tanh (t)
                k = Mul (n, n)
                go = Identity (c)
            }>
        }""",
    # The halo of what a cubic grid reads was as wide as the coordinates' type: an arena of 16 PiB.
    "a_cubic_grid_beside_a_convolution": """
        <ir_version: 10, opset_import: ["" : 20]>
        g (float[1, 4, 3, 3] x, float[1, 3, 1, 2] at, float[5, 4, 1, 1] w)
                => (float[1, 4, 3, 1] y, float[1, 5, 3, 3] c) {
            h = HardSwish (x)
            s = GridSample <mode = "cubic"> (h, at)
            y = LogSoftmax (s)
            c = Conv (h, w)
        }""",
    # The rows below the image were filled from before the band's first where the window had left the image.
    "rows_far_below_the_image": """
        <ir_version: 10, opset_import: ["" : 13]>
        g (float[3, 11, 12, 15] x, float[15] bias) => (float[3, 13, 14, 15] y)
        <int64[8] by = {0, 0, 1, 0, 0, 2, 1, 0}> {
            s = Add (x, bias)
            y = Pad (s, by)
        }""",
    # A copy in place has no kernel: the band it was to read was left, and so was the halo of the whole image.
    "a_copy_in_place_between_windows": """
        <ir_version: 10, opset_import: ["" : 13]>
        g (float[2, 8, 12, 11] x, float[8, 1, 1, 1] w, float[8, 1, 3, 3] d) => (float[2, 8, 12, 11] y)
        <int64[5] split = {2, 8, 1, 12, 11}, int64[4] whole = {2, 8, 12, 11}> {
            a = Conv <group = 8> (x, w)
            b = Reshape (a, split)
            c = Transpose <perm = [0, 2, 1, 3, 4]> (b)
            e = Reshape (c, whole)
            y = Conv <group = 8, pads = [1, 1, 1, 1]> (e, d)
        }""",
    # What stays in a register while the window slides had the name of the window's axis.
    "kept_beside_the_window_s_axis": """
        <ir_version: 10, opset_import: ["" : 13]>
        g (float[2, 2, 3, 3] x, float[3, 2, 2, 2] w, float[1, 1, 1] bias) => (float[2, 3, 1, 1] y) {
            c = Conv <pads = [0, 0, 2, 1]> (x, w)
            s = GlobalLpPool <p = 1> (c)
            y = Sub (s, bias)
        }""",
}


def grown(name: str) -> Grown:
    """The model with random inputs, and what onnxruntime answers."""
    model = parser.parse_model(FOUND[name])
    garden, feeds = Garden(zlib.crc32(name.encode())), {}
    for i in model.graph.input:
        kind = helper.tensor_dtype_to_np_dtype(i.type.tensor_type.elem_type)
        feeds[i.name] = garden.array(str(kind), [d.dim_value for d in i.type.tensor_type.shape.dim])
    answers = onnxruntime_outputs(model, feeds)
    known = {
        o.name: Known(o.name, a, a, a.dtype.kind != "f")
        for o, a in zip(model.graph.output, answers, strict=True)
    }
    return Grown(0, onnx.shape_inference.infer_shapes(model), feeds, known)
