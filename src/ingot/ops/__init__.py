"""One definition per operator, by family. Importing this package fills the registry."""

from ingot.ops import contract, elementwise, normalize, pool, shape

__all__ = ["contract", "elementwise", "normalize", "pool", "shape"]
