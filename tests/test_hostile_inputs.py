"""Run-time inputs that decide indices, extents and trip counts, with the worst values there are.

Whatever they hold, the C returns an error code or what the operator means, and no sanitizer has anything to
say.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, parser

import ingot
from ingot.errors import InputError

from .feeding import Array, statuses

INTEGERS = [0, 1, -1, 2, 3, -4, 7, 2**31, -(2**31), 2**32 + 1, 2**63 - 1, -(2**63)]
TURNS = [i for i in INTEGERS if i < 8]  # a Loop without a condition does go around as often as it is told
FLOATS = [0.0, -1.0, 2.5, 3e9, 1e30, -1e30, float("nan"), float("inf"), -float("inf")]
STATUSES = {0, -3, -4}
BODY = "<body = b (int64 i, bool c, float[2] v) => (bool d, float[2] w) { d = Identity(c) w = Add(v, v) }>"
# inputs, outputs, nodes; the inputs called p, q and r get the values
CASES: dict[str, tuple[str, str, str]] = {
    "gather": ("float[4,3] x, int64[2] p", "float[2,3] y", "y = Gather(x, p)"),
    "gather_int32": ("float[4,3] x, int64[2] p", "float[2,3] y", "i = Cast <to=6> (p) y = Gather(x, i)"),
    "gather_elements": ("float[4,3] x, int64[1,2] p", "float[1,2] y", "y = GatherElements(x, p)"),
    "gather_nd": ("float[4,3] x, int64[1,2] p", "float[1] y", "y = GatherND(x, p)"),
    "gather_of_floats": ("float[4,3] x, float[2] q", "float[2,3] y", "i = Cast <to=7> (q) y = Gather(x, i)"),
    "scatter_elements": (
        "float[4] x, int64[2] p, float[2] u",
        "float[4] y",
        'y = ScatterElements <axis=0, reduction="add"> (x, p, u)',
    ),
    "scatter_nd": ("float[4,3] x, int64[1,2] p, float[1] u", "float[4,3] y", "y = ScatterND(x, p, u)"),
    "scatter_nd_max": (
        "float[4] x, int64[2,1] p, float[2] u",
        "float[4] y",
        'y = ScatterND <reduction="max"> (x, p, u)',
    ),
    "tensor_scatter": (
        "float[1,6,2] x, float[1,2,2] u, int64[1] p",
        "float[1,6,2] y",
        "y = TensorScatter <axis=1> (x, u, p)",
    ),
    "one_hot": ("int64[2] p, float[2] v", "float[2,5] y", "y = OneHot <axis=-1> (p, five, v)"),
    "one_hot_depth": ("int64[2] x, int64[1] p, float[2] v", "float[2,n] y", "y = OneHot(x, p, v)"),
    "slice": ("float[5] x, int64[1] p, int64[1] r", "float[n] y", "y = Slice(x, p, r)"),
    "slice_step": ("float[5] x, int64[1] p", "float[n] y", "y = Slice(x, p, five, zero, minus)"),
    "pad": ("float[3] x, int64[2] p", "float[n] y", "y = Pad(x, p)"),
    "tile": ("float[3] x, int64[1] p", "float[n] y", "y = Tile(x, p)"),
    "expand": ("float[1] x, int64[1] p", "float[n] y", "y = Expand(x, p)"),
    "reshape": ("float[6] x, int64[2] p", "float[m,n] y", "y = Reshape(x, p)"),
    "constant_of_shape": ("int64[1] p", "float[n] y", "y = ConstantOfShape(p)"),
    "range": ("int64 p, int64 r", "int64[n] y", "y = Range(p, r, by)"),
    "range_delta": ("int64 p", "int64[n] y", "y = Range(from, to, p)"),
    "range_floats": (
        "float q",
        "float[n] y",
        "a = Cast <to=1> (from) b = Cast <to=1> (by) y = Range(a, q, b)",
    ),
    "top_k": ("float[5] x, int64[1] p", "float[n] y, int64[n] i", "y, i = TopK(x, p)"),
    "split": ("float[6] x, int64[2] p", "float[m] y, float[n] z", "y, z = Split <axis=0> (x, p)"),
    "loop": ("int64 p, bool c, float[2] x", "float[2] y", f"y = Loop {BODY} (p, c, x)"),
    "reverse": ("float[4,2] x, int64[2] p", "float[4,2] y", "y = ReverseSequence(x, p)"),
    "cumsum": ("float[4] x, int64 p", "float[4] y", "y = CumSum(x, p)"),
    "trilu": ("float[3,3] x, int64 p", "float[3,3] y", "y = Trilu(x, p)"),
    "lengths": (
        "float[3,2,1] x, float[1,4,1] w, float[1,4,1] h, int64[2] p",
        "float[3,1,2,1] y",
        "n = Cast <to=6> (p) y = LSTM <hidden_size=1> (x, w, h, , n)",
    ),
    "lengths_gru": (
        "float[3,2,1] x, float[1,3,1] w, float[1,3,1] h, int64[2] p",
        "float[3,1,2,1] y",
        'n = Cast <to=6> (p) y = GRU <hidden_size=1, direction="reverse"> (x, w, h, , n)',
    ),
    "resize_sizes": ("float[1,1,3] x, int64[1] p", "float[1,1,n] y", "y = Resize <axes=[2]> (x, , , p)"),
    "resize_scales": ("float[1,1,3] x, float[1] q", "float[1,1,n] y", "y = Resize <axes=[2]> (x, , q)"),
    "shift": (
        "int64[2] p, int64[2] r",
        "uint64[2] y",
        ('a = Cast <to=13> (p) b = Cast <to=13> (r) y = BitShift <direction="LEFT"> (a, b)'),
    ),
    "divide": ("int64[2] p, int64[2] r", "int64[2] y", "y = Div(p, r)"),
    "mod": ("int64[2] p, int64[2] r", "int64[2] y", "y = Mod(p, r)"),
    "power": ("int64[2] p, int64[2] r", "int64[2] y", "y = Pow(p, r)"),
    "casts": ("float[2] q", "int8[2] y", "y = Cast <to=3> (q)"),
    "roi": (
        "float[1,1,4,4] x, float[1,4] q, int64[1] p",
        "float[1,1,2,2] y",
        "y = RoiAlign <output_height=2, output_width=2> (x, q, p)",
    ),
    "grid": ("float[1,1,3,3] x, float[1,1,1,2] q", "float[1,1,1,1] y", "y = GridSample(x, q)"),
    "boxes": (
        "float[1,2,4] x, float[1,1,2] s, int64[1] p",
        "int64[n,3] y",
        "y = NonMaxSuppression(x, s, p)",
    ),
    "center_crop": ("float[4] x, int64[1] p", "float[n] y", "y = CenterCropPad <axes=[0]> (x, p)"),
}
HELD = "int64[1] zero={0}, int64[1] minus={-1}, int64[1] five={5}, int64 by={1}, int64 from={0}, int64 to={6}"


def feeds_of(model: Any, integers: list[int]) -> list[dict[str, Array]]:
    """Every hostile value in every parameter, two at a time where there are two."""
    rng = np.random.default_rng(0)
    plain, names = {}, []
    for value in model.graph.input:
        t = value.type.tensor_type
        shape = [d.dim_value for d in t.shape.dim]
        if value.name in "pqr":
            names.append((value.name, shape, FLOATS if t.elem_type == TensorProto.FLOAT else integers))
        elif t.elem_type == TensorProto.BOOL:
            plain[value.name] = np.ones(shape, bool)
        else:
            dtype = np.float32 if t.elem_type == TensorProto.FLOAT else np.int64
            plain[value.name] = np.asarray(rng.standard_normal(shape)).astype(dtype)
    slots = [(name, i, worst) for name, shape, worst in names for i in range(max(1, int(np.prod(shape))))]
    tried = []
    for values in product(*(worst for _, _, worst in slots[:2])):
        feed = dict(plain)
        for name, shape, worst in names:
            dtype = np.float32 if worst is FLOATS else np.int64
            row = [dict(zip([s[:2] for s in slots[:2]], values, strict=True)).get((name, i), worst[1])
                   for i in range(max(1, int(np.prod(shape))))]  # fmt: skip
            feed[name] = np.array(row, dtype).reshape(shape)
        tried.append(feed)
    return tried


@pytest.mark.parametrize("name", CASES)
def test_the_worst_values(name: str, tmp_path: Path) -> None:
    inputs, outputs, body = CASES[name]
    text = f'<ir_version: 10, opset_import: ["" : 24]> g ({inputs}) => ({outputs}) <{HELD}> {{ {body} }}'
    model = parser.parse_model(text)
    bundle = ingot.compile(model, target="c99", name="net", capacity={"": 8}, emit=("c", "obj"))
    feeds = feeds_of(model, TURNS if name == "loop" else INTEGERS)
    found = statuses(bundle, [[f[t["name"]] for t in bundle.manifest["inputs"]] for f in feeds], tmp_path)
    assert len(found) == len(feeds) and set(found) <= STATUSES, set(found)
    for feed, status in zip(feeds, found, strict=True):
        if status:
            with pytest.raises(InputError, match=r"ERR_INDEX|ERR_CAPACITY"):
                bundle.run(feed)
