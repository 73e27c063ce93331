"""One bundle for a range of extents gives what a bundle compiled for each of them gives.

The C runs under gcc's address and undefined-behaviour sanitizers too, on inputs, outputs and an arena that
end where the actual extents say.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import ingot

from .bundle.build import compile_c, link, run, write
from .oracles import exact_session

Array = np.ndarray[Any, Any]
Shape = list[Any]
Bounds = dict[str, tuple[int, int]]
INFO = helper.make_tensor_value_info


def weights(*shape: int) -> Array:
    rng = np.random.default_rng(list(shape))
    return (rng.standard_normal(shape) / np.sqrt(max(1, np.prod(shape[1:])))).astype(np.float32)


def made(
    nodes: list[onnx.NodeProto], inputs: dict[str, Shape], outputs: dict[str, Shape], held: dict[str, Array]
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "g",
        [INFO(n, onnx.TensorProto.FLOAT, s) for n, s in inputs.items()],
        [INFO(n, onnx.TensorProto.FLOAT, s) for n, s in outputs.items()],
        [numpy_helper.from_array(a, n) for n, a in held.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def cnn() -> onnx.ModelProto:
    """A convolution, one with a stride, a depthwise one, pooling, a dense layer, softmax."""
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "w1", "b1"], ["c1"], pads=[1, 1, 1, 1]),
        node("Relu", ["c1"], ["r1"]),
        node("Conv", ["r1", "w2"], ["c2"], pads=[1, 1, 1, 1], strides=[2, 2]),
        node("MaxPool", ["c2"], ["p"], kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[1, 1]),
        node("Conv", ["p", "w3"], ["d"], group=16, pads=[1, 1, 1, 1]),
        node("Conv", ["d", "w4"], ["e"]),
        node("Add", ["e", "c2"], ["s"]),
        node("AveragePool", ["s"], ["a"], kernel_shape=[2, 2], strides=[2, 2]),
        node("GlobalAveragePool", ["a"], ["g"]),
        node("Flatten", ["g"], ["f"]),
        node("Gemm", ["f", "w5", "b5"], ["z"]),
        node("Softmax", ["z"], ["y"]),
    ]
    shapes = {"w1": (16, 3, 3, 3), "b1": (16,), "w2": (16, 16, 3, 3), "w3": (16, 1, 3, 3)}
    shapes |= {"w4": (16, 16, 1, 1), "w5": (16, 10), "b5": (10,)}
    held = {n: weights(*s) for n, s in shapes.items()}
    return made(nodes, {"x": ["N", 3, "H", "W"]}, {"y": ["N", 10], "s": ["N", 16, "a", "b"]}, held)


def transformer() -> onnx.ModelProto:
    """Layer normalisation, attention by four heads, a gated dense layer."""
    node, held = helper.make_node, {f"w{k}": weights(32, 32) for k in "qkvo"}
    held |= {"g": 1 + weights(32), "b": weights(32), "up": weights(32, 64), "down": weights(64, 32)}
    held |= {"heads": np.array([0, 0, 4, 8]), "flat": np.array([0, 0, 32]), "scale": np.float32(8**-0.5)}
    nodes = [node("LayerNormalization", ["x", "g", "b"], ["n"])]
    for k in "qkv":
        nodes += [node("MatMul", ["n", f"w{k}"], [f"{k}0"]), node("Reshape", [f"{k}0", "heads"], [f"{k}1"])]
        nodes += [node("Transpose", [f"{k}1"], [k], perm=[0, 2, 3, 1] if k == "k" else [0, 2, 1, 3])]
    nodes += [
        node("MatMul", ["q", "k"], ["s0"]),
        node("Mul", ["s0", "scale"], ["s1"]),
        node("Softmax", ["s1"], ["s"]),
        node("MatMul", ["s", "v"], ["c0"]),
        node("Transpose", ["c0"], ["c1"], perm=[0, 2, 1, 3]),
        node("Reshape", ["c1", "flat"], ["c"]),
        node("MatMul", ["c", "wo"], ["o"]),
        node("Add", ["x", "o"], ["x1"]),
        node("MatMul", ["x1", "up"], ["u"]),
        node("Gelu", ["u"], ["u1"]),
        node("MatMul", ["u1", "down"], ["d"]),
        node("Add", ["x1", "d"], ["y"]),
    ]
    return made(nodes, {"x": ["B", "S", 32]}, {"y": ["B", "S", 32]}, held)


def transposed() -> onnx.ModelProto:
    """Padding such that the output is as large as input and stride say, or less where windows leave gaps."""
    wide = helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[2, 2], auto_pad="SAME_UPPER")
    apart = helper.make_node("ConvTranspose", ["x", "v"], ["z"], strides=[3, 2], auto_pad="SAME_LOWER")
    held = {"w": weights(3, 4, 3, 5), "v": weights(3, 4, 1, 2)}
    return made([wide, apart], {"x": [1, 3, "N", 6]}, {"y": [1, 4, None, 12], "z": [1, 4, None, 12]}, held)


def recurrent(kind: str, direction: str = "forward") -> onnx.ModelProto:
    gates, d = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind], 2 if direction == "bidirectional" else 1
    held = {"W": weights(d, gates * 20, 12), "R": weights(d, gates * 20, 20), "B": weights(d, 2 * gates * 20)}
    node = helper.make_node(kind, ["x", "W", "R", "B"], ["y", "h"], hidden_size=20, direction=direction)
    return made([node], {"x": ["T", "N", 12]}, {"y": ["T", d, "N", 20], "h": [d, "N", 20]}, held)


def mlp() -> onnx.ModelProto:
    held = {"w": weights(40, 50), "b": weights(50), "v": weights(50, 9)}
    nodes = [
        helper.make_node("Gemm", ["x", "w", "b"], ["h"]),
        helper.make_node("Tanh", ["h"], ["t"]),
        helper.make_node("MatMul", ["t", "v"], ["z"]),
        helper.make_node("ReduceMean", ["z"], ["m"], keepdims=1),
        helper.make_node("Sub", ["z", "m"], ["y"]),
    ]
    return made(nodes, {"x": ["N", 40]}, {"y": ["N", 9]}, held)


def batch() -> onnx.ModelProto:
    """A batch of constant matrices, on either side: an axis beside theirs has no fixed step in memory."""
    held = {"w": weights(4, 3, 20, 16), "v": weights(4, 3, 20, 5)}
    nodes = [
        helper.make_node("MatMul", ["w", "x"], ["y"]),
        helper.make_node("Transpose", ["y"], ["t"], perm=[0, 1, 3, 2]),
        helper.make_node("MatMul", ["t", "v"], ["z"]),
    ]
    return made(nodes, {"x": [4, 3, 16, "N"]}, {"y": [4, 3, 20, "N"], "z": [4, 3, "N", 5]}, held)


def regions() -> onnx.ModelProto:
    """Windows into an image that the data chooses, of channels that stand last for a convolution's sake."""
    held = {
        "w": weights(7, 7, 3, 4),
        "v": weights(7, 7, 3, 3),
        "rois": np.float32([[0, 0, 3, 3], [1, 1, 4, 5]]),
    }
    held["which"] = np.zeros(2, np.int64)
    how = {"output_height": 2, "output_width": 3, "sampling_ratio": 2}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 3, 2, 0]),
        helper.make_node("RoiAlign", ["x", "rois", "which"], ["r"], **how),
        helper.make_node("Conv", ["r", "v"], ["z"], pads=[1, 1, 1, 1]),
    ]
    return made(nodes, {"x": ["N", 7, 4, 17]}, {"y": ["N", 7, None, None], "z": [2, 7, 2, 3]}, held)


