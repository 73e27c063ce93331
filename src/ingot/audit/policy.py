"""Rules that an object has to keep, and which of them it breaks.

In: an `Audit` and a `Policy`. Out: a `Verdict` for each rule. Called by `ingot audit` and by packages, which
refuse objects that break one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ingot.audit.audit import Audit, FunctionFacts
from ingot.audit.decode import UNKNOWN
from ingot.targets.linux import FRAME_BYTES, RESOLVED, STACK_ALIGN, THUNKS

REASONS = 12
ALTERNATIVES = ".altinstr_replacement"

_MATH = re.compile(
    r"_*(a?(sin|cos|tan)h?|exp(2|10|m1)?|log(2|10|1p)?|pow|sqrt|cbrt|hypot|fmod|remainder|fma|fmin|fmax|fdim|"
    r"floor|ceil|trunc|l?l?round|l?l?rint|nearbyint|erfc?|[lt]gamma|ldexp|frexp|scalbl?n|modf|copysign|fabs|"
    r"atan2|sincos|nextafter|nan)(_finite)?[fl]?$"
)
_RUNTIME = re.compile(
    r"__(aeabi_[a-z0-9_]+|(add|sub|mul|div|neg|cmp|un?ord|eq|ne|lt|le|gt|ge|pow)[hsdtx][fci][23]|"
    r"(fix|fixuns|float|floatun)[hsdtx][fi][hsdtx][fi]|(extend|trunc)[hsdtxb]f[hsdtxb]f2|"
    r"u?(div|mod|divmod)[sdt]i[34]|(ash[lr]|lshr|mul|popcount|clz|ctz|ffs|bswap|parity|cmp|ucmp)[sdt]i[234]|"
    r"gnu_[fh]2[fh]_ieee|muldc3|mulsc3|divdc3|divsc3)$"
)


@dataclass(frozen=True, slots=True)
class Policy:
    """None or True: anything goes. `undefined` are the names allowed, `*` at an end stands for any ending.

    `features` False: only those of the target that the audit was made for. `frame_bytes`: no function may
    take so many or more; `path_bytes`: nor a call with all below it; `stack_align`: what code may believe of
    the stack that its caller left. `relocations` False: only those that Linux resolves when it loads modules.
    """

    undefined: tuple[str, ...] | None = None
    libraries: bool = True
    writable: bool = True
    red_zone: bool = True
    frame_bytes: int | None = None
    path_bytes: int | None = None
    stack_align: int | None = None
    features: bool = True
    relocations: bool = True


@dataclass(frozen=True, slots=True)
class Verdict:
    """One rule; no reasons: kept. `note` says why it was not looked at, where it was not."""

    rule: str
    reasons: tuple[str, ...]
    note: str = ""

    @property
    def holds(self) -> bool:
        return not self.reasons


POLICIES = {
    "bundle": Policy(undefined=(), libraries=False, writable=False, features=False),
    "kernel": Policy(
        undefined=THUNKS,
        libraries=False,
        writable=False,
        red_zone=False,
        frame_bytes=FRAME_BYTES,
        stack_align=STACK_ALIGN,
        features=False,
        relocations=False,
    ),
    # A module's own C is linked by the kernel, and has data of its own.
    "module": Policy(
        libraries=False, red_zone=False, frame_bytes=FRAME_BYTES, stack_align=STACK_ALIGN, relocations=False
    ),
}


def judge(audit: Audit, policy: Policy) -> list[Verdict]:
    """One verdict for each rule of the policy."""
    return [v for rule in _RULES for v in rule(audit, policy)]


def broken(verdicts: Sequence[Verdict]) -> list[str]:
    """Every reason, under its rule."""
    return [f"{v.rule}: {reason}" for v in verdicts for reason in v.reasons]


def _short(reasons: list[str]) -> tuple[str, ...]:
    more = len(reasons) - REASONS
    return (*reasons[:REASONS], *([f"and {more} more"] if more > 0 else []))


def _undefined(audit: Audit, policy: Policy) -> Iterator[Verdict]:
    if policy.undefined is None:
        return
    rule = "no undefined symbol" + (f" but {', '.join(policy.undefined)}" if policy.undefined else "")
    bad = {n: by for n, by in audit.undefined.items() if not _allowed(n, policy.undefined)}
    kept = {n: by for n, by in bad.items() if policy.libraries or not _library(n)}
    yield Verdict(rule, _short([f"'{name}' is undefined{_users(by)}" for name, by in kept.items()]))


def _allowed(name: str, allowed: Sequence[str]) -> bool:
    return any(name.startswith(a[:-1]) if a.endswith("*") else name == a for a in allowed)


def _users(by: tuple[str, ...]) -> str:
    return f", used by {', '.join(by[:3])}{' and others' if len(by) > 3 else ''}" if by else ""


def _library(name: str) -> str:
    if _RUNTIME.match(name):
        return "the compiler's runtime library (compiler-rt, libgcc)"
    return "the mathematical library (libm)" if _MATH.match(name) else ""


def _libraries(audit: Audit, policy: Policy) -> Iterator[Verdict]:
    if policy.libraries:
        return
    found = {name: by for name, by in audit.undefined.items() if _library(name)}
    reasons = [f"'{name}' is of {_library(name)}{_users(by)}" for name, by in found.items()]
    yield Verdict("no call of libm or compiler-rt", _short(reasons))


def _writable(audit: Audit, policy: Policy) -> Iterator[Verdict]:
    if policy.writable:
        return
    sizes = {s.name: s.bytes for s in audit.sections}
    reasons = [
        f"{section} holds {sizes[section]:,} bytes" + (f": {', '.join(names[:4])}" if names else "")
        for section, names in audit.writable.items()
    ]
    yield Verdict("no writable data", _short(reasons))


def _red_zone(audit: Audit, policy: Policy) -> Iterator[Verdict]:
    if policy.red_zone:
        return
    rule = "nothing below the stack pointer (red zone)"
    if not audit.has_red_zone:
        yield Verdict(rule, (), "no red zone is looked for on this processor")
        return
    found = [f for f in audit.functions if f.red_zone]
    reasons = [f"'{f.name}' uses {f.red_zone} bytes: an interrupt overwrites them" for f in found]
    yield Verdict(rule, _short(reasons))


def _is_alternative(audit: Audit, f: FunctionFacts) -> bool:
    """Whether these are instructions that Linux writes over others, in functions of theirs.

    They have a section on x86, and no symbol behind the functions of a section on AArch64.
    """
    if not audit.machine.startswith("aarch64"):
        return f.section == ALTERNATIVES
    has_table = any(s.name == ".altinstructions" for s in audit.sections)
    return has_table and f.name.startswith(f"{f.section}+")


def _frames(audit: Audit, policy: Policy) -> Iterator[Verdict]:
    if policy.frame_bytes is not None:
        limit = policy.frame_bytes
        own = [
            f"'{f.name}' takes {f.stack} bytes" if f.stack is not None else f"'{f.name}': {f.why}"
            for f in audit.functions
            if not _is_alternative(audit, f) and (f.stack is None or f.stack >= limit)
        ]
        yield Verdict(f"less than {limit} bytes of stack in every function", _short(own))
    if policy.path_bytes is not None:
        limit = policy.path_bytes
        deep = [
            f"'{f.name}' takes {f.deepest} bytes by way of {' > '.join(f.path)}"
            if f.deepest is not None
            else f"'{f.name}': {f.why}"
            for f in audit.functions
            if f.deepest is None or f.deepest >= limit
        ]
        yield Verdict(f"less than {limit} bytes of stack along every path", _short(deep))


def _alignment(audit: Audit, policy: Policy) -> Iterator[Verdict]:
    if policy.stack_align is None:
        return
    reasons = [
        f"{a.first} (and {a.count - 1} more) want a stack aligned to {a.bytes}"
        for f in audit.functions
        for a in f.aligned
        if a.base == "stack" and a.bytes > policy.stack_align
    ]
    yield Verdict(f"the caller's stack is aligned to {policy.stack_align} bytes and no more", _short(reasons))


def _features(audit: Audit, policy: Policy) -> Iterator[Verdict]:
    if policy.features:
        return
    rule = f"only instructions of {audit.declared or 'the target'}"
    if not audit.declared:
        yield Verdict(rule, (), "not looked at: no target is named")
        return
    if audit.has_code and not audit.is_decoded:
        yield Verdict(rule, (f"there is no decoder for {audit.machine}",))
        return
    reasons = [
        f"{o.first}: {'no known instruction' if name == UNKNOWN else name}"
        + f" ({o.count} times)" * (o.count > 1)
        for f in audit.functions
        for name, o in f.outside.items()
    ]
    yield Verdict(rule, _short(reasons))


def _relocations(audit: Audit, policy: Policy) -> Iterator[Verdict]:
    if policy.relocations:
        return
    rule = "only relocations that the kernel resolves when it loads a module"
    known = RESOLVED.get(audit.machine.split(",")[0])
    if known is None:
        yield Verdict(rule, (), f"not looked at: no table for {audit.machine}")
        return
    first: dict[str, str] = {}
    for fixup in audit.fixups:
        for r in fixup.relocations:
            if not re.fullmatch(known, r.type):
                first.setdefault(r.type, f"{r.type} in {fixup.function or fixup.section}, for '{r.symbol}'")
    yield Verdict(rule, _short(list(first.values())))


_RULES = (_undefined, _libraries, _writable, _red_zone, _frames, _alignment, _features, _relocations)
