"""`ingot evaluate`: metrics by their definitions, data of every kind, models side by side."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import onnx
import onnx.helper as oh
import onnx.numpy_helper as nh
import pytest
from PIL import Image
from typer.testing import CliRunner

import ingot
from ingot.check import metrics as m
from ingot.cli import app
from ingot.errors import InputError

RNG = np.random.default_rng(8)


def result(metric: m.Metric, rows: np.ndarray, right: np.ndarray) -> dict[str, float]:
    """In parts of three."""
    for at in range(0, len(rows), 3):
        metric.add(rows[at : at + 3], right[at : at + 3])
    return dict(metric.result())


def test_top_k_counts_ties_as_the_first() -> None:
    rows = RNG.integers(0, 9, (50, 8)).astype(np.float32)  # many ties
    labels = RNG.integers(0, 8, 50)
    order = [sorted(range(8), key=lambda k, r=r: (-r[k], k)) for r in rows]
    one = np.mean([o[0] == y for o, y in zip(order, labels, strict=True)])
    five = np.mean([y in o[:5] for o, y in zip(order, labels, strict=True)])
    assert result(m.TopK(), rows, labels) == pytest.approx({"top-1": 100 * one, "top-5": 100 * five})


def test_a_nan_is_never_right() -> None:
    rows = np.array([[np.nan, 1, 2], [0, 1, np.nan], [0, 0, 1]])
    assert result(m.TopK(), rows, np.array([0, 1, 2])) == pytest.approx({"top-1": 100 / 3})


@pytest.mark.parametrize("form", ["one", "column", "two"])
def test_auc_is_the_share_of_ordered_pairs(form: str) -> None:
    scores, labels = RNG.integers(0, 6, 40).astype(float), RNG.integers(0, 2, 40)
    pairs = itertools.product(scores[labels == 1], scores[labels == 0])
    right = np.mean([(a > b) + (a == b) / 2 for a, b in pairs])
    rows = {"one": scores, "column": scores[:, None], "two": np.stack([-scores, scores], 1)}[form]
    assert result(m.AreaUnderCurve(), rows, labels) == pytest.approx({"AUC": 100 * right})


def test_integers_name_the_class_themselves() -> None:
    """As the first output of scikit-learn's classifiers does."""
    rows, labels = np.array([[3], [7], [0], [7]]), np.array([3, 7, 1, 7])
    (metric,) = m.metrics_for(rows, labels)
    assert result(metric, rows, labels) == pytest.approx({"top-1": 75.0})


def test_mean_iou_over_the_classes_that_occur() -> None:
    rows, labels = RNG.normal(size=(4, 5, 6, 7)), RNG.integers(0, 3, (4, 6, 7))
    labels[0, 0, :3] = 255
    rows[:, 4] = -9  # class 4 is neither there nor found
    found, seen = rows.argmax(1), labels != 255
    each = []
    for k in range(4):
        a, b = (found == k) & seen, (labels == k) & seen
        each.append((a & b).sum() / (a | b).sum())
    made = result(m.MeanUnion(), rows, labels)
    assert made["mean IoU"] == pytest.approx(100 * np.mean(each))
    assert made["pixels"] == pytest.approx(100 * (found == labels)[seen].mean())


def test_errors_and_their_decibels() -> None:
    right = RNG.normal(size=(10, 4))
    rows = right + RNG.normal(size=right.shape) / 100
    d = rows - right
    wanted = {
        "max |d|": np.abs(d).max(),
        "mean |d|": np.abs(d).mean(),
        "SQNR dB": 10 * np.log10(np.square(right).sum() / np.square(d).sum()),
    }
    assert result(m.Errors(), rows, right) == pytest.approx(wanted)
    assert m.decibels(1.0, 0.0) == np.inf and m.decibels(0.0, 1.0) == -np.inf


BAD = {
    "label beyond": (np.zeros((3, 4)), np.array([0, 4, 1]), "the label 4 is not one of the 4 classes"),
    "label below": (np.zeros((3, 4)), np.array([0, -1, 1]), "the label -1 is not one"),
    "one class": (np.zeros(3), np.zeros(3, int), "AUC needs samples of both classes"),
    "all ignored": (np.zeros((3, 4, 2, 2)), np.full((3, 2, 2), 255), "no element of the labels"),
    "shapes": (np.zeros((3, 4)), np.zeros((3, 5)), "for each sample say nothing of outputs"),
}


