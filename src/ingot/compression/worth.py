"""What compression costs on data: errors of the outputs, and right answers. Plain numbers that `check.worth`
measures and the report of `compress` shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Worth:
    """A compressed model beside the one before, over `runs` runs.

    `error` is |d| / |y| of the worst output over all runs. `alone` has the same error for each layer if
    only this layer is compressed, by name; it is empty if weights changed otherwise too. `before` and `after`
    are percentages of right answers, if the classes are known.
    """

    runs: int
    error: float
    alone: Mapping[str, float] = field(default_factory=dict)
    before: float | None = None
    after: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)

    def __str__(self) -> str:
        """One line."""
        text = f"error of the outputs over {self.runs:,} runs: {100 * self.error:.3g} %"
        if self.before is None or self.after is None:
            return text
        change = self.after - self.before
        return f"right answers: {self.before:.2f} % before, {self.after:.2f} % after ({change:+.2f}); {text}"
