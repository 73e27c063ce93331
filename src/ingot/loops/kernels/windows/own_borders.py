"""Whether windows of bytes are computed with what lies around their operand, which then needs no halo.

In: a stage, layouts without halos, a target. Out: yes or no. Called by `assign_layouts`.
"""

from __future__ import annotations

from collections.abc import Mapping

from ingot.formula.compute import Compute
from ingot.formula.expr import Tensor
from ingot.loops.kernels.windows.byte_windows import open_windows
from ingot.loops.kernels.windows.plane_windows import is_in_planes
from ingot.loops.kernels.windows.quad_windows import is_in_quads
from ingot.loops.layout import Layout, Storage
from ingot.targets.record import Target


def makes_border(c: Compute, layouts: Mapping[Tensor, Layout], target: Target) -> bool:
    """Whether a stage is computed by routines that write what lies around its operand themselves."""
    if not target.routines or c.out.type.bits != 8:
        return False
    windows = open_windows(c, Storage(dict(layouts)), {})
    if windows is None or windows.fill is None:
        return False
    return is_in_quads(windows, target) or is_in_planes(windows, target)
