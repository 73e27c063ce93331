"""Graphs made, frozen and run by TensorFlow itself: what the importer is checked against by hand.

    /tmp/tf/bin/python -m tests.tensorflow.oracle DIR [more]    writes NAME.pb, NAME.npz, NAME.config.pbtxt
    python -m tests.tensorflow.compare DIR                      imports them and compares

Needs tensorflow-cpu in an environment of its own; `make test` does not run it. Called by nobody.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

RNG = np.random.default_rng(5)
CASES: dict[str, tuple[Any, list[Any]]] = {}


def floats(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def case(name: str, *inputs: Any) -> Any:
    def enter(f: Any) -> Any:
        CASES[name] = (f, list(inputs))
        return f

    return enter


def add(name: str, f: Any, *inputs: Any) -> None:
    CASES[name] = (f, list(inputs))


X4, X3, X2 = floats(2, 8, 9, 4), floats(2, 5, 6), floats(3, 7)
for padding in ("SAME", "VALID"):
    for stride in (1, 2, 3):
        w, d = floats(3, 2, 4, 6), floats(3, 3, 4, 2)
        add(f"conv_{padding}_{stride}", lambda x, w=w, s=stride, p=padding: tf.nn.conv2d(x, w, s, p), X4)
        add(
            f"depthwise_{padding}_{stride}",
            lambda x, d=d, s=stride, p=padding: tf.nn.depthwise_conv2d(x, d, [1, s, s, 1], p),
            X4,
        )
        add(f"maxpool_{padding}_{stride}", lambda x, s=stride, p=padding: tf.nn.max_pool2d(x, 3, s, p), X4)
        add(f"avgpool_{padding}_{stride}", lambda x, s=stride, p=padding: tf.nn.avg_pool2d(x, 3, s, p), X4)
W = floats(3, 3, 4, 5)
add("conv_dilated", lambda x: tf.nn.conv2d(x, W, 1, "SAME", dilations=2), X4)
add("conv_explicit", lambda x: tf.nn.conv2d(x, W, 2, [[0, 0], [1, 2], [0, 3], [0, 0]]), X4)
add("conv_grouped", lambda x: tf.nn.conv2d(x, floats(3, 3, 2, 6), 1, "SAME"), X4)
add("conv_1d", lambda x: tf.nn.conv1d(x, floats(3, 6, 4), 2, "SAME"), X3)
add(
    "conv_3d",
    lambda x: tf.nn.conv3d(x, floats(2, 3, 2, 3, 4), [1, 1, 2, 1, 1], "SAME"),
    floats(1, 4, 5, 6, 3),
)
for s in (1, 2, 3):
    for p in ("SAME", "VALID"):
        size = [2, 8 * s, 9 * s, 5] if p == "SAME" else [2, 7 * s + 3, 8 * s + 3, 5]
        add(
            f"conv_transpose_{p}_{s}",
            lambda x, size=size, s=s, p=p: tf.nn.conv2d_transpose(x, floats(3, 3, 5, 4), size, s, p),
            X4,
        )
add("space_to_depth", lambda x: tf.nn.space_to_depth(x, 2), floats(2, 8, 6, 3))
add("depth_to_space", lambda x: tf.nn.depth_to_space(x, 2), floats(2, 4, 3, 12))
add("space_to_batch", lambda x: tf.space_to_batch(x, [2, 3], [[1, 1], [0, 3]]), floats(2, 6, 6, 3))
add("batch_to_space", lambda x: tf.batch_to_space(x, [2, 3], [[1, 0], [0, 2]]), floats(12, 3, 4, 2))
add("lrn", lambda x: tf.nn.local_response_normalization(x, 2, 1.5, 0.3, 0.6), X4)
BN = [floats(4), floats(4), floats(4), abs(floats(4)) + 0.1]
add(
    "fused_batch_norm",
    lambda x: tf.compat.v1.nn.fused_batch_norm(x, *BN, epsilon=1e-3, is_training=False)[0],
    X4,
)
add(
    "fused_batch_norm_train",
    lambda x: tf.compat.v1.nn.fused_batch_norm(x, *BN[:2], epsilon=1e-3, is_training=True)[0],
    X4,
)
add("batch_norm", lambda x: tf.nn.batch_normalization(x, BN[2], BN[3], BN[1], BN[0], 1e-3), X4)
UNARY = {
    "relu": tf.nn.relu,
    "relu6": lambda x: tf.nn.relu6(x * 5),
    "elu": tf.nn.elu,
    "selu": tf.nn.selu,
    "leaky": lambda x: tf.nn.leaky_relu(x, 0.3),
    "sigmoid": tf.sigmoid,
    "tanh": tf.tanh,
    "exp": tf.exp,
    "log1p": lambda x: tf.math.log1p(abs(x)),
    "expm1": tf.math.expm1,
    "rsqrt": lambda x: tf.math.rsqrt(abs(x) + 0.1),
    "softplus": tf.nn.softplus,
    "softsign": tf.nn.softsign,
    "erf": tf.math.erf,
    "erfc": tf.math.erfc,
    "round": lambda x: tf.round(x * 2),
    "rint": lambda x: tf.math.rint(tf.round(x * 4) / 2),
    "sign": tf.sign,
    "floor": tf.floor,
    "gelu": tf.nn.gelu,
    "gelu_tanh": lambda x: tf.nn.gelu(x, approximate=True),
    "swish": tf.nn.silu,
    "mish": lambda x: x * tf.tanh(tf.nn.softplus(x)),
    "hard_swish": lambda x: x * tf.nn.relu6(x + 3) / 6,
    "square": tf.square,
    "isfinite": lambda x: tf.cast(tf.math.is_finite(x / tf.floor(abs(x))), tf.float32),
    "softmax": tf.nn.softmax,
    "log_softmax": tf.nn.log_softmax,
    "cumsum": lambda x: tf.cumsum(x, 1, exclusive=True, reverse=True),
    "l2": tf.nn.l2_loss,
    "l2_normalize": lambda x: tf.nn.l2_normalize(x, 1),
    "clip": lambda x: tf.clip_by_value(x, -0.5, 0.7),
}
for name, f in UNARY.items():
    add(f"unary_{name}", f, X2)
A, B = floats(3, 1, 4), floats(5, 4)
M = RNG.integers(-20, 20, (4, 5)).astype(np.int32)
N = RNG.integers(1, 7, (5,)).astype(np.int32) * np.array([1, -1, 1, -1, 1], np.int32)
BINARY = {
    "add": tf.add,
    "sub": tf.subtract,
    "mul": tf.multiply,
    "div": tf.divide,
    "max": tf.maximum,
    "min": tf.minimum,
    "sqdiff": tf.math.squared_difference,
    "floordiv": tf.math.floordiv,
    "floormod": tf.math.floormod,
    "pow": lambda a, b: tf.pow(abs(a), b),
    "atan2": tf.atan2,
    "divnonan": lambda a, b: tf.math.divide_no_nan(a, tf.floor(b)),
    "xlogy": lambda a, b: tf.math.xlogy(tf.nn.relu(a), abs(b)),
    "greater": lambda a, b: tf.where(a > b, a, b),
    "notequal": lambda a, b: tf.where((tf.floor(a) != tf.floor(b)) & (a <= b), 1.0, 2.0),
}
for name, f in BINARY.items():
    add(f"binary_{name}", f, A, B)
for name in ("floordiv", "floormod", "add", "max", "sqdiff"):
    add(f"int_{name}", BINARY[name], M, N)
add("int_truncatediv", tf.truncatediv, M, N)
add("int_truncatemod", tf.truncatemod, M, N)
add("int_bits", lambda a, b: tf.bitwise.bitwise_and(a, b) + tf.bitwise.invert(a), M, N)
add("bool", lambda a, b: tf.cast(tf.math.logical_xor(a > 0, tf.logical_not(b > 1)), tf.int32), M, N)
add("select_v1", lambda a, b: tf.compat.v1.where(a[:, 0, 0] > 0, b[:3], b[1:4]), A, B)
add("matmul_t", lambda a, b: tf.matmul(a, b, transpose_a=True, transpose_b=True), floats(4, 3), floats(5, 4))
add("batch_matmul", lambda a, b: tf.matmul(a, b, adjoint_b=True), floats(2, 3, 4), floats(2, 5, 4))
add("einsum", lambda a, b: tf.einsum("bij,bkj->bik", a, b), floats(2, 3, 4), floats(2, 5, 4))
add("tensordot", lambda a: tf.tensordot(a, floats(6, 3), [[2], [0]]), X3)
for name in ("sum", "mean", "prod", "max", "min", "euclidean_norm"):
    f = getattr(tf.math, f"reduce_{name}", None) or getattr(tf, f"reduce_{name}")
    add(f"reduce_{name}", lambda x, f=f: (f(x, [1, 2]), f(x, -1, keepdims=True), f(x)), X4)
    add(f"reduce_{name}_conv", lambda x, f=f: f(tf.nn.conv2d(x, W, 1, "SAME"), [1, 2]), X4)
add("reduce_conv_channels", lambda x: tf.reduce_sum(tf.nn.conv2d(x, W, 1, "SAME"), [3, 1], keepdims=True), X4)
add("reduce_all", lambda x: tf.cast(tf.reduce_all(x > -1, 1) | tf.reduce_any(x > 2, 1), tf.int32), X2)
add("argmax", lambda x: (tf.argmax(x, 1), tf.argmin(x, 0, output_type=tf.int32)), X2)
add("moments", lambda x: tf.nn.moments(x, [0, 1, 2]), X4)
add(
    "shapes",
    lambda x: tf.reshape(x, [tf.shape(x)[0], -1, tf.shape(x)[2] // 2]) * tf.cast(tf.rank(x), tf.float32),
    X3,
)
SLICES = {
    "plain": lambda x: x[0],
    "range": lambda x: x[:, 1:4],
    "negative": lambda x: x[:, -3:-1, ::-1],
    "reverse": lambda x: x[:, 3::-2, 4:1:-1],
    "ellipsis": lambda x: x[..., 2],
    "new": lambda x: x[:, tf.newaxis, ..., tf.newaxis],
    "mixed": lambda x: x[1, tf.newaxis, ..., 1:5:3],
    "beyond": lambda x: x[:, 2:100, -100:3],
    "empty": lambda x: tf.concat([x[:, 3:3], x], 1),
}
for name, f in SLICES.items():
    add(f"slice_{name}", f, X3)
add("slice_begin", lambda x: tf.slice(x, [0, 1, 2], [1, -1, 3]), X3)
add("slice_runtime", lambda x, i: tf.slice(x, tf.stack([0, i, 0]), [2, 2, 6]), X3, np.int32(2))
add("index_runtime", lambda x, i: x[i], X3, np.int32(1))
add("concat_conv", lambda x: tf.concat([tf.nn.conv2d(x, W, 1, "SAME"), x], 3), X4)
add("add_conv", lambda x: tf.nn.relu(tf.nn.conv2d(x, W, 1, "SAME") + floats(5)) * floats(9, 1), X4)
add("split", lambda x: tf.split(x, 3, 2)[1] + tf.split(x, [1, 3, 2], 2)[2], X3)
add("split_conv", lambda x: tf.split(tf.nn.conv2d(x, W, 1, "SAME"), 5, 3)[3], X4)
add("stack", lambda x: tf.stack([x, x * 2], 1)[:, 1] + tf.unstack(tf.stack([x, x], -1), axis=-1)[0], X3)
add("transpose", lambda x: tf.transpose(tf.nn.conv2d(x, W, 1, "SAME"), [0, 3, 1, 2]), X4)
add("tile", lambda x: tf.tile(x, [2, 1, 3]), X3)
add(
    "pad",
    lambda x: tf.pad(tf.nn.conv2d(x, W, 1, "SAME"), [[0, 0], [1, 2], [3, 0], [0, 1]], constant_values=7),
    X4,
)
add("pad_reflect", lambda x: tf.pad(x, [[0, 0], [2, 1], [0, 3]], "REFLECT"), X3)
add("pad_symmetric", lambda x: tf.pad(x, [[0, 0], [2, 1], [0, 3]], "SYMMETRIC"), X3)
add("gather", lambda x, i: tf.gather(x, i, axis=1), X3, np.array([[0, 4], [2, 1]], np.int32))
add(
    "gather_batch",
    lambda x, i: tf.gather(x, i, axis=1, batch_dims=1),
    X3,
    np.array([[0, 4], [2, 1]], np.int32),
)
add("gather_nd", lambda x, i: tf.gather_nd(x, i), X3, np.array([[0, 4], [1, 1]], np.int32))
add("embedding", lambda i: tf.nn.embedding_lookup(floats(10, 4), i), np.array([[1, 9, 0]], np.int32))
add("one_hot", lambda i: tf.one_hot(i, 5, 2.0, -1.0, axis=0), np.array([0, 4, -1, 7], np.int32))
add("scatter_nd", lambda i, v: tf.scatter_nd(i, v, [6, 3]), np.array([[1], [4], [1]], np.int32), floats(3, 3))
add("top_k", lambda x: tf.math.top_k(x, 3), X2)
add("reverse", lambda x: tf.reverse(x, [0, 2]), X3)
add("band", lambda x: tf.linalg.band_part(x, 1, 2), X3)
add(
    "range_fill",
    lambda x: x * tf.cast(tf.range(0, tf.shape(x)[1] * 2, 2), tf.float32) + tf.fill([3, 1], 2.0),
    X2,
)
add("broadcast", lambda x: tf.broadcast_to(x[:, :1], [4, 3, 6]), X2)
add("expand", lambda x: tf.squeeze(tf.expand_dims(tf.expand_dims(x, 0), -1), [0]), X2)
add("cast", lambda x: tf.cast(tf.cast(x * 3, tf.int32), tf.float32) + tf.cast(x > 0, tf.float32), X2)
for method in ("bilinear", "nearest"):
    for half in (True, False):
        for corners in (True, False):
            if half and corners:
                continue
            op = tf.raw_ops.ResizeBilinear if method == "bilinear" else tf.raw_ops.ResizeNearestNeighbor
            for n, size in enumerate(((13, 20), (4, 5))):
                add(
                    f"resize_{method}_{int(half)}{int(corners)}_{n}",
                    lambda x, op=op, size=size, half=half, corners=corners: op(
                        images=x, size=size, half_pixel_centers=half, align_corners=corners
                    ),
                    X4,
                )

LSTM_W, LSTM_B, PEEP = floats(3 + 4, 16), floats(16), [floats(4) for _ in range(3)]
for peephole in (False, True):
    for version in ("BlockLSTM", "BlockLSTMV2"):
        add(
            f"{version}_{int(peephole)}",
            lambda x, c, h, peephole=peephole, version=version: tuple(
                getattr(tf.raw_ops, version)(
                    **dict(zip(("wci", "wcf", "wco"), PEEP, strict=True)),
                    **dict(seq_len_max=np.int64(3), x=x, cs_prev=c, h_prev=h, w=LSTM_W, b=LSTM_B),
                    use_peephole=peephole,
                )
            ),
            *(floats(4, 2, 3), floats(2, 4), floats(2, 4)),
        )
    add(
        f"LSTMBlockCell_{int(peephole)}",
        lambda x, c, h, peephole=peephole: tuple(
            tf.raw_ops.LSTMBlockCell(
                **dict(zip(("wci", "wcf", "wco"), PEEP, strict=True)),
                **dict(x=x, cs_prev=c, h_prev=h, w=LSTM_W, b=LSTM_B, use_peephole=peephole),
            )
        ),
        *(floats(2, 3), floats(2, 4), floats(2, 4)),
    )
GRU = dict(w_ru=floats(7, 8), w_c=floats(7, 4), b_ru=floats(8), b_c=floats(4))
add(
    "GRUBlockCell",
    lambda x, h: tuple(tf.raw_ops.GRUBlockCell(x=x, h_prev=h, **GRU)),
    floats(2, 3),
    floats(2, 4),
)
add("roll", lambda x: tf.roll(x, [2, -1], [1, 2]), X3)
add("stitch", lambda x: tf.dynamic_stitch([[0, 2], [[1], [2]]], [x[:2, 0], x[:2, 1:2]]), X3)
add("fake_quant", lambda x: tf.quantization.fake_quant_with_min_max_args(x, -1.3, 1.9, 6, True), X2)
add(
    "fake_quant_channels",
    lambda x: tf.quantization.fake_quant_with_min_max_vars_per_channel(x, -abs(X2[0]), abs(X2[1])),
    X2,
)
add("switch_case", lambda x: tf.switch_case(tf.shape(x)[0] - 2, [lambda: x, lambda: -x, lambda: x * 2]), X2)


@case("cond", X2)
def cond(x: Any) -> Any:
    return tf.cond(tf.reduce_sum(x) > 0, lambda: x + 1, lambda: x * 2)


@case("while_static", X2)
def while_static(x: Any) -> Any:
    return tf.while_loop(lambda i, y: i < 4, lambda i, y: (i + 1, y * 2 + x), [0, x])[1]


@case("while_dynamic", X2, np.int32(5))
def while_dynamic(x: Any, n: Any) -> Any:
    return tf.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, y * 0.5 + x), [0, x])[1]


@case("while_until", X2)
def while_until(x: Any) -> Any:
    return tf.while_loop(lambda y: tf.reduce_sum(abs(y)) < 100, lambda y: (y * 1.5,), [x])[0]


@case("while_array", X2, np.int32(6))
def while_array(x: Any, n: Any) -> Any:
    array = tf.TensorArray(tf.float32, 8, element_shape=[7])
    return tf.while_loop(
        lambda i, a: i < n, lambda i, a: (i + 1, a.write(i, x[i % 3] * tf.cast(i, tf.float32))), [0, array]
    )[1].stack()


@case("while_nested", X2)
def while_nested(x: Any) -> Any:
    def outer(i: Any, y: Any) -> Any:
        return i + 1, tf.while_loop(lambda j, z: j < i + 1, lambda j, z: (j + 1, z + x), [0, y])[1] * 0.5

    return tf.while_loop(lambda i, y: i < 3, outer, [0, x])[1]


def keras_layer(make: Any, shape: tuple[int, ...]) -> Any:
    layers = make(tf.keras.layers)
    model = tf.keras.Sequential([tf.keras.Input(shape[1:], batch_size=shape[0]), *layers])
    for v in model.weights:
        v.assign(RNG.standard_normal(v.shape).astype(np.float32) * 0.3 + (1 if "variance" in v.path else 0))
    for v in model.weights:
        if "variance" in v.path:
            v.assign(abs(v) + 0.2)
    return lambda x: model(x, training=False)


KERAS = {
    "lstm": (lambda k: [k.LSTM(5, return_sequences=True)], (2, 6, 3)),
    "gru": (lambda k: [k.GRU(5)], (2, 6, 3)),
    "rnn": (lambda k: [k.SimpleRNN(5, unroll=True)], (2, 6, 3)),
    "bilstm": (lambda k: [k.Bidirectional(k.LSTM(4, return_sequences=True))], (2, 5, 3)),
    "cnn": (
        lambda k: [
            k.Conv2D(8, 3, padding="same", activation="relu"),
            k.BatchNormalization(),
            k.DepthwiseConv2D(3, strides=2, padding="same"),
            k.MaxPooling2D(2),
            k.SeparableConv2D(6, 3, activation="gelu"),
            k.GlobalAveragePooling2D(),
            k.Dropout(0.5),
            k.Dense(4, activation="softmax"),
        ],
        (1, 20, 21, 3),
    ),
    "flatten": (lambda k: [k.Conv2D(4, 3), k.Flatten(), k.Dense(3)], (1, 7, 8, 2)),
    "up": (
        lambda k: [k.Conv2DTranspose(4, 3, 2, "same"), k.UpSampling2D(2, interpolation="bilinear")],
        (1, 5, 6, 3),
    ),
    "norm": (lambda k: [k.LayerNormalization(), k.Dense(4, "selu"), k.UnitNormalization()], (2, 5, 6)),
    "cropping": (
        lambda k: [k.ZeroPadding2D(2), k.Cropping2D(1), k.Conv2D(3, 3, dilation_rate=2)],
        (1, 9, 9, 2),
    ),
    "embedding": (lambda k: [k.Dense(4), k.PReLU(), k.Reshape((2, 2, 5)), k.Permute((2, 1, 3))], (2, 5)),
}
KERAS["embedding"] = (lambda k: [k.Dense(20), k.PReLU(), k.Reshape((2, 2, 5)), k.Permute((2, 1, 3))], (2, 5))


def write(name: str, f: Any, inputs: list[Any], folder: Path, lower: bool) -> None:
    specs = [tf.TensorSpec(np.shape(x), np.asarray(x).dtype, name=f"in{i}") for i, x in enumerate(inputs)]

    def named(*given: Any) -> Any:
        found = f(*given)
        found = found if isinstance(found, tuple | list) else [found]
        return [tf.identity(y, name=f"out{i}") for i, y in enumerate(found)]

    frozen = convert_variables_to_constants_v2(
        tf.function(named).get_concrete_function(*specs), lower_control_flow=lower
    )
    (folder / f"{name}.pb").write_bytes(frozen.graph.as_graph_def().SerializeToString())
    found = frozen(*[tf.constant(x) for x in inputs])
    found = found if isinstance(found, list | tuple) else [found]
    feeds = {t.op.name: np.asarray(x) for t, x in zip(frozen.inputs, inputs, strict=True)}
    fetches = [t.op.name for t in frozen.outputs]
    lines = [f'feed {{ id {{ node_name: "{n}" }} }}' for n in feeds]
    lines += [
        f'fetch {{ id {{ node_name: "{n}" output_index: {t.value_index} }} }}'
        for n, t in zip(fetches, frozen.outputs, strict=True)
    ]
    (folder / f"{name}.config.pbtxt").write_text("\n".join(lines))
    arrays = {f"in/{n}": x for n, x in feeds.items()} | {
        f"out/{i}": np.asarray(y) for i, y in enumerate(found)
    }
    np.savez(folder / f"{name}.npz", **{k.replace("/", "|"): v for k, v in arrays.items()})


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    if sys.argv[2:] == ["more"]:
        from tests.tensorflow.more import more

        CASES.clear()
        CASES.update(more())
    else:
        for name, (make, shape) in KERAS.items():
            CASES[f"keras_{name}"] = (keras_layer(make, shape), [floats(*shape)])
    for name, (f, inputs) in CASES.items():
        write(name, f, inputs, folder, False)
        if name.startswith(("while", "cond", "keras_lstm", "keras_gru")):
            write(f"{name}_v1", f, inputs, folder, True)


if __name__ == "__main__":
    main()
