"""Who is off where Ingot and the oracle differ: each is measured against a float64 evaluation.

    found - right = (found - exact(ours)) + (exact(ours) - exact(theirs)) + (exact(theirs) - right)
                     Ingot's own error       inherited from the operands     the oracle's own error

In: a layer that differs, with the operands that each of the two gave it; or an output of the model, with the
model's inputs. Out: a `Judgement`. docs/verify.md says why the limits are what they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx

from ingot.check.truth import Formulas, Values, moved
from ingot.check.witness import second_opinion
from ingot.formula.expr import Array
from ingot.formula.types import dtype_of

SLACK = 4.0  # what rounds otherwise than the formulas' plain loops is seldom so much worse
LEAST = 2.0**-64
NEIGHBOURS = 3
INGOT, ORACLE, BOTH, NEITHER, DISPUTED = "ingot", "oracle", "both", "neither", "disputed"


@dataclass(frozen=True, slots=True)
class Judgement:
    """Errors of max|y| of the float64 evaluation: Ingot's, the oracle's, and what rounding alone does.

    `inherited` is how far apart the float64 results are on the operands of the two, None for an output of the
    whole model, whose operands are the same. `limit` is what an error may be. `guilty` says who is beyond it;
    "disputed": the oracle is, but nobody else says so.
    """

    ours: float
    theirs: float
    rounding: float
    inherited: float | None
    limit: float
    guilty: str

    @property
    def acquits(self) -> bool:
        """Whether the difference is none of Ingot's making."""
        return self.guilty in (ORACLE, NEITHER)

    def sentence(self, oracle: str) -> str:
        """What was found, in words."""
        errors = (
            f"off by {self.ours:.2g} (Ingot) and {self.theirs:.2g} ({oracle}) of max|y| in float64, "
            f"rounding does {self.rounding:.2g}"
        )
        return f"{self._charge.format(oracle=oracle)}: {errors}"

    @property
    def _charge(self) -> str:
        match self.guilty:
            case "ingot":
                return "Ingot is off"
            case "oracle":
                return "{oracle} is off"
            case "both":
                return "Ingot and {oracle} are both off"
            case "disputed":
                return "Ingot's definition and {oracle} disagree, and no third party sides with Ingot"
        if self.inherited is None or self.inherited <= self.limit:
            return "nobody is off, both round"
        return f"nobody is off, the operands differ, which does {self.inherited:.2g}"


@dataclass(frozen=True, slots=True)
class Side:
    """What one of the two made, and the values it made it of."""

    result: Array
    operands: Values


@dataclass(frozen=True, slots=True)
class Court:
    """What judging one model on one input takes."""

    proto: onnx.ModelProto
    formulas: Formulas
    params: Mapping[str, int]

    def layer(self, name: str, ours: Side, theirs: Side, tolerance: float) -> Judgement:
        """One layer on its own, each side on the operands it had.

        Rounding is measured there and on neighbours, for one sum may happen to lose nothing.
        """
        f = self.formulas
        mine = f.value(f.exact, name, ours.operands, self.params)
        yours = f.value(f.exact, name, theirs.operands, self.params)
        stored = f.value(f.stored, name, ours.operands, self.params)
        beside = [self._rounding(name, moved(ours.operands, seed)) for seed in range(NEIGHBOURS)]
        rounding = max(error(stored, mine), 0.0, *filter(np.isfinite, beside))
        limit = _limit(tolerance, rounding, ours.result)
        own, other = _nearest(ours.result, mine, stored), error(theirs.result, yours)
        guilty = _guilty(own, other, limit)
        if guilty == ORACLE and not self._is_confirmed(name, theirs.operands, yours, limit):
            guilty = DISPUTED
        return Judgement(own, other, rounding, error(yours, mine), limit, guilty)

    def output(
        self, name: str, inputs: Values, found: Array, right: Array, tolerance: float, is_trusted: bool
    ) -> Judgement:
        """An output of the whole model. `is_trusted`: every layer of the oracle is right, as far as seen.

        Rounding is measured on the inputs and on their neighbours, and by the oracle where it is trusted.
        """
        f = self.formulas
        exact = f.value(f.exact, name, inputs, self.params)
        stored = f.value(f.stored, name, inputs, self.params)
        own, other = _nearest(found, exact, stored), error(right, exact)
        near = (moved(inputs, seed) for seed in range(NEIGHBOURS))
        beside = [error(f.value(f.stored, name, n, self.params), exact) for n in near]
        if is_trusted:
            beside.append(other)
        rounding = max(error(stored, exact), 0.0, *filter(np.isfinite, beside))
        limit = _limit(tolerance, rounding, found)
        return Judgement(own, other, rounding, None, limit, _guilty(own, other, limit))

    def _rounding(self, name: str, operands: Values) -> float:
        """What rounding alone does to a layer on some operands."""
        f = self.formulas
        stored, exact = (f.value(r, name, operands, self.params) for r in (f.stored, f.exact))
        return error(stored, exact)

    def _is_confirmed(self, name: str, operands: Values, exact: Array, limit: float) -> bool:
        """Whether an evaluator that is not Ingot's finds what the formulas do."""
        needed = {k: operands[k] for k in self.formulas.operands(name, operands)}
        opinion = second_opinion(self.proto, name, needed)
        return opinion is not None and opinion.shape == exact.shape and error(opinion, exact) <= limit


def _limit(tolerance: float, rounding: float, result: Array) -> float:
    """What rounding does to integers is to take the neighbour, not to be off by several. Where it makes NaN
    of a number it excuses nothing.
    """
    slack = SLACK if dtype_of(result).is_float else 1.0
    return max(tolerance, slack * rounding) if np.isfinite(rounding) else tolerance


def _nearest(found: Array, exact: Array, stored: Array) -> float:
    """The error beside `exact`, or beside what the model's own types make NaN or infinite of it."""
    own = error(found, exact)
    return own if np.isfinite(own) else error(found, stored)


def _guilty(ours: float, theirs: float, limit: float) -> str:
    match ours <= limit, theirs <= limit:
        case True, True:
            return NEITHER
        case True, False:
            return ORACLE
        case False, True:
            return INGOT
    return BOTH


def error(found: Array, exact: Array) -> float:
    """max|d|/max|y|; infinite where only one is NaN or infinite, once `exact` is rounded as `found` is."""
    if found.shape != exact.shape:
        return np.inf
    with np.errstate(all="ignore"):
        rounded = exact.astype(found.dtype)
    if not found.size or (not dtype_of(found).is_float and np.array_equal(found, rounded)):
        return 0.0
    rounded = rounded.astype(np.float64)
    a, b = found.astype(np.float64), exact.astype(np.float64)
    finite = np.isfinite(a) & np.isfinite(b)
    if np.any((a != rounded) & ~(np.isnan(a) & np.isnan(rounded)) & ~finite):
        return np.inf
    largest = float(np.max(np.abs(b), initial=0, where=finite))
    apart = float(np.max(np.abs(np.where(finite, a, 0) - np.where(finite, b, 0))))
    least = 0.0 if dtype_of(found).is_float else LEAST  # 64 bits may differ by less than a float64 shows
    return max(apart / largest if largest else apart, least)
