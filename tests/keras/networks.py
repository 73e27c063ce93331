"""Networks that people have, on small images, with random weights. Read by `oracle.py`, which needs Keras."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

Row = tuple[str, Callable[[], Any]]
IMAGE = (64, 64, 3)
APPLICATIONS = (
    *("ResNet50", "ResNet50V2", "VGG16", "VGG19", "MobileNet", "MobileNetV2", "MobileNetV3Small"),
    *("EfficientNetB0", "EfficientNetV2B0", "DenseNet121", "NASNetMobile", "ConvNeXtTiny"),
)
LARGER = ("InceptionV3", "Xception")


def networks(keras: Any) -> Iterator[Row]:
    """All networks: name, and what builds the model."""
    for name, shape in (*((n, IMAGE) for n in APPLICATIONS), *((n, (80, 80, 3)) for n in LARGER)):
        yield name, _application(keras, name, shape)
    for write in (u_net, lstm_text, gru_text, transformer, two_inputs, autoencoder, conv_lstm, residual_1d):
        yield write.__name__.replace("_", " "), _of(keras, write)


def _application(keras: Any, name: str, shape: tuple[int, ...]) -> Callable[[], Any]:
    return lambda: getattr(keras.applications, name)(
        weights=None, input_shape=shape, classes=10, include_top=True, classifier_activation=None
    )


def _of(keras: Any, write: Callable[[Any], Any]) -> Callable[[], Any]:
    return lambda: write(keras)


def u_net(keras: Any) -> Any:
    k = keras.layers
    x = y = keras.Input((32, 32, 3))
    left = []
    for n in (8, 16, 32):
        y = k.Conv2D(n, 3, padding="same", activation="relu")(y)
        y = k.BatchNormalization()(y)
        left.append(y)
        y = k.MaxPooling2D()(y)
    for n, other in zip((32, 16, 8), reversed(left), strict=True):
        y = k.Conv2DTranspose(n, 2, strides=2, padding="same")(y)
        y = k.Concatenate()([y, other])
        y = k.SeparableConv2D(n, 3, padding="same", activation="swish")(y)
    return keras.Model(x, k.Conv2D(2, 1, activation="softmax")(y))


def lstm_text(keras: Any) -> Any:
    k = keras.layers
    x = keras.Input((20,), dtype="int32")
    y = k.Embedding(100, 16, mask_zero=True)(x)
    y = k.Bidirectional(k.LSTM(12, return_sequences=True))(y)
    y = k.LSTM(8)(k.Dropout(0.5)(y))
    return keras.Model(x, k.Dense(1, activation="sigmoid")(y))


def gru_text(keras: Any) -> Any:
    k = keras.layers
    return keras.Sequential(
        [k.Input((20,)), k.Embedding(100, 16), k.GRU(12, return_sequences=True), k.GRU(8), k.Dense(5)]
    )


def transformer(keras: Any) -> Any:
    k = keras.layers
    x = keras.Input((12,), dtype="int32")
    y = k.Embedding(50, 16, mask_zero=True)(x)
    y = y + k.Embedding(12, 16)(keras.ops.arange(12))
    for _ in range(2):
        a = k.MultiHeadAttention(4, 4, dropout=0.1)(y, y)
        y = k.LayerNormalization(epsilon=1e-6)(k.Add()([y, a]))
        f = k.Dense(16)(k.Dense(32, activation="gelu")(y))
        y = k.LayerNormalization(epsilon=1e-6)(k.Add()([y, k.Dropout(0.1)(f)]))
    return keras.Model(x, k.Dense(3, activation="softmax")(k.GlobalAveragePooling1D()(y)))


def two_inputs(keras: Any) -> Any:
    k = keras.layers
    image, facts = keras.Input((16, 16, 1), name="image"), keras.Input((4,), name="facts")
    a = k.Flatten()(k.MaxPooling2D()(k.Conv2D(8, 3, activation="relu")(k.Rescaling(1 / 255)(image))))
    b = k.Dense(8, activation="selu")(k.Normalization(mean=[0.0] * 4, variance=[2.0] * 4)(facts))
    y = k.Concatenate()([a, b])
    return keras.Model(
        [image, facts], [k.Dense(3, activation="softmax", name="kind")(y), k.Dense(1, name="age")(y)]
    )


def autoencoder(keras: Any) -> Any:
    k = keras.layers
    inner = keras.Sequential([k.Input((40,)), k.Dense(20, activation="tanh"), k.Dense(4)], name="encoder")
    outer = keras.Sequential([k.Input((4,)), k.Dense(20), k.PReLU(), k.Dense(40)], name="decoder")
    x = keras.Input((40,))
    return keras.Model(x, outer(inner(x)))


def conv_lstm(keras: Any) -> Any:
    k = keras.layers
    return keras.Sequential(
        [
            k.Input((4, 10, 10, 1)),
            k.ConvLSTM2D(6, 3, padding="same", return_sequences=True),
            k.BatchNormalization(),
            k.ConvLSTM2D(4, 3, padding="same"),
            k.Conv2D(1, 3, padding="same", activation="sigmoid"),
        ]
    )


def residual_1d(keras: Any) -> Any:
    k = keras.layers
    x = y = keras.Input((64, 2))
    for d in (1, 2, 4):
        z = k.Conv1D(8, 3, padding="causal", dilation_rate=d, activation="relu")(y)
        y = k.Add()([k.Conv1D(8, 1)(y), k.LayerNormalization()(z)])
    return keras.Model(x, k.Dense(2)(k.GlobalMaxPooling1D()(y)))
