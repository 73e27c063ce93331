"""The benchmark of networks that others trained: when one is good enough, and how images are changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from benchmarks import compressed
from benchmarks.compressed import LOSS, NETWORKS, reaches, row


def found(ratio: float, right: float) -> dict[str, Any]:
    """A point of a network that was published at 75 % and trained to 83 % before it was compressed."""
    point = {"ratio": ratio, "plain_ratio": ratio, "whole_ratio": ratio, "right": right}
    about = {"published": 75.0, "before": 83.0, "samples": 10_000, "model_bytes": 80_000}
    return {**about, "points": [{**point, "bytes": 10_000, "bits": "3"}]}


@pytest.mark.parametrize(
    "ratio, right, wanted", [(12.0, 83 - LOSS, True), (12.0, 82.4, False), (11.9, 83.0, False)]
)
def test_a_network_is_as_good_as_what_was_compressed(ratio: float, right: float, wanted: bool) -> None:
    """Not only as the published one, which was right less often before it was trained further."""
    assert reaches("resnet8", found(ratio, right)) == wanted


def test_a_row_has_the_published_network_and_the_one_that_was_compressed() -> None:
    of = found(12.06, 81.94)
    cells = row("resnet8", of, of["points"][0]).split(" | ")
    assert cells[1:] == ["10,000", "75.00 %", "83.00 %", "81.94 % (-1.06)", *["12.1x"] * 3, "10,000 (8.0x) |"]


@pytest.mark.parametrize("network", NETWORKS.values(), ids=list(NETWORKS))
def test_plans_ask_for_the_ratio_that_is_required(network: Any) -> None:
    for plan in network.plans:
        words = plan.split()
        assert float(words[words.index("--ratios") + 1].rstrip("x")) >= network.required


def test_each_image_of_a_batch_is_shifted_and_mirrored_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    from ingot.compression.script import load_script

    rows, columns = np.mgrid[1:33, 1:33].astype(np.uint8)
    image = np.stack([rows, columns, np.full_like(rows, 7)], axis=-1)
    images, labels = np.repeat(image[None], 4, 0), np.arange(4)
    np.savez(
        tmp_path / "pictures.npz",
        training=images,
        training_labels=labels,
        test=images,
        test_labels=labels,
    )
    monkeypatch.setenv("DATA", str(tmp_path))
    script = load_script(Path(__file__).parents[2] / "benchmarks" / "finetune_resnet8.py")
    torch.manual_seed(0)
    batch, classes = script.functions["train"].__self__.batch()
    assert batch.shape == (128, 32, 32, 3) and batch.dtype == torch.float32 and len(classes) == 128
    inner = batch[:, 8:24, 8:24].numpy()
    down, right = inner[:, 0, 0, 0], np.minimum(inner[:, 0, 0, 1], inner[:, 0, -1, 1])
    mirrored = inner[:, 0, 0, 1] > inner[:, 0, -1, 1]
    assert len(set(zip(down, right, mirrored, strict=True))) > 40 and 32 < mirrored.sum() < 96
    assert down.min() >= 5 and down.max() <= 13  # up to four pixels around the 9th row
    step = np.where(mirrored, -1, 1)[:, None, None]
    np.testing.assert_array_equal(np.diff(inner[..., 1], axis=2), np.broadcast_to(step, (128, 16, 15)))
    np.testing.assert_array_equal(np.diff(inner[..., 0], axis=1), np.ones((128, 15, 16)))


def test_the_control_trains_as_long_as_the_compressed_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[Any] = []

    class Fake:
        def prepare(self, network: Any) -> None:
            done.append(("prepare", network))

        def train(self, network: Any, steps: int) -> None:
            done.append((network, steps))

        def evaluate(self, network: Any) -> float:
            return 84.25

    monkeypatch.setenv("ROUNDS", "1")  # what the control says of it ends with the test
    monkeypatch.setattr("ingot.compression.script.load_script", lambda _: Fake())
    monkeypatch.setattr("ingot.check.trainable.trainable", lambda _: "network")
    monkeypatch.setattr(compressed, "prepared", lambda *_: tmp_path / "m.onnx")
    onnx.save(helper.make_model(helper.make_graph([], "g", [], [])), tmp_path / "m.onnx")
    assert compressed.control(tmp_path, "resnet8") == 84.25
    of = NETWORKS["resnet8"]
    assert done == [("prepare", "network"), *[("network", of.steps)] * of.rounds]
    words = of.training
    assert words[words.index("--share-rounds") + 1] == str(of.rounds) and str(of.steps) in words


def test_the_rate_of_learning_falls_once_in_so_many_rounds() -> None:
    pytest.importorskip("torch")
    from benchmarks.distilling import WARMING, _falling

    steps = 1000
    rates = [_falling(step, steps, done, 2) for done in range(4) for step in range(steps)]
    assert rates[: 2 * steps] == rates[2 * steps :]
    assert rates[0] < 0.02 and max(rates) > 0.95 and rates[2 * steps - 1] < 1e-5
    warm = rates[WARMING:steps]
    assert warm == sorted(warm, reverse=True) and abs(rates[steps - 1] - 0.5) < 0.01
