"""`--capacity`: how large values get whose extents only the data tells. In: the option; out: a value's own.

A frontend asks `of` for every value it makes and calls `require_used` when it has made them all.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field

from ingot.errors import InputError
from ingot.options import Capacity

LIMIT = 1 << 31
NEAR = 8


@dataclass(slots=True)
class Capacities:
    """The capacities a user gives: `given[NAME]` is for the value NAME, `given[""]` for all others.

    An int holds for every axis without a bound of its own, a tuple has one number per axis. Raises InputError
    for a negative or huge one.
    """

    given: Mapping[str, Capacity]
    seen: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        for name, capacity in self.given.items():
            numbers = (capacity,) if isinstance(capacity, int) else capacity
            if not numbers or not all(0 <= n < LIMIT for n in numbers):
                wanted = f"{name}=" if name else ""
                text = "x".join(map(str, numbers))
                raise InputError(f"--capacity {wanted}{text}: a capacity must be between 0 and {LIMIT - 1}")

    def of(self, *names: str) -> Capacity | None:
        """The capacity of a value that the model calls by one of `names`; None where nothing is said."""
        self.seen.update(names)
        found = next((self.given[name] for name in names if name and name in self.given), None)
        return self.given.get("") if found is None else found

    def require_used(self) -> None:
        """Raise InputError for a name that no value of the model has; the message lists near ones."""
        for name in self.given:
            if name and name not in self.seen:
                near = difflib.get_close_matches(name, sorted(self.seen), NEAR, 0.5) or sorted(self.seen)
                listed = ", ".join(repr(n) for n in near[:NEAR] if n) or "none"
                raise InputError(f"--capacity {name}: the model has no such value; near ones: {listed}")
