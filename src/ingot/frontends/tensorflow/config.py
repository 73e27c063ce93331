"""What goes into a graph and what is wanted of it. In: `--inputs`, `--outputs`, a tfcompile configuration, or
nothing; out: `Feed`s and fetches. Without a word from the user, placeholders are inputs and leaves outputs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from ingot.errors import InputError, ModelError, UnsupportedError
from ingot.files import read_file
from ingot.formula.types import DType
from ingot.frontends.tensorflow.model import PORTS_LIMIT, Body, Node, Ref, plain_ref
from ingot.frontends.tensorflow.protos import parse_text
from ingot.frontends.tensorflow.tensors import dtype_of, shape_of

PLACEHOLDERS = frozenset(("Placeholder", "PlaceholderV2"))
SHAPE = re.compile(r"\d{1,18}(?:[x,]\d{1,18})*|", re.ASCII)
TYPES = ("dtype", "T", "DstT", "out_type", "Tparams", "element_dtype")
SEQUENCE = 3
CONFIG_BYTES = 1 << 20
Shape = tuple["int | None", ...]


@dataclass(frozen=True, slots=True)
class Feed:
    """An input of the model: which output of which node it takes the place of, and what is known of it."""

    ref: Ref
    name: str
    shape: Shape | None = None
    dtype: DType | None = None


@dataclass(frozen=True, slots=True)
class Fetch:
    ref: Ref
    name: str


def label(ref: Ref) -> str:
    """What an input or an output is called: the node's name, and its port unless it is the first."""
    return ref[0] if not ref[1] else f"{ref[0]}:{ref[1]}"


def parse_inputs(words: Sequence[str]) -> list[Feed]:
    """`NAME` or `NAME:SHAPE` with extents between x or commas; a single number is a port, as TensorFlow's.

    >>> [(f.ref, f.shape) for f in parse_inputs(["a/b:1x28x28", "x:0", "y:0:4,", "z"])][:2]
    [(('a/b', 0), (1, 28, 28)), (('x', 0), None)]
    """
    feeds = []
    for word in words:
        name, colon, last = word.rpartition(":")
        is_shape = bool(colon) and ("x" in last or "," in last) and bool(SHAPE.fullmatch(last.rstrip(",")))
        name = name if is_shape else word
        shape = tuple(int(n) for n in re.split("[x,]", last.rstrip(",")) if n) if is_shape else None
        if not name:
            raise InputError(f"--inputs {word}: write NAME:SHAPE, as in image:1x224x224x3")
        ref = plain_ref(name)
        feeds.append(Feed(ref, label(ref), shape))
    return feeds


def as_shape(feed: Feed, body: Body) -> Feed:
    """`x:5` of a placeholder, which has no port 5, is a vector of five."""
    name, port = feed.ref
    node = body.nodes.get(name)
    if not port or feed.shape is not None or node is None or node.op not in PLACEHOLDERS:
        return feed
    return Feed((name, 0), name, (port,), feed.dtype)


def parse_outputs(words: Sequence[str]) -> list[Fetch]:
    return [Fetch(ref, label(ref)) for ref in map(plain_ref, words)]


def read_config(path: Path) -> tuple[list[Feed], list[Fetch]]:
    """A tfcompile configuration in text form. Raises InputError."""
    config = parse_text("Config", read_file(path, CONFIG_BYTES), path.name)
    feeds = []
    for feed in config.feed:
        ref = (str(feed.id.node_name), int(feed.id.output_index))
        dtype = dtype_of(feed.type) if feed.type else None
        shape = shape_of(feed.shape) if feed.HasField("shape") else None
        feeds.append(Feed(ref, str(feed.name) or label(ref), shape, dtype))
    refs = [((str(f.id.node_name), int(f.id.output_index)), str(f.name)) for f in config.fetch]
    return feeds, [Fetch(ref, name or label(ref)) for ref, name in refs]


