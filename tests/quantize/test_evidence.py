"""What data decides: equalisation, adaptive rounding, which layers stay float."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from ingot.check.evidence import oracle_runner
from ingot.errors import InputError
from ingot.quantization.equalize import chains, equalize
from ingot.quantization.evidence import Evidence
from ingot.quantization.fold import fold
from ingot.quantization.network import closed, opened
from ingot.quantization.profile import write_profile
from ingot.quantization.quantize import Quantized, quantize
from ingot.quantization.rescaled import rescaled
from ingot.quantization.scheme import Scheme
from ingot.quantization.search import search
from tests.quantize.nets import Feeds, answers, images, net, normal, profile_of
from tests.test_cli import ingot

RNG = np.random.default_rng(9)
SPREAD = np.logspace(-1.3, 1.3, 8).astype(np.float32)
WEIGHTS = {
    "w": normal(RNG, 8, 3, 3, 3, size=0.3) * SPREAD[:, None, None, None],
    "b": normal(RNG, 8, size=0.1) * SPREAD,
    "dw": normal(RNG, 8, 1, 3, 3, size=0.4) / SPREAD[:, None, None, None],
    "pw": normal(RNG, 6, 8, 1, 1, size=0.4),
    "zero": np.array(0, np.float32),
    "six": np.array(6, np.float32),
}
IMAGES = images(RNG, 12, 1, 3, 8, 8)


def chained(between: str) -> onnx.ModelProto:
    """Channels four hundred times apart between a convolution and a depthwise one."""
    return net(
        f"c = Conv(x, w, b) r = {between} d = Conv<group=8>(r, dw) e = Relu(d) y = Conv(e, pw)",
        WEIGHTS,
        "(float[1,3,8,8] x) => (float[1,6,4,4] y)",
    )


def made(model: onnx.ModelProto, feeds: Feeds, **scheme: object) -> Quantized:
    profile, evidence = profile_of(model, feeds), Evidence(tuple(feeds), oracle_runner)
    return quantize(model, profile, Scheme(**scheme), {}, evidence)  # type: ignore[arg-type]


def lost(model: onnx.ModelProto, feeds: Feeds, **scheme: object) -> float:
    found = made(model, feeds, **scheme)
    assert found.loss is not None
    return found.loss


def test_an_equalised_model_computes_the_same() -> None:
    model = chained("LeakyRelu(c)")
    network = fold(opened(model, {}))
    assert set(equalize(network, profile_of(model, IMAGES), set())) == {"c", "r", "d", "e"}
    np.testing.assert_allclose(answers(closed(network), IMAGES), answers(model, IMAGES), rtol=1e-4, atol=1e-5)


def test_uneven_channels_are_rescaled_without_data() -> None:
    """Statistics of what changed are estimated."""
    model = chained("Relu(c)")
    profile, wanted = profile_of(model, IMAGES), np.concatenate(answers(model, IMAGES))

    def error(**scheme: bool) -> float:
        found = quantize(model, profile, Scheme(**scheme), {})  # type: ignore[arg-type]
        assert (found.equalized > 0) == scheme.get("equalize", True)
        return float(np.square(np.concatenate(answers(found.model, IMAGES)) - wanted).sum())

    assert error() < error(equalize=False) / 1.5


@pytest.mark.parametrize("name", ["c", "r"])
def test_estimated_statistics(name: str) -> None:
    """Means and squares are exact, and the histogram counts all elements; both signs, and one."""
    found = profile_of(chained("Relu(c)"), IMAGES).tensors[name]
    factors = np.exp2(np.rint(np.log2(SPREAD)))
    made = rescaled(found, factors)
    assert made is not None and made.count == sum(made.histogram) == found.count and min(made.histogram) >= 0
    np.testing.assert_allclose(np.asarray(made.squares) * factors**2, found.squares)
    np.testing.assert_allclose(np.asarray(made.means) * factors, found.means)
    assert found.low < made.low <= 0 <= made.high < found.high or (name == "r" and made.low == 0)
    centres = made.edge + (np.arange(2048) + 0.5) * made.width
    mean_square = float((np.asarray(made.histogram) * centres**2).sum() / made.count)
    assert 0.5 < mean_square / np.mean(made.squares) < 1.5


def test_equalisation_is_kept_where_it_helps() -> None:
    model = chained("Relu(c)")
    found = made(model, IMAGES)
    assert found.equalized == 2 and found.loss is not None
    assert found.loss < lost(model, IMAGES, equalize=False) / 3


def test_layers_around_additions_share_factors() -> None:
    """A residual block: two layers write the channels that are added, and two read them."""
    rng = np.random.default_rng(3)
    weights = {
        "w": normal(rng, 8, 3, 3, 3, size=0.3) * SPREAD[:, None, None, None],
        "up": normal(rng, 12, 8, 1, 1, size=0.4) / SPREAD[:, None, None],
        "down": normal(rng, 8, 12, 1, 1, size=0.3) * SPREAD[:, None, None, None],
        "last": normal(rng, 6, 8, 1, 1, size=0.4) / SPREAD[:, None, None],
    }
    body = "a = Conv(x, w) u = Conv(a, up) r = Relu(u) d = Conv(r, down) s = Add(a, d) y = Conv(s, last)"
    model = net(body, weights, "(float[1,3,8,8] x) => (float[1,6,6,6] y)")
    network = fold(opened(model, {}))
    assert [(len(c.first), len(c.second)) for c in chains(network)] == [(2, 2), (1, 1)]
    assert set(equalize(network, profile_of(model, IMAGES), set())) == {"a", "u", "r", "d", "s"}
    np.testing.assert_allclose(answers(closed(network), IMAGES), answers(model, IMAGES), rtol=1e-4, atol=1e-4)
    assert lost(model, IMAGES) < lost(model, IMAGES, equalize=False) / 2


def test_an_addition_of_anything_else_ends_the_chain() -> None:
    weights = {"w": normal(RNG, 3, 3, 1, 1), "v": normal(RNG, 3, 3, 1, 1)}
    for other in ("Add(a, x)", "Mul(a, a)", "Sub(a, a)"):
        model = net(
            f"a = Conv(x, w) s = {other} y = Conv(s, v)",
            weights,
            "(float[1,3,8,8] x) => (float[1,3,8,8] y)",
        )
        assert not [c for c in chains(fold(opened(model, {}))) if "s" in c.tensors]


def test_nothing_passes_a_clip_or_another_reader() -> None:
    assert len(chains(fold(opened(chained("Clip(c, zero, six)"), {})))) == 1
    shared = chained("Relu(c)")
    shared.graph.output.append(onnx.helper.make_tensor_value_info("r", 1, [1, 8, 6, 6]))
    assert len(chains(fold(opened(shared, {})))) == 1


@pytest.mark.parametrize("kind", ["Gemm", "Conv"])
def test_adaptive_rounding_errs_less_than_rounding_to_nearest(kind: str) -> None:
    rng = np.random.default_rng(4)
    mixing = normal(rng, 4, 24)  # operands that go together: errors can make up for each other
    weights = normal(rng, 8, 24, size=0.02)
    weights[0, 0] = 3.0  # with one scale the others have few levels
    feeds = [{"x": (normal(rng, 32, 4) @ mixing).astype(np.float32)} for _ in range(12)]
    body, shape, end = "y = Gemm<transB=1>(x, w)", "32,24", "32,8"
    if kind == "Conv":
        weights = weights.reshape(8, 24, 1, 1)
        feeds = [{"x": np.ascontiguousarray(f["x"].T).reshape(1, 24, 8, 4)} for f in feeds]
        body, shape, end = "y = Conv(x, w)", "1,24,8,4", "1,8,8,4"
    model = net(body, {"w": weights}, f"(float[{shape}] x) => (float[{end}] y)")
    nearest, adaptive = (
        made(model, feeds, per_tensor=True, rounding=how, precision="int16x8")
        for how in ("nearest", "adaptive")
    )

    def error(found: Quantized) -> float:
        rounded = found.plan.constants["y", 1].numbers.reshape(8, 24)
        exact, x = weights.reshape(8, 24), np.concatenate([f["x"].reshape(-1, 24) for f in feeds])
        if kind == "Conv":
            x = np.concatenate([f["x"].reshape(24, -1).T for f in feeds])
        return float(((x @ (rounded - exact).T)[:, 1:] ** 2).sum())

    assert error(adaptive) < error(nearest) / 4
    steps = adaptive.plan.constants["y", 1].integers.astype(int) - nearest.plan.constants["y", 1].integers
    assert np.abs(steps).max() == 1


def test_the_cheapest_layers_are_found() -> None:
    """Losses add up; b and d are the worst, and a is not needed."""
    losses = {"a": 1.0, "b": 5.0, "c": 0.5, "d": 4.0}
    costs = {"a": 100, "b": 10, "c": 10, "d": 10}

    def loss(kept: frozenset[str]) -> float:
        return sum(v for k, v in losses.items() if k not in kept)

    found = search(costs, loss, 2.0)
    assert found.kept == {"b", "d"} and found.alone == losses
    assert (found.before, found.after) == (10.5, 1.5)
    assert not search(costs, loss, 11.0).kept and search(costs, loss, 0.0).kept == set(losses)


@pytest.mark.parametrize("precision", ["int8", "int16x8"])
def test_sensitive_layers_stay_float_or_get_16_bits(precision: str) -> None:
    """One element of x is a hundred times the others, which the first layer alone reads."""
    rng = np.random.default_rng(6)
    first = normal(rng, 16, 16)
    first[0] = 0
    model = net(
        "a = Gemm(x, m1) r = Relu(a) b = Gemm(r, m2) s = Relu(b) y = Gemm(s, m3)",
        {"m1": first, "m2": normal(rng, 16, 16), "m3": normal(rng, 16, 4)},
        "(float[1,16] x) => (float[1,4] y)",
    )
    feeds = [{"x": f["x"] * np.array([300] + [1] * 15, np.float32)} for f in images(rng, 24, 1, 16)]
    found = made(model, feeds, max_drop=0.05, calibration=_minmax(), precision=precision)
    assert found.found is not None and found.found.kept == {"a"} and found.found.before > 0.2
    assert found.loss is not None and found.loss <= 0.05
    assert found.plan.tensors["x"].type == "int16" if precision == "int16x8" else "a" in found.plan.floats


def _minmax() -> object:
    from ingot.quantization.scheme import Calibration

    return Calibration("minmax")


def test_the_command_measures_by_labels(tmp_path: Path) -> None:
    model = chained("Relu(c)")
    model.graph.node.add(op_type="GlobalAveragePool", input=["y"], output=["g"])
    model.graph.node.add(op_type="Flatten", input=["g"], output=["out"])
    model.graph.output[0].CopyFrom(onnx.helper.make_tensor_value_info("out", 1, [1, 6]))
    onnx.save(model, tmp_path / "m.onnx")
    write_profile(tmp_path / "p.yaml", profile_of(model, IMAGES))
    labels = answers(model, IMAGES).reshape(len(IMAGES), -1).argmax(axis=1)
    np.savez(tmp_path / "d.npz", x=np.concatenate([f["x"] for f in IMAGES]), labels=labels)
    words = ("quantize", tmp_path / "m.onnx", "--profile", tmp_path / "p.yaml", "-o", tmp_path / "q.onnx")
    result = ingot(*words, "--data", tmp_path / "d.npz", "--keep-float", "auto", "--max-drop", "10%")
    assert result.exit_code == 0, result.output
    assert "the model loses" in result.stderr and (tmp_path / "q.onnx").exists()
    for more, said in (
        (("--keep-float", "auto"), "--keep-float auto measures; add --data"),
        (("--rounding", "adaptive"), "--rounding adaptive measures; add --data"),
        (("--max-drop", "1%"), "--max-drop is of a search for layers"),
        (("--keep-float", "auto", "--max-drop", "many"), "--max-drop many: write a share"),
        (("--labels", tmp_path / "d.npz"), "--labels are of data"),
    ):
        result = ingot(*words, *more)
        assert result.exit_code == 2 and said in result.stderr, result.output


@pytest.mark.parametrize("edge", ["int8", "uint8"])
def test_data_of_floats_measure_a_model_of_integers(edge: str) -> None:
    """Its loss is that of the answers which its integers stand for."""
    model = chained("Relu(c)")
    found = made(model, IMAGES, edge=edge, rounding="adaptive")
    how, wanted = found.plan.tensors, answers(model, IMAGES)
    given = [{"x": how["x"].quantised(feed["x"])} for feed in IMAGES]
    off = how["y"].numbers(answers(found.model, given)) - wanted
    assert found.loss == pytest.approx(np.linalg.norm(off) / np.linalg.norm(wanted), rel=1e-3)


def test_an_output_of_integers_names_the_class() -> None:
    evidence = Evidence((), oracle_runner, np.array([4, 0, 9]))
    assert evidence.score([np.array([[4], [1], [9]])]) == pytest.approx(2 / 3)


def test_labels_must_fit() -> None:
    evidence = Evidence(tuple(IMAGES), oracle_runner, np.zeros(500, np.int64))
    model = chained("Relu(c)")
    with pytest.raises(InputError, match="500 labels, but"):
        quantize(model, profile_of(model, IMAGES), Scheme(), {}, evidence)
