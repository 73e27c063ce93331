"""Networks of Keras beside TensorFlow's own answers, as a SavedModel and as TFLite, float and int8.

    python -m tests.tensorflow.networks [NAME...] [--update]

TensorFlow writes and runs both; TFLite is run by its reference kernels. Floats agree within 1e-4 of the
largest answer, integers to the bit or by as many steps as the table says. Needs TensorFlow. Run by
`make tensorflow`, which writes tables into docs/tensorflow.md and docs/tflite.md: rows of networks that did
not run stay as they are.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

import ingot
from tests.keras.networks import networks

Array = np.ndarray[Any, Any]
TOLERANCE = 1e-4
BEGIN, END = "<!-- networks: begin -->", "<!-- networks: end -->"
CALIBRATION = 8
UNCALIBRATED = ("lstm text", "gru text", "conv lstm")
"""TensorFlow's calibrator (2.21) crashes on their loops."""
NUMBER = re.compile(r"in(\d+)")
SAVED, LITE = Path("docs/tensorflow.md"), Path("docs/tflite.md")


def drawn(model: Any, rng: np.random.Generator) -> list[Array]:
    """An input for each, whole numbers where an embedding reads them."""
    is_whole = any(isinstance(layer, keras.layers.Embedding) for layer in model.layers)
    found = []
    for t in model.inputs:
        shape = [1 if n is None else n for n in t.shape]
        made = rng.integers(0, 12, shape) if is_whole else rng.standard_normal(shape)
        found.append(made.astype(t.dtype))
    return found


def shake(model: Any, rng: np.random.Generator) -> None:
    """Random biases, statistics and scales, which start as 0 and 1."""
    for v in model.variables:
        if "int" in v.dtype or v.name not in ("bias", "beta", "gamma", "moving_mean", "moving_variance"):
            continue
        made = rng.standard_normal(v.shape) / 8
        v.assign(np.abs(made) + 0.75 if v.name == "moving_variance" else made + (v.name == "gamma"))


def concrete(model: Any) -> Any:
    """The model as a function of its inputs' fixed shapes."""
    specs = [
        tf.TensorSpec([1 if n is None else n for n in t.shape], t.dtype, name=f"in{i}")
        for i, t in enumerate(model.inputs)
    ]

    def call(*given: Any) -> Any:
        made = model(list(given) if len(given) > 1 else given[0], training=False)
        return {f"out{i}": y for i, y in enumerate(tf.nest.flatten(made))}

    return tf.function(call, input_signature=specs)


def saved(model: Any, given: list[Array], folder: Path) -> float:
    """How far the bundle of a SavedModel is off, as Keras exports it for serving."""
    model.export(folder, verbose=False)
    wanted = [
        y.numpy() for y in tf.nest.flatten(model(given if len(given) > 1 else given[0], training=False))
    ]
    bundle = ingot.compile(folder)
    named = {t.name: x for t, x in zip(model.inputs, given, strict=True)}
    inputs = [t["name"] for t in bundle.manifest["inputs"]]
    feeds = named if set(inputs) == set(named) else dict(zip(inputs, given, strict=True))
    return max(off(y, w) for y, w in zip(bundle.run(feeds).values(), wanted, strict=True))


def off(found: Array, wanted: Array) -> float:
    """The largest difference, in units of the largest answer, or of 1."""
    if found.shape != wanted.shape:
        return float("inf")
    return float(np.abs(found.astype(float) - wanted).max() / max(np.abs(wanted.astype(float)).max(), 1.0))


def lite(model: Any, function: Any, rng: np.random.Generator, is_int8: bool) -> bytes:
    """What TensorFlow's converter makes of the model."""
    frozen = convert_variables_to_constants_v2(function.get_concrete_function())
    converter = tf.lite.TFLiteConverter.from_concrete_functions([frozen])
    if is_int8:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        converter.representative_dataset = lambda: (drawn(model, rng) for _ in range(CALIBRATION))
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
        converter.inference_output_type = tf.int8
        if all(t.dtype == "float32" for t in model.inputs):
            converter.inference_input_type = tf.int8
    return bytes(converter.convert())


