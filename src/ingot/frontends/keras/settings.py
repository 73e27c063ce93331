"""A layer's configuration, read with types. In: JSON; out: numbers, flags and names, or a ModelError."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ingot.errors import ModelError
from ingot.formula.types import (
    BFLOAT16,
    BOOL,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    UINT8,
    DType,
)

MISSING: Any = object()
TYPES = {
    **{t.name: t for t in (FLOAT16, FLOAT32, FLOAT64, BFLOAT16, INT8, INT16, INT32, INT64, UINT8, BOOL)},
    "uint16": INT32,
    "half": FLOAT16,
    "float": FLOAT32,
    "double": FLOAT64,
}
POLICIES = {"mixed_float16": FLOAT16, "mixed_bfloat16": BFLOAT16}
LARGE = 1 << 31


@dataclass(frozen=True, slots=True)
class Settings:
    """Values by name; `label` is what errors call the layer."""

    values: dict[str, Any]
    label: str

    def has(self, name: str) -> bool:
        """Whether it is given, and not as None."""
        return self.values.get(name) is not None

    def get(self, name: str, default: Any = MISSING) -> Any:
        found = self.values.get(name)
        if found is None:
            if default is MISSING:
                raise ModelError(f"{self.label}: its configuration says no {name!r}")
            return default
        return found

    def integer(self, name: str, default: Any = MISSING) -> int:
        found = self.get(name, default)
        if isinstance(found, float) and found.is_integer() and abs(found) < LARGE:
            found = int(found)
        if isinstance(found, bool) or not isinstance(found, int) or not -LARGE < found < LARGE:
            raise self._odd(name, found, "an integer")
        return found

    def count(self, name: str, default: Any = MISSING) -> int:
        """An integer above 0."""
        found = self.integer(name, default)
        if found < 1:
            raise self._odd(name, found, "above 0")
        return found

    def number(self, name: str, default: Any = MISSING) -> float:
        found = self.get(name, default)
        if isinstance(found, dict):  # a numpy scalar or an array of one element of Keras 2
            found = found.get("value", found)
        if isinstance(found, list) and len(found) == 1:
            found = found[0]
        if isinstance(found, bool) or not isinstance(found, int | float):
            raise self._odd(name, found, "a number")
        try:
            return float(found)
        except OverflowError:
            raise self._odd(name, "a long number", "a number") from None

    def maybe(self, name: str) -> float | None:
        return self.number(name) if self.has(name) else None

    def flag(self, name: str, default: bool = False) -> bool:
        found = self.get(name, default)
        if found not in (True, False):
            raise self._odd(name, found, "true or false")
        return bool(found)

    def text(self, name: str, default: Any = MISSING) -> str:
        found = self.get(name, default)
        if not isinstance(found, str):
            raise self._odd(name, found, "a word")
        return found

    def choice(self, name: str, known: tuple[str, ...], default: Any = MISSING) -> str:
        found = self.text(name, default).lower()
        if found not in known:
            raise self._odd(name, found, f"one of {', '.join(known)}")
        return found

    def integers(self, name: str, count: int | None = None, default: Any = MISSING) -> list[int]:
        """A list; a single number stands for as many."""
        found = self.get(name, default)
        if isinstance(found, int) and not isinstance(found, bool):
            found = [found] * (1 if count is None else count)
        fits = isinstance(found, list | tuple) and all(_is_int(n) for n in found)
        if not fits or (count is not None and len(found) != count):
            raise self._odd(name, found, "integers" if count is None else f"{count} integers")
        return [int(n) for n in found]

    def counts(self, name: str, count: int, default: Any = MISSING) -> list[int]:
        """Integers above 0."""
        found = self.integers(name, count, default)
        if min(found, default=1) < 1:
            raise self._odd(name, found, "above 0")
        return found

    def inner(self, name: str) -> dict[str, Any]:
        """A configuration inside this one."""
        found = self.get(name)
        if not isinstance(found, dict):
            raise self._odd(name, found, "a configuration")
        return found

    @property
    def compute(self) -> DType:
        """The element type that the layer computes in: its dtype, or what its policy says."""
        return TYPES[self.policy] if self.policy in TYPES else POLICIES[self.policy]

    @property
    def policy(self) -> str:
        """The name of the policy. Raises ModelError for one that is not known."""
        found = self.get("dtype", "float32")
        if isinstance(found, dict):
            inside = found.get("config")
            found = inside.get("name") or inside.get("source_name") if isinstance(inside, dict) else None
            found = "float32" if found is None else found
        if isinstance(found, str) and "_from_" in found:  # of a quantised layer: the floats around it
            found = found.partition("_from_")[2]
        if found not in TYPES and found not in POLICIES:
            raise self._odd("dtype", found, "a type of Keras'")
        return str(found)

    @property
    def quantization(self) -> str:
        """The mode of a quantised layer, "int8", or nothing."""
        found = self.get("dtype", "float32")
        if not isinstance(found, dict) or "Quantized" not in str(found.get("class_name")):
            return ""
        inside = found.get("config")
        name = inside.get("name") or inside.get("mode") if isinstance(inside, dict) else ""
        return str(name or "").partition("_from_")[0] or "an unknown mode"

    def _odd(self, name: str, found: Any, wanted: str) -> ModelError:
        return ModelError(f"{self.label}: its {name!r} is {str(found)[:60]!r}, not {wanted}")


def _is_int(number: Any) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and -LARGE < number < LARGE
