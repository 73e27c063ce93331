"""The page of `ingot report`. In: accounts of one build or two, pictures, listings; out: the file's text."""

from __future__ import annotations

import base64
import zlib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ingot.bundle.costs import calls_text
from ingot.drawing.chart import histogram_svg
from ingot.graph.ir import Graph
from ingot.inspection.account import Account, paired
from ingot.inspection.arena import arena_svg
from ingot.inspection.diagram import Diagram, graph_diagram, program_diagram
from ingot.inspection.histograms import Histogram
from ingot.inspection.operations import elements_of, operations_of
from ingot.inspection.page import render
from ingot.inspection.picture import diagram_svg
from ingot.loops.program import Program
from ingot.memory.plan import Plan

MOST_HISTOGRAMS = 120


@dataclass(frozen=True, slots=True)
class Drawn:
    """Histograms under one heading."""

    title: str
    text: str
    histograms: Sequence[Histogram]


@dataclass(frozen=True, slots=True)
class Subject:
    """What is reported: a build, its levels where the model was compiled here, and the other build beside it.

    `assembly`: function -> its listing. `notes` are sentences on what is missing, and why.
    """

    name: str
    ours: Account
    graph: Graph | None = None
    planned: tuple[Program, Plan] | None = None
    assembly: Mapping[str, str] = field(default_factory=dict)
    histograms: Sequence[Drawn] = ()
    other: Account | None = None
    against: str = ""
    notes: Sequence[str] = ()
    sources: Sequence[tuple[str, str]] = ()


def report_page(subject: Subject) -> str:
    """The text of the file. Raises InputError where Jinja2 is not installed."""
    ours, other = subject.ours, subject.other
    filters: dict[str, Callable[[Any], str]] = {
        "figure": _figure,
        "change": _change,
        "share": _share,
        "us": _us,
    }
    program = subject.planned and program_diagram(subject.planned[0])
    parcels = {f"asm {name}": _parcel(text) for name, text in subject.assembly.items()}
    elements = elements_of(subject.graph) if subject.graph else {}
    parcels |= {f"elements {n}": _parcel(text) for n, text in enumerate(elements.values())}
    if program:
        parcels["program"] = _parcel(diagram_svg(program, calls_of(program)))
    boxes = subject.graph and graph_diagram(subject.graph)
    layer_of = nodes_of(boxes, ours) if boxes else {}
    timed = ours.seconds is not None
    judged = any(layer.total_error is not None for layer in ours.layers)
    columns = ["#", "Layer", "Generator", "MACs", "Flash B", "RAM alive B"]
    return render(
        "report.html",
        filters,
        title=f"{subject.name}: Ingot's report",
        name=subject.name,
        m=ours.manifest,
        ours=ours,
        other=other,
        against=subject.against,
        tiles=_tiles(ours),
        notes=subject.notes,
        graph=boxes and diagram_svg(boxes, layer_of),
        constants={name: n for n, name in enumerate(elements)},
        operations=operations_of(subject.graph, layer_of) if subject.graph else {},
        arena=subject.planned and arena_svg(*subject.planned),
        first=max(ours.layers, key=lambda x: (x.seconds or 0, x.macs)).number if ours.layers else 0,
        columns=[*columns, *(["Time µs"] if timed else []), *(["Error"] if judged else [])],
        timed=timed,
        timed_other=other is not None and other.seconds is not None,
        judged=judged,
        listed=set(subject.assembly),
        histograms=[_drawn(group) for group in subject.histograms if group.histograms],
        totals=_totals(ours, other) if other else (),
        pairs=paired(ours, other) if other else (),
        sources=subject.sources,
        parcels=parcels,
    )


def _parcel(text: str) -> str:
    """Deflated, in letters: the page inflates it when it is asked for."""
    return base64.b64encode(zlib.compress(text.encode(errors="backslashreplace"), 9)).decode()


