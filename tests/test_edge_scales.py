"""What integers of inputs and outputs stand for: in the header, the manifest, and where nothing says it."""

from __future__ import annotations

import json

import onnx
import pytest
from onnx import parser

import ingot
from ingot.driver import front
from ingot.errors import ModelError
from ingot.graph.ir import Scale
from ingot.options import Options

HEAD = '<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]> g'
CONSTANTS = """<float s = {0.25}, float t = {0.5}, uint8 z = {128}, int8 n = {-3},
    float[2] two = {0.25, 0.5}, uint8[2] zz = {1, 2}>"""
X, Y = Scale(0.25, 128), Scale(0.5, -3)
CASES = {
    "around floats": (
        "(uint8[2,3] x) => (int8[2,3] y)",
        "f = DequantizeLinear(x, s, z) r = Relu(f) y = QuantizeLinear(r, t, n)",
        {"x": X, "y": Y},
    ),
    "no zero point": ("(int8[2,3] x) => (float[2,3] y)", "y = DequantizeLinear(x, t)", {"x": Scale(0.5, 0)}),
    "an integer operator": (
        "(uint8[2,3] x) => (uint8[2,3] y)",
        "y = com.microsoft.QLinearSigmoid(x, s, z, t, z)",
        {"x": X, "y": Scale(0.5, 128)},
    ),
    "two readers that agree": (
        "(uint8[2,3] x) => (float[2,3] y)",
        "a = DequantizeLinear(x, s, z) b = DequantizeLinear(x, s, z) y = Mul(a, b)",
        {"x": X},
    ),
    "two readers that do not": (
        "(uint8[2,3] x) => (float[2,3] y)",
        "a = DequantizeLinear(x, s, z) b = DequantizeLinear(x, t, z) y = Mul(a, b)",
        {},
    ),
    "another reader": (
        "(uint8[2,3] x) => (float[2,3] y, uint8[2,3] w)",
        "y = DequantizeLinear(x, s, z) w = Max(x, x)",
        {},
    ),
    "a scale per channel": (
        "(uint8[2,3] x) => (float[2,3] y)",
        "y = DequantizeLinear<axis=0>(x, two, zz)",
        {},
    ),
    "floats": ("(float[2,3] x) => (float[2,3] y)", "y = Relu(x)", {}),
}


def model(name: str) -> onnx.ModelProto:
    edge, nodes, _ = CASES[name]
    return parser.parse_model(f"{HEAD} {edge} {CONSTANTS} {{ {nodes} }}")


@pytest.mark.parametrize("name", CASES)
def test_scales_are_read_off_the_graph(name: str) -> None:
    assert front(model(name), Options(target="c99")).scales == CASES[name][2]


def test_the_header_and_the_manifest_say_them() -> None:
    bundle = ingot.compile(model("around floats"), target="c99", name="net")
    header, manifest = (bundle.files[n].decode() for n in ("net.h", "net.json"))
    for line in ("X_SCALE 0.25f", "X_ZERO_POINT 128", "Y_SCALE 0.5f", "Y_ZERO_POINT -3"):
        assert f"#define NET_{line}" in header.replace("(-3)", "-3")
    (x,), (y,) = (json.loads(manifest)[side] for side in ("inputs", "outputs"))
    assert (x["scale"], x["zero_point"], y["scale"], y["zero_point"]) == (0.25, 128, 0.5, -3)


def test_metadata_goes_first() -> None:
    proto = model("around floats")
    proto.metadata_props.add(key="ingot.quantisation.x", value="0.125 7")
    proto.metadata_props.add(key="ingot.quantisation.elsewhere", value="nonsense")
    assert front(proto, Options(target="c99")).scales == {"x": Scale(0.125, 7), "y": Y}


@pytest.mark.parametrize(
    "text", ["", "0.5", "0.5 1 2", "nan 1", "inf 0", "-1 0", "0 0", "0.5 1.5", "1 99999999999", "x y"]
)
def test_bad_metadata_is_one_error(text: str) -> None:
    proto = model("around floats")
    proto.metadata_props.add(key="ingot.quantisation.x", value=text)
    with pytest.raises(ModelError, match="no scale and zero point"):
        front(proto, Options(target="c99"))
