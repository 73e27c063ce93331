"""`ingot audit`: what is in an object, and whether it keeps the rules of those who link it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ingot.cli import arguments as arg
from ingot.cli.show import note, progress, report
from ingot.tables import Table, table

if TYPE_CHECKING:
    from ingot.audit.audit import Audit, Fixup
    from ingot.audit.policy import Policy, Verdict

ObjectOrBundle = Annotated[
    Path,
    typer.Argument(
        metavar="FILE_OR_DIR",
        help="An object, a kernel module, assembly (.s) or the directory of a bundle.",
        show_default=False,
    ),
]
PolicyName = Annotated[
    Literal["bundle", "kernel"] | None,
    typer.Option(
        "--policy", help="The rules to check: those of bundles, or those of code in the Linux kernel."
    ),
]
Declared = Annotated[
    str | None, typer.Option("--target", help="The processor whose instructions are allowed.")
]
Allowed = Annotated[
    list[str] | None, typer.Option("--allow", metavar="SYMBOL", help="A symbol that may be undefined.")
]
StackLimit = Annotated[
    int | None,
    typer.Option(
        "--max-stack",
        min=1,
        metavar="N",
        help="The stack that every path of calls must stay below, in bytes.",
    ),
]
Triple = Annotated[str | None, typer.Option("--triple", help="For assembly: LLVM's name of the processor.")]
EveryFixup = Annotated[bool, typer.Option("--fixups", help="List every fixup, instead of a summary by kind.")]


def audit(
    path: ObjectOrBundle,
    policy: PolicyName = None,
    target: Declared = None,
    cflags: arg.Flags = None,
    allow: Allowed = None,
    max_stack: StackLimit = None,
    triple: Triple = None,
    fixups: EveryFixup = False,
    as_json: arg.Json = False,
) -> None:
    """Show the relocations, stack, instructions and symbols of an object, and check them against rules."""
    with progress(f"Reading {path.name}"):
        from ingot.audit.policy import judge
        from ingot.inspection.objects import read

        results = []
        for subject in read(path, triple, target, arg.parse_flags(cflags)):
            allowed = [*(allow or ()), *(subject.beside if policy else ())]
            rules = _policy(subject.audit, policy, target is not None, allowed, max_stack)
            results.append((subject, judge(subject.audit, rules)))
    data = [
        {"file": s.name, "notes": s.notes, **_data(s.audit), "rules": [_rule(v) for v in verdicts]}
        for s, verdicts in results
    ]
    shown = [t for s, verdicts in results for t in _tables(s.name, s.audit, verdicts, fixups)]
    report(data if len(data) > 1 else data[0], as_json, *shown)
    for subject, verdicts in results:
        for line in subject.notes:
            note(f"{subject.name}: {line}")
        for v in verdicts:
            for reason in v.reasons:
                note(f"{subject.name}: {v.rule}: {reason}")
    if any(not v.holds for _, verdicts in results for v in verdicts):
        raise typer.Exit(1)


def _policy(
    found: Audit, name: str | None, declared: bool, allow: list[str], max_stack: int | None
) -> Policy:
    """What the flags ask for."""
    from ingot.audit.policy import POLICIES, Policy

    rules = POLICIES["module" if name == "kernel" and found.is_module else name] if name else Policy()
    if allow:
        rules = replace(rules, undefined=(*(rules.undefined or ()), *allow))
    if max_stack is not None:
        rules = replace(rules, path_bytes=max_stack)
    return replace(rules, features=False) if declared else rules


def _data(found: Audit) -> dict[str, Any]:
    data = asdict(found)
    data["features"] = found.features
    return data


def _rule(v: Verdict) -> dict[str, Any]:
    return {"rule": v.rule, "holds": v.holds, "reasons": list(v.reasons), "note": v.note}


def _tables(name: str, found: Audit, verdicts: list[Verdict], each: bool) -> Iterable[Table]:
    yield table(
        f"{name}: {found.kind} for {found.machine}",
        ("section", "kind", "bytes>", "align>"),
        [(s.name, s.kind, s.bytes, s.align) for s in found.sections],
    )
    if found.undefined:
        rows = [(symbol, ", ".join(by)) for symbol, by in found.undefined.items()]
        yield table("Undefined symbols", ("symbol", "used by"), rows)
    if found.writable:
        rows = [(section, ", ".join(names)) for section, names in found.writable.items()]
        yield table("Writable data", ("section", "holds"), rows)
    yield _function_table(found)
    if found.features:
        rows = [(n, str(count)) for n, count in found.features.items()]
        yield table("Instructions by what they need", ("feature", "instructions>"), rows)
    yield _each_fixup(found.fixups) if each else _fixup_kinds(found.fixups)
    if verdicts:
        yield table("Rules", ("rule", ""), [(v.rule, v.note or _kept(v)) for v in verdicts])


def _kept(v: Verdict) -> str:
    return "kept" if v.holds else f"BROKEN: {v.reasons[0]}" + (" ..." if len(v.reasons) > 1 else "")


def _function_table(found: Audit) -> Table:
    rows: list[tuple[object, ...]] = []
    for f in found.functions:
        wants = ", ".join(f"{a.count} of {a.bytes} ({a.base})" for a in f.aligned)
        deep = f.deepest if f.deepest is not None else f"{f.least:,} or more: {f.why}"
        red = [f.red_zone or ""] if found.has_red_zone else []
        rows.append((f.name, f.bytes, f.stack, deep, *red, *([wants] if found.asks_alignment else [])))
    more = [
        n
        for n, asked in (("red zone>", found.has_red_zone), ("aligned accesses", found.asks_alignment))
        if asked
    ]
    title = "Functions" + (f"; deepest path {' > '.join(found.deepest)}" if found.deepest else "")
    return table(title, ("function", "bytes>", "own stack>", "with callees>", *more), rows)


def _end(f: Fixup) -> str:
    if not f.relocations:
        return "resolved"
    return " + ".join(r.type for r in f.relocations)


def _fixup_kinds(fixups: Iterable[Fixup]) -> Table:
    """Counted by kind, end and reason; the names of symbols and sections on the side."""
    names: dict[tuple[str, str, str], dict[str, None]] = {}
    counts: Counter[tuple[str, str, str]] = Counter()
    for f in fixups:
        kind = f.kind or ("in code" if f.instruction else "in data")
        r = f.relocations[0] if f.relocations else None
        key = (kind, _end(f), _general(r.why) if r else "a distance within its section")
        counts[key] += 1
        names.setdefault(key, {})[r.symbol if r else f.goal.partition("+")[0]] = None
    rows = [(kind, end, n, why, _some(names[kind, end, why])) for (kind, end, why), n in counts.most_common()]
    return table("Fixups", ("fixup", "outcome", "times>", "why", "symbols"), rows)


def _general(why: str) -> str:
    """Without the name: `'x' is not in this file`, `another section, .rodata: ...`."""
    return re.sub(r"^'.*' is", "it is", re.sub(r"section, [^:]+:", "section:", why))


def _some(names: Iterable[str]) -> str:
    named = [n for n in names if n]
    return ", ".join(named[:3]) + (f" and {len(named) - 3} more" if len(named) > 3 else "")


def _each_fixup(fixups: Iterable[Fixup]) -> Table:
    rows = []
    for f in fixups:
        to = f.value or f.goal
        if f.relocations:
            r = f.relocations[0]
            to = r.symbol + (f" {r.addend:+d}" if r.addend else "")
        end = f"resolved: {f.patched} of {f.code}" if not f.relocations else _end(f)
        why = f.relocations[0].why if f.relocations else f"to {f.goal}" if f.goal else ""
        rows.append((f"{f.section}+{f.offset:#x}", f.function, f.instruction, f.kind, to, end, why))
    columns = ("place", "function", "instruction", "fixup", "symbol", "outcome", "why")
    return table("Fixups", columns, rows)
