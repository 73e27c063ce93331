"""docs/operators.md and the table on the screen.

In: the rows of the ledger, what `supported` lists, and the element types that `types` finds. Out: text.
"""

from __future__ import annotations

import datetime
import importlib.metadata
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import onnx

from ingot.inspection.operators import supported
from ingot.ops.refused import REFUSED

from .cases import KINDS
from .judge import RESULTS
from .ledger import Row

Key = tuple[str, str]
PACKAGES = ("ingot", "onnx", "numpy", "ml_dtypes", "ziglang")
_HEAD = """# Operators and ONNX conformance

`make conformance` generates this page; do not edit it. The command compiles every backend test of the
installed onnx package through `ingot.onnx_backend`, with every graph input as an argument at run time, and
runs it on the machine itself. The outputs are compared with the tolerances of onnx's own test runner (rtol
1e-3, atol 1e-7); element types and shapes must be equal. For random operators (Bernoulli, Dropout in
training), the shape, type, range and distribution are checked instead.

| result | meaning |
|---|---|
| `pass` | the outputs are as expected |
| `exception` | freestanding C for inference cannot express an operator of the model; an error names it |
| `unsupported` | Ingot refuses the model for another reason |
| `wrong` | the outputs differ from the expected ones |
| `crash` | anything else |
"""
_OPERATORS = """`from opset` lists the opsets in which a definition begins; a model of an older opset is
compiled as that opset defines it. The types are the element types that the definition accepts for the first
input; `not` lists those that the standard allows as well. The cases of an operator include those of its
function body. Rows in parentheses are models of several operators. The last column says how Ingot compiles
the operator: by a definition of its own, by the function body that ONNX gives, as control flow, as a
constant, or in the reader, which replaces the operator by others.
"""


def document(rows: Sequence[Row], types: Mapping[Key, str]) -> str:
    """The whole text of docs/operators.md; `types` by domain and operator."""
    versions = ", ".join(f"{p} {importlib.metadata.version(p)}" for p in PACKAGES)
    bad = [r for r in rows if r.result != "pass"]
    parts = [
        _HEAD,
        f"{datetime.date.today().isoformat()}; {versions}.\n",
        "## Totals\n",
        table(("kind", "cases", *RESULTS), totals(rows)),
        "## Why cases do not pass\n",
        table(("reason", "cases", "for example"), reasons(bad)),
        "## Operators\n",
        _OPERATORS,
        table(("operator", "domain", "from opset", "types", "passed", "how"), _operators(rows, types)),
        "## Cases that do not pass\n",
        table(("case", "operator", "result", "reason"), [_listed(r) for r in bad]),
    ]
    return "\n".join(parts)


def _operators(rows: Sequence[Row], types: Mapping[Key, str]) -> list[tuple[str, ...]]:
    """A line per operator of the standard, of ours beyond it, and per kind of model."""
    passed = {name: f"{count} of {cases}" for name, cases, count in by_operator(rows)}
    lines = [
        (o.name, o.domain or "ai.onnx", ", ".join(map(str, o.opsets)), types[o.domain, o.name], o.how)
        for o in supported()
    ]
    lines += [
        (schema.name, schema.domain or "ai.onnx", "", "", _why_not(schema.domain, schema.name))
        for schema in onnx.defs.get_all_schemas()
        if (schema.domain, schema.name) not in types
    ]
    lines += [(name, "", "", "", "") for name in passed if name.startswith("(")]
    tested = {"", *(schema.domain or "ai.onnx" for schema in onnx.defs.get_all_schemas())}
    counts = [passed.get(name, "no cases") if domain in tested else "no cases" for name, domain, *_ in lines]
    made = [(*line[:4], count, line[4]) for line, count in zip(lines, counts, strict=True)]
    return sorted(made, key=_place)


def _place(line: tuple[str, ...]) -> tuple[bool, str, str]:
    return line[0].startswith("("), line[1], line[0]


def _why_not(domain: str, name: str) -> str:
    return f"refused: {REFUSED[domain, name][0]}" if (domain, name) in REFUSED else "refused"


def totals(rows: Iterable[Row]) -> list[tuple[str, ...]]:
    """Cases per kind and result, and their sums."""
    count = Counter((r.kind, r.result) for r in rows)
    lines = {kind: [count[kind, r] for r in RESULTS] for kind in KINDS}
    lines["all"] = [sum(column) for column in zip(*lines.values(), strict=True)]
    return [(kind, str(sum(found)), *map(str, found)) for kind, found in lines.items()]


def by_operator(rows: Iterable[Row]) -> list[tuple[str, ...]]:
    cases: Counter[str] = Counter()
    passed: Counter[str] = Counter()
    for row in rows:
        cases[row.operator] += 1
        passed[row.operator] += row.result == "pass"
    return [(name, str(cases[name]), str(passed[name])) for name in sorted(cases)]


def reasons(rows: Iterable[Row]) -> list[tuple[str, ...]]:
    """Reasons that differ in names and numbers only are one."""
    groups: dict[str, list[str]] = {}
    for row in rows:
        groups.setdefault(f"{row.result}: {_class(row.reason)}", []).append(row.case)
    ordered = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    return [(reason, str(len(names)), names[0]) for reason, names in ordered]


def _class(reason: str) -> str:
    text = re.sub(r"node '[^']*' ", "", reason)
    text = re.sub(r" \(opset \d+\)|; .*", "", text)
    if text.startswith("output "):
        return "type or shape" if " instead of " in text else "values"
    return re.sub(r"\[[^\]]*\]", "[...]", re.sub(r"'[^']*'", "'...'", text))


def table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    body = ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]
    return "\n".join(["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *body, ""])


def _listed(row: Row) -> tuple[str, ...]:
    return row.case, row.operator, row.result, row.reason.replace("<", "&lt;")
