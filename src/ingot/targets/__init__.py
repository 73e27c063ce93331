"""What Ingot compiles for: `Target` records, and the toolchain that builds for them."""

from .record import Spellings, Target
from .records import TARGETS, find, native

__all__ = ["TARGETS", "Spellings", "Target", "find", "native"]
