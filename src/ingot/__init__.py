"""Ingot: an ahead-of-time compiler for neural networks. A trained model goes in, a self-contained bundle of C comes out."""

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
