"""JAX's own answers beside those of bundles, of networks that jax2onnx exports.

    python -m tests.jax.oracle [--update docs/pytorch.md]

Needs JAX, Flax and jax2onnx. Run by `make jax`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import jax
import jax2onnx
import numpy as np
from flax import nnx

import ingot
from tests.jax.networks import NETWORKS

TOLERANCE = 1e-4
BEGIN, END = "<!-- jax: begin -->", "<!-- jax: end -->"


def shake(module: Any, rng: np.random.Generator) -> None:
    """Random statistics of normalisations, which start as 0 and 1."""
    for _, part in nnx.iter_graph(module):
        if isinstance(part, nnx.BatchNorm):
            part.mean[...] = jax.numpy.asarray(rng.standard_normal(part.mean.shape), "float32") / 4
            part.var[...] = jax.numpy.asarray(rng.random(part.var.shape) + 0.5, "float32")


def network(name: str, build: Any, shape: tuple[int, ...]) -> tuple[str, bool]:
    """A row of the table, and whether the bundle agrees with JAX."""
    rng = np.random.default_rng(len(name))
    module = build(nnx.Rngs(0))
    if isinstance(module, nnx.Module):
        shake(module, rng)
    x = rng.standard_normal(shape).astype(np.float32)
    wanted = np.asarray(module(x))
    bundle = ingot.compile(jax2onnx.to_onnx(module, [x]), infer_shapes=True)
    (found,) = bundle.run({bundle.manifest["inputs"][0]["name"]: x}).values()
    assert found.shape == wanted.shape, (found.shape, wanted.shape)
    most = float(np.abs(found - wanted).max() / max(np.abs(wanted).max(), 1.0))
    spread = float(np.ptp(wanted))
    return f"| {name} | {most:.1e} | {spread:.1e} |", most <= min(TOLERANCE, spread / 100)


def main() -> int:
    lines = ["| network | off by | of a range of |", "|---|--:|--:|"]
    bad = 0
    for name, build, shape in NETWORKS:
        row, agrees = network(name, build, shape)
        print(row, "" if agrees else "WRONG", flush=True)
        lines.append(row)
        bad += not agrees
    if "--update" in sys.argv:
        document = Path(sys.argv[sys.argv.index("--update") + 1])
        before, _, rest = document.read_text().partition(BEGIN)
        document.write_text("\n".join([before + BEGIN, *lines, END + rest.partition(END)[2]]))
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
