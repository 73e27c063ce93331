"""Profiles: merging is exact in any order, files come back as they were, and hostile files get one error."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx.helper as oh
import onnx.numpy_helper as nh
import pytest

from ingot.errors import InputError
from ingot.quantization import profile as q
from ingot.quantization.glow_profile import read_glow_profile


def statistics(values: np.ndarray) -> q.Statistics:
    """By definition: every element is looked for among the edges of the bins."""
    x = np.asarray(values, np.float64)
    low, high = float(x.min()), float(x.max())
    bare = q.Statistics(low, high, 1, (), (), ())
    edges = bare.edge + bare.width * np.arange(q.BINS + 1)
    histogram = np.bincount(np.searchsorted(edges, x.ravel(), "right") - 1, minlength=q.BINS)
    assert edges[0] <= low and high < edges[-1]
    return q.Statistics(
        low, high, x.size, tuple(histogram.tolist()), (float(x.mean()),), (float((x * x).mean()),)
    )


def profile(values: np.ndarray, **more: np.ndarray) -> q.Profile:
    return q.Profile(q.VERSION, "digest", 1, {n: statistics(v) for n, v in {"x": values, **more}.items()})


RNG = np.random.default_rng(1)
PARTS = {
    "growing": [RNG.normal(0, 10.0**k, 300) for k in range(-3, 3)],
    "one-sided": [RNG.random(100), RNG.random(100) * 9 + 5, np.zeros(3)],
    "far from zero": [1e6 + RNG.random(50), 1e6 + 40 * RNG.random(50), np.array([1e6])],
    "tiny and huge": [np.array([1e-45, -1e-45]), np.array([3e38, -3e38]), np.array([1.0])],
    "constant": [np.zeros(4), np.zeros(1), np.zeros(2)],
    "doubles": [np.array([-1.7e150, 1.7e150]), np.array([1e-150]), np.array([2.5])],
}


@pytest.mark.parametrize("parts", PARTS.values(), ids=PARTS)
def test_merging_is_exact_in_any_order(parts: list[np.ndarray]) -> None:
    whole = statistics(np.concatenate(parts))
    orders = [*itertools.islice(itertools.permutations(parts), 6)]
    found = [q.merged(profile(p) for p in order) for order in orders]
    found.append(q.merged([q.merged(profile(p) for p in parts[:2]), *(profile(p) for p in parts[2:])]))
    for one in found:
        s = one.tensors["x"]
        assert replace(s, means=(), squares=()) == replace(whole, means=(), squares=())
        assert math.isclose(s.means[0], whole.means[0], rel_tol=1e-12, abs_tol=1e-12 * whole.high)
        assert math.isclose(s.squares[0], whole.squares[0], rel_tol=1e-12) or math.isinf(whole.squares[0])
        assert one.samples == len(parts)
    assert len({f.tensors["x"] for f in found[:-1]}) == 1


def test_bins_resolve_the_range() -> None:
    """At least half of the bins hold a range that is not a single number."""
    for low, high in [(0, 1), (-1, 1), (-0.3, 5.0), (3.0, 3.001), (0, 1024.0), (-1e-7, 0)]:
        s = q.Statistics(low, high, 1, (), (), ())
        assert 1023 <= (high - s.edge) / s.width < q.BINS


def test_a_file_comes_back_as_it_was(tmp_path: Path) -> None:
    made = profile(RNG.normal(size=999), **{"1e5": RNG.random(7), "a: {b}\n*é\U0001f600": np.array([1e-5])})
    q.write_profile(tmp_path / "p.yaml", made)
    assert q.read_profile(tmp_path / "p.yaml") == made
    q.write_profile(tmp_path / "p2.yaml", q.read_profile(tmp_path / "p.yaml"))
    assert (tmp_path / "p.yaml").read_bytes() == (tmp_path / "p2.yaml").read_bytes()


def test_merging_what_does_not_fit() -> None:
    one = profile(np.ones(3))
    with pytest.raises(InputError, match="another model"):
        q.merged([one, replace(one, model="other")])
    with pytest.raises(InputError, match="no profiles"):
        q.merged([])


def test_channels_that_differ_become_one() -> None:
    """Along an axis whose extent only a run tells."""
    one, two = (replace(profile(np.ones(6)).tensors["x"], means=m, squares=m) for m in ((1.0, 3.0), (4.0,)))
    parts = [q.Profile(q.VERSION, "digest", 1, {"x": s}) for s in (one, two)]
    assert q.merged(parts).tensors["x"].means == (3.0,)


GOOD = "version: 1\nmodel: m\nsamples: 1\ntensors:\n"
GOOD += "  x: {low: 0, high: 0, count: 1, histogram: [1%s], means: [0], squares: [0]}\n"
ZEROS = GOOD % (", 0" * (q.BINS - 1))
HOSTILE = {
    "empty": ("", "is not a profile"),
    "no mapping": ("[1, 2]", "is not a profile"),
    "another version": ("version: 7\ntensors: {}", "version 7"),
    "a bomb": ("a: &a [1, 1]\nb: &b [*a, *a]\ntensors: [*b, *b]", "aliases are not read"),
    "a tag": ("tensors: !!python/object/apply:os.system ['true']", "tags are not read"),
    "deep": ("tensors: " + "[" * 900, "nested deeper|not YAML"),
    "deep flow": ("tensors: " + "{a: " * 30 + "1" + "}" * 30, "nested deeper"),
    "no text": ("tensors: \x01", "not YAML"),
    "cut": (ZEROS[:-40], "not YAML"),
    "twice": (ZEROS + "  x: 1\n", "'x' is given twice"),
    "key": ("tensors: {[1]: 2}", "a key is no string"),
    "few bins": (GOOD % "", "1 bins"),
    "reversed": (ZEROS.replace("high: 0", "high: -1"), "greater"),
    "miscounted": (ZEROS.replace("count: 1", "count: 2"), "does not count 2"),
    "negative": (ZEROS.replace("[1, 0", "[2, -1"), "does not count"),
    "not its range": (ZEROS.replace("[1, 0", "[0, 1"), "not of the range"),
    "not finite": (ZEROS.replace("high: 0", "high: 1e999"), "not finite"),
    "a name for a number": (ZEROS.replace("high: 0", "high: .inf"), "float"),
    "no samples": (ZEROS.replace("samples: 1", "samples: 0"), "0 samples"),
    "no field": (ZEROS.replace("means: [0], ", ""), "means"),
}


@pytest.mark.parametrize("text, message", HOSTILE.values(), ids=HOSTILE)
def test_hostile_files(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(text)
    with pytest.raises(InputError, match=message):
        q.read_profile(tmp_path / "p.yaml")


def test_a_good_file_is_read(tmp_path: Path) -> None:
    """What the hostile ones are made of is itself right."""
    (tmp_path / "p.yaml").write_text(ZEROS)
    assert q.read_profile(tmp_path / "p.yaml").tensors["x"].count == 1


def model(weight: float = 2.0, name: str = "graph", raw: bool = True) -> oh.ModelProto:
    w = nh.from_array(np.array([weight], np.float32), "w") if raw else oh.make_tensor("w", 1, [1], [weight])
    x, y = (oh.make_tensor_value_info(n, 1, [None, 1]) for n in "xy")
    graph = oh.make_graph([oh.make_node("Mul", ["x", "w"], ["y"])], name, [x], [y], [w], doc_string=name)
    return oh.make_model(graph, producer_name=name)


def test_the_digest_is_of_what_is_computed() -> None:
    assert q.graph_digest(model()) == q.graph_digest(model(name="other", raw=False))
    assert q.graph_digest(model()) != q.graph_digest(model(weight=3.0))
    q.require_profile_of(replace(profile(np.ones(1)), model=q.graph_digest(model())), model())
    with pytest.raises(InputError, match="another model"):
        q.require_profile_of(profile(np.ones(1)), model())


GLOW = """---
GraphPreLowerHash: 0x0123456789ABCDEF
...
---
- NodeOutputName:  'x:0'
  Min:             -1.0
  Max:             3.0
  Histogram:       [ 10, 20, 0, 10 ]
