"""Convolutions of bytes whose image has no halo: every way in which windows leave it, on Cortex-M."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingot
from ingot.driver import stages
from ingot.loops.evaluate import run
from ingot.options import Options
from tests.corpus import Case
from tests.corpus.integer import Layers, Quantised
from tests.corpus.net import Net
from tests.oracles import exact_session
from tests.test_paired_tiles import KINDS

TARGETS = ("armv7e-m", "armv8.1m", "cortex-m0")
WINDOWS: dict[str, dict[str, Any]] = {
    "same": {"kernel": (3, 3), "pads": [1, 1, 1, 1]},
    "by two, below and on the right": {"kernel": (3, 3), "pads": [0, 0, 1, 1], "strides": [2, 2]},
    "by two, above and on the left": {"kernel": (3, 3), "pads": [1, 1, 0, 0], "strides": [2, 2]},
    "dilated along rows": {"kernel": (3, 3), "pads": [1, 2, 1, 2], "dilations": [1, 2]},
    "large": {"kernel": (5, 4), "pads": [2, 1, 2, 2]},
    "higher than the image": {"kernel": (9, 3), "pads": [8, 1, 8, 1]},
    "beyond rows alone": {"kernel": (3, 1), "pads": [1, 0, 1, 0]},
}
OTHERS: dict[str, dict[str, Any]] = {
    "dilated along columns": {"kernel": (3, 3), "pads": [2, 1, 2, 1], "dilations": [2, 1]},
    "groups": {"kernel": (3, 3), "pads": [1, 1, 1, 1], "group": 2},
    "few channels": {"kernel": (3, 3), "pads": [1, 1, 1, 1], "c_out": 12},
    "odd channels": {"kernel": (3, 3), "pads": [1, 1, 1, 1], "c_in": 7},
    "inside": {"kernel": (3, 3)},
    "some windows outside of the image": {"kernel": (2, 3), "pads": [4, 0, 3, 0]},
}


def case(kind: str, window: dict[str, Any], n: int = 1, is_added: bool = False) -> Case:
    """A pointwise layer, whose result the window's layer reads."""
    how = {"c_in": 8, "c_out": 16, **window}
    channels, features = how.pop("c_in"), how.pop("c_out")

    def build(net: Net) -> str:
        q = Layers(net, np.dtype(kind).type, qdq=False)
        first: Quantised = q.conv(q.feed(n, 4, 6, 7), 4, channels, (1, 1))
        y = q.conv(first, channels, features, **how)
        if is_added:
            again = q.conv(y, features, features, (3, 3), pads=[1, 1, 1, 1])
            return q.add(q.conv(again, features, features, (3, 3), pads=[1, 1, 1, 1]), y).name
        return y.name

    return Case("framed", build)


def families(found: Case, target: str) -> list[str]:
    """The generators that wrote the layers, once the evaluator and the object agree with the oracle."""
    made = stages(found.model, Options(target=target))
    (wanted,) = exact_session(found.model).run(None, found.feeds)
    np.testing.assert_array_equal(run(made.program, found.feeds)[0], wanted)
    (given,) = ingot.compile(found.model, target=target).run(found.feeds).values()
    np.testing.assert_array_equal(given, wanted)
    return [name for k in made.program.kernels for name in k.generators]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.parametrize("target", TARGETS)
def test_rows_get_their_halo_in_a_frame(name: str, kind: str, target: str) -> None:
    assert "framed_rows" in families(case(kind, WINDOWS[name]), target)


@pytest.mark.parametrize("name", OTHERS)
def test_other_layers_have_none(name: str) -> None:
    assert "framed_rows" not in families(case("int8", OTHERS[name]), TARGETS[0])


def test_images_of_a_batch_keep_their_halo() -> None:
    assert "framed_rows" not in families(case("int8", WINDOWS["same"], n=2), TARGETS[0])


def test_results_are_added_in_place() -> None:
    """The sum overwrites the operand that is added, since neither has a halo."""
    found = case("int8", WINDOWS["same"], is_added=True)
    assert families(found, TARGETS[0]).count("framed_rows") >= 2
    made = stages(found.model, Options(target=TARGETS[0]))
    images = [t for t in made.plan.offsets if t.rank == 4]
    assert images and all(t.shape[1:3] == (6, 7) for t in images)


def test_streams_have_line_buffers_with_halos() -> None:
    """With little RAM, rows are streamed, and layers read line buffers instead of frames."""
    found = case("int8", WINDOWS["same"], is_added=True)
    least = stages(found.model, Options(target=TARGETS[0])).plan.arena_bytes
    made = stages(found.model, Options(target=TARGETS[0], max_ram=least - 128))
    names = [name for k in made.program.kernels for name in k.generators]
    assert "streamed" in names and "framed_rows" not in names
