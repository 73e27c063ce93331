"""Ingot: an ahead-of-time compiler for neural networks; a trained model goes in, a bundle of C comes out.

The public names are imported when they are first asked for, so that `ingot --help` need not load ONNX.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ingot.bundle.bundle import Bundle, load
    from ingot.driver import compile
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
    from ingot.targets.record import Target

__version__ = "0.1.0"

__all__ = [
    "Bundle",
    "IngotError",
    "InputError",
    "MismatchError",
    "ModelError",
    "Options",
    "ShapeError",
    "Target",
    "ToolchainError",
    "UnsupportedError",
    "compile",
    "load",
]

_HOMES = {
    "Bundle": "ingot.bundle.bundle",
    "load": "ingot.bundle.bundle",
    "compile": "ingot.driver",
    "Options": "ingot.options",
    "Target": "ingot.targets.record",
}


def __getattr__(name: str) -> Any:
    """PEP 562: import a public name and keep it. Raises AttributeError for any other."""
    if name not in __all__:
        raise AttributeError(f"module 'ingot' has no attribute {name!r}")
    found = getattr(import_module(_HOMES.get(name, "ingot.errors")), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
