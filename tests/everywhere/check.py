"""What a model does on a target: whether its object keeps the rules, and how far off its answers are.

In: a case of the corpus, a target. Out: an `Outcome`. Read by `__main__.py` and `tests/test_everywhere.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256

import numpy as np

import ingot
from ingot.audit.audit import audit
from ingot.audit.policy import Policy, broken, judge
from ingot.errors import IngotError
from ingot.targets.record import Target
from ingot.targets.toolchain import obstacle
from tests.corpus import CASES, Case
from tests.corpus.net import Array

BYTES = ("resnet_bytes", "keywords_bytes", "mobilenet_bytes", "memory_bytes")
"""Networks of bytes from their inputs to their outputs."""
NAMES = (
    *("digits", "conv_1d", "grouped", "quantised", "mlp", "lstm", "attention", "branch", "loop", "integers"),
    *("double", "half", "boosted", "codes"),
    *BYTES,
)
"""Every kind of generator and type, in models that an emulator answers in seconds."""
CHOSEN = tuple(c for c in CASES if c.name in NAMES)
RULES = Policy(libraries=True, writable=False, features=False)
UNDECODED = Policy(libraries=True, writable=False)
UNREAD = (
    *("aarch64-sve256", "aarch64-sve512", "armv8.1m", "cortex-m85", "mips64", "mips64el"),
    *("sparc", "sparcel", "armv7-a-be", "riscv64-v"),
)
"""Of whose SVE, Helium, rd %y, dinsu the decoder makes no assembly that a compiler takes."""

UNTRANSLATED = (("riscv64-v", "quantised"),)
"""Programs in which QEMU 7.2 aborts at a conversion of floats, the first after vectors change length."""


@dataclass(frozen=True)
class Outcome:
    """`error` empty: the object keeps the rules, what ran agrees; `off` is relative to the largest output.

    `bits` identifies the outputs of a model that ran, if all of them are integers.
    """

    target: str
    case: str
    error: str = ""
    ran: bool = False
    off: float = 0.0
    calls: tuple[str, ...] = ()  # of the compiler's library
    bits: str = ""


def outcome(case: Case, target: Target) -> Outcome:
    """Compile, audit and, where that is possible, run; what goes wrong is told."""
    try:
        made = ingot.compile(case.model, target=target.name, name=case.name, define=case.define)
        found = audit(made.object, None, target)
        rules = judge(found, RULES if found.is_decoded and target.name not in UNREAD else UNDECODED)
        calls = tuple(found.undefined)
        wrong = [*broken(rules), *(f"{name} is undefined" for name in calls if not name.startswith("__"))]
        if wrong:
            return Outcome(target.name, case.name, wrong[0])
        if obstacle(target) or (target.name, case.name) in UNTRANSLATED:
            return Outcome(target.name, case.name, calls=calls)
        answers = list(made.run(case.feeds).values())
        case.check(answers, case.name)
        require_same_integers(case, answers)
        off = distance(answers, case.wanted)
        return Outcome(target.name, case.name, "", True, off, calls, digest(answers))
    except (IngotError, AssertionError) as error:
        return Outcome(target.name, case.name, str(error).split("\n")[0][:200])


@cache
def reference(case: Case) -> Mapping[int, Array]:
    """The integers that portable C gives here, by the number of the output."""
    answers = (
        ingot.compile(case.model, target="c99", name=case.name, define=case.define).run(case.feeds).values()
    )
    return {i: a for i, a in enumerate(answers) if a.dtype.kind in "iub"}


def require_same_integers(case: Case, answers: Sequence[Array]) -> None:
    for i, wanted in reference(case).items():
        assert np.array_equal(answers[i], wanted), f"output {i} has other integers than portable C gives"


def digest(answers: Sequence[Array]) -> str:
    """Return what identifies the bytes of integer outputs, little-endian; of others nothing."""
    if any(a.dtype.kind not in "iub" for a in answers):
        return ""
    return sha256(b"".join(a.astype(a.dtype.newbyteorder("<")).tobytes() for a in answers)).hexdigest()[:12]


def distance(answers: Sequence[Array], wanted: Sequence[Array]) -> float:
    """The largest difference of floats, relative to the largest of an output."""
    found = 0.0
    for a, b in zip(answers, wanted, strict=False):
        if a.dtype in (np.float32, np.float64) and b.size:  # what is rounded to less, `check` has compared
            known = np.isfinite(b)
            x, y = a[known].astype(np.float64), b[known].astype(np.float64)
            found = max(
                found, float(np.max(np.abs(x - y), initial=0) / max(np.max(np.abs(y), initial=0), 1e-30))
            )
    return found
