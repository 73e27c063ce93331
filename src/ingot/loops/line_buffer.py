"""Some rows of a tensor, while stages go through its rows at one pace: `loops/region_passes/streams.py`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from ingot.formula.expr import Tensor, static
from ingot.loops.layout import Layout


@dataclass(frozen=True, slots=True)
class LineBuffer:
    """How a stage of a stream goes through its rows (`loops/region_passes/streams.py`).

    The rows are along dimension `dim`. Of `ticks`, each makes `step` of them one by one, tick t the rows from
    `start` + `step` * t on, as far as they are of the image. A line buffer holds the last `rows` that were
    made, and beyond the image the `fill`, which is None where nobody reads there. Before every `shift` rows,
    at the end of which its readers read, those that they read again move to the front. What the last stage
    makes is whole.
    """

    dim: int
    step: int
    start: int
    rows: int
    shift: int
    ticks: int
    fill: float | int | None = None
    is_last: bool = False

    def shape(self, t: Tensor) -> tuple[int, ...]:
        """Of the line buffer of a tensor, without the halo."""
        return tuple(self.rows if d == self.dim else static(n) for d, n in enumerate(t.shape))

    def layout(self, whole: Layout) -> Layout:
        """Rows are stored as in the tensor: what lies beside them too, but nothing above or below."""
        before, after = (
            tuple(0 if d == self.dim else n for d, n in enumerate(side))
            for side in (whole.before, whole.after)
        )
        return replace(whole, before=before, after=after)

    def bytes(self, t: Tensor, whole: Layout) -> int:
        shape = self.layout(whole).shape(self.shape(t))
        return prod(map(static, shape)) * t.type.bytes
