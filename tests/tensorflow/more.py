"""More of TensorFlow and Keras for `oracle`, which takes these cases with the argument `more`.

Among them are operators that the importer refuses: what it must not do is import them wrongly.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

RNG = np.random.default_rng(7)
k = tf.keras.layers
CASES: dict[str, tuple[Any, list[Any]]] = {}


def floats(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def add(name: str, f: Any, *inputs: Any) -> None:
    CASES[name] = (f, list(inputs))


def functional(make: Any, shape: tuple[int, ...], dtype: str = "float32") -> tuple[Any, list[Any]]:
    """A net of one layer or a few, with random weights, and an input for it."""
    x = tf.keras.Input(shape[1:], batch_size=shape[0], dtype=dtype)
    model = tf.keras.Model(x, make(x))
    for v in model.weights:
        if v.dtype == "float32":
            v.assign(abs(floats(*v.shape)) + 0.2 if "variance" in v.path else floats(*v.shape) * 0.3)
    given = floats(*shape) if dtype == "float32" else RNG.integers(0, 9, shape).astype(dtype)
    return (lambda x: model(x, training=False)), [given]


X4, X3, X2, W = floats(2, 8, 9, 4), floats(2, 5, 6), floats(3, 7), floats(3, 3, 4, 5)
KERAS = {
    "mha": (lambda x: k.MultiHeadAttention(2, 4)(x, x), (2, 5, 8)),
    "mha_causal": (lambda x: k.MultiHeadAttention(2, 4)(x, x, use_causal_mask=True), (2, 5, 8)),
    "attention": (lambda x: k.Attention()([x, x]), (2, 5, 8)),
    "addattention": (lambda x: k.AdditiveAttention()([x, x]), (2, 5, 8)),
    "gqa": (lambda x: k.GroupQueryAttention(4, 4, 2)(x, x), (2, 5, 8)),
    "groupnorm": (lambda x: k.GroupNormalization(2)(x), (2, 5, 5, 8)),
    "conv1dT": (lambda x: k.Conv1DTranspose(3, 4, strides=2, padding="same")(x), (2, 5, 8)),
    "conv3dT": (lambda x: k.Conv3DTranspose(3, 2, strides=2)(x), (1, 3, 4, 3, 2)),
    "sep1d": (lambda x: k.SeparableConv1D(3, 4, strides=2, padding="same")(x), (2, 9, 8)),
    "dw1d": (lambda x: k.DepthwiseConv1D(3, depth_multiplier=2)(x), (2, 9, 8)),
    "causal": (lambda x: k.Conv1D(3, 3, dilation_rate=2, padding="causal")(x), (2, 9, 8)),
    "convlstm": (lambda x: k.ConvLSTM2D(3, 3, padding="same")(x), (1, 3, 6, 6, 2)),
    "timedist": (lambda x: k.TimeDistributed(k.Conv2D(3, 3))(x), (2, 3, 6, 6, 2)),
    "masking": (lambda x: k.LSTM(4)(k.Masking()(x)), (2, 5, 3)),
    "bigru": (lambda x: k.Bidirectional(k.GRU(4, reset_after=False))(x), (2, 5, 3)),
    "stacked": (lambda x: k.GRU(4)(k.LSTM(3, return_sequences=True, go_backwards=True)(x)), (2, 5, 3)),
    "pool1d": (lambda x: k.AveragePooling1D(2)(k.MaxPooling1D(3, 1, padding="same")(x)), (2, 9, 8)),
    "pool3d": (lambda x: k.AveragePooling3D(2)(k.MaxPooling3D(3, 1, padding="same")(x)), (1, 6, 6, 6, 2)),
    "gmp": (lambda x: k.GlobalMaxPooling2D()(x), (2, 5, 5, 8)),
    "softmax1": (lambda x: k.Softmax(axis=1)(x), (2, 5, 8)),
    "resizing": (lambda x: k.Resizing(7, 9)(x), (1, 5, 6, 3)),
    "resizing_b": (lambda x: k.Resizing(7, 9, interpolation="bicubic")(x), (1, 5, 6, 3)),
    "rescale": (lambda x: k.Rescaling(1 / 127.5, -1)(x), (1, 5, 6, 3)),
    "up3d": (lambda x: k.UpSampling3D(2)(x), (1, 3, 3, 3, 2)),
    "dot": (lambda x: k.Dot(1, normalize=True)([x, x]), (2, 5, 8)),
    "emb": (lambda x: k.GlobalAveragePooling1D()(k.Embedding(10, 4)(x)), (2, 5), "int32"),
    "chfirst_bn": (lambda x: k.BatchNormalization(axis=1)(x), (2, 5, 8)),
    "celu": (lambda x: k.Activation("celu")(x), (2, 5)),
    "hsig": (lambda x: k.Activation("hard_sigmoid")(x), (2, 5)),
    "glu": (lambda x: k.Activation("glu")(x), (2, 6)),
    "logsig": (lambda x: k.Activation("log_sigmoid")(x), (2, 6)),
    "threshold": (lambda x: k.ReLU(max_value=2, negative_slope=0.1, threshold=0.5)(x), (2, 6)),
    "sq": (lambda x: k.Reshape((1, 1, 8))(k.GlobalAveragePooling2D()(x)) * x, (2, 5, 5, 8)),
}
add("t_norm", lambda x: tf.norm(x, axis=1), X3)
add("t_std", lambda x: tf.math.reduce_std(x, 1), X3)
add("t_lse", lambda x: tf.reduce_logsumexp(x, 1), X3)
add("t_var", lambda x: tf.math.reduce_variance(x), X3)
add("t_sort", lambda x: tf.sort(x, 1), X2)
add("t_argsort", lambda x: tf.argsort(x, 1, "DESCENDING"), X2)
add("t_repeat", lambda x: tf.repeat(x, [1, 2, 3], 0), X2)
add("t_mesh", lambda x: tf.meshgrid(x[0], x[1])[1], X2)
add("t_eye", lambda x: x + tf.eye(3, 7), X2)
add("t_diag", lambda x: tf.linalg.diag(x), X2)
add("t_diagpart", lambda x: tf.linalg.diag_part(x[:, :5]), X3)
add("t_trace", lambda x: tf.linalg.trace(x), X3)
add("t_atrous", lambda x: tf.nn.atrous_conv2d(x, W, 2, "SAME"), X4)
add(
    "t_sep",
    lambda x: tf.nn.separable_conv2d(x, floats(3, 3, 4, 2), floats(1, 1, 8, 5), [1, 1, 1, 1], "SAME"),
    X4,
)
add("t_dil2d", lambda x: tf.nn.dilation2d(x, floats(2, 2, 4), [1, 1, 1, 1], "SAME", "NHWC", [1, 1, 1, 1]), X4)
add("t_patches", lambda x: tf.image.extract_patches(x, [1, 3, 3, 1], [1, 2, 2, 1], [1, 1, 1, 1], "SAME"), X4)
add("t_bicubic", lambda x: tf.image.resize(x, (13, 20), "bicubic"), X4)
add("t_area", lambda x: tf.image.resize(x, (4, 3), "area"), X4)
add("t_lanczos", lambda x: tf.image.resize(x, (4, 3), "lanczos3"), X4)
add("t_crop", lambda x: tf.image.crop_and_resize(x, [[0.1, 0.2, 0.8, 0.9]], [0], [4, 4]), X4)
add("t_central", lambda x: tf.image.central_crop(x, 0.5), X4)
add("t_flip", lambda x: tf.image.flip_left_right(x), X4)
add("t_hsv", lambda x: tf.image.rgb_to_hsv(abs(x[..., :3])), X4)
add("t_gray", lambda x: tf.image.rgb_to_grayscale(x[..., :3]), X4)
add("t_std_img", lambda x: tf.image.per_image_standardization(x), X4)
add("t_map_fn", lambda x: tf.map_fn(lambda r: r * 2 + tf.reduce_sum(r), x), X2)
add("t_scan", lambda x: tf.scan(lambda a, r: a * 0.5 + r, x), X2)
add("t_foldl", lambda x: tf.foldl(lambda a, r: a * 0.5 + r, x), X2)
add("t_vmap", lambda x: tf.vectorized_map(lambda r: tf.nn.softmax(r), x), X2)
add("t_where1", lambda x: tf.where(x > 0), X2)
add("t_mask", lambda x: tf.boolean_mask(x, [True, False, True]), X2)
add("t_unique", lambda i: tf.unique(i)[0], np.array([1, 2, 1], np.int32))
add("t_searchsorted", lambda x: tf.searchsorted(tf.constant([-1.0, 0.0, 1.0]), tf.reshape(x, [-1])), X2)
add("t_segsum", lambda x: tf.math.segment_sum(x, [0, 0, 1]), X2)
add("t_useg", lambda x: tf.math.unsorted_segment_sum(x, [1, 0, 1], 2), X2)
add("t_cumprod", lambda x: tf.math.cumprod(x, 1), X2)
add("t_bincount", lambda i: tf.math.bincount(i, minlength=5, maxlength=5), np.array([1, 2, 1], np.int32))
add("t_confusion", lambda i: tf.math.confusion_matrix(i, i, 4), np.array([1, 2, 1], np.int32))
add("t_lgamma", lambda x: tf.math.lgamma(abs(x) + 1), X2)
add("t_inv", lambda x: tf.linalg.inv(x[:, :5, :5]), X3)
add("t_chol", lambda x: tf.linalg.cholesky(tf.matmul(x, x, transpose_b=True) + tf.eye(5)), X3)
add("t_maxargmax", lambda x: tf.nn.max_pool_with_argmax(x, 2, 2, "SAME")[0], X4)
add("t_nms", lambda x: tf.image.non_max_suppression(abs(x[0, 0]), abs(x[0, 0, :, 0]), 3), X4)
add("t_tensor_scatter_max", lambda x: tf.tensor_scatter_nd_max(x, [[0]], [x[1]]), X2)
add("t_scatter_sub", lambda x: tf.tensor_scatter_nd_sub(x, [[0]], [x[1]]), X2)
add("t_bitcast", lambda x: tf.bitcast(x, tf.int32), X2)
add("t_softmax_axis", lambda x: tf.nn.softmax(x, 1), X4)
add(
    "t_nchw_t",
    lambda x: tf.transpose(
        tf.nn.relu(tf.nn.conv2d(tf.transpose(x, [0, 2, 3, 1]), W, 1, "SAME")), [0, 3, 1, 2]
    ),
    floats(1, 4, 6, 6),
)
add("t_linspace", lambda x: x * tf.linspace(0.0, 1.0, 7), X2)
add("t_fft", lambda x: tf.abs(tf.signal.rfft(x)), X2)
add("t_dct", lambda x: tf.signal.dct(x), X2)
add("t_frame", lambda x: tf.signal.frame(x, 3, 2), X2)
add("t_random", lambda x: x + tf.random.uniform([7]), X2)
add("t_sparse_ce", lambda x: tf.nn.sparse_softmax_cross_entropy_with_logits(tf.constant([1, 2, 3]), x), X2)
add("t_ce", lambda x: tf.nn.softmax_cross_entropy_with_logits(tf.nn.softmax(x), x), X2)
add("t_logit", lambda x: tf.math.sigmoid(x) * tf.math.log_sigmoid(x), X2)
add("t_intopk", lambda x: tf.math.in_top_k([1, 2, 3], x, 2), X2)
add("t_stridedassign", lambda x: tf.tensor_scatter_nd_update(x, [[0, 1]], [5.0]), X2)
add("t_quant", lambda x: tf.quantization.quantize_and_dequantize_v2(x, -2.0, 2.0, range_given=True), X2)
add("t_double", lambda x: tf.cast(x, tf.float64) * 2, X2)
add("t_half", lambda x: tf.cast(x, tf.float16) * 2, X2)
add("t_int64", lambda x: tf.cast(x, tf.int64) // 2, X2)


def more() -> dict[str, tuple[Any, list[Any]]]:
    """All cases."""
    return CASES | {f"k_{name}": functional(*how) for name, how in KERAS.items()}
