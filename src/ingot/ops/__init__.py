"""One definition per operator, by family. Importing this package fills the registry."""

from ingot.ops import (
    activation,
    cast,
    compare,
    contract,
    elementwise,
    normalize,
    pool,
    recurrent,
    shape,
)

__all__ = [
    "activation",
    "cast",
    "compare",
    "contract",
    "elementwise",
    "normalize",
    "pool",
    "recurrent",
    "shape",
]
