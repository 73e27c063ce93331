"""The C that other generators make of a model, as peers of the form LABEL=c:PATH.

In: a model file and the tools' commands, or a folder of C that was made before, `LABEL_MODEL.c`. Out: what
`ingot bench --against` takes. Called by `run.py`. A tool that is not given, or that fails, is left out.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

LIMIT_SECONDS = 120


def generated(model: Path, folder: Path, emx: str | None, onnx2c: str | None) -> list[str]:
    """One peer per tool that made C."""
    found = []
    for label, command in (("emx", emx), ("onnx2c", onnx2c)):
        to = folder / f"{model.stem}_{label}.c"
        if command and _made(label, command, model, to):
            found.append(f"{label}=c:{to}")
    return found


def prepared(name: str, folder: str | None) -> list[str]:
    """One peer per file of a model in a folder."""
    found = sorted(Path(folder).glob(f"*_{name}.c")) if folder else []
    return [f"{path.stem.removesuffix(f'_{name}')}=c:{path}" for path in found]


def _made(label: str, command: str, model: Path, to: Path) -> bool:
    try:
        if label == "emx":
            # buffers on the stack and weights in the file: one function, no set-up
            plain = ["--large-temp-threshold", "0", "--large-weight-threshold", "0", "--restrict-arrays"]
            words = [command, "compile", str(model), str(to), "--model-name", "model", *plain]
            subprocess.run(words, check=True, capture_output=True, timeout=LIMIT_SECONDS)
        else:
            with to.open("wb") as file:
                words = [command, str(model)]
                subprocess.run(words, check=True, stdout=file, stderr=subprocess.PIPE, timeout=LIMIT_SECONDS)
    except (OSError, subprocess.SubprocessError) as error:
        print(f"{label}: {model.stem}: {str(error)[:200]}", file=sys.stderr)
        return False
    return True
