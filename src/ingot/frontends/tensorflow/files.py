"""TensorFlow's three ways to keep a model. In: a path; out: a `Source`: the graph, where its variables are,
and what the file itself says of inputs and outputs.

A frozen GraphDef holds its variables as constants. A checkpoint's meta graph and a SavedModel say themselves
which key restores which variable: by the operations that would restore it, wherever they stand.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ingot.errors import InputError, ModelError, UnsupportedError
from ingot.files import read_file, read_text
from ingot.formula.expr import Array
from ingot.frontends.formats import format_of
from ingot.frontends.tensorflow.checkpoint import Checkpoint, open_checkpoint
from ingot.frontends.tensorflow.config import Feed, Fetch
from ingot.frontends.tensorflow.control import functions_of
from ingot.frontends.tensorflow.model import Body, Model, Node, Ref, model_of, plain_ref
from ingot.frontends.tensorflow.pieces import parse_piece, slices
from ingot.frontends.tensorflow.protos import entries, parse, parse_text
from ingot.frontends.tensorflow.tensors import array_of, known_dtype, shape_of
from ingot.frontends.wire import Parts, read_message

GRAPH: Parts = {1: {}, 2: {}}  # its nodes and functions
PARTS: dict[str, Parts] = {"GraphDef": GRAPH, "MetaGraph": {2: GRAPH}, "SavedModel": {2: {2: GRAPH}}}
LATEST = re.compile(r'^model_checkpoint_path:\s*"([^"]+)"', re.M)
TEXT_BYTES, STATE_BYTES = 1 << 24, 1 << 20
SERVING_TAG, SERVING_KEY = "serve", "serving_default"
ASSIGNS = frozenset(("Assign", "AssignVariableOp"))


@dataclass(frozen=True, slots=True)
class Source:
    """`keys` maps the nodes of variables to keys of the checkpoint, and to the piece of what lies there;
    others are looked for by name."""

    name: str
    model: Model
    checkpoint: Checkpoint | None = None
    keys: dict[str, tuple[str, str]] = field(default_factory=dict)
    feeds: tuple[Feed, ...] = ()
    fetches: tuple[Fetch, ...] = ()

    def variable(self, name: str) -> Array:
        """The elements of a variable, by the name of its node. Raises InputError."""
        if self.checkpoint is None:
            remedy = "freeze it, or import the checkpoint's directory"
            raise UnsupportedError(
                f"the variable {name!r} has no value: a graph alone holds none", remedy=remedy
            )
        node = self.model.main.nodes[name]
        for key, piece in (self.keys.get(name, ("", "")), (node.text("shared_name"), ""), (name, "")):
            if key and key in self.checkpoint:
                whole = self.checkpoint.read(key)
                ranges = parse_piece(piece, node.label)
                return whole[slices(ranges, whole.shape, node.label)] if ranges else whole
        raise ModelError(f"the checkpoint {self.checkpoint.prefix.name!r} holds no variable {name!r}")


def open_source(path: Path) -> Source:
    """Whatever lies at a path. Raises InputError where that is no model of TensorFlow's."""
    match format_of(path).form:
        case "folder":
            return _saved_model(path)
        case "saved":
            return _saved_model(path.parent)
        case "checkpoint":
            return _checkpoint(_prefix(path) if path.is_dir() else path.with_suffix(""))
        case "meta":
            return _checkpoint(path.with_suffix(""), path)
        case form:
            return Source(
                path.stem, model_of(_read("GraphDef", path, form == "text"), f"the graph {path.name!r}")
            )


def _read(kind: str, path: Path, is_text: bool = False) -> Any:
    if is_text:
        return parse_text(kind, read_file(path, TEXT_BYTES), path.name)
    return parse(kind, read_message(path, f"a {kind} of TensorFlow's", PARTS.get(kind, {})), path.name)


# ---- checkpoints


def _checkpoint(prefix: Path, meta: Path | None = None) -> Source:
    meta = meta or Path(f"{prefix}.meta")
    if not meta.is_file():
        remedy = "import its SavedModel, or save with a MetaGraph"
        raise InputError(
            f"the checkpoint {prefix.name!r} holds variables only, no graph (.meta)", remedy=remedy
        )
    graph = _read("MetaGraph", meta).graph_def
    model = model_of(graph, f"the graph of {meta.name!r}")
    return Source(prefix.name, model, open_checkpoint(prefix), dict(_restored(model)))


