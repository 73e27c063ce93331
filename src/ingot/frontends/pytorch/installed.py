"""Whether PyTorch and its exporter are there. In: what needs them; out: which versions, or an InputError."""

from __future__ import annotations

import importlib.metadata
import re

from ingot.errors import InputError

OLDEST = {"torch": (2, 9), "onnxscript": (0, 5)}
INSTALL = "pip install 'ingot[torch]', or export ONNX where PyTorch is: torch.onnx.export(..., dynamo=True)"


def require_torch(what: str) -> str:
    """The versions of PyTorch and onnxscript. Raises InputError where one is missing or too old."""
    said = []
    for package, oldest in OLDEST.items():
        try:
            version = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            raise InputError(f"{what} needs {package}, which is not installed", remedy=INSTALL) from None
        if tuple(map(int, re.findall(r"\d+", version)[:2])) < oldest:
            least = ".".join(map(str, oldest))
            raise InputError(
                f"{what} needs {package} {least} or newer; {version} is installed", remedy=INSTALL
            )
        said.append(f"{package} {version}")
    return " with ".join(said)
