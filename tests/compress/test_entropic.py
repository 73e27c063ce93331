"""Which value a weight takes where bits cost something, and what such training is asked together with."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ingot.compression.entropic import lower_envelope
from ingot.compression.finetune import Training
from ingot.compression.model import Wish, compress
from ingot.errors import InputError
from tests.compress.models import model, read


@pytest.mark.parametrize("seed", range(20))
def test_the_envelope_finds_the_cheapest_value(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = np.round(rng.standard_normal(16), 1)  # some are equal
    offsets = rng.exponential(0.3, 16) * (seed % 3)
    weights = rng.standard_normal(500) * 2
    kept, cuts = lower_envelope(values, offsets)
    assert (np.diff(values[kept]) > 0).all() and (np.diff(cuts) > 0).all()
    costs = (weights[:, None] - values) ** 2 + offsets
    found = kept[np.searchsorted(cuts, weights)]
    np.testing.assert_allclose(costs[np.arange(500), found], costs.min(1), rtol=1e-12)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"training": None}, "--entropy-constrained trains until the layers are so many times smaller"),
        ({"ratio": ""}, "add --finetune TRAIN.py and --target-ratio"),
        ({"training": Training(Path("t.py"), 0, 5, share_rounds=1)}, "add --share-rounds 2"),
        ({"training": Training(Path("t.py"), 2, 5, share_rounds=2)}, "--rounds says nothing"),
        ({"density": ("0.5",)}, "--density says nothing"),
        ({"total_density": "0.5"}, "--total-density says nothing"),
        ({"scale": "global"}, "--prune-by says nothing"),
        ({"gap_bits": ("4",)}, "--gap-bits says nothing"),
        ({"form": "sparse"}, "--form sparse says nothing"),
        ({"start": "linear"}, "--centroids linear says nothing"),
    ],
)
def test_what_says_nothing_beside_it(changes: dict[str, object], message: str) -> None:
    wished = {"ratio": "9x", "entropic": True, "training": Training(Path("t.py"), 0, 5, share_rounds=2)}
    made = model("(float[2,16] x) => (float[2,32] y)", "{ y = MatMul(x, w) }", {"w": [16, 32]})
    with pytest.raises(InputError) as error:
        compress(made, read, Wish(**{**wished, **changes}))  # type: ignore[arg-type]  # words of one option each
    assert message in str(error.value)
