"""How fast constants arrive. In: their bytes, the target's caches. Out: bytes a cycle."""

from __future__ import annotations

from ingot.targets.record import Target

FROM_SECOND, FROM_THIRD, FROM_MEMORY = 48.0, 20.0, 10.0  # bytes a cycle from the caches and beyond


def stream(size: int, target: Target, cold: bool) -> float:
    """Bytes a cycle that so many bytes of weights arrive with."""
    if cold:
        return FROM_MEMORY
    level = sum(size > cache // 4 * 3 for cache in target.caches[1:])
    return (FROM_SECOND, FROM_THIRD, FROM_MEMORY)[level]
