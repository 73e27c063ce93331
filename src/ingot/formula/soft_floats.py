"""What the operations on the bits of float32 mean that are done in integers: `soft_add` and its kind.

In: int32 arrays, bits of float32 unless said otherwise. Out: int32, to the bit what a processor gives.
`loops/program_passes/soft_floats.py` writes them, `emit/soft_floats.py` has their C.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = Any  # numpy scalar or array, as in `operations.py`
LOWEST, HIGHEST = -(1 << 31), (1 << 31) - 1


def floats(bits: Array) -> Array:
    """The numbers that bits are."""
    return np.asarray(bits, np.int32).view(np.float32)


def bits_of(numbers: Array) -> Array:
    return np.asarray(numbers, np.float32).view(np.int32)


def nearest(bits: Array) -> Array:
    """The nearest int32, half to even; the ends of int32 beyond it, its lowest for NaN."""
    return _limited(np.rint(floats(bits).astype(np.float64)))


def truncated(bits: Array) -> Array:
    """The int32 next to it towards 0, limited; 0 for NaN."""
    return _limited(np.nan_to_num(np.trunc(floats(bits).astype(np.float64)), nan=0.0, posinf=2e9 + 2e9))


def scaled(whole: Array, factor: Array) -> Array:
    """The nearest int32 of an int32 as a float times a float: what requantises a sum."""
    return nearest(bits_of(np.asarray(whole, np.int32).astype(np.float32) * floats(factor)))


def _limited(x: Array) -> Array:
    return np.clip(np.nan_to_num(x, nan=LOWEST, posinf=HIGHEST, neginf=LOWEST), LOWEST, HIGHEST).astype(
        np.int32
    )


def on_floats(f: Callable[..., Array]) -> Callable[..., Array]:
    """A function of floats as one of bits."""
    return lambda *bits: bits_of(f(*map(floats, bits)))


def _asked(f: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    return lambda a, b: np.asarray(f(floats(a), floats(b))).astype(np.int32)


UNARY: dict[str, Callable[[Array], Array]] = {
    "soft_float": lambda a: bits_of(np.asarray(a, np.int32).astype(np.float32)),
    "soft_nearest": nearest,
    "soft_whole": truncated,
}
BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "soft_add": on_floats(np.add),
    "soft_mul": on_floats(np.multiply),
    "soft_div": on_floats(np.divide),
    "soft_less": _asked(np.less),
    "soft_equal": _asked(np.equal),
    "soft_scaled": scaled,
}
