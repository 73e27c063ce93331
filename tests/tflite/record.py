"""What litert's reference kernels compute of `cases`: writes `golden.npz` beside this file.

    pip install ai-edge-litert==2.3.0      # in an environment of its own, with this repository on the path
    python -m tests.tflite.record

The resolver is BUILTIN_REF: the reference kernels, no delegate. The tests need nothing but the file.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from tests.tflite.cases import cases, drawn

GOLDEN = Path(__file__).with_name("golden.npz")


def computed(name: str, data: bytes) -> np.ndarray:
    """The model's one output, of inputs drawn by its name."""
    reference = OpResolverType.BUILTIN_REF
    interpreter = Interpreter(model_content=data, experimental_op_resolver_type=reference)
    interpreter.allocate_tensors()
    for i, d in enumerate(interpreter.get_input_details()):
        interpreter.set_tensor(d["index"], drawn(f"{name}{i}", d["dtype"], tuple(d["shape"])))
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])


def main() -> None:
    found = {name: computed(name, data) for name, data in cases().items()}
    np.savez_compressed(GOLDEN, **found)
    print(f"{len(found)} cases, {GOLDEN.stat().st_size} bytes")


if __name__ == "__main__":
    main()