MODELS: dict[str, onnx.ModelProto] = {
    "cnn": cnn(),
    "transformer": transformer(),
    "lstm": recurrent("LSTM"),
    "gru": recurrent("GRU", "bidirectional"),
    "rnn": recurrent("RNN", "reverse"),
    "mlp": mlp(),
    "batch": batch(),
    "transposed": transposed(),
    "regions": regions(),
}
CASES: list[tuple[str, Bounds, dict[str, int], list[dict[str, int]]]] = [
    ("cnn", {"N": (1, 64)}, {"H": 12, "W": 12}, [{"N": n} for n in (1, 7, 63, 64)]),
    ("cnn", {"H": (4, 40)}, {"N": 1, "W": 14}, [{"H": n} for n in (4, 7, 39, 40)]),
    ("cnn", {"W": (4, 40)}, {"N": 1, "H": 14}, [{"W": n} for n in (4, 7, 39, 40)]),
    (
        "cnn",
        {"N": (0, 3), "H": (4, 20), "W": (4, 20)},
        {},
        [{"N": 3, "H": 20, "W": 20}, {"N": 1, "H": 4, "W": 19}, {"N": 0, "H": 9, "W": 9}],
    ),
    ("transformer", {"S": (1, 64)}, {"B": 1}, [{"S": n} for n in (1, 7, 63, 64)]),
    ("transformer", {"B": (1, 64)}, {"S": 5}, [{"B": n} for n in (1, 7, 63, 64)]),
    ("transformer", {"S": (1, 9), "B": (1, 9)}, {}, [{"S": 1, "B": 9}, {"S": 9, "B": 8}]),
    *((k, {"T": (1, 64)}, {"N": 1}, [{"T": n} for n in (1, 7, 63, 64)]) for k in ("lstm", "gru", "rnn")),
    ("lstm", {"N": (1, 64)}, {"T": 3}, [{"N": n} for n in (1, 7, 63, 64)]),
    ("gru", {"T": (0, 5), "N": (1, 17)}, {}, [{"T": 0, "N": 2}, {"T": 5, "N": 17}, {"T": 2, "N": 9}]),
    ("mlp", {"N": (1, 64)}, {}, [{"N": n} for n in (1, 7, 63, 64)]),
    ("transposed", {"N": (1, 9)}, {}, [{"N": n} for n in (1, 2, 8, 9)]),
    ("regions", {"N": (1, 3)}, {}, [{"N": 1}, {"N": 3}]),
    ("batch", {"N": (1, 64)}, {}, [{"N": n} for n in (1, 7, 63, 64)]),
]