def default_feeds(body: Body, fetches: Sequence[Fetch]) -> list[Feed]:
    """The placeholders that the outputs depend on, in the order of the file."""
    reached = {n.name for n in body.reached([f.ref for f in fetches])}
    held = [n for n in body.nodes.values() if n.op in PLACEHOLDERS and n.name in reached]
    return [Feed((n.name, 0), n.name) for n in held]


def default_fetches(body: Body) -> list[Fetch]:
    """Nodes that nobody reads, of those that follow from a placeholder and compute something."""
    readers: dict[str, list[str]] = {}
    for node in body.nodes.values():
        for name, _ in node.inputs:
            readers.setdefault(name, []).append(node.name)
    stack, fed = [n.name for n in body.nodes.values() if n.op in PLACEHOLDERS], set[str]()
    while stack:
        name = stack.pop()
        if name not in fed:
            fed.add(name)
            stack.extend(readers.get(name, ()))
    idle = PLACEHOLDERS | {"NoOp", "Assert"}
    leaves = (n for n in body.nodes.values() if n.name in fed and n.name not in readers)
    return [Fetch((n.name, 0), n.name) for n in leaves if n.op not in idle]


def resolved(feed: Feed, body: Body) -> tuple[DType, tuple[int, ...]]:
    """The element type and the shape of an input: as given, else as its node declares them.

    An unknown batch is 1, and so is the unknown time behind it in a sequence, a tensor of three axes. Raises
    InputError for any other extent that is not known, and for an output that no node has.
    """
    node = require_node(body, feed.ref[0], "input")
    if not 0 <= feed.ref[1] < PORTS_LIMIT:
        raise InputError(f"the input {feed.name!r}: {node.label} has no output {feed.ref[1]}")
    dtype, declared = feed.dtype or _declared_type(node), node.shape("shape")
    if declared == () and feed.shape:
        declared = None  # old files write no shape as that of a scalar
    shape = declared if feed.shape is None else feed.shape
    if shape is None:
        raise InputError(
            f"the input {feed.name!r} has no declared shape", remedy=_remedy(feed.name, (None,) * 4)
        )
    if declared is not None and not _agree(declared, shape):
        said, given = (_text(s, "?") for s in (declared, shape))
        raise InputError(f"the input {feed.name!r} is declared as {said}, not {given}")
    whole = tuple(b if a is None else a for a, b in zip(shape, declared or shape, strict=True))
    if None in whole[2 if len(whole) == SEQUENCE else 1 :]:
        text = f"the input {feed.name!r} of shape {_text(whole, '?')} has unknown extents"
        raise InputError(text, remedy=_remedy(feed.name, whole))
    return dtype, tuple(1 if n is None else n for n in whole)


def require_node(body: Body, name: str, kind: str) -> Node:
    """The node of an input or an output. Raises InputError, which knows similar names."""
    if name in body.nodes:
        return body.nodes[name]
    similar = ", ".join(get_close_matches(name, body.nodes, 3, 0.5))
    remedy = f"similar names are {similar}" if similar else ""
    raise InputError(f"the {kind} {name!r} is no node of {body.name}", remedy=remedy)


def _agree(declared: Shape, given: Shape) -> bool:
    pairs = zip(declared, given, strict=False)
    return len(declared) == len(given) and all(None in (a, b) or a == b for a, b in pairs)


def _text(shape: Shape, unknown: str) -> str:
    return "x".join(unknown if n is None else str(n) for n in shape) or "scalar"


def _remedy(name: str, shape: Shape) -> str:
    example = (1, *(8 if n is None else n for n in shape[1:]))
    return f"say how large it is, as in --inputs {name}:{_text(example, '?')}"


def _declared_type(node: Node) -> DType:
    found = next((a for a in TYPES if node.has(a) and node.attributes[a].type), None)
    if found is None:
        raise ModelError(f"{node.label}: it says no element type, so it cannot be an input")
    try:
        return node.dtype(found)
    except UnsupportedError as error:
        remedy = "name the values behind it that are numbers: --inputs NODE:SHAPE"
        raise UnsupportedError(f"the input {node.label}: {error}", remedy=remedy) from None
