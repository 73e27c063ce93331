"""`ingot.inspect`: a model at one stage of its compilation, or what is in a bundle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from ingot.api.subjects import Model, bundle_of, is_bundle, opened, options_of
from ingot.bundle.bundle import Bundle
from ingot.data.archives import archive_of
from ingot.driver import REGION_STEPS, Stages, front, region_of, stages
from ingot.errors import InputError
from ingot.formula.expr import Array
from ingot.frontends.canonical import canonical
from ingot.frontends.onnx import read_proto
from ingot.graph.ir import Graph
from ingot.graph.text import describe, graph_text
from ingot.inspection.arena import arena_svg
from ingot.inspection.costs import kernel_costs, object_facts, placed_tensors
from ingot.inspection.declared import declared, declared_text
from ingot.inspection.diagram import Diagram, graph_diagram, program_diagram
from ingot.inspection.dot import dot_text
from ingot.inspection.picture import diagram_svg
from ingot.loops.program import program_text
from ingot.loops.region import region_text
from ingot.options import OptionFields, Options
from ingot.tables import Result, Table, single_line, table

if TYPE_CHECKING:
    from typing_extensions import Unpack


@dataclass(frozen=True, slots=True, repr=False)
class Inspection(Result):
    """The result of `inspect`: a text or tables; `data` has the same as plain data.

    `remarks` say what does not compile, and why. `constants` has the elements of every constant
    that a node of the graph reads, by name.
    """

    stage: str
    data: Mapping[str, Any]
    text: str = ""
    shown: tuple[Table, ...] = ()
    remarks: tuple[str, ...] = ()
    diagram: Diagram | None = None
    arena: str = ""
    constants: Mapping[str, Array] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return dict(self.data)

    def tables(self) -> Sequence[Table]:
        """Return the tables; a stage that is a text has none."""
        return self.shown

    def svg(self) -> str:
        """Return a picture. Raises InputError if the stage has none."""
        if self.arena:
            return self.arena
        return diagram_svg(self._drawn("formulas have no picture; the stages graph, program and plan do"))

    def dot(self) -> str:
        """Return Graphviz text. Raises InputError if the stage has none."""
        return dot_text(self._drawn("--dot draws the stages graph and program; the plan's picture is --svg"))

    def npz(self) -> bytes:
        """Return the constants as a .npz file; types that numpy lacks as their bits, strings as Unicode.

        Raises InputError if the stage has none.
        """
        if self.stage != "graph":
            raise InputError("only the stage graph of a model that compiles has constants")
        return archive_of(self.constants)

    def _drawn(self, otherwise: str) -> Diagram:
        if self.stage == "bundle":
            raise InputError("a bundle's directory has no stages and no pictures; inspect its model")
        if self.diagram is None:
            raise InputError(otherwise)
        return self.diagram

    def __repr__(self) -> str:
        return "\n".join(map(single_line, self.text.split("\n"))) if self.text else Result.__repr__(self)

    def _repr_html_(self) -> str:
        if not self.text:
            return Result._repr_html_(self)
        made = ElementTree.Element("pre")
        made.text = repr(self)
        return ElementTree.tostring(made, encoding="unicode", method="html")


def inspect(
    subject: Model | Bundle, *, stage: str | None = None, **options: Unpack[OptionFields]
) -> Inspection:
    """Show a model's graph, program or memory plan, or a bundle's costs and symbols.

    `stage` is graph (default), a step on formulas such as fuse, program, or plan. A model that does not
    compile is shown as its file declares it. Raises InputError for other stages, and for files that are not
    models.
    """
    wanted = options_of("inspect", options)
    if is_bundle(subject):
        if stage:
            raise InputError("a bundle's directory has no stages and no pictures; inspect its model")
        return _bundle(bundle_of(subject, wanted))
    model = opened(subject)  # type: ignore[arg-type]  # no bundle
    if stage in (None, "graph"):
        return _graph(model, wanted, may_be_declared=stage is None)
    if stage in ("program", "plan"):
        made = stages(model, wanted)
        return _program(made) if stage == "program" else _plan(made)
    return _region(model, wanted, str(stage))


def _graph(model: Any, wanted: Options, may_be_declared: bool) -> Inspection:
    """The graph of a model; of one that does not compile, what the file declares."""
    try:
        graph = front(model, wanted)
    except InputError as error:
        proto = read_proto(canonical(model, wanted))
        if not may_be_declared or not proto.HasField("graph"):
            raise
        found, reason = declared(proto), str(error)
        said = [f"unsupported operators: {', '.join(found.unsupported)}"] if found.unsupported else []
        said.append(f"as the file declares it; it does not compile: {reason}")
        return Inspection(
            "declared", {**asdict(found), "reason": reason}, declared_text(found), remarks=tuple(said)
        )
    values = [v for node in graph.nodes for v in node.inputs if v is not None]
    constants = {v.name: v.constant for v in values if v.constant is not None}
    return Inspection(
        "graph", _graph_data(graph), graph_text(graph), diagram=graph_diagram(graph), constants=constants
    )


def _graph_data(graph: Graph) -> dict[str, Any]:
    nodes = [
        {
            "name": node.name,
            "op": node.op,
            "domain": node.domain,
            "version": node.version,
            "inputs": [None if v is None else v.name for v in node.inputs],
            "outputs": [None if v is None else describe(v) for v in node.outputs],
        }
        for node in graph.nodes
    ]
    inputs, outputs = [describe(v) for v in graph.inputs], [describe(v) for v in graph.outputs]
    return {"name": graph.name, "inputs": inputs, "outputs": outputs, "nodes": nodes}


def _region(model: Any, wanted: Options, stage: str) -> Inspection:
    """The formulas behind a step."""
    steps = [step.name for step in REGION_STEPS]
    if stage not in steps:
        known = ", ".join(("graph", *steps, "program", "plan"))
        raise InputError(f"--stage {stage}: there is no such stage", remedy=f"choose from {known}")
    text = region_text(region_of(front(model, wanted), wanted, stage))
    return Inspection(stage, {"stage": stage, "text": text}, text)


def _program(made: Stages) -> Inspection:
    text = program_text(made.program)
    data = {"kernels": [asdict(k) for k in kernel_costs(made.program)], "text": text}
    return Inspection("program", data, text, diagram=program_diagram(made.program))


def _plan(made: Stages) -> Inspection:
    plan, costs, tensors = made.plan, kernel_costs(made.program), placed_tensors(made.plan)
    data = {
        "arena_bytes": plan.arena_bytes,
        "arena_bound_bytes": plan.bound_bytes,
        "kernels": [asdict(k) for k in costs],
        "tensors": [asdict(t) for t in tensors],
    }
    total = ("total", "", sum(k.macs for k in costs), sum(k.bytes for k in costs))
    rows = [(k.name, " + ".join(k.nodes), k.macs, k.bytes) for k in costs]
    kernels = table("Kernels", ("kernel", "nodes", "MACs>", "bytes>"), [*rows, total])
    arena = table(
        f"Arena: {plan.arena_bytes:,} bytes; no plan needs less than {plan.bound_bytes:,}",
        ("tensor", "type", "shape", "bytes>", "offset>", "from step>", "to>"),
        [(t.name, t.dtype, "x".join(t.shape), t.bytes, t.offset, t.first, t.last) for t in tensors],
    )
    return Inspection("plan", data, shown=(kernels, arena), arena=arena_svg(made.program, plan))


def _bundle(bundle: Bundle) -> Inspection:
    manifest, tables = bundle.manifest, []
    for what in ("inputs", "outputs", *(["state"] if manifest["state"] else [])):
        rows = [(t["name"], t["symbol"], t["dtype"], "x".join(map(str, t["shape"]))) for t in manifest[what]]
        tables.append(table(what.capitalize(), ("name", "in C", "type", "shape"), rows))
    tables.extend(bundle.tables())
    kernels = [
        (k["name"], " + ".join(k["nodes"]), k["macs"], k["bytes"], ", ".join(k.get("generators", ())))
        for k in manifest["kernels"]
    ]
    tables.append(table("Kernels", ("kernel", "nodes", "MACs>", "bytes>", "generators"), kernels))
    notes = [(k["name"], "; ".join(k["notes"])) for k in manifest["kernels"] if k.get("notes")]
    if notes:
        tables.append(table("How kernels compute", ("kernel", "how"), notes))
    data: dict[str, Any] = {"manifest": manifest, "object": None}
    if f"{bundle.name}.o" in bundle.files:
        facts = object_facts(bundle.object, bundle.name)
        data["object"] = asdict(facts)
        sizes = [(s, getattr(facts, s)) for s in ("text", "rodata", "data", "bss", "writable")]
        tables.append(table("Sections", ("section", "bytes>"), sizes))
        symbols = [*((s, "defined") for s in facts.defined), *((s, "undefined") for s in facts.undefined)]
        tables.append(table("Symbols", ("symbol", ""), symbols))
        frames = [(name, own, deep, name in facts.deepest) for name, (own, deep) in facts.frames.items()]
        tables.append(table("Stack", ("function", "own>", "with callees>", "deepest path"), frames))
    return Inspection("bundle", data, shown=tuple(tables))
