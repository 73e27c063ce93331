"""Networks of Caffe2, as files in a folder: the bundle does what the operators are documented to do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ingot
from tests.frontends.caffe2_networks import NETWORKS, Network
from tests.frontends.test_caffe2 import described, fill, net, save


@pytest.mark.parametrize("name", NETWORKS)
def test_the_bundle_computes_what_the_network_means(name: str, tmp_path: Path) -> None:
    made = Network(sorted(NETWORKS).index(name))
    output = NETWORKS[name](made)
    init = net(*(fill(w, array) for w, array in made.fills.items()))
    folder = save(tmp_path, init, net(*made.operators, outputs=output))
    bundle = ingot.compile(folder, name="network", target="c99", model_inputs=described(made.inputs))
    found, wanted = bundle.run(made.inputs)[output], made[output]
    assert found.shape == wanted.shape
    assert np.ptp(wanted) > 1e-2, "a network that says the same of everything"
    np.testing.assert_allclose(found, wanted, atol=1e-4 * max(1.0, float(np.abs(wanted).max())))