def fed(model: onnx.ModelProto, extents: Mapping[str, int]) -> dict[str, Array]:
    found = {}
    for value in model.graph.input:
        dims = value.type.tensor_type.shape.dim
        shape = [extents[d.dim_param] if d.dim_param else d.dim_value for d in dims]
        found[value.name] = np.random.default_rng(shape).standard_normal(shape).astype(np.float32)
    return found


SCALAR = [CASES[3], CASES[6], CASES[11], CASES[-1]]  # the loops of a target without vectors, of few models
BOTH = [*((*case, "native") for case in CASES), *((*case, "c99") for case in SCALAR)]


@pytest.mark.parametrize(("name", "bounds", "fixed", "points", "target"), BOTH)
def test_agrees_with_static_bundles(
    name: str, bounds: Bounds, fixed: dict[str, int], points: list[dict[str, int]], target: str
) -> None:
    model = MODELS[name]
    bundle = ingot.compile(model, name="net", target=target, define={**fixed, **bounds})
    for at in points:
        inputs = fed(model, {**fixed, **at})
        found = bundle.run(inputs)
        right = ingot.compile(model, name="net", target=target, define={**fixed, **at}).run(inputs)
        for output, wanted in right.items():
            assert found[output].shape == wanted.shape
            np.testing.assert_allclose(
                found[output], wanted, rtol=2e-4, atol=2e-5, err_msg=f"{output} at {at}"
            )


MAIN = """
#include <stdio.h>
#include <stdlib.h>
#include "net.h"
static void *take(size_t bytes) {
    return malloc(bytes);
}
int main(void) {
    int n[EXTENTS + 1], sizes[INPUTS + OUTPUTS];
    while (fread(n, sizeof *n, EXTENTS, stdin) == EXTENTS) {
        void *p[INPUTS + OUTPUTS], *arena;
        int64_t bytes = net_arena_size(ARGUMENTS);
        int status;
        if (bytes < 0 || bytes > (int64_t)NET_ARENA_SIZE) return 2;
        if (fread(sizes, sizeof *sizes, INPUTS + OUTPUTS, stdin) != INPUTS + OUTPUTS) return 3;
        for (int i = 0; i < INPUTS + OUTPUTS; i++) p[i] = take((size_t)sizes[i]);
        for (int i = 0; i < INPUTS; i++)
            if (fread(p[i], 1, (size_t)sizes[i], stdin) != (size_t)sizes[i]) return 4;
        arena = aligned_alloc(64, bytes ? (size_t)bytes : 64);
        for (int64_t i = 0; i < bytes; i++) ((unsigned char *)arena)[i] = 0xFF;
        status = net(ARGUMENTS, POINTERS, arena);
        fwrite(&status, sizeof status, 1, stdout);
        for (int i = INPUTS; i < INPUTS + OUTPUTS; i++) fwrite(p[i], 1, (size_t)sizes[i], stdout);
        for (int i = 0; i < INPUTS + OUTPUTS; i++) free(p[i]);
        free(arena);
    }
    return 0;
}
"""