@pytest.mark.parametrize("rows, right, message", BAD.values(), ids=BAD)
def test_what_fits_no_metric(rows: np.ndarray, right: np.ndarray, message: str) -> None:
    with pytest.raises(InputError, match=message):
        for metric in m.metrics_for(rows, right):
            metric.add(rows, right)
            metric.result()


def save(path: Path, noise: float, batch: int = 1) -> Path:
    w = nh.from_array((np.eye(3) + noise * RNG.normal(size=(3, 3))).astype(np.float32), "w")
    x, y = (oh.make_tensor_value_info(n, 1, [batch, 3]) for n in "xy")
    nodes = [oh.make_node("MatMul", ["x", "w"], ["y"])]
    graph = oh.make_graph(nodes, "net", [x], [y], [w])
    onnx.save(oh.make_model(graph, opset_imports=[oh.make_opsetid("", 17)], ir_version=8), path)
    return path


def evaluated(*words: object) -> list[dict[str, object]]:
    ran = CliRunner().invoke(app, ["evaluate", *map(str, words), "--json"])
    assert ran.exit_code == 0, ran.stderr
    found: list[dict[str, object]] = json.loads(ran.stdout)
    return found


X = RNG.normal(size=(11, 3)).astype(np.float32)


def test_models_side_by_side(tmp_path: Path) -> None:
    """A batch of four of eleven samples; labels beside the data and in a file; a bundle."""
    exact, noisy = save(tmp_path / "a.onnx", 0, 4), save(tmp_path / "b.onnx", 0.5, 4)
    labels = np.where(np.arange(11) < 9, X.argmax(1), (X.argmax(1) + 1) % 3)
    np.savez(tmp_path / "d.npz", x=X, labels=labels)
    np.save(tmp_path / "y.npy", X.argmax(1))
    assert CliRunner().invoke(app, ["compile", str(exact), "-o", str(tmp_path / "out")]).exit_code == 0
    one, two = evaluated(tmp_path / "out", noisy, "--data", tmp_path / "d.npz")
    assert one["values"] == pytest.approx({"top-1": 100 * 9 / 11}) and one["samples"] == 11
    w = nh.to_array(onnx.load(noisy).graph.initializer[0])
    values, best = two["values"], (X @ w).argmax(1)
    assert isinstance(values, dict)
    assert values["top-1"] == pytest.approx(100 * np.mean(best == labels))
    assert values["same class as the first"] == pytest.approx(100 * np.mean(best == X.argmax(1)))
    assert values["from the first: max |d|"] == pytest.approx(np.abs(X @ w - X).max(), rel=1e-5)
    said = evaluated(exact, "--data", tmp_path / "d.npz", "--labels", tmp_path / "y.npy")
    assert said[0]["values"] == pytest.approx({"top-1": 100.0})


def test_outputs_that_are_right(tmp_path: Path) -> None:
    model = save(tmp_path / "a.onnx", 0)
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", X + np.float32(0.25))
    (one,) = evaluated(model, "--data", tmp_path / "x.npy", "--labels", tmp_path / "y.npy")
    values = one["values"]
    assert isinstance(values, dict)
    assert values["max |d|"] == pytest.approx(0.25, rel=1e-6)
    ran = CliRunner().invoke(app, ["evaluate", str(model), str(model), "--data", f"{tmp_path}/x.npy"])
    assert ran.exit_code == 0 and "inf" in ran.stdout and "100.00 %" in ran.stdout


def pictures(folder: Path) -> Path:
    """Two red images, one blue one that stands among the red."""
    for name, channel in {"red/1": 0, "red/2": 0, "blue/1": 2, "red/3": 2}.items():
        image = np.zeros((2, 2, 3), np.uint8)
        image[..., channel] = 255
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(folder / f"{name}.png")
    return folder