def _prefix(folder: Path) -> Path:
    """The checkpoint that the file `checkpoint` names, or the only one."""
    listed = folder / "checkpoint"
    if listed.is_file() and (found := LATEST.search(read_text(listed, STATE_BYTES))):
        return folder / Path(found[1]).name
    prefixes = sorted({p.with_suffix("") for kind in ("meta", "index") for p in folder.glob(f"*.{kind}")})
    if len(prefixes) != 1:
        several = ", ".join(p.name for p in prefixes) or "none"
        raise InputError(
            f"{folder} should hold one checkpoint; there are: {several}", remedy="name its .meta"
        )
    return prefixes[0]


# ---- SavedModels


def _saved_model(folder: Path) -> Source:
    path = next(p for p in (folder / "saved_model.pb", folder / "saved_model.pbtxt") if p.is_file())
    metas = list(_read("SavedModel", path, path.suffix == ".pbtxt").meta_graphs)
    if not metas:
        raise ModelError(f"{path.name} holds no graph")
    meta = next((m for m in metas if SERVING_TAG in m.meta_info_def.tags), metas[0])
    model = model_of(meta.graph_def, f"the graph of {folder.name!r}")
    feeds, fetches = _signature(entries(meta.signature_def))
    prefix = folder / "variables" / "variables"
    held = open_checkpoint(prefix) if Path(f"{prefix}.index").is_file() else None
    return Source(folder.name, model, held, dict(_restored(model)), feeds, fetches)


def _signature(signatures: dict[str, Any]) -> tuple[tuple[Feed, ...], tuple[Fetch, ...]]:
    """Inputs and outputs by their names in the signature that serves, in alphabetical order."""
    callable_ = {k: s for k, s in signatures.items() if s.outputs}
    found = callable_.get(SERVING_KEY) or (next(iter(callable_.values())) if len(callable_) == 1 else None)
    if found is None:
        return (), ()
    feeds = [
        Feed(plain_ref(info.name), name, shape_of(info.tensor_shape), known_dtype(info.dtype))
        for name, info in sorted(entries(found.inputs).items())
        if info.name
    ]
    fetches = [Fetch(plain_ref(i.name), name) for name, i in sorted(entries(found.outputs).items()) if i.name]
    return tuple(feeds), tuple(fetches)


# ---- which key restores which variable


def _restored(model: Model) -> Iterator[tuple[str, tuple[str, str]]]:
    """A variable's node with its key and piece, in the main graph and in functions it calls with any."""
    for node in model.main.nodes.values():
        if node.op in ASSIGNS:
            yield from _assigned(model.main, node, {})
    for caller in model.main.nodes.values():
        for name in functions_of(caller):
            body = model.functions.get(name)
            if body is not None and len(body.inputs) == len(caller.inputs):
                given = dict(zip(body.inputs, caller.inputs, strict=True))
                for node in body.nodes.values():
                    if node.op in ASSIGNS:
                        yield from _assigned(body, node, given)


def _assigned(body: Body, node: Node, given: dict[str, Ref]) -> Iterator[tuple[str, tuple[str, str]]]:
    """That of an assignment, if what it assigns is restored. `given` are a function's arguments."""
    if len(node.inputs) < 2:
        return
    variable, (name, port) = _origin(body, node.inputs[0])[0], _origin(body, node.inputs[1])
    restore = body.nodes.get(name)
    if restore is None or restore.op != "RestoreV2" or len(restore.inputs) < 2:
        return
    key, *piece = (_text(body, ref, port) for ref in restore.inputs[1:3])
    if key is not None:
        yield given.get(variable, (variable, 0))[0], (key, (piece or [""])[0] or "")


def _text(body: Body, ref: Ref, at: int) -> str | None:
    """One of a constant list of strings."""
    source = body.nodes.get(ref[0])
    if source is None or source.op != "Const" or not source.has("value"):
        return None
    words = array_of(source.attributes["value"].tensor, source.label).reshape(-1)
    found = at < len(words) and isinstance(words[at], bytes)
    return words[at].decode(errors="replace") if found else None


def _origin(body: Body, ref: Ref) -> Ref:
    """What a chain of Identity nodes repeats."""
    for _ in range(len(body.nodes)):
        node = body.nodes.get(ref[0])
        if node is None or node.op != "Identity" or not node.inputs:
            break
        ref = node.inputs[0]
    return ref
