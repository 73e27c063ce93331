"""`ingot compress`: what it prints and writes, and how it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from tests.compress.models import answers, model
from tests.test_cli import MODEL, ingot


def test_the_digits_model(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "small.onnx"
    result = ingot(
        "compress", MODEL, "--density", "conv*=60%,fc=0.3", "--bits", "conv=5", "-o", path, "--json"
    )
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert report["bytes"] == path.stat().st_size < Path(MODEL).stat().st_size
    kept = [layer["kept"] / layer["weights"] for layer in report["layers"]]
    np.testing.assert_allclose(kept, [0.6, 0.6, 0.6, 0.3], atol=0.003)
    assert 4 < report["plain_ratio"] < report["ratio"] < 8
    (found,), (wanted,) = (answers(onnx.load(p)) for p in (path, MODEL))
    assert found.shape == wanted.shape and "total" in ingot("compress", MODEL, "-o", path).stdout


def test_batch_normalisations_are_folded_before_weights_are_shared(tmp_path: Path) -> None:
    """What is shared are the scaled weights: the file has no normalisation, and no more than their values."""
    norm = {"gamma": [4], "beta": [4], "mean": [4], "variance": np.full(4, 0.7, np.float32)}
    made = model(
        "(float[1,3,8,8] x) => (float[1,4,6,6] y)",
        "{ c = Conv(x, k) y = BatchNormalization(c, gamma, beta, mean, variance) }",
        {"k": [4, 3, 3, 3], **norm},
    )
    onnx.save(made, tmp_path / "m.onnx")
    for file, words in (("plain.onnx", ()), ("folded.onnx", ("--fold",))):
        result = ingot(
            "compress",
            tmp_path / "m.onnx",
            "--bits",
            "8",
            "--form",
            "codebook",
            *words,
            "-o",
            tmp_path / file,
        )
        assert result.exit_code == 0, result.output
    plain, folded = (onnx.load(tmp_path / f) for f in ("plain.onnx", "folded.onnx"))
    assert [n.op_type for n in plain.graph.node] == ["Codebook", "Conv", "BatchNormalization"]
    assert [n.op_type for n in folded.graph.node] == ["Codebook", "Conv"]
    np.testing.assert_allclose(answers(folded)[0], answers(made)[0], atol=1e-5)


def test_what_compression_costs_on_data(tmp_path: Path) -> None:
    """Errors and right answers are those of onnxruntime on the files before and after; alone, a layer costs
    what a file costs in which only it is compressed."""
    rng = np.random.default_rng(0)
    images, labels = rng.standard_normal((20, 1, 8, 8)).astype(np.float32), rng.integers(0, 10, 20)
    np.savez(tmp_path / "data.npz", image=images, labels=labels)
    words = ("--density", "0.4", "--evaluate", tmp_path / "data.npz", "--json")
    result = ingot("compress", MODEL, *words, "-o", tmp_path / "a.onnx")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)["evaluation"]
    before, after = (_answers(p, images) for p in (MODEL, tmp_path / "a.onnx"))
    assert found["runs"] == 20
    error = np.linalg.norm(after - before) / np.linalg.norm(before)
    assert found["error"] == pytest.approx(error, rel=1e-4)
    for name, rows in (("before", before), ("after", after)):
        assert found[name] == pytest.approx(100 * np.mean(rows.argmax(1) == labels))
    assert len(found["alone"]) == 4
    for name in list(found["alone"])[:2]:
        bits = ("--density", f"{name}=0.4", "--bits", "32", "--bits", f"{name}=8")
        ingot("compress", MODEL, *bits, "-o", tmp_path / "b.onnx")
        rows = _answers(tmp_path / "b.onnx", images)
        wanted = np.linalg.norm(rows - before) / np.linalg.norm(before)
        assert found["alone"][name] == pytest.approx(wanted, rel=1e-3)
    shown = ingot("compress", MODEL, *words[:-1], "--report", tmp_path / "r.md", "-o", tmp_path / "a.onnx")
    assert "right answers:" in shown.stderr and "error alone" in (tmp_path / "r.md").read_text()


def _answers(path: Path | str, images: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return np.concatenate([session.run(None, {session.get_inputs()[0].name: x[None]})[0] for x in images])


@pytest.mark.parametrize("label", [-1, 10])
def test_labels_are_numbers_of_classes(tmp_path: Path, label: int) -> None:
    np.savez(tmp_path / "d.npz", image=np.zeros((2, 1, 8, 8), np.float32), labels=np.array([3, label]))
    result = ingot("compress", MODEL, "--evaluate", tmp_path / "d.npz", "-o", tmp_path / "a.onnx")
    assert result.exit_code == 2 and "the first output has 10 classes" in result.stderr


def test_samples_of_one_input_may_be_in_an_archive(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", image=np.zeros((2, 1, 8, 8), np.float32))
    words = ("--evaluate", f"image={tmp_path / 'd.npz'}", "-o", tmp_path / "a.onnx")
    result = ingot("compress", MODEL, *words)
    assert result.exit_code == 0 and "over 2 runs" in result.stderr, result.stderr


@pytest.mark.parametrize("option", ["--density", "--bits", "--gap-bits"])
def test_options_that_name_nothing(tmp_path: Path, option: str) -> None:
    result = ingot("compress", MODEL, option, " , ", "-o", tmp_path / "a.onnx")
    assert result.exit_code == 2 and f"{option} names no layer" in result.stderr


def test_layers_that_are_not_pruned_because_codes_take_more_room_are_named(tmp_path: Path) -> None:
    """Four weights take less room than their codes and values: the layer stays, and so does its density."""
    made = model("(float[1,24] x) => (float[1,2] y)", "{ h = MatMul(x, w) y = MatMul(h, v) }", {"w": [24, 2]})
    made.graph.initializer.append(numpy_helper.from_array(np.float32([[1, 2], [3, 4]]), "v"))
    onnx.save(made, tmp_path / "m.onnx")
    for density, is_named in (("0.75", True), ("w=0.75", False)):
        words = ("--density", density, "--bits", "2", "--json", "-o", tmp_path / "a.onnx")
        result = ingot("compress", tmp_path / "m.onnx", *words)
        assert result.exit_code == 0, result.output
        kept = {layer["name"]: layer["kept"] for layer in json.loads(result.stdout)["layers"]}
        assert kept == {"w": 36, "v": 4}
        assert ("not pruned, because codes would take more room" in result.stderr) == is_named


def test_labels_are_of_data(tmp_path: Path) -> None:
    result = ingot("compress", MODEL, "--labels", tmp_path / "l.npy", "-o", tmp_path / "a.onnx")
    assert result.exit_code == 2 and "add --evaluate FILE.npz" in result.stderr


def test_short_names(tmp_path: Path) -> None:
    """Inner tensors are renamed, those of branches too; what is outside, and the answers, stay."""
    long = "a_name_that_is_longer_than_what_it_stands_for"
    body = f"""{{
        {long} = MatMul(x, weights)
        y = If (c) <
            then_branch = one () => (float[1,6] inner) {{ inner = Relu({long}) }},
            else_branch = other () => (float[1,6] t0) {{ t0 = MatMul({long}, {long}_2) }}
        >
    }}"""
    text = "(float[1,24] x, bool c) => (float[1,6] y)"
    made = model(text, body, {"weights": [24, 6], f"{long}_2": [6, 6]})
    made.graph.node[0].name = made.graph.node[0].doc_string = long
    onnx.save(made, tmp_path / "m.onnx")
    for file, words in (("long.onnx", ()), ("short.onnx", ("--short-names",))):
        result = ingot("compress", tmp_path / "m.onnx", *words, "-o", tmp_path / file)
        assert result.exit_code == 0, result.output
    before, after = (onnx.load(tmp_path / f) for f in ("long.onnx", "short.onnx"))
    onnx.checker.check_model(after, full_check=True)
    assert long.encode() not in after.SerializeToString() and before.ByteSize() > after.ByteSize() + 200
    assert [v.name for v in (*after.graph.input, *after.graph.output)] == ["x", "c", "y"]
    for seed in range(4):
        np.testing.assert_array_equal(answers(after, seed)[0], answers(before, seed)[0])


def test_a_container_and_back(tmp_path: Path) -> None:
    options = ("--density", "0.5", "--form", "sparse", "--gap-bits", "4", "--json")
    for file, words in (
        ("a.net", options),
        ("b.onnx", ("--from", tmp_path / "a.net")),
        ("c.net", ("--from", tmp_path / "a.net")),
    ):
        result = ingot("compress", MODEL, *words, "-o", tmp_path / file)
        assert result.exit_code == 0, result.output
    assert (tmp_path / "a.net").read_bytes() == (tmp_path / "c.net").read_bytes()
    (tmp_path / "short.net").write_bytes((tmp_path / "a.net").read_bytes()[:-1])
    result = ingot("compress", MODEL, "--from", tmp_path / "short.net", "-o", tmp_path / "d.onnx")
    assert result.exit_code == 2 and "the container ends at byte" in result.stderr
    assert ingot("compress", MODEL, "--from", tmp_path / "none.net").exit_code == 2


@pytest.mark.parametrize(
    "words",
    [
        ("--density", "0.3"),
        ("--bits", "conv=5"),
        ("--bits", "conv=32"),
        ("--form", "codebook"),
        ("--form", "sparse", "--gap-bits", "3"),
        ("--target-ratio", "9x", "--prune-by", "global"),
        ("--total-density", "20%"),
        ("--centroids", "random", "--seed", "3"),
    ],
    ids=" ".join,
)
def test_weights_of_a_container_are_compressed_as_those_of_its_model_are(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    """What `--from` with options makes is what the model written from the container gives."""
    first = ("--density", "0.5", "--form", "sparse", "--gap-bits", "4")
    for source, file, options in (
        (MODEL, "a.net", first),
        (MODEL, "b.onnx", ("--from", tmp_path / "a.net")),
        (tmp_path / "b.onnx", "wanted.onnx", words),
        (MODEL, "found.onnx", ("--from", tmp_path / "a.net", *words)),
    ):
        result = ingot("compress", source, *options, "-o", tmp_path / file)
        assert result.exit_code == 0, result.output
    (found,), (wanted,) = (answers(onnx.load(tmp_path / f)) for f in ("found.onnx", "wanted.onnx"))
    np.testing.assert_array_equal(found, wanted)


def test_weights_in_a_file_beside_the_model(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    onnx.save(
        onnx.load(MODEL),
        tmp_path / "in" / "m.onnx",
        save_as_external_data=True,
        size_threshold=0,
        location="w",
    )
    result = ingot("compress", tmp_path / "in" / "m.onnx", "--density", "0.5", "-o", tmp_path / "out.onnx")
    assert result.exit_code == 0, result.output
    direct = ingot("compress", MODEL, "--density", "0.5", "-o", tmp_path / "direct.onnx")
    assert direct.exit_code == 0
    (found,), (wanted,) = (answers(onnx.load(tmp_path / f)) for f in ("out.onnx", "direct.onnx"))
    np.testing.assert_array_equal(found, wanted)


def test_sparse_initializers_are_weights(tmp_path: Path) -> None:
    model = onnx.load(MODEL)
    at = next(i for i, t in enumerate(model.graph.initializer) if len(t.dims) == 4)
    weights = numpy_helper.to_array(model.graph.initializer[at])
    name = model.graph.initializer.pop(at).name
    where = np.flatnonzero(np.abs(weights) > np.median(np.abs(weights)))
    values = numpy_helper.from_array(weights.reshape(-1)[where], name)
    indices = numpy_helper.from_array(where.astype(np.int64), f"{name}.at")
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, weights.shape))
    onnx.save(model, tmp_path / "in.onnx")
    result = ingot("compress", tmp_path / "in.onnx", "--bits", "5", "-o", tmp_path / "out.onnx", "--json")
    assert result.exit_code == 0, result.output
    layer = next(la for la in json.loads(result.stdout)["layers"] if la["name"] == name)
    assert layer["kept"] == len(where)
    assert answers(onnx.load(tmp_path / "out.onnx"))[0].shape == answers(onnx.load(MODEL))[0].shape


def test_a_report_that_finds_no_place_leaves_no_model(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for report in (tmp_path, tmp_path / "file" / "r.md"):
        made = tmp_path / "out" / "m.onnx"
        refused = ingot("compress", MODEL, "-o", made, "--report", report)
        assert refused.exit_code == 2 and f"cannot write {report}" in refused.stderr
        assert [p.name for p in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("name", ["made.onnx", "made.net"])
def test_the_ratio_of_the_files_is_that_of_the_files(tmp_path: Path, name: str) -> None:
    made, words = tmp_path / name, ("--density", "0.3", "--form", "sparse", "--gap-bits", "4")
    result = ingot("compress", MODEL, *words, "-o", made, "--report", tmp_path / "r.md", "--json")
    assert result.exit_code == 0, result.output
    data, before, size = json.loads(result.stdout), Path(MODEL).stat().st_size, made.stat().st_size
    assert (data["model_bytes"], data["bytes"]) == (before, size) and data["file_ratio"] == before / size
    assert f"{size:,} bytes: {before / size:.1f}x smaller" in (tmp_path / "r.md").read_text()
    layers, codes = data["layers"], data["total"]["bits"][0] / 8
    if name == "made.net":  # codebooks of 16 or 256 values and biases; nothing else
        room = 4 * len(layers) + sum(
            4 * ((1 << (8 if "conv" in x["name"] else 4)) - x["values_bits"] // 32) for x in layers
        )
        assert 0 <= size - codes - room < 4 * 1000
    else:  # names, shapes and functions
        assert codes < size < codes + data["other_bits"] / 8 + 16384


def test_reports_as_files(tmp_path: Path) -> None:
    for name in ("r.md", "r.json"):
        assert ingot("compress", MODEL, "-o", tmp_path / "m.onnx", "--report", tmp_path / name).exit_code == 0
    assert (tmp_path / "r.md").read_text().startswith("| layer | kind | form |")
    assert json.loads((tmp_path / "r.json").read_text())["total"]["name"] == "total"
    result = ingot("compress", MODEL, "-o", tmp_path)
    assert result.exit_code == 2 and result.stderr.count("\n") == 1
    assert f"cannot write {tmp_path}: Is a directory" in result.stderr
    assert ingot("compress", MODEL, "--seed", "-1", "--centroids", "random").exit_code == 2
    assert not list(tmp_path.parent.glob(".ingot-*"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--density", "fc6=0.1"], "no such layer; it has 'conv1.weight' (conv: conv1), 'conv2.weight'"),
        (["--density", "conv1=0"], "above 0, at most 1"),
        (["--density", "conv1=x"], "above 0, at most 1"),
        (["--bits", "fc=9"], "codes have 1 to 8 bits; 32 leaves"),
        (["--target-ratio", "x"], "write how many times smaller, as in 35x"),
        (["--target-ratio", "9999x"], "become"),
        (["--target-ratio", "9x", "--density", "0.1"], "--target-ratio finds densities of layers that --den"),
        (["--total-density", "9%", "--density", "conv=1,fc=1"], "--total-density finds densities of layers"),
        (["--finetune", "nothere.py"], "cannot read 'nothere.py': no such file"),
        (["--prune-by", "global"], "of what? Name a --target-ratio or a --total-density"),
        (["--rounds", "2"], "add --finetune TRAIN.py"),
        (["--seed", "1"], "--seed 1 is of random centroids; add --centroids random"),
        (["--bits", "32"], "--bits 32 for every layer compresses nothing"),
        (["--density", "conv=0.5", "--bits", "conv=32"], "--density conv=0.5: --bits 32 leaves these layers"),
        (
            ["--gap-bits", "conv1=3", "--bits", "conv1=32"],
            "--gap-bits conv1=3: --bits 32 leaves these layers",
        ),
        (["--gap-bits", "3", "--form", "codebook"], "--form codebook has none"),
        (["--gap-bits", "0"], "gaps have 1 to 8 bits"),
        (["--density", "=0.1"], "which layer?; 0.1 alone is for all layers"),
    ],
)
def test_refusals_are_one_line(arguments: list[str], message: str, tmp_path: Path) -> None:
    result = ingot("compress", MODEL, *arguments, "-o", tmp_path / "out.onnx")
    assert result.exit_code == 2, result.output
    assert message in result.stderr and result.stderr.count("\n") == 1
    assert not (tmp_path / "out.onnx").exists()


def test_bits_of_gaps_that_no_layer_has_are_said(tmp_path: Path) -> None:
    said = "without --gap-bits: 'dense.weight'; --form sparse"
    words = ("compress", MODEL, "--gap-bits", "fc=3", "--density", "conv=0.2", "-o", tmp_path / "x")
    assert said in ingot(*words).stderr
    assert "--gap-bits" not in ingot(*words, "--form", "sparse").stderr


def test_the_closest_name_counts(tmp_path: Path) -> None:
    words = "dense=0.5,fc=0.1,0.2,conv?.weight=0.3,conv2.weight=0.4"
    result = ingot("compress", MODEL, "--density", words, "--form", "sparse", "-o", tmp_path / "x", "--json")
    kept = [layer["kept"] / layer["weights"] for layer in json.loads(result.stdout)["layers"]]
    np.testing.assert_allclose(kept, [0.3, 0.4, 0.3, 0.5], atol=0.01)


@pytest.mark.parametrize("kind", ["int8", "float16"])
def test_bundles_of_narrow_weights_are_what_the_compressed_model_is(kind: str, tmp_path: Path) -> None:
    """Windows of three bytes or halves in a row, too, which are no whole number of a codebook's floats."""
    noise = np.random.default_rng(4).standard_normal((4, 3, 3, 3))
    w = np.rint(30 * noise).astype(np.int8) if kind == "int8" else noise.astype(np.float16)
    body = "{ v = DequantizeLinear(w, t) y = Conv(x, v) }" if kind == "int8" else "{ y = Conv(x, w) }"
    type_ = "float" if kind == "int8" else kind
    scale = {"t": np.asarray(np.float32(0.1))} if kind == "int8" else {}
    signature = f"({type_}[1,3,6,6] x) => ({type_}[1,4,4,4] y)"
    onnx.save(model(signature, body, {"w": w, **scale}), tmp_path / "m.onnx")
    made = tmp_path / "c.onnx"
    result = ingot("compress", tmp_path / "m.onnx", "--bits", "2", "-o", made, "--json")
    assert result.exit_code == 0 and json.loads(result.stdout)["layers"][0]["form"] != kind, result.output
    verified = ingot("verify", made)
    assert verified.exit_code == 0, verified.output


@pytest.mark.parametrize("density, said", [("1.0", True), ("0.1", False)])
def test_int8_that_a_bundle_expands_is_said(density: str, said: bool, tmp_path: Path) -> None:
    w = np.rint(30 * np.random.default_rng(4).standard_normal((90, 60))).astype(np.int8)
    body = "{ v = DequantizeLinear(w, t) y = MatMul(x, v) }"
    given = {"w": w, "t": np.asarray(np.float32(0.1))}
    onnx.save(model("(float[1,90] x) => (float[1,60] y)", body, given), tmp_path / "m.onnx")
    words = ("--bits", "4", "--density", density, "-o", tmp_path / "c.onnx")
    result = ingot("compress", tmp_path / "m.onnx", *words)
    assert result.exit_code == 0, result.output
    assert ("and bytes in a bundle: 'w'; prune them" in result.stderr) == said
