"""SavedModels and TF1 checkpoints made by TensorFlow itself, for `compare`: see `oracle`.

/tmp/tf/bin/python tests/tensorflow/saved.py DIR
python -m tests.tensorflow.compare DIR --folders
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

RNG = np.random.default_rng(6)
v1 = tf.compat.v1


def keras_nets() -> dict[str, tuple[Any, tuple[int, ...]]]:
    k = tf.keras.layers
    return {
        "dense": ([k.Dense(5, "relu"), k.Dense(3)], (1, 4)),
        "cnn": (
            [k.Conv2D(4, 3, activation="relu"), k.BatchNormalization(), k.Flatten(), k.Dense(3)],
            (1, 8, 8, 3),
        ),
        "lstm": ([k.LSTM(5, return_sequences=True), k.GRU(4)], (1, 6, 3)),
    }


def saved_models(folder: Path) -> None:
    for name, (layers, shape) in keras_nets().items():
        model = tf.keras.Sequential([tf.keras.Input(shape[1:]), *layers])
        x = RNG.standard_normal(shape).astype(np.float32)
        model.export(str(folder / f"keras_{name}"))
        remember(folder / f"keras_{name}", {"": x}, [model(x).numpy()])
    module = tf.Module()
    module.w, module.b = (
        tf.Variable(RNG.standard_normal((4, 3)).astype(np.float32)),
        tf.Variable(tf.zeros(3) + 0.5),
    )
    module.same = tf.Variable(RNG.standard_normal((3, 3)).astype(np.float32), name="Variable")

    @tf.function(input_signature=[tf.TensorSpec((2, 4), name="x"), tf.TensorSpec((), tf.bool, name="flag")])
    def call(x: Any, flag: Any) -> Any:
        y = tf.matmul(x, module.w) + module.b
        return {"late": tf.cond(flag, lambda: tf.matmul(y, module.same), lambda: -y), "early": y}

    module.call = call
    tf.saved_model.save(module, str(folder / "module"), signatures=call)
    x = RNG.standard_normal((2, 4)).astype(np.float32)
    found = call(x, tf.constant(True))
    remember(
        folder / "module", {"x": x, "flag": np.array(True)}, [found["early"].numpy(), found["late"].numpy()]
    )


def recurrent(x: Any, training: Any) -> Any:
    """A loop over six steps, dropout in training, and a matrix."""
    w = v1.get_variable("w", (3, 4))

    def turn(i: Any, h: Any) -> Any:
        return i + 1, tf.tanh(x[:, i] @ w + h * 0.5)

    hidden = v1.while_loop(lambda i, h: i < 6, turn, [0, tf.zeros((tf.shape(x)[0], 4))])[1]
    dropped = tf.cond(training, lambda: tf.nn.dropout(hidden, 0.5), lambda: hidden)
    return tf.identity(dropped @ v1.get_variable("v", (4, 2)), name="y")


def checkpoints(folder: Path) -> None:
    for kind in ("ref", "resource"):
        with tf.Graph().as_default(), v1.Session() as session:
            x = v1.placeholder(tf.float32, (None, 6, 3), name="x")
            training = v1.placeholder_with_default(False, (), name="training")
            with v1.variable_scope("net", use_resource=kind == "resource"):
                y = recurrent(x, training)
            v1.train.AdamOptimizer().minimize(tf.reduce_mean(y**2))
            session.run(v1.global_variables_initializer())
            into = folder / f"checkpoint_{kind}"
            v1.train.Saver().save(session, str(into / "model"), global_step=7)
            given = RNG.standard_normal((1, 6, 3)).astype(np.float32)
            remember(into, {"x": given}, [session.run(y, {x: given})], ["net/y"])


def remember(
    folder: Path, inputs: dict[str, Any], outputs: list[Any], names: list[str] | None = None
) -> None:
    arrays = {f"in|{n}": x for n, x in inputs.items()} | {f"out|{i}": y for i, y in enumerate(outputs)}
    np.savez(folder.with_suffix(".npz"), **arrays)
    folder.with_suffix(".names").write_text("\n".join(names or []))


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    saved_models(folder)
    v1.disable_control_flow_v2()
    checkpoints(folder)


if __name__ == "__main__":
    main()
