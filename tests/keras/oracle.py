"""Keras' own answers beside those of what Ingot makes of the same files. Needs Keras 3 with a backend.

    python -m tests.keras.oracle layers [PART] [--golden tests/keras/golden.npz]   # rows of layers.py
    python -m tests.keras.oracle networks [PART] [--update docs/keras.md]  # keras.applications, others

Layers are saved as .keras and as .h5 and run by onnxruntime; `--golden` keeps files and answers instead,
which `test_golden.py` runs. Networks have random weights and are compiled to bundles. Run by `make keras`.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

os.environ.setdefault("KERAS_BACKEND", "jax")

import h5py
import keras
import numpy as np

import ingot
from ingot.errors import UnsupportedError
from ingot.frontends.keras import import_keras
from tests.keras.layers import REFUSED, rows
from tests.keras.networks import networks

Array = np.ndarray[Any, Any]
TOLERANCE = 1e-4
NARROW = 2e-2  # of float16 and bfloat16
# onnxruntime has no such kernels
CANNOT = ("mixed_bfloat16", "conv_bn_softmax_float64", "resizing_down_bicubic")
BEGIN, END = "<!-- networks: begin -->", "<!-- networks: end -->"


def shake(model: Any, rng: np.random.Generator, size: float) -> None:
    """Random weights that no initialiser makes: biases, statistics and scales too."""
    for variable in model.variables:
        if variable.name.startswith("seed") or "int" in variable.dtype:
            continue
        made = rng.standard_normal(variable.shape) * size
        if "variance" in variable.name:
            made = np.abs(made) + 0.5
        variable.assign((made + (variable.name in ("gamma", "scale"))).astype(np.float32))
    for layer in model.layers:
        if isinstance(layer, keras.layers.Normalization):
            layer.finalize_state()  # it keeps the variables' older values until then


def feeds(model: Any, rng: np.random.Generator) -> list[Array]:
    """An input for each, whole numbers where an embedding or an encoding reads them."""
    classes = (keras.layers.Embedding, keras.layers.CategoryEncoding)
    is_whole = any(isinstance(inner, classes) for inner in model.layers)
    found = []
    for t in model.inputs:
        shape = [1 if n is None else n for n in t.shape]
        made = rng.integers(0, 4, shape) if is_whole else rng.standard_normal(shape)
        found.append((made > -0.5 if t.dtype == "bool" else made).astype(t.dtype))
    return found


def answers(model: Any, given: list[Array]) -> list[Array]:
    """What Keras computes."""
    named = {t.name: a for t, a in zip(model.inputs, given, strict=True)}
    structure = getattr(model, "_inputs_struct", None)  # a Sequential has one input
    whole = named if isinstance(structure, dict) else given if len(given) > 1 else given[0]
    return [np.asarray(y) for y in keras.tree.flatten(model(whole, training=False))]


def off(found: Array, wanted: Array) -> float:
    """The largest difference, in units of the largest answer."""
    if found.shape != wanted.shape:
        return float("inf")
    x, y = found.astype(np.float64), wanted.astype(np.float64)
    return float(np.abs(x - y).max(initial=0) / max(np.abs(y).max(initial=0), 1.0))


# ---- layers


def check_layer(
    name: str, model: Any, given: list[Array], wanted: list[Array]
) -> Iterator[tuple[str, float]]:
    """The difference for each of the two kinds of files."""
    import onnxruntime

    for suffix in (".keras", ".h5"):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"model{suffix}"
            model.save(path)
            proto = import_keras(path)
            if any(word in name for word in CANNOT):
                found = list(ingot.compile(proto, target="c99").run(dict(_named(proto, given))).values())
            else:
                session = onnxruntime.InferenceSession(proto.SerializeToString())
                found = session.run(None, dict(_named(proto, given)))
        pairs = list(zip(found, wanted, strict=True))
        yield suffix, max(off(x, y) for x, y in pairs)


def _named(proto: Any, given: list[Array]) -> Iterator[tuple[str, Array]]:
    return zip((v.name for v in proto.graph.input), given, strict=True)


def layers(part: str, golden: Path | None) -> int:
    bad, count, held = 0, 0, Golden()
    for name, build in rows(keras):
        if part not in name:
            continue
        keras.backend.clear_session()
        rng = np.random.default_rng(len(name))
        try:
            model = build()
            shake(model, rng, 0.4)
            given = feeds(model, rng)
            wanted = answers(model, given)
            if golden and not any(word in name for word in CANNOT):
                held.add(name, model, given, wanted)
            most = 0.0 if golden else max(d for _, d in check_layer(name, model, given, wanted))
            wrong = "" if most <= (NARROW if "float16" in name else TOLERANCE) else f"off by {most:.3g}"
        except UnsupportedError as error:
            wrong = "" if name in REFUSED else f"refused: {error}"
        except Exception as error:
            wrong = f"{type(error).__name__}: {str(error)[:300]}"
        count += 1
        bad += bool(wrong)
        if wrong:
            print(f"{name}: {wrong}", flush=True)
    print(f"{count - bad} of {count} layers agree")
    if golden:
        held.write(golden)
    return bad


class Golden:
    """Files and answers of small models: configurations as JSON, arrays once each, by their hashes."""

    def __init__(self) -> None:
        self.rows: dict[str, Any] = {}
        self.arrays: dict[str, Array] = {}

    def keep(self, array: Array) -> str:
        content = np.asarray(array, order="C")
        key = sha256(f"{content.dtype}{content.shape}".encode() + content.tobytes()).hexdigest()[:12]
        self.arrays[key] = content.astype(np.float32) if content.dtype.name == "bfloat16" else content
        return key

    def add(self, name: str, model: Any, given: list[Array], wanted: list[Array]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.keras"
            model.save(path)
            with zipfile.ZipFile(path) as archive:
                config = json.loads(archive.read("config.json"))
                metadata = json.loads(archive.read("metadata.json"))
                (Path(folder) / "w.h5").write_bytes(archive.read("model.weights.h5"))
            kept: dict[str, str] = {}
            with h5py.File(Path(folder) / "w.h5") as file:
                file.visititems(
                    lambda n, o: kept.update({n: self.keep(o[()])} if isinstance(o, h5py.Dataset) else {})
                )
            model.save(Path(folder) / "model.h5")
            with h5py.File(Path(folder) / "model.h5") as file:
                old = json.loads(file.attrs["model_config"])
                group = file["model_weights"]
                lists = {
                    n: [[w, self.keep(group[n][w][()])] for w in group[n].attrs["weight_names"]]
                    for n in group.attrs["layer_names"]
                }
        plain = _slim(config), _slim(old)
        self.rows[name] = {
            "version": metadata["keras_version"],
            "config": plain[0],
            "old": plain[1],
            "weights": kept,
            "lists": lists,
            "inputs": [self.keep(a) for a in given],
            "outputs": [self.keep(a) for a in wanted],
        }

    def write(self, path: Path) -> None:
        """All arrays behind each other: a name and a header for each would double the file."""
        kinds = [[key, a.dtype.str, a.shape] for key, a in self.arrays.items()]
        text = json.dumps({"rows": self.rows, "arrays": kinds}, separators=(",", ":"))
        data = b"".join(a.tobytes() for a in self.arrays.values())
        np.savez_compressed(path, head=np.frombuffer(text.encode(), "u1"), data=np.frombuffer(data, "u1"))
        print(f"{path}: {path.stat().st_size:,} bytes")


def _slim(config: Any) -> Any:
    """Without what says how weights were made and trained, which the importer never reads."""
    words = ("_initializer", "_regularizer", "_constraint", "shared_object_id", "compile_config")
    if isinstance(config, list):
        return [_slim(c) for c in config]
    if isinstance(config, dict):
        return {k: _slim(v) for k, v in config.items() if not k.endswith(words)}
    return config


# ---- networks


def network_row(build: Any, suffix: str) -> tuple[int, float, float]:
    """Number of weights, the difference of a bundle's outputs from Keras', and how far Keras' own spread."""
    keras.backend.clear_session()
    rng = np.random.default_rng(0)
    model = build()
    shake(model, rng, 0.05)
    given = feeds(model, rng)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"model{suffix}"
        model.save(path)
        bundle = ingot.compile(str(path))
        found = list(bundle.run(dict(_named(import_keras(path), given))).values())
    wanted = answers(model, given)
    most = max(off(x, y) for x, y in zip(found, wanted, strict=True))
    return int(model.count_params()), most, min(float(np.ptp(y) or np.abs(y).max()) for y in wanted)


