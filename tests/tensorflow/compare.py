"""Imports what `oracle.py` wrote and compares onnxruntime on the result with what TensorFlow computed.

    python -m tests.tensorflow.compare DIR [--bundle] [--folders] [PART_OF_NAME]

With --bundle the compiled object is compared too; with --folders the cases are directories, of `saved.py`.
Ends with the number of cases that agree.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

import ingot
from ingot.frontends.tensorflow import import_tensorflow

TOLERANCE = 2e-5


def judged(path: Path, bundle: bool) -> str:
    """What is wrong with one case, or nothing."""
    with np.load(path.with_suffix(".npz")) as held:
        arrays = {k.replace("|", "/"): held[k] for k in held.files}
    given = {k[3:]: v for k, v in arrays.items() if k.startswith("in/")}
    wanted = [v for k, v in arrays.items() if k.startswith("out/")]
    names = path.with_suffix(".names")
    model = import_tensorflow(path, (), names.read_text().split() if names.is_file() else ())
    if list(given) == [""]:
        given = {model.graph.input[0].name: given[""]}
    onnx.checker.check_model(model, full_check=True)
    plain = onnxruntime.SessionOptions()  # its fusion of Pad and MaxPool (1.31) pads with -inf
    plain.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), plain)
    found = [("onnxruntime", session.run(None, given))]
    if bundle:
        found.append(("bundle", list(ingot.compile(model).run(given).values())))
    for who, outputs in found:
        for i, (x, y) in enumerate(zip(outputs, wanted, strict=True)):
            if x.shape != y.shape or x.dtype != y.dtype:
                return f"{who}: output {i} is {x.dtype}{x.shape}, not {y.dtype}{y.shape}"
            finite = np.isfinite(y)
            if not np.array_equal(x[~finite], y[~finite], equal_nan=True):
                return f"{who}: output {i} differs where it is not finite"
            x, y = x[finite].astype(np.float64), y[finite]
            off = np.abs(x - y).max(initial=0) / max(np.abs(y).max(initial=0), 1e-30)
            if not off <= TOLERANCE:
                return f"{who}: output {i} is off by {off:.3g}"
    return ""


def main() -> int:
    words = [w for w in sys.argv[1:] if not w.startswith("--")]
    found = sorted(
        p.with_suffix("" if "--folders" in sys.argv else ".pb") for p in Path(words[0]).glob("*.npz")
    )
    paths = [p for p in found if all(w in p.stem for w in words[1:])]
    bad = 0
    for path in paths:
        try:
            wrong = judged(path, "--bundle" in sys.argv)
        except Exception as error:
            wrong = f"{type(error).__name__}: {str(error)[:300]}"
        bad += bool(wrong)
        if wrong:
            print(f"{path.stem}: {wrong}")
    print(f"{len(paths) - bad} of {len(paths)} agree")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
