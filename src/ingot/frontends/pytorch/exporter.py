"""PyTorch's exporter to ONNX, run in this process for a module and in one of its own for a file.

As a program: `model.pt2` in the working directory becomes `made.bin`, a line that says what is wrong, empty
where nothing is, and behind it the ONNX model. It imports nothing of Ingot's: `import_pytorch` starts it, and
has checked the file.
"""

from __future__ import annotations

import logging
import os
import warnings
import zipfile
from pathlib import Path
from typing import Any

SECONDS, JSON_PER_SECOND, BYTES_PER_SECOND = 20, 10_000, 1 << 25
ROOM, COPIES = 3 << 29, 6  # for the libraries, and how often the weights may be in memory
REASON_LENGTH = 300


def onnx_of(model: Any, arguments: tuple[Any, ...], named: dict[str, Any], dynamic_shapes: Any) -> bytes:
    """The ONNX of a module, which is in its evaluation mode meanwhile, or of an ExportedProgram."""
    import torch

    parts = [m for m in model.modules() if m.training] if isinstance(model, torch.nn.Module) else []
    quiet = logging.getLogger("torch.onnx")
    level = quiet.level
    try:
        for part in parts:
            part.training = False
        quiet.setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = torch.onnx.export(
                model, arguments, kwargs=named, dynamic_shapes=dynamic_shapes, dynamo=True, verbose=False
            )
        return bytes(made.model_proto.SerializeToString())
    finally:
        quiet.setLevel(level)
        for part in parts:
            part.training = True


def reason_of(error: BaseException) -> str:
    """The first line of what lies behind an error, on one line."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    return "".join(c if c.isprintable() else " " for c in text)[:REASON_LENGTH]


def _bounded(path: Path) -> None:
    """The system ends this process where it takes longer, or more memory, than a sound file of its size."""
    import resource

    held = path.stat().st_size
    with zipfile.ZipFile(path) as archive:
        program = archive.getinfo("model/models/model.json").file_size
    seconds = SECONDS + program // JSON_PER_SECOND + held // BYTES_PER_SECOND
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_DATA, (ROOM + COPIES * held,) * 2)


def main() -> None:
    """Write `made.bin`."""
    _bounded(Path("model.pt2"))
    os.environ["OMP_NUM_THREADS"] = "1"
    reason, data = "", b""
    try:
        from torch.export.pt2_archive._package import load_pt2  # torch.export.load hides what goes wrong

        data = onnx_of(load_pt2("model.pt2").exported_programs["model"], (), {}, None)
    except Exception as error:
        reason = reason_of(error)
    Path("made.bin").write_bytes(reason.encode(errors="replace") + b"\n" + data)


if __name__ == "__main__":
    main()
