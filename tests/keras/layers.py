"""Small models of one layer or a few, made with Keras: every layer that means something, with its settings.

Each row is a name and a function from `keras` to a model. Read by `oracle.py`, which needs Keras.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

Row = tuple[str, Callable[[], Any]]
REFUSED = ("mask_Multiply",)  # Keras 3 takes hidden steps as ones in a product


def rows(keras: Any) -> Iterator[Row]:
    """All rows: name, and what builds the model."""
    for family in (
        _activations,
        _matrices,
        _convolutions,
        _pooling,
        _norms,
        _moves,
        _merges,
        _recurrent,
        _masks,
        _attention,
        _data,
        _ops,
        _models,
    ):
        yield from family(keras)


def _one(keras: Any, shape: tuple[int, ...], *layers: Any, **how: Any) -> Callable[[], Any]:
    def build() -> Any:
        x = y = keras.Input(shape, **how)
        for make in layers:
            y = make()(y) if not isinstance(make, keras.layers.Layer) else make(y)
        return keras.Model(x, y)

    return build


def _activations(keras: Any) -> Iterator[Row]:
    L = keras.layers
    names = (
        *("relu", "relu6", "leaky_relu", "elu", "selu", "celu", "softplus", "softsign", "squareplus", "silu"),
        *("soft_shrink", "hard_shrink", "tanh_shrink", "gelu", "glu", "tanh", "sigmoid", "sparse_sigmoid"),
        *("sparse_plus", "exponential", "hard_sigmoid", "hard_silu", "hard_tanh", "linear", "mish"),
        *("log_softmax", "log_sigmoid", "softmax"),
    )
    for name in names:
        yield f"activation_{name}", _one(keras, (4, 6), lambda name=name: L.Activation(name))
    yield "relu_all", _one(keras, (4, 6), lambda: L.ReLU(max_value=1.5, negative_slope=0.1, threshold=0.3))
    yield "relu_6", _one(keras, (4, 6), lambda: L.ReLU(max_value=6))
    yield "relu_negative_slope_max", _one(keras, (4, 6), lambda: L.ReLU(max_value=1, negative_slope=0.25))
    yield "leaky", _one(keras, (4, 6), lambda: L.LeakyReLU(negative_slope=0.07))
    yield "elu", _one(keras, (4, 6), lambda: L.ELU(alpha=0.6))
    yield "prelu", _one(keras, (5, 4, 3), lambda: L.PReLU(alpha_initializer="random_normal"))
    yield (
        "prelu_shared",
        _one(
            keras,
            (5, 4, 3),
            lambda: L.Conv2D(3, 2),
            lambda: L.PReLU(alpha_initializer="random_normal", shared_axes=[1, 2]),
        ),
    )
    yield "softmax_axis", _one(keras, (5, 4, 3), lambda: L.Softmax(axis=1))
    yield "softmax_axes", _one(keras, (5, 4, 3), lambda: L.Softmax(axis=(1, 2)))
    yield (
        "dense_layer_activation",
        _one(keras, (5,), lambda: L.Dense(4, activation=L.LeakyReLU(negative_slope=0.2))),
    )


def _matrices(keras: Any) -> Iterator[Row]:
    L = keras.layers
    yield "dense", _one(keras, (7,), lambda: L.Dense(5, activation="tanh"))
    yield "dense_3d_nobias", _one(keras, (4, 7), lambda: L.Dense(5, use_bias=False))
    yield (
        "einsum",
        _one(keras, (4, 7), lambda: L.EinsumDense("abc,cd->abd", output_shape=(None, 5), bias_axes="d")),
    )
    yield (
        "einsum_heads",
        _one(
            keras, (4, 7), lambda: L.EinsumDense("abc,cde->abde", output_shape=(None, 2, 3), bias_axes="de")
        ),
    )
    yield (
        "einsum_ellipsis",
        _one(
            keras,
            (4, 7),
            lambda: L.EinsumDense(
                "...x,xy->...y", output_shape=(5,), bias_axes="y", bias_initializer="random_normal"
            ),
        ),
    )
    yield "embedding", _one(keras, (5,), lambda: L.Embedding(10, 4))
    for kind in ("float16", "mixed_float16", "float64", "mixed_bfloat16"):
        yield f"dense_{kind}", _one(keras, (7,), lambda kind=kind: L.Dense(5, dtype=kind))
        yield (
            f"conv_bn_softmax_{kind}",
            _one(
                keras,
                (6, 6, 2),
                lambda kind=kind: L.Conv2D(4, 3, dtype=kind),
                lambda kind=kind: L.BatchNormalization(dtype=kind),
                lambda kind=kind: L.Flatten(dtype=kind),
                lambda kind=kind: L.Dense(3, activation="softmax", dtype=kind),
            ),
        )


def _convolutions(keras: Any) -> Iterator[Row]:
    L = keras.layers
    for padding in ("valid", "same"):
        for k, s, d in ((3, 1, 1), (3, 2, 1), (4, 3, 1), (2, 1, 2), (1, 2, 1)):
            yield (
                f"conv2d_{padding}_{k}{s}{d}",
                _one(
                    keras,
                    (9, 8, 4),
                    lambda p=padding, k=k, s=s, d=d: L.Conv2D(
                        6,
                        (k, max(k - 1, 1)),
                        strides=s,
                        dilation_rate=d,
                        padding=p,
                        groups=2,
                        bias_initializer="random_normal",
                    ),
                ),
            )
            yield (
                f"depthwise_{padding}_{k}{s}{d}",
                _one(
                    keras,
                    (9, 8, 3),
                    lambda p=padding, k=k, s=s, d=d: L.DepthwiseConv2D(
                        k, strides=s, dilation_rate=d, padding=p, depth_multiplier=2
                    ),
                ),
            )
            yield (
                f"transpose_{padding}_{k}{s}{d}",
                _one(
                    keras,
                    (5, 4, 3),
                    lambda p=padding, k=k, s=s, d=d: L.Conv2DTranspose(
                        6,
                        k,
                        strides=s,
                        dilation_rate=d if s == 1 else 1,
                        padding=p,
                        bias_initializer="random_normal",
                    ),
                ),
            )
        yield f"conv1d_{padding}", _one(keras, (9, 4), lambda p=padding: L.Conv1D(6, 3, strides=2, padding=p))
        yield (
            f"conv3d_{padding}",
            _one(keras, (5, 6, 4, 2), lambda p=padding: L.Conv3D(3, (2, 3, 1), strides=(1, 2, 1), padding=p)),
        )
        yield (
            f"transpose1d_{padding}",
            _one(keras, (5, 3), lambda p=padding: L.Conv1DTranspose(4, 3, strides=2, padding=p)),
        )
        yield (
            f"transpose3d_{padding}",
            _one(keras, (3, 4, 2, 2), lambda p=padding: L.Conv3DTranspose(2, 3, strides=2, padding=p)),
        )
        yield (
            f"transpose_more_{padding}",
            _one(
                keras,
                (5, 4, 3),
                lambda p=padding: L.Conv2DTranspose(4, 3, strides=2, padding=p, output_padding=1),
            ),
        )
        yield (
            f"transpose_more4_{padding}",
            _one(
                keras,
                (5, 4, 3),
                lambda p=padding: L.Conv2DTranspose(4, 4, strides=3, padding=p, output_padding=(0, 2)),
            ),
        )
        yield (
            f"separable2d_{padding}",
            _one(
                keras,
                (9, 8, 3),
                lambda p=padding: L.SeparableConv2D(
                    5, 3, strides=2, padding=p, depth_multiplier=2, bias_initializer="random_normal"
                ),
            ),
        )
        yield (
            f"separable1d_{padding}",
            _one(keras, (9, 3), lambda p=padding: L.SeparableConv1D(5, 3, padding=p)),
        )
        yield (
            f"depthwise1d_{padding}",
            _one(
                keras,
                (9, 3),
                lambda p=padding: L.DepthwiseConv1D(3, strides=2, padding=p, depth_multiplier=2),
            ),
        )
    yield "causal", _one(keras, (9, 4), lambda: L.Conv1D(6, 3, dilation_rate=2, padding="causal"))
    yield "no_bias", _one(keras, (9, 8, 4), lambda: L.Conv2D(6, 3, use_bias=False, activation="relu"))


def _pooling(keras: Any) -> Iterator[Row]:
    L = keras.layers
    for padding in ("valid", "same"):
        for kind in ("MaxPooling", "AveragePooling"):
            for n, shape in ((1, (9, 3)), (2, (9, 8, 3)), (3, (5, 6, 4, 2))):
                yield (
                    f"{kind}{n}d_{padding}",
                    _one(
                        keras,
                        shape,
                        lambda k=kind, n=n, p=padding: getattr(L, f"{k}{n}D")(
                            3 if n < 3 else 2, strides=2, padding=p
                        ),
                    ),
                )
    yield "pool_default", _one(keras, (8, 8, 3), lambda: L.MaxPooling2D())
    for kind in ("Max", "Average"):
        for n, shape in ((1, (9, 3)), (2, (9, 8, 3)), (3, (5, 6, 4, 2))):
            yield (
                f"global_{kind}{n}",
                _one(keras, shape, lambda k=kind, n=n: getattr(L, f"Global{k}Pooling{n}D")()),
            )
            yield (
                f"global_{kind}{n}_keep",
                _one(keras, shape, lambda k=kind, n=n: getattr(L, f"Global{k}Pooling{n}D")(keepdims=True)),
            )
            yield (
                f"adaptive_{kind}{n}",
                _one(
                    keras, shape, lambda k=kind, n=n: getattr(L, f"Adaptive{k}Pooling{n}D")(3 if n < 3 else 2)
                ),
            )


def _norms(keras: Any) -> Iterator[Row]:
    L = keras.layers
    for how in ({}, {"scale": False}, {"center": False}, {"axis": 1}, {"axis": 2}, {"epsilon": 0.1}):
        tag = "_".join(f"{k}{v}" for k, v in how.items()) or "plain"
        yield f"batch_{tag}", _one(keras, (5, 4, 3), lambda how=how: L.BatchNormalization(**how))
    for how in (
        {},
        {"axis": 1},
        {"axis": [1, 2]},
        {"axis": [2, 3]},
        {"axis": [1, 3]},
        {"scale": False},
        {"center": False},
        {"rms_scaling": True},
    ):
        tag = "_".join(f"{k}{v}" for k, v in how.items()) or "plain"
        yield f"layer_{tag}", _one(keras, (5, 4, 6), lambda how=how: L.LayerNormalization(**how))
    for groups in (2, -1, 1, 6):
        yield f"group_{groups}", _one(keras, (5, 4, 6), lambda g=groups: L.GroupNormalization(g))
    yield "group_axis", _one(keras, (6, 4, 5), lambda: L.GroupNormalization(3, axis=1))
    yield "unit", _one(keras, (5, 6), lambda: L.UnitNormalization())
    yield "unit_axes", _one(keras, (5, 6), lambda: L.UnitNormalization(axis=[1, 2]))
    yield "rms", _one(keras, (5, 6), lambda: L.RMSNormalization())
    yield "spectral", _one(keras, (6, 6, 2), lambda: L.SpectralNormalization(L.Conv2D(3, 3)))


def _moves(keras: Any) -> Iterator[Row]:
    L = keras.layers
    yield (
        "flatten_after_conv",
        _one(keras, (6, 5, 2), lambda: L.Conv2D(3, 2), lambda: L.Flatten(), lambda: L.Dense(3)),
    )
    yield "reshape", _one(keras, (6, 4), lambda: L.Reshape((2, -1, 3)))
    yield "permute", _one(keras, (6, 5, 2), lambda: L.Conv2D(3, 2), lambda: L.Permute((3, 1, 2)))
    yield "repeat", _one(keras, (5,), lambda: L.RepeatVector(3))
    yield "pad1", _one(keras, (5, 2), lambda: L.ZeroPadding1D((1, 2)))
    yield "pad2", _one(keras, (5, 4, 2), lambda: L.ZeroPadding2D(((1, 0), (2, 3))))
    yield "pad3", _one(keras, (5, 4, 3, 2), lambda: L.ZeroPadding3D((1, 0, 2)))
    yield "crop1", _one(keras, (7, 2), lambda: L.Cropping1D((1, 2)))
    yield "crop2", _one(keras, (7, 6, 2), lambda: L.Cropping2D(((1, 0), (2, 1))))
    yield "crop3", _one(keras, (7, 6, 5, 2), lambda: L.Cropping3D((1, 2, 1)))
    yield "up1", _one(keras, (5, 2), lambda: L.UpSampling1D(3))
    yield "up2", _one(keras, (5, 4, 2), lambda: L.UpSampling2D((2, 3)))
    yield "up2_bilinear", _one(keras, (5, 4, 2), lambda: L.UpSampling2D((2, 3), interpolation="bilinear"))
    yield "up2_bicubic", _one(keras, (5, 4, 2), lambda: L.UpSampling2D((2, 3), interpolation="bicubic"))
    yield "up3", _one(keras, (3, 4, 2, 2), lambda: L.UpSampling3D(2))
    yield (
        "dropouts",
        _one(
            keras,
            (5, 4),
            lambda: L.Dropout(0.5),
            lambda: L.GaussianNoise(1.0),
            lambda: L.SpatialDropout1D(0.5),
            lambda: L.ActivityRegularization(1.0),
            lambda: L.AlphaDropout(0.2),
            lambda: L.GaussianDropout(0.2),
            lambda: L.Dense(2),
        ),
    )


def _merges(keras: Any) -> Iterator[Row]:
    L = keras.layers

    def two(
        make: Callable[[], Any], a: tuple[int, ...] = (5, 4), b: tuple[int, ...] = (5, 4)
    ) -> Callable[[], Any]:
        def build() -> Any:
            x, y = keras.Input(a), keras.Input(b)
            return keras.Model([x, y], make()([x, y]))

        return build

    for kind in ("Add", "Subtract", "Multiply", "Average", "Maximum", "Minimum"):
        yield kind, two(getattr(L, kind))
        yield f"{kind}_broadcast", two(getattr(L, kind), (5, 4), (1, 4))
        yield f"{kind}_ranks", two(getattr(L, kind), (5, 4), (4,))
    yield "concat", two(L.Concatenate)
    yield "concat_1", two(lambda: L.Concatenate(axis=1), (5, 4), (3, 4))
    yield "dot", two(lambda: L.Dot(axes=(2, 2)), (5, 4), (3, 4))
    yield "dot_1", two(lambda: L.Dot(axes=1), (4,), (4,))
    yield "dot_norm", two(lambda: L.Dot(axes=(1, 2), normalize=True), (4, 5), (3, 4))


def _recurrent(keras: Any) -> Iterator[Row]:
    L = keras.layers
    for kind in ("SimpleRNN", "GRU", "LSTM"):
        make = getattr(L, kind)
        for how in (
            {},
            {"return_sequences": True},
            {"return_sequences": True, "go_backwards": True},
            {"go_backwards": True},
            {"return_state": True},
            {"return_sequences": True, "return_state": True},
            {"use_bias": False},
            {"activation": "relu"},
            {"activation": "gelu", "return_sequences": True},
            {"activation": "gelu", "return_sequences": True, "go_backwards": True},
            {"unroll": True},
        ):
            how = {"bias_initializer": "random_normal", **how}
            tag = "_".join(f"{k}" for k in how if k != "bias_initializer") + str(how.get("activation", ""))
            yield f"{kind}_{tag}", _one(keras, (6, 3), lambda make=make, how=how: make(4, **how))
        for mode in ("concat", "sum", "ave", "mul", None):
            yield (
                f"bi{kind}_{mode}",
                _one(
                    keras,
                    (6, 3),
                    lambda make=make, mode=mode: L.Bidirectional(
                        make(4, return_sequences=True), merge_mode=mode
                    ),
                ),
            )
        yield f"bi{kind}_last", _one(keras, (6, 3), lambda make=make: L.Bidirectional(make(4)))
        yield (
            f"bi{kind}_state",
            _one(
                keras,
                (6, 3),
                lambda make=make: L.Bidirectional(make(4, return_state=True, return_sequences=True)),
            ),
        )
        yield (
            f"rnn_{kind}Cell",
            _one(keras, (6, 3), lambda kind=kind: L.RNN(getattr(L, kind + "Cell")(4), return_sequences=True)),
        )
        yield (
            f"rnn_stacked_{kind}",
            _one(
                keras,
                (6, 3),
                lambda kind=kind: L.RNN(
                    [getattr(L, kind + "Cell")(4), getattr(L, kind + "Cell")(5)],
                    return_sequences=True,
                    return_state=True,
                ),
            ),
        )
    for act in ("sigmoid", "hard_sigmoid"):
        yield f"lstm_{act}", _one(keras, (6, 3), lambda act=act: L.LSTM(4, recurrent_activation=act))
        yield (
            f"gru_{act}_before",
            _one(
                keras,
                (6, 3),
                lambda act=act: L.GRU(
                    4, recurrent_activation=act, reset_after=False, bias_initializer="random_normal"
                ),
            ),
        )
    yield (
        "gru_before_gelu",
        _one(
            keras,
            (6, 3),
            lambda: L.GRU(4, activation="gelu", reset_after=False, bias_initializer="random_normal"),
        ),
    )
    yield (
        "convlstm1",
        _one(keras, (3, 6, 2), lambda: L.ConvLSTM1D(3, 3, padding="same", return_sequences=True)),
    )
    yield (
        "convlstm2",
        _one(
            keras,
            (3, 6, 5, 2),
            lambda: L.ConvLSTM2D(
                3,
                3,
                padding="same",
                strides=2,
                return_sequences=True,
                return_state=True,
                recurrent_activation="sigmoid",
            ),
        ),
    )
    yield "convlstm2_valid", _one(keras, (3, 6, 5, 2), lambda: L.ConvLSTM2D(3, 2, go_backwards=True))
    yield "convlstm3", _one(keras, (2, 4, 4, 3, 2), lambda: L.ConvLSTM3D(2, 2))
    yield (
        "time_distributed",
        _one(
            keras,
            (3, 6, 5, 2),
            lambda: L.TimeDistributed(L.Conv2D(3, 2)),
            lambda: L.TimeDistributed(L.Flatten()),
            lambda: L.TimeDistributed(L.Dense(4)),
        ),
    )

    def encoder_decoder() -> Any:
        x, y = keras.Input((5, 3)), keras.Input((4, 2))
        _, *states = L.LSTM(6, return_state=True)(x)
        z = L.LSTM(6, return_sequences=True)(y, initial_state=states)
        return keras.Model([x, y], L.Dense(3)(z))

    yield "encoder_decoder", encoder_decoder


def _masks(keras: Any) -> Iterator[Row]:
    L = keras.layers
    for kind in ("SimpleRNN", "GRU", "LSTM"):
        make = getattr(L, kind)
        yield (
            f"mask_{kind}",
            _one(
                keras,
                (6,),
                lambda: L.Embedding(4, 3, mask_zero=True),
                lambda make=make: make(4, return_sequences=True),
            ),
        )
        yield (
            f"mask_{kind}_last",
            _one(
                keras,
                (6,),
                lambda: L.Embedding(4, 3, mask_zero=True),
                lambda make=make: make(4, go_backwards=True),
            ),
        )
        yield (
            f"mask_bi_{kind}",
            _one(
                keras,
                (6,),
                lambda: L.Embedding(4, 3, mask_zero=True),
                lambda make=make: L.Bidirectional(make(4, return_sequences=True)),
                lambda make=make: make(3),
            ),
        )
        yield (
            f"mask_zero_out_{kind}",
            _one(
                keras,
                (6,),
                lambda: L.Embedding(4, 3, mask_zero=True),
                lambda make=make: make(4, return_sequences=True, zero_output_for_mask=True),
            ),
        )
    yield (
        "mask_stacked",
        _one(
            keras,
            (6,),
            lambda: L.Embedding(4, 3, mask_zero=True),
            lambda: L.LSTM(4, return_sequences=True),
            lambda: L.Dropout(0.3),
            lambda: L.LSTM(3),
        ),
    )
    yield (
        "mask_rnn_cells",
        _one(
            keras,
            (6,),
            lambda: L.Embedding(4, 3, mask_zero=True),
            lambda: L.RNN([L.LSTMCell(4), L.GRUCell(5)]),
        ),
    )
    yield (
        "masking",
        _one(keras, (6, 3), lambda: L.ReLU(threshold=0.7), lambda: L.Masking(), lambda: L.LSTM(4)),
    )
    yield (
        "mask_pool",
        _one(keras, (6,), lambda: L.Embedding(4, 3, mask_zero=True), lambda: L.GlobalAveragePooling1D()),
    )
    yield (
        "mask_dropped",
        _one(
            keras,
            (6,),
            lambda: L.Embedding(4, 3, mask_zero=True),
            lambda: L.Conv1D(3, 2, padding="same"),
            lambda: L.LSTM(3),
        ),
    )
    yield (
        "mask_timedistributed",
        _one(
            keras,
            (6,),
            lambda: L.Embedding(4, 3, mask_zero=True),
            lambda: L.TimeDistributed(L.Dense(3)),
            lambda: L.LSTM(3),
        ),
    )

    def joined(kind: str) -> Callable[[], Any]:
        def build() -> Any:
            x, y = keras.Input((6,)), keras.Input((6,))
            a, b = L.Embedding(4, 3, mask_zero=True)(x), L.Embedding(4, 3, mask_zero=True)(y)
            return keras.Model([x, y], L.LSTM(3)(getattr(L, kind)()([a, b])))

        return build

    for kind in ("Add", "Concatenate", "Multiply"):
        yield f"mask_{kind}", joined(kind)

    def attention(kind: str) -> Callable[[], Any]:
        def build() -> Any:
            x, y = keras.Input((6,)), keras.Input((5,))
            a, b = L.Embedding(4, 3, mask_zero=True)(x), L.Embedding(4, 3, mask_zero=True)(y)
            z = L.MultiHeadAttention(2, 3)(a, b) if kind == "mha" else getattr(L, kind)()([a, b])
            return keras.Model([x, y], L.GlobalAveragePooling1D()(z))

        return build

    for kind in ("mha", "Attention", "AdditiveAttention"):
        yield f"mask_att_{kind}", attention(kind)


def _attention(keras: Any) -> Iterator[Row]:
    L = keras.layers

    def self_attention(**how: Any) -> Callable[[], Any]:
        call = how.pop("call", {})
        shape = how.pop("shape", (5, 6))

        def build() -> Any:
            x = keras.Input(shape)
            return keras.Model(
                x, L.MultiHeadAttention(2, 3, bias_initializer="random_normal", **how)(x, x, **call)
            )

        return build

    yield "mha", self_attention()
    yield "mha_value", self_attention(value_dim=4, output_shape=7, dropout=0.1)
    yield "mha_shape2", self_attention(output_shape=(2, 4))
    yield "mha_nobias", self_attention(use_bias=False)
    yield "mha_causal", self_attention(call={"use_causal_mask": True})
    yield "mha_scores", self_attention(call={"return_attention_scores": True})
    yield "mha_2d", self_attention(shape=(3, 4, 6), attention_axes=(1, 2))
    yield "mha_axis2", self_attention(shape=(3, 4, 6), attention_axes=(2,))
    yield "mha_window", self_attention(sliding_window=2)
    yield "mha_gate", self_attention(use_gate=True)

    def grouped(**call: Any) -> Callable[[], Any]:
        def build() -> Any:
            x = keras.Input((5, 6))
            return keras.Model(x, L.GroupQueryAttention(4, 6, 2)(x, x, **call))

        return build

    yield "gqa", grouped()
    yield "gqa_causal", grouped(use_causal_mask=True)

    def cross() -> Any:
        x, y, m = keras.Input((5, 6)), keras.Input((4, 3)), keras.Input((5, 4), dtype="bool")
        return keras.Model([x, y, m], L.MultiHeadAttention(2, 3)(x, y, attention_mask=m))

    yield "mha_cross_mask", cross

    def old(kind: str, n: int = 2, call: dict[str, Any] | None = None, **how: Any) -> Callable[[], Any]:
        def build() -> Any:
            given = [keras.Input((5, 6)), *(keras.Input((4, 6)) for _ in range(n - 1))]
            return keras.Model(given, getattr(L, kind)(**how)(given, **(call or {})))

        return build

    yield "attention", old("Attention")
    yield "attention_scale", old("Attention", 3, use_scale=True)
    yield "attention_concat", old("Attention", score_mode="concat", use_scale=True)
    yield "attention_causal", old("Attention", call={"use_causal_mask": True})
    yield "additive", old("AdditiveAttention")
    yield "additive_noscale", old("AdditiveAttention", 3, use_scale=False)


def _data(keras: Any) -> Iterator[Row]:
    L = keras.layers
    yield "rescaling", _one(keras, (5, 4, 3), lambda: L.Rescaling(1 / 127.5, offset=-1))
    yield (
        "rescaling_list",
        _one(keras, (5, 4, 3), lambda: L.Rescaling([0.1, 0.2, 0.3], offset=[1.0, 2.0, 3.0])),
    )
    yield (
        "normalization",
        _one(keras, (5, 3), lambda: L.Normalization(mean=[1.0, 2.0, 3.0], variance=[1.0, 4.0, 0.5])),
    )
    yield "normalization_saved", _one(keras, (5, 3), lambda: L.Normalization())
    yield (
        "normalization_invert",
        _one(keras, (5, 3), lambda: L.Normalization(mean=2.0, variance=3.0, invert=True)),
    )
    yield (
        "normalization_axes",
        _one(keras, (5, 3), lambda: L.Normalization(axis=None, mean=2.0, variance=3.0)),
    )
    for how in ("bilinear", "nearest", "bicubic"):
        yield (
            f"resizing_up_{how}",
            _one(keras, (5, 4, 2), lambda how=how: L.Resizing(9, 11, interpolation=how)),
        )
        yield (
            f"resizing_down_{how}",
            _one(keras, (9, 8, 2), lambda how=how: L.Resizing(4, 5, interpolation=how)),
        )
    yield "center_crop", _one(keras, (9, 8, 2), lambda: L.CenterCrop(4, 5))
    yield "discretization", _one(keras, (6,), lambda: L.Discretization(bin_boundaries=[-0.5, 0.0, 0.5]))
    yield (
        "discretization_hot",
        _one(keras, (6,), lambda: L.Discretization(bin_boundaries=[-0.5, 0.0, 0.5], output_mode="one_hot")),
    )
    yield "category", _one(keras, (6,), lambda: L.CategoryEncoding(4, output_mode="multi_hot"), dtype="int32")
    yield (
        "category_count",
        _one(keras, (6,), lambda: L.CategoryEncoding(4, output_mode="count"), dtype="int32"),
    )
    yield (
        "category_one",
        _one(keras, (1,), lambda: L.CategoryEncoding(4, output_mode="one_hot"), dtype="int32"),
    )
    yield (
        "augmenting",
        _one(keras, (6, 6, 3), lambda: L.RandomFlip(), lambda: L.RandomRotation(0.1), lambda: L.Conv2D(2, 3)),
    )


def _ops(keras: Any) -> Iterator[Row]:
    ops = keras.ops

    def of(write: Callable[[Any], Any], shape: tuple[int, ...] = (4, 6)) -> Callable[[], Any]:
        def build() -> Any:
            x = keras.Input(shape)
            return keras.Model(x, write(x))

        return build

    yield "op_arith", of(lambda x: (x + 1) * 2 - x / 3)
    yield "op_right", of(lambda x: 1 - x)
    yield "op_rdiv", of(lambda x: 2.0 / (ops.abs(x) + 1))
    yield "op_pow", of(lambda x: ops.power(ops.abs(x), 1.5) + x**2)
    for name in (
        "exp",
        "sqrt",
        "sin",
        "tanh",
        "negative",
        "square",
        "sign",
        "floor",
        "log1p",
        "rsqrt",
        "erf",
    ):
        yield (
            f"op_{name}",
            of(
                lambda x, name=name: (
                    getattr(ops, name)(ops.abs(x) + 0.5)
                    if name in ("sqrt", "log1p", "rsqrt")
                    else getattr(ops, name)(x)
                )
            ),
        )
    for name in ("mean", "sum", "max", "min", "prod"):
        yield f"op_{name}", of(lambda x, name=name: getattr(ops, name)(x, axis=-1, keepdims=True))
        yield f"op_{name}_axes", of(lambda x, name=name: getattr(ops, name)(x, axis=(1, 2)))
    for name in (
        "relu",
        "relu6",
        "sigmoid",
        "silu",
        "gelu",
        "softplus",
        "hard_sigmoid",
        "hard_silu",
        "leaky_relu",
        "elu",
        "selu",
    ):
        yield f"op_{name}", of(lambda x, name=name: getattr(ops, name)(x))
    yield "op_softmax", of(lambda x: ops.softmax(x, axis=1))
    yield "op_reshape", of(lambda x: ops.reshape(x, (-1, 8, 3)))
    yield "op_transpose", of(lambda x: ops.transpose(x, (0, 2, 1)))
    yield "op_concat", of(lambda x: ops.concatenate([x, x * 2], axis=1))
    yield "op_stack", of(lambda x: ops.stack([x, x * 2], axis=2))
    yield "op_split", of(lambda x: ops.split(x, 3, axis=-1))
    yield "op_slice", of(lambda x: x[:, 1:3, ::2])
    yield "op_index", of(lambda x: x[:, -1])
    yield "op_ellipsis", of(lambda x: x[..., 2:, None])
    yield "op_reverse", of(lambda x: x[:, ::-1])
    yield "op_expand", of(lambda x: ops.squeeze(ops.expand_dims(x, 2), 2))
    yield "op_clip", of(lambda x: ops.clip(x, -0.5, 0.5))
    yield "op_where", of(lambda x: ops.where(x > 0, x, x * 0.1))
    yield "op_matmul", of(lambda x: ops.matmul(x, ops.swapaxes(x, 1, 2)))
    yield "op_einsum", of(lambda x: ops.einsum("bij,bkj->bik", x, x))
    yield "op_maximum", of(lambda x: ops.maximum(x, 0.1))
    yield "op_pad", of(lambda x: ops.pad(x, [[0, 0], [1, 2], [0, 1]]))
    yield "op_tile", of(lambda x: ops.tile(x, [1, 2, 1]))
    yield "op_repeat", of(lambda x: ops.repeat(x, 2, axis=1))
    yield "op_flip", of(lambda x: ops.flip(x, axis=1))
    yield "op_argmax", of(lambda x: ops.argmax(x, axis=-1))
    yield "op_cast", of(lambda x: ops.cast(x > 0, "float32"))
    yield "op_normalize", of(lambda x: ops.normalize(x, axis=-1))
    yield "op_any", of(lambda x: ops.cast(ops.any(x > 0.5, axis=-1), "float32"))
    yield "op_all", of(lambda x: ops.cast(ops.all(x > -1, axis=(1, 2), keepdims=True), "float32"))
    yield "op_like", of(lambda x: x + ops.ones_like(x) * 2 + ops.zeros_like(x))
    yield "op_log1p_small", of(lambda x: ops.log1p(ops.abs(x) * 1e-6) * 1e6)
    yield "op_take", of(lambda x: ops.take(x, [0, 2], axis=1))


def _models(keras: Any) -> Iterator[Row]:
    L = keras.layers

    def shared() -> Any:
        x, y = keras.Input((4,), name="a"), keras.Input((4,), name="b")
        dense = L.Dense(3)
        tower = keras.Sequential([L.Input((3,)), L.Dense(5, activation="relu"), L.Dense(2)])
        u, v = tower(dense(x)), tower(dense(y))
        return keras.Model({"a": x, "b": y}, {"near": L.Dot(1)([u, v]), "apart": u - v})

    def nested() -> Any:
        inner_in = keras.Input((6, 6, 2))
        a = L.Conv2D(3, 3, activation="relu")(inner_in)
        inner = keras.Model(inner_in, [a, L.GlobalAveragePooling2D()(a)])
        x = keras.Input((6, 6, 2))
        p, q = inner(x)
        r, _ = inner(x * 2)
        return keras.Model(x, [L.Flatten()(p), q, L.BatchNormalization()(r)])

    def frozen() -> Any:
        inner = keras.Sequential([L.Input((6, 6, 2)), L.Conv2D(3, 3), L.BatchNormalization(), L.Conv2D(2, 2)])
        inner.layers[0].trainable = False
        model = keras.Sequential([L.Input((6, 6, 2)), inner, L.BatchNormalization(), L.Flatten(), L.Dense(3)])
        return model

    def frozen_whole() -> Any:
        inner = keras.Sequential([L.Input((6, 6, 2)), L.Conv2D(3, 3), L.BatchNormalization(), L.Conv2D(2, 2)])
        inner.trainable = False
        return keras.Sequential([L.Input((6, 6, 2)), inner, L.Flatten(), L.Dense(3)])

    yield "shared_towers", shared

    def nested_ends() -> Any:
        inner_in = keras.Input((4,))
        inner = keras.Model(inner_in, [L.Dense(3)(inner_in), L.Dense(2)(inner_in)])
        x = keras.Input((4,))
        calls = [inner(x * n) for n in (1, 2, 3)]
        return keras.Model(x, [calls[2][0], calls[0][1], L.Dense(2)(calls[0][0]), L.Dense(2)(calls[1][1])])

    yield "nested", nested
    yield "nested_ends", nested_ends
    yield "frozen", frozen
    yield "frozen_whole", frozen_whole
    yield (
        "sequential",
        lambda: keras.Sequential([L.Input((4,)), L.Dense(3, name="odd name with: things"), L.Dense(2)]),
    )
    yield "twice_out", lambda: _twice(keras)


def _twice(keras: Any) -> Any:
    x = keras.Input((4,))
    dense = keras.layers.Dense(4)
    return keras.Model(x, [dense(x), dense(dense(x)), x])
