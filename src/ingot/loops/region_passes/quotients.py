"""Several sigmoids and tanhs that are multiplied and added share one division.

    sigmoid(f) * c + sigmoid(i) * tanh(z)              with f' = exp(-f), i' = exp(-i), z' = exp(-2 z)
    ->  (c * (1 + i')(1 + z') + (1 - z') * (1 + f')) / ((1 + f')(1 + i')(1 + z'))

In: a fused region. Out: the same region, stages rewritten. The sum is accurate to a few units of the largest
term, not of each: `--math exact` leaves this out. exp is limited to e^20, where sigmoid is 2e-9 and tanh is
1: so products of four stay within float32.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ingot.formula.compute import Compute
from ingot.formula.expr import Binary, Const, Expr, Unary, call, minimum, rebuild
from ingot.formula.types import FLOAT32
from ingot.loops.region import Region, replace_computes

LARGEST = 20.0  # exponent
MOST = 4  # quotients over one denominator


@dataclass(frozen=True, slots=True)
class Quotient:
    """over / under, of `count` quotients."""

    over: Expr
    under: Expr
    count: int


def join_quotients(region: Region) -> Region:
    """Rewrite in place, regions of branches and loops included, and return the region."""
    return replace_computes(region, _with_joined)


def _with_joined(c: Compute) -> Compute:
    value = joined(c.value)
    return c if value is c.value else replace(c, value=value)


def joined(e: Expr) -> Expr:
    """The expression with one division where quotients are multiplied or added."""
    return _Joiner().joined(e)


class _Joiner:
    """Joins the quotients of one expression; what was found of a node is kept, for nodes above ask again.

    The tables name nodes by identity and hold them: to compare two nodes is to walk all that is below.
    """

    def __init__(self) -> None:
        self._joined: dict[int, tuple[Expr, Expr]] = {}
        self._quotients: dict[int, tuple[Expr, Quotient | None]] = {}

    def joined(self, e: Expr) -> Expr:
        known = self._joined.get(id(e))
        if known is None:
            known = self._joined[id(e)] = e, self._one_division(e) or rebuild(e, self.joined)
        return known[1]

    def _one_division(self, e: Expr) -> Expr | None:
        if e.dtype is not FLOAT32 or not isinstance(e, Binary):
            return None
        found = self.quotient(e)
        return found.over / found.under if found is not None and 1 < found.count <= MOST else None

    def quotient(self, e: Expr) -> Quotient | None:
        """The expression as one quotient, if it is made of such."""
        known = self._quotients.get(id(e))
        if known is None:
            known = self._quotients[id(e)] = e, self._quotient(e)
        return known[1]

    def _quotient(self, e: Expr) -> Quotient | None:
        match e:
            case Unary("sigmoid", x):
                return Quotient(_one(), _shrunk(self.joined(x), -1.0) + 1.0, 1)
            case Unary("tanh", x):
                t = _shrunk(self.joined(x), -2.0)
                return Quotient(1.0 - t, t + 1.0, 1)
            case Binary("mul", a, b):
                return self._product(a, b)
            case Binary("add" | "sub" as op, a, b):
                return self._sum(op, a, b)
        return None

    def _product(self, a: Expr, b: Expr) -> Quotient | None:
        p, q = self.quotient(a), self.quotient(b)
        match p, q:
            case None, None:
                return None
            case None, Quotient(over, under, count):
                return Quotient(_times(over, self.joined(a)), under, count)
            case Quotient(over, under, count), None:
                return Quotient(_times(over, self.joined(b)), under, count)
        assert p is not None and q is not None
        return Quotient(_times(p.over, q.over), p.under * q.under, p.count + q.count)

    def _sum(self, op: str, a: Expr, b: Expr) -> Quotient | None:
        """Of quotients only, or 1 less one: a summand of any size must not be multiplied by a denominator."""
        p, q = self.quotient(a), self.quotient(b)
        if q is not None and p is None and a == _one() and op == "sub":
            return Quotient(q.under - q.over, q.under, q.count)
        if p is None or q is None:
            return None
        over = Binary(op, _times(p.over, q.under), _times(q.over, p.under))
        return Quotient(over, p.under * q.under, p.count + q.count)


def _one() -> Expr:
    return Const(1.0, FLOAT32)


def _shrunk(x: Expr, factor: float) -> Expr:
    """exp(factor * x), limited; NaN stays NaN."""
    return call("exp", minimum(-x if factor == -1.0 else x * factor, LARGEST))


def _times(a: Expr, b: Expr) -> Expr:
    return b if a == _one() else a if b == _one() else a * b