- NodeOutputName:  'y__1:0'
  Min:             0.0
  Max:             0.0
  Histogram:       [ 7 ]
- NodeOutputName:  'Conv_2.lowered:0'
  Min:             0.0
  Max:             1.0
  Histogram:       [ 1, 1 ]
...
"""


def test_profiles_of_glow(tmp_path: Path) -> None:
    (tmp_path / "g.yaml").write_text(GLOW)
    made, unknown = read_glow_profile(tmp_path / "g.yaml", model())
    assert list(made.tensors) == ["x", "y"] and unknown == ["Conv_2.lowered:0"]
    x = made.tensors["x"]
    assert (x.low, x.high, x.means) == (-1.0, 3.0, ())
    centres = x.edge + x.width * (np.arange(q.BINS) + 0.5)
    parts = np.histogram(centres, 4, (-1.0, 3.0), weights=x.histogram)[0]
    np.testing.assert_allclose(parts, [10, 20, 0, 10], atol=1)
    assert made.tensors["y"].histogram[0] == 7
    q.write_profile(tmp_path / "p.yaml", made)
    assert q.read_profile(tmp_path / "p.yaml") == made
    with pytest.raises(InputError, match="--glow"):
        q.read_profile(tmp_path / "g.yaml")


BAD_GLOW = {
    "ours": (ZEROS, "is not a profile of Glow's"),
    "a field": (GLOW.replace("Min:  ", "Mid:  "), "missing required field"),
    "a range": (GLOW.replace("Max:             3.0", "Max:             -3.0"), "no range from -1.0 to -3.0"),
    "counts": (GLOW.replace("[ 7 ]", "[ -7 ]"), "does not count"),
    "names": (GLOW.replace("'x:0'", "'u:0'").replace("'y__1:0'", "'v:0'"), "none of its 3 names"),
    "no rows": (GLOW.split("- Node")[0] + "{}", "expected"),
}


@pytest.mark.parametrize("text, message", BAD_GLOW.values(), ids=BAD_GLOW)
def test_hostile_profiles_of_glow(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "g.yaml").write_text(text)
    with pytest.raises(InputError, match=message):
        read_glow_profile(tmp_path / "g.yaml", model())