@pytest.mark.parametrize(("name", "bounds", "fixed", "points", "target"), BOTH)
def test_clean_under_sanitizers_in_an_arena_of_the_size_asked_for(
    name: str,
    bounds: Bounds,
    fixed: dict[str, int],
    points: list[dict[str, int]],
    target: str,
    tmp_path: Path,
) -> None:
    model = MODELS[name]
    target = "x86-64-v3" if target == "native" else target
    bundle = ingot.compile(model, name="net", target=target, define={**fixed, **bounds})
    params = [p["name"] for p in bundle.manifest["params"]]
    inputs, outputs = bundle.manifest["inputs"], bundle.manifest["outputs"]
    words = {
        "EXTENTS": len(params),
        "INPUTS": len(inputs),
        "OUTPUTS": len(outputs),
        "ARGUMENTS": ", ".join(f"n[{i}]" for i in range(len(params))),
        "POINTERS": ", ".join(f"p[{i}]" for i in range(len(inputs) + len(outputs))),
    }
    write(
        tmp_path, {**bundle.files, "main.c": "".join(f"#define {k} {v}\n" for k, v in words.items()) + MAIN}
    )
    flags = ["-O0", "-g1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-ffp-contract=off"]
    flags += ["-march=x86-64-v3"] if target != "c99" else []
    sources = [f for f in bundle.files if f.endswith(".c")]
    objects = [compile_c("gcc", tmp_path, f, *flags) for f in (*sources, "main.c")]
    program = link(tmp_path, objects, "-fsanitize=address,undefined")
    runs, wanted = b"", b""
    for at in points:
        arrays = fed(model, {**fixed, **at})
        right = bundle.run(arrays)
        sizes = [a.nbytes for a in (*arrays.values(), *right.values())]
        runs += np.array([*(at[p] for p in params), *sizes], np.int32).tobytes()
        runs += b"".join(a.tobytes() for a in arrays.values())
        wanted += bytes(4) + b"".join(right[t["name"]].tobytes() for t in outputs)
    (tmp_path / "in").write_bytes(runs)
    run(["sh", "-c", f"ASAN_OPTIONS=detect_leaks=0 {program} < in > out"], tmp_path)
    found = np.frombuffer((tmp_path / "out").read_bytes(), np.float32)
    np.testing.assert_allclose(found, np.frombuffer(wanted, np.float32), rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("most", [0, 1, 4, 9])
@pytest.mark.parametrize("target", ["c99", "x86-64-v3"])
def test_boxes_of_a_class_are_limited_whatever_their_number(target: str, most: int) -> None:
    """NonMaxSuppression's constant limit holds for fewer, as many and more boxes than that."""
    graph = helper.make_graph(
        [helper.make_node("NonMaxSuppression", ["boxes", "scores", "most"], ["y"])],
        "g",
        [INFO("boxes", 1, [1, "N", 4]), INFO("scores", 1, [1, 2, "N"])],
        [INFO("y", onnx.TensorProto.INT64, ["k", 3])],
        [numpy_helper.from_array(np.array(most), "most")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    session, bundle = exact_session(model), ingot.compile(model, target=target, define={"N": (3, 6)})
    random = np.random.default_rng(most)
    for n in (3, 5, 6):
        corners = random.random((1, n, 2), np.float32) + np.arange(n, dtype=np.float32)[:, None]
        boxes = np.concatenate([corners, corners + 0.6], axis=2)
        feed = {"boxes": boxes, "scores": random.random((1, 2, n), np.float32)}
        np.testing.assert_array_equal(bundle.run(feed)["y"], session.run(None, feed)[0])
