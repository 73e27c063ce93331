"""PyTorch's own answers beside those of bundles, of networks compiled as .pt2 files and as modules.

    python -m tests.pytorch.oracle [--update docs/pytorch.md]

Needs PyTorch, onnxscript, scikit-learn and skl2onnx. Run by `make pytorch`.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch

import ingot
from ingot.errors import InputError
from ingot.frontends.canonical import imported
from tests.pytorch.archives import changed, hostile, with_payload, with_size
from tests.pytorch.networks import NETWORKS

Array = np.ndarray[Any, Any]
TOLERANCE = 1e-4
BEGIN, END = "<!-- networks: begin -->", "<!-- networks: end -->"


def shake(module: torch.nn.Module) -> None:
    """Random statistics and scales of normalisations, which start as 0 and 1."""
    for part in module.modules():
        if isinstance(part, torch.nn.BatchNorm2d):
            part.running_mean = torch.randn(part.num_features) / 4
            part.running_var = torch.rand(part.num_features) + 0.5
            part.weight.data = torch.rand(part.num_features) + 0.5


def off(found: Iterable[Array], wanted: Iterable[Array]) -> float:
    """The largest difference, in units of the largest answer, or of 1."""
    most = 0.0
    for x, y in zip(found, wanted, strict=True):
        assert x.shape == y.shape, (x.shape, y.shape)
        most = max(most, float(np.abs(x - y).max() / max(np.abs(y).max(), 1.0)))
    return most


def answers(module: torch.nn.Module, given: tuple[torch.Tensor, ...]) -> list[Array]:
    with torch.inference_mode():
        made = module(*given)
    held = made.values() if isinstance(made, Mapping) else [made]
    return [y.numpy() for y in held]


def network(name: str, module: torch.nn.Module, given: tuple[torch.Tensor, ...]) -> tuple[str, bool]:
    """A row of the table, and whether both bundles agree with PyTorch."""
    shake(module)
    wanted = answers(module.eval(), given)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.pt2"
        torch.export.save(torch.export.export(module, given), path)
        bundles = ingot.compile(path), ingot.compile(module, given)
        names = [v.name for v in imported(path).graph.input]
    feeds = dict(zip(names, (t.numpy() for t in given), strict=True))
    found = [off(bundle.run(feeds).values(), wanted) for bundle in bundles]
    spread = min(float(np.ptp(y)) for y in wanted)
    weights = sum(p.numel() for p in module.parameters())
    row = f"| {name} | {weights:,} | {found[0]:.1e} | {found[1]:.1e} | {spread:.1e} |"
    return row, max(found) <= min(TOLERANCE, spread / 100)


def estimators() -> list[Any]:
    """What microcontrollers often run of scikit-learn, with few parameters."""
    from sklearn import (
        cluster,
        covariance,
        ensemble,
        linear_model,
        mixture,
        naive_bayes,
        neighbors,
        neural_network,
        svm,
        tree,
    )
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return [
        ensemble.RandomForestClassifier(20, max_depth=6),
        neural_network.MLPClassifier((16, 8), max_iter=100),
        tree.DecisionTreeClassifier(max_depth=5),
        ensemble.ExtraTreesClassifier(10, max_depth=6),
        ensemble.GradientBoostingClassifier(n_estimators=5),
        naive_bayes.GaussianNB(),
        neighbors.KNeighborsClassifier(3),
        mixture.GaussianMixture(3, random_state=0),
        svm.SVC(),
        linear_model.LogisticRegression(),
        linear_model.LinearRegression(),
        ensemble.RandomForestRegressor(5, max_depth=6),
        neighbors.KNeighborsRegressor(3),
        neural_network.MLPRegressor(hidden_layer_sizes=(16, 8), max_iter=100),
        cluster.KMeans(3, n_init=1, random_state=0),
        ensemble.IsolationForest(n_estimators=5, random_state=0),
        covariance.EllipticEnvelope(random_state=0),
        make_pipeline(StandardScaler(), covariance.EllipticEnvelope(random_state=0)),
        make_pipeline(StandardScaler(), linear_model.LogisticRegression()),
    ]


def sklearn_rows() -> Iterable[tuple[str, bool]]:
    """Estimators on 200 rows: probabilities where there are some, and predictions."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((200, 8)).astype(np.float32)
    y = (x[:, 0] + x[:, 1] * x[:, 2] > 0).astype(int) + (x[:, 3] > 1)
    for model in estimators():
        bundle = ingot.compile(model.fit(x, y), define={"X:0": len(x)})
        found = [v.reshape(len(x), -1) for v in bundle.run({"X": x}).values()]
        wanted = [model.predict(x).reshape(-1, 1)]
        if hasattr(model, "predict_proba"):
            wanted.append(model.predict_proba(x))
        most = off(found[: len(wanted)], wanted)
        name = " + ".join(type(step).__name__ for step in getattr(model, "named_steps", {"": model}).values())
        yield f"| {name} (scikit-learn) | | | {most:.1e} | {np.ptp(wanted[-1]):.1e} |", most <= TOLERANCE


def damaged() -> Iterable[tuple[str, bool]]:
    """Archives that only PyTorch finds wrong, beside those of `archives.py`: one error of one line each."""
    big = {"dtype": 7, "sizes": [{"as_int": 1 << 50}], "strides": [{"as_int": 1}], "requires_grad": False}
    rows = {
        "a weight larger than its bytes": with_payload(
            tensor_meta=big | {"device": {"type": "cpu"}, "storage_offset": {"as_int": 0}, "layout": 7}
        ),
        "no graph": changed(lambda d: d["graph_module"].pop("graph")),
        "another schema": changed(lambda d: d["schema_version"].update(major=99)),
        "an unknown symbol": with_size("s12345"),
        "a node without inputs": changed(lambda d: d["graph_module"]["graph"]["nodes"][0]["inputs"].clear()),
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.pt2"
        for name, data in (*rows.items(), *hostile()):
            path.write_bytes(data)
            try:
                imported(path)
                yield name, False
            except InputError as error:
                yield name, "\n" not in str(error)


def main() -> int:
    torch.manual_seed(0)
    lines = ["| network | weights | `.pt2` off by | module off by | of a range of |", "|---|--:|--:|--:|--:|"]
    bad = 0
    networks = (network(name, build(), given()) for name, build, given in NETWORKS)
    for row, agrees in chain(networks, sklearn_rows()):
        print(row, "" if agrees else "WRONG", flush=True)
        lines.append(row)
        bad += not agrees
    wrong = [name for name, is_one_error in damaged() if not is_one_error]
    print("damaged archives:", ", ".join(wrong) or "one error each")
    if "--update" in sys.argv:
        document = Path(sys.argv[sys.argv.index("--update") + 1])
        before, _, rest = document.read_text().partition(BEGIN)
        document.write_text("\n".join([before + BEGIN, *lines, END + rest.partition(END)[2]]))
    return int(bad + len(wrong) > 0)


if __name__ == "__main__":
    sys.exit(main())
