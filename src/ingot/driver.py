"""THE pipeline: one straight function from a model to a bundle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ingot.bundle.bundle import Bundle
from ingot.bundle.write import write
from ingot.formula.expr import Tensor, text
from ingot.frontends.onnx import read_model
from ingot.graph.text import graph_text
from ingot.log import step
from ingot.loops.layout import Layout
from ingot.loops.lower import lower
from ingot.loops.program import program_text
from ingot.loops.region import formulate_graph
from ingot.memory.plan import plan
from ingot.ops.infer import infer
from ingot.options import Define, Options
from ingot.passes.prune import prune
from ingot.targets.records import find, native


def compile(
    model: Any,
    *,
    target: str = "native",
    name: str | None = None,
    define: Define | None = None,
    **options: Any,
) -> Bundle:
    """Compile a model (a path, bytes or an `onnx.ModelProto`) to a bundle.

    `define` gives symbolic dimensions a value; the other options are the fields of `ingot.Options`. Raises InputError for
    a model that cannot be compiled, ToolchainError where a compiler fails.
    """
    return compile_with(model, Options(name=name, target=target, define=dict(define or {}), **options))


def compile_with(model: Any, options: Options) -> Bundle:
    """The steps in their order; the comment says why each stands where it does."""
    machine = native() if options.target == "native" else find(options.target)
    graph = step("graph", "read", lambda: read_model(model, define=options.define), graph_text)
    graph = step(
        "graph", "infer", lambda: infer(graph), graph_text
    )  # everything below needs shapes and constants
    graph = step(
        "graph", "prune", lambda: prune(graph), graph_text
    )  # after infer: shape arithmetic is now constant
    region = formulate_graph(graph)
    layouts: dict[Tensor, Layout] = {}
    name = bundle_name(options.name, model, graph.name)
    program = step("program", "lower", lambda: lower(region, layouts, name, machine), program_text)
    placed = step("plan", "plan", lambda: plan(program), _plan_text)  # last: kernels decide what lives when
    return write(program, placed, machine, options, digest(model))


def _plan_text(placed: Any) -> str:
    return "\n".join(
        f"{at:8d} {t.name} [{', '.join(map(text, t.shape))}]" for t, at in placed.offsets.items()
    )


def bundle_name(wanted: str | None, model: Any, fallback: str) -> str:
    """The C name of the bundle: as asked for, else the file's name, else the graph's."""
    from ingot.emit.names import Scope

    stem = Path(model).stem if isinstance(model, str | Path) else fallback
    return Scope().fresh(wanted or stem, "model")


def digest(model: Any) -> str:
    """SHA-256 of the model file's bytes."""
    import hashlib

    if isinstance(model, str | Path):
        return hashlib.sha256(Path(model).read_bytes()).hexdigest()
    return hashlib.sha256(model if isinstance(model, bytes) else model.SerializeToString()).hexdigest()