def test_images_by_folder_and_by_table(tmp_path: Path) -> None:
    x, y = oh.make_tensor_value_info("x", 1, [1, 2, 2, 3]), oh.make_tensor_value_info("y", 1, [1, 3])
    node = oh.make_node("ReduceMean", ["x"], ["y"], axes=[1, 2], keepdims=0)
    graph = oh.make_graph([node], "net", [x], [y])
    onnx.save(
        oh.make_model(graph, opset_imports=[oh.make_opsetid("", 17)], ir_version=8), tmp_path / "n.onnx"
    )
    folder = pictures(tmp_path / "images")
    (tmp_path / "names").write_text("red\ngreen\nblue\n")
    words = (tmp_path / "n.onnx", "--images", folder)
    assert evaluated(*words, "--classes", tmp_path / "names")[0]["values"] == {"top-1": 75.0}
    assert evaluated(*words)[0]["values"] == {"top-1": 0.0}  # blue is class 0, red 1
    table = "red/1.png,0\nred/2.png 0\nblue/1.png, 2\nred/3.png blue\n"
    (tmp_path / "table.csv").write_text(table)
    more = ("--labels", tmp_path / "table.csv", "--classes", tmp_path / "names")
    assert evaluated(*words, *more)[0]["values"] == {"top-1": 100.0}
    (tmp_path / "table.csv").write_text("red/1.png,0\n")
    ran = CliRunner().invoke(app, ["evaluate", *map(str, (*words, *more))])
    assert ran.exit_code == 2 and "no label of" in ran.stderr


MISUSED = {
    "no data": ([], "there is no data"),
    "no labels": (["--data", "{d}/x.npy"], "nothing to evaluate by"),
    "too few labels": (["--data", "{d}/x.npy", "--labels", "{d}/few.npy"], "10 labels of 11 samples"),
    "one label": (["--data", "{d}/x.npy", "--labels", "{d}/one.npy"], "are one number"),
    "no such output": (["--data", "{d}/x.npy", "--labels", "{d}/y.npy", "--output", "z"], "no tensor 'z'"),
    "a pickle": (["--data", "{d}/x.npy", "--labels", "{d}/evil.npy"], "not a .npy file"),
}


@pytest.mark.parametrize("words, message", MISUSED.values(), ids=MISUSED)
def test_misuse_is_one_error(words: list[str], message: str, tmp_path: Path) -> None:
    model = save(tmp_path / "a.onnx", 0)
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", X.argmax(1))
    np.save(tmp_path / "few.npy", X.argmax(1)[:10])
    np.save(tmp_path / "one.npy", np.int64(3))
    np.save(tmp_path / "evil.npy", np.array([{}], object), allow_pickle=True)
    ran = CliRunner().invoke(app, ["evaluate", str(model), *(w.format(d=tmp_path) for w in words)])
    assert ran.exit_code == 2 and message in ran.stderr and "Traceback" not in ran.stderr, ran.stderr


def test_floats_are_quantised_for_a_network_of_integers(tmp_path: Path) -> None:
    """Samples of floats fit an int8 input whose scale is known, and its outputs are compared as values."""
    text = """<ir_version: 10, opset_import: ["" : 21]>
    net (int8[1, 4] x) => (int8[1, 4] y) <float s = {0.25}, int8 z = {-3}, float t = {0.5}, int8 o = {1}> {
      a = DequantizeLinear(x, s, z)
      b = Relu(a)
      y = QuantizeLinear(b, t, o)
    }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "bytes.onnx")
    data = RNG.normal(size=(5, 4)).astype(np.float32)
    data[0, :2] = 900, -900  # beyond both limits
    held = np.clip(np.rint(data / np.float32(0.25)) - 3, -128, 127)
    right = np.rint(np.maximum((held + 3) * 0.25, 0) / 0.5) * 0.5
    np.savez(tmp_path / "d.npz", x=data, labels=np.clip(right, -64.5, 63).astype(np.float32))
    (score,) = evaluated(tmp_path / "bytes.onnx", "--inputs", tmp_path / "d.npz")
    assert score["values"]["max |d|"] == 0  # type: ignore[index]
    bundle = ingot.compile(tmp_path / "bytes.onnx")
    with pytest.raises(InputError, match=r"quantise it: np.clip\(np.rint\(x / 0.25\) \+ -3, -128, 127\)"):
        bundle.run({"x": data[:1]})
