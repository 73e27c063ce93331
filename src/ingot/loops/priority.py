"""What `--optimize` means, as data: `PRIORITIES` is read by the driver and by whoever prints and compiles C.

| | size | balanced | speed |
|---|---|---|---|
| the C compiler is told | -Os | -O2 | -O3 |
| accumulators of a register tile | at most 4 | at most 16 | as registers allow |
| fast convolutions, whose weights are larger | no | no | where they are faster |
| kernels that differ in numbers only | one function | one function | apart |
| large images of bytes (Cortex-M) | have a halo | have none, a frame of some rows | the same |
| routines that prepare depthwise bytes (Cortex-M) | for one channel | for one | for one and for four |

Fewer accumulators are less unrolled code, and more loads for each multiply-add.
"""

from __future__ import annotations

from dataclasses import dataclass

from ingot.options import Optimize


@dataclass(frozen=True, slots=True)
class Priority:
    """`level` is the C compiler's; a register tile has at most so many `accumulators` (0: as many as the
    registers hold); `fast`: convolutions may be computed by algorithms that store more weights; `alike`:
    kernels that differ in numbers only share a function; `frames`: large images have no halo, which takes
    code that copies their rows.
    """

    level: str = "-O3"
    accumulators: int = 0
    fast: bool = True
    alike: bool = False
    frames: bool = True


PRIORITIES: dict[Optimize, Priority] = {
    "size": Priority("-Os", 4, False, True, frames=False),
    "balanced": Priority("-O2", 16, False, True),
    "speed": Priority(),
}
