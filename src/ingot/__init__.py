"""Ingot: an ahead-of-time compiler for neural networks; a trained model goes in, a bundle of C comes out.

The public names are imported when they are first asked for, so that `ingot --help` need not load ONNX. The
verbs are those of the command line; their errors name parameters, not options (`api/words.py`).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ingot.api.checking import bench, evaluate, verify
    from ingot.api.compiling import compile, load
    from ingot.api.inspecting import Inspection, inspect
    from ingot.api.reporting import Report, report
    from ingot.api.shrinking import compress, profile, quantize
    from ingot.bundle.bundle import Bundle
    from ingot.check.bench import Benchmark
    from ingot.check.evaluate import Evaluation
    from ingot.check.verify import Verification
    from ingot.compression.model import Compressed
    from ingot.data.images import Preprocessing
    from ingot.errors import (
        IngotError,
        InputError,
        MismatchError,
        ModelError,
        ShapeError,
        ToolchainError,
        UnsupportedError,
    )
    from ingot.options import Options
    from ingot.quantization.profile import Profile
    from ingot.quantization.quantize import Quantized
    from ingot.targets.record import Target

__version__ = "0.1.0"

__all__ = [
    "Benchmark",
    "Bundle",
    "Compressed",
    "Evaluation",
    "IngotError",
    "InputError",
    "Inspection",
    "MismatchError",
    "ModelError",
    "Options",
    "Preprocessing",
    "Profile",
    "Quantized",
    "Report",
    "ShapeError",
    "Target",
    "ToolchainError",
    "UnsupportedError",
    "Verification",
    "bench",
    "compile",
    "compile_several",
    "compress",
    "evaluate",
    "inspect",
    "load",
    "profile",
    "quantize",
    "report",
    "verify",
]

_VERBS = {
    "bench": "ingot.api.checking",
    "compile": "ingot.api.compiling",
    "compile_several": "ingot.api.compiling",
    "compress": "ingot.api.shrinking",
    "evaluate": "ingot.api.checking",
    "inspect": "ingot.api.inspecting",
    "load": "ingot.api.compiling",
    "profile": "ingot.api.shrinking",
    "quantize": "ingot.api.shrinking",
    "report": "ingot.api.reporting",
    "verify": "ingot.api.checking",
}
_HOMES = {
    "Benchmark": "ingot.check.bench",
    "Bundle": "ingot.bundle.bundle",
    "Compressed": "ingot.compression.model",
    "Evaluation": "ingot.check.evaluate",
    "Inspection": "ingot.api.inspecting",
    "Options": "ingot.options",
    "Preprocessing": "ingot.data.images",
    "Profile": "ingot.quantization.profile",
    "Quantized": "ingot.quantization.quantize",
    "Report": "ingot.api.reporting",
    "Target": "ingot.targets.record",
    "Verification": "ingot.check.verify",
}


def __getattr__(name: str) -> Any:
    """PEP 562: import a public name and keep it. Raises AttributeError for any other."""
    if name not in __all__:
        raise AttributeError(f"module 'ingot' has no attribute {name!r}")
    if name in _VERBS:
        from ingot.api.words import pythonic

        found = pythonic(getattr(import_module(_VERBS[name]), name))
    else:
        found = getattr(import_module(_HOMES.get(name, "ingot.errors")), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