def ran(data: bytes, rng: np.random.Generator, given: list[Array]) -> Iterator[tuple[Array, Array]]:
    """Each output of the bundle beside that of TFLite's reference kernels."""
    reference = tf.lite.experimental.OpResolverType.BUILTIN_REF
    interpreter = tf.lite.Interpreter(model_content=data, experimental_op_resolver_type=reference)
    interpreter.allocate_tensors()
    feeds = {}
    for d in interpreter.get_input_details():
        scale, zero = d["quantization"]
        x = given[int(NUMBER.findall(d["name"])[-1])]
        if scale:
            x = np.clip(np.round(x / scale) + zero, -128, 127).astype(d["dtype"])
        interpreter.set_tensor(d["index"], x)
        feeds[d["name"]] = x
    interpreter.invoke()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.tflite"
        path.write_bytes(data)
        bundle = ingot.compile(path)
        names = [t["name"] for t in bundle.manifest["inputs"]]
        found = list(bundle.run(dict(zip(names, feeds.values(), strict=True))).values())
    for y, d in zip(found, interpreter.get_output_details(), strict=True):
        yield y, interpreter.get_tensor(d["index"])


def lite_rows(name: str, model: Any, function: Any, given: list[Array]) -> tuple[str, bool]:
    """A row of TFLite's table: floats by their difference, integers by the share that differs."""
    rng = np.random.default_rng(1)
    floats = max(off(y, w) for y, w in ran(lite(model, function, rng, False), rng, given))
    if name in UNCALIBRATED:
        return f"| {name} | {floats:.1e} | |", floats <= TOLERANCE
    try:
        data = lite(model, function, rng, True)
    except Exception as error:
        return (
            f"| {name} | {floats:.1e} | TensorFlow: {str(error).splitlines()[0][:60]} |",
            floats <= TOLERANCE,
        )
    pairs = [(y.astype(int).ravel(), w.astype(int).ravel()) for y, w in ran(data, rng, given)]
    most = max(int(np.abs(y - w).max()) for y, w in pairs)
    said = "equal" if most == 0 else f"{most} of 255"
    return f"| {name} | {floats:.1e} | {said} |", floats <= TOLERANCE and most <= 1


def update(document: Path, head: str, rows: dict[str, str], order: Iterable[str]) -> None:
    """Put rows into the document's table, by their networks; others stay."""
    before, _, rest = document.read_text().partition(BEGIN)
    table, _, after = rest.partition(END)
    held = {line.split("|")[1].strip(): line for line in table.strip().splitlines()[2:]} | rows
    listed = [held[name] for name in order if name in held]
    document.write_text("\n".join([before + BEGIN, head, *listed, END + after]))


def main() -> int:
    words = [w for w in sys.argv[1:] if not w.startswith("--")]
    heads = {
        SAVED: "| network | weights | off by |\n|---|--:|--:|",
        LITE: "| network | float off by | int8 |\n|---|--:|--:|",
    }
    tables: dict[Path, dict[str, str]] = {SAVED: {}, LITE: {}}
    bad = 0
    every = dict(networks(keras))
    for name in words or every:
        build = every[name]
        keras.backend.clear_session()
        model, rng = build(), np.random.default_rng(len(name))
        shake(model, rng)
        given, function = drawn(model, rng), concrete(model)
        for table in tables:
            try:
                with tempfile.TemporaryDirectory() as folder:
                    if table == SAVED:
                        most = saved(model, given, Path(folder))
                        row, agrees = f"| {name} | {model.count_params():,} | {most:.1e} |", most <= TOLERANCE
                    else:
                        row, agrees = lite_rows(name, model, function, given)
            except Exception as error:
                row, agrees = f"| {name} | {type(error).__name__}: {str(error)[:300]} |", False
            print(table.stem, row, "" if agrees else "WRONG", flush=True)
            tables[table][name] = row
            bad += not agrees
    if "--update" in sys.argv:
        for document, rows in tables.items():
            update(document, heads[document], rows, every)
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