def nodes_of(diagram: Diagram, ours: Account) -> dict[int, int]:
    """Box -> the layer that computes its node: of several the one that multiplies most.

    Nodes without a name are called as their operator is: the n-th of them is linked to the n-th layer of that
    name if there are as many, and to none if not.
    """
    boxes: dict[str, list[int]] = defaultdict(list)
    for i, box in enumerate(diagram.boxes):
        for name in box.nodes:
            boxes[name].append(i)
    layers: dict[str, list[int]] = defaultdict(list)
    for layer in ours.layers:
        for name in layer.nodes:
            layers[name].append(layer.number)
    found: dict[int, int] = {}
    for name, numbers in boxes.items():
        here = layers.get(name, [])
        if len(numbers) == 1 and here:
            found[numbers[0]] = max(here, key=lambda n: ours.layers[n].macs)
        elif len(numbers) == len(here):
            found.update(zip(numbers, here, strict=True))
    return found


def calls_of(diagram: Diagram) -> dict[int, int]:
    """Box of a program's diagram -> the number of its call."""
    return {i: n for n, i in enumerate(i for i, box in enumerate(diagram.boxes) if box.nodes)}


def _tiles(ours: Account) -> list[dict[str, str]]:
    sizes, unknown = ours.manifest["sizes"], "unknown"
    stack = sizes["stack_bytes"]
    seconds = ours.seconds
    return [
        _tile("Flash", _bytes(sizes["flash_bytes"]), f"weights {_bytes(sizes['weights_bytes'])}"),
        _tile("RAM (arena)", _bytes(sizes["arena_bytes"]), _arena_remark(sizes)),
        _tile("Stack", unknown if stack is None else _bytes(stack), "maximum over all calls"),
        _tile("MACs", _figure(ours.macs), f"in {calls_text(len(ours.layers))}"),
        _tile(
            "Time", unknown if seconds is None else f"{_us(seconds)} µs", ours.untimed or "sum of the kernels"
        ),
    ]


def _arena_remark(sizes: Mapping[str, Any]) -> str:
    """What no plan can go below; of layers that go row by row, what they save."""
    whole = sizes.get("arena_whole_bytes")
    if whole is None:
        return f"at least {_bytes(sizes['arena_bound_bytes'])}"
    return f"{_bytes(whole)} without layers that go row by row; no MAC is computed twice"


def _tile(name: str, value: str, remark: str) -> dict[str, str]:
    return {"name": name, "value": value, "remark": remark}


def _totals(ours: Account, other: Account) -> list[dict[str, Any]]:
    keys = (
        ("Flash, bytes", "flash_bytes"),
        ("of which weights", "weights_bytes"),
        ("of which code", "code_bytes"),
        ("RAM (arena), bytes", "arena_bytes"),
        ("Stack, bytes", "stack_bytes"),
    )
    left, right = (a.manifest["sizes"] for a in (ours, other))
    rows = [{"name": name, "ours": left[key], "other": right[key]} for name, key in keys]
    rows.append({"name": "MACs", "ours": ours.macs, "other": other.macs})
    rows.append({"name": "Kernel calls", "ours": len(ours.layers), "other": len(other.layers)})
    if ours.seconds is not None and other.seconds is not None:
        rows.append(
            {"name": "Time, ns", "ours": round(ours.seconds * 1e9), "other": round(other.seconds * 1e9)}
        )
    return rows


def _drawn(group: Drawn) -> dict[str, Any]:
    shown = group.histograms[:MOST_HISTOGRAMS]
    figures = [
        {"svg": histogram_svg(h.counts, h.low, h.high), "title": h.title, "facts": h.facts} for h in shown
    ]
    left = len(group.histograms) - len(shown)
    return {"title": group.title, "text": group.text, "figures": figures, "left": left}


def _figure(value: int) -> str:
    return f"{value:,}"


def _bytes(value: int) -> str:
    return f"{value:,} B"


def _us(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1e6:,.2f}"


def _share(pair: tuple[float, float]) -> str:
    part, whole = pair
    return f"{100 * part / whole:.1f}" if whole else "0"


def _change(pair: tuple[int, int]) -> str:
    before, after = pair
    if before == after:
        return "same"
    return f"{after - before:+,}" + (f" ({100 * (after - before) / before:+.1f} %)" if before else "")