def all_networks(part: str, document: Path | None) -> int:
    lines, bad = ["| network | weights | file | off by | of a range of |", "|---|--:|---|--:|--:|"], 0
    for i, (name, build) in enumerate(networks(keras)):
        if part in name:
            suffix = (".keras", ".h5")[i % 2]
            count, most, spread = network_row(build, suffix)
            bad += not most <= min(TOLERANCE, spread / 100)  # outputs that are all alike show nothing
            lines.append(f"| {name} | {count:,} | `{suffix}` | {most:.1e} | {spread:.1e} |")
            print(lines[-1], flush=True)
    if document:
        before, _, rest = document.read_text().partition(BEGIN)
        document.write_text("\n".join([before + BEGIN, *lines, END + rest.partition(END)[2]]))
    return bad


def main() -> int:
    words = [w for w in sys.argv[1:] if not w.startswith("--")]
    named = {w: Path(sys.argv[i + 2]) for i, w in enumerate(sys.argv[1:-1]) if w.startswith("--")}
    words = [w for w in words if Path(w) not in named.values()]
    part = words[1] if len(words) > 1 else ""
    if words[0] == "layers":
        return int(layers(part, named.get("--golden")) > 0)
    return int(all_networks(part, named.get("--update")) > 0)


if __name__ == "__main__":
    sys.exit(main())
