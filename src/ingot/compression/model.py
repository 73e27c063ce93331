"""A model compressed. In: a ModelProto and what was wished; out: the model with encodings, and the account.

Called by the driver, which reads the file, and by tests.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.inliner
from onnx import helper, numpy_helper

from ingot.compression import accounting, choose
from ingot.compression.accounting import Account, sizes_of, unchanged
from ingot.compression.encode import AUTO, UNCHANGED, Choice, Form, encode
from ingot.compression.finetune import Training, finetune
from ingot.compression.layers import FLOATS, Kind, Layer, Read, is_encoded, layers_of
from ingot.compression.merge import merge_equal
from ingot.compression.opset import modernise, opset_of
from ingot.compression.propose import Goal, Scale, propose
from ingot.compression.share import Start
from ingot.compression.transplant import pack, slots, unpack
from ingot.compression.worth import Worth
from ingot.compression.write import write
from ingot.errors import InputError, ModelError
from ingot.files import write_file
from ingot.formula.expr import Array
from ingot.graph.encoding import Codebook, Encoding
from ingot.graph.onnx_form import is_ours
from ingot.log import announce, remark
from ingot.tables import Result, Table, table

CONV_BITS, FC_BITS = 8, 4
SCALE: Scale = "sensitivity"
NAMED = 3  # layers in a remark


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a user asks for; words as `choose.per_layer` reads them.

    With a `ratio` (as in 35x) layers without a density get one such that all together reach it, with a
    `total_density` (as in 10%) such that all together keep that share of their weights; `entropic`: training
    reaches the ratio by the values that weights share. With a
    `container` its content takes the place of the model's weights: as it is if nothing else is wished,
    else it is what is compressed.
    """

    density: tuple[str, ...] = ()
    bits: tuple[str, ...] = ()
    gap_bits: tuple[str, ...] = ()
    ratio: str = ""
    total_density: str = ""
    scale: Scale | None = None
    form: Form = "auto"
    start: Start = "optimal"
    seed: int | None = None
    entropic: bool = False
    training: Training | None = None
    container: bytes | None = None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Compressed(Result):
    """A compressed model, the encoding of each layer by the name of its constant, and the account of its
    size.

    `model_bytes` is the size of the original file. `worth` is what compression costs on the data, if any was
    given. If the model was trained, `scores` has its score after each step, and `frozen` the parameters that
    were left unchanged.
    """

    model: onnx.ModelProto
    encodings: dict[str, Encoding]
    choices: dict[str, Choice]
    account: Account
    scores: tuple[tuple[str, float], ...] = ()
    frozen: tuple[str, ...] = ()
    model_bytes: int = 0
    worth: Worth | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return plain data: the account, the size of the model before, and the scores of training."""
        before = {"model_bytes": self.model_bytes}
        worth = {} if self.worth is None else {"evaluation": self.worth.as_dict()}
        return {**before, **accounting.as_json(self.account), "scores": dict(self.scores), **worth}

    def tables(self) -> list[Table]:
        """Return the size of every layer."""
        title = accounting.summary(self.account)
        heads, cells = accounting.columns(self.worth), accounting.rows(self.account, self.worth)
        return [table(title, heads, cells)]

    def save(self, path: str | Path) -> Path:
        """Write the model to an ONNX file. Raises InputError."""
        write_file(Path(path), self.model.SerializeToString())
        return Path(path)


def compress(model: onnx.ModelProto, read: Read, wish: Wish) -> Compressed:
    """The compressed model; `model` is changed. Raises InputError for wishes and models that do not fit."""
    model = modernise(inlined(model))
    if wish.container is None and wish.training is None:  # these have a place for each of equal layers
        merge_equal(model)
    layers = layers_of(model, read)
    if wish.container is not None or wish.training is not None:
        _require_floats(layers, "--finetune" if wish.container is None else "--from")
    if wish.container is not None:
        encodings, biases = unpack(wish.container, slots(model, layers, floats(model, read)))
        put(model, biases)
        alone = replace(wish, container=None)
        if alone == Wish():
            return finished(model, layers, encodings, [Choice() for _ in layers])
        write(model, encodings, opset_of(model))
        return compress(model, read, alone)
    if wish.entropic:
        wish = _entropic(wish)
    choices = choices_of(layers, wish)
    if wish.training is not None:
        trained = finetune(model, layers, choices, floats(model, read), wish.training)
        put(model, trained.constants)
        made = finished(model, layers, trained.encodings, choices)
        return replace(made, scores=tuple(trained.scores), frozen=tuple(trained.frozen))
    encodings = {}
    for i, (layer, choice) in enumerate(zip(layers, choices, strict=True)):
        announce(f"encode {layer.name}", i, len(layers))
        encoding = encode(layer.weights, choice, layer.width)
        if encoding is not None:
            encodings[layer] = encoding
    return finished(model, layers, encodings, choices)


def _entropic(wish: Wish) -> Wish:
    """The wish whose ratio training reaches. Raises InputError for what such training leaves without
    meaning.
    """
    name = "--entropy-constrained"
    if wish.training is None or not wish.ratio:
        raise InputError(
            f"{name} trains until the layers are so many times smaller",
            remedy="add --finetune TRAIN.py and --target-ratio 12x",
        )
    if wish.training.share_rounds < 2:
        raise InputError(
            f"{name} trains in all rounds of sharing but the last", remedy="add --share-rounds 2, or more"
        )
    given = {
        "--density": wish.density,
        "--total-density": wish.total_density,
        "--prune-by": wish.scale,
        "--gap-bits": wish.gap_bits,
        "--form sparse": wish.form == "sparse",
        "--rounds": wish.training.rounds,
        f"--centroids {wish.start}": wish.start != "optimal",
    }
    if named := [option for option, value in given.items() if value]:
        raise InputError(
            f"{name} prunes by sharing: zero is one of the values, and {named[0]} says nothing",
            remedy=f"leave one out{' (--rounds 0)' if named[0] == '--rounds' else ''}",
        )
    training = replace(wish.training, ratio=choose.ratio(wish.ratio))
    return replace(wish, ratio="", form="codebook", training=training)


def finished(
    model: onnx.ModelProto,
    layers: Sequence[Layer],
    encodings: dict[Layer, Encoding],
    choices: Sequence[Choice],
) -> Compressed:
    """The model written, and counted. A layer without an encoding stays as it is: encoded, if it was."""
    announce("write", len(layers), len(layers))
    _remark_gaps(encodings, dict(zip(layers, choices, strict=True)))
    _remark_integers(encodings)
    _remark_unchanged(layers, encodings, choices)
    write(model, encodings, opset_of(model))
    there = {layer: layer.encoding for layer in layers if layer.encoding is not None}
    kept = {layer: encoding for layer in layers if (encoding := encodings.get(layer, there.get(layer)))}
    sizes = [
        sizes_of(layer.name, layer.kind, kept[layer], layer.width) if layer in kept else unchanged(layer)
        for layer in layers
    ]
    left = sum(layer.weights.size * _width(layer.dtype) for layer in layers if layer not in kept)
    account = Account(tuple(sizes), _other_bits(model.graph) - left)
    named = {layer.name: choice for layer, choice in zip(layers, choices, strict=True)}
    return Compressed(model, {layer.name: e for layer, e in kept.items()}, named, account)


def _remark_gaps(encodings: dict[Layer, Encoding], choices: dict[Layer, Choice]) -> None:
    """Say which layers have no use for the bits of gaps that were asked for."""
    dense = (layer for layer, encoding in encodings.items() if isinstance(encoding, Codebook))
    if named := ", ".join(repr(layer.name) for layer in dense if choices[layer].gap_bits != AUTO):
        remark(
            f"smaller without relative indices, and so without --gap-bits: {named}; --form sparse has them"
        )


def _remark_integers(encodings: dict[Layer, Encoding]) -> None:
    """Say which layers a bundle stores as bytes all the same."""
    dense = [layer for layer, e in encodings.items() if layer.is_int8 and isinstance(e, Codebook)]
    if dense:
        named = ", ".join(repr(layer.name) for layer in dense[:NAMED]) + ", ..." * (len(dense) > NAMED)
        remark(
            f"int8 weights without relative indices are smaller in this file, and bytes in a bundle: {named}"
            "; prune them (--density), or compile with --huffman"
        )


def _remark_unchanged(
    layers: Sequence[Layer], encodings: Mapping[Layer, Encoding], choices: Sequence[Choice]
) -> None:
    """Say which layers were to be pruned, and stay as they are because their codes would take more room."""
    left = [
        repr(layer.name)
        for layer, choice in zip(layers, choices, strict=True)
        if choice.density < 1 and choice.bits != UNCHANGED and layer not in encodings
    ]
    if left:
        named = ", ".join(left[:NAMED]) + ", ..." * (len(left) > NAMED)
        remark(f"not pruned, because codes would take more room than the weights as they are: {named}")


def to_container(model: onnx.ModelProto, read: Read) -> bytes:
    """A compressed model's weights in the container of the method's authors. Raises InputError if they do
    not fit."""
    layers, constants = layers_of(model, read), floats(model, read)
    _require_floats(layers, "a container")
    encodings = {layer.name: layer.encoding for layer in layers if layer.encoding is not None}
    return pack(slots(model, layers, constants), encodings, constants)


def choices_of(layers: Sequence[Layer], wish: Wish) -> list[Choice]:
    """What becomes of each layer."""
    nothing: dict[Kind, float | None] = {"conv": None, "fc": None}
    densities = choose.per_layer(wish.density, layers, choose.density, "--density", nothing)
    bits: dict[Kind, int] = {"conv": CONV_BITS, "fc": FC_BITS}
    codes = choose.per_layer(wish.bits, layers, choose.code_bits, "--bits", bits)
    gaps = choose.per_layer(wish.gap_bits, layers, choose.gap_bits, "--gap-bits", {"conv": AUTO, "fc": AUTO})
    _require_meaning(layers, codes, wish)
    _require_numbers(layers, codes)
    found = [
        Choice(1.0 if d is None else d, b, g, wish.form, wish.start, wish.seed or 0)
        for d, b, g in zip(densities, codes, gaps, strict=True)
    ]
    goal = _goal(wish)
    if goal is not None and None not in densities:
        option = "--target-ratio" if wish.ratio else "--total-density"
        raise InputError(
            f"{option} finds densities of layers that --density does not name, and it names all",
            remedy="leave one out",
        )
    return found if goal is None else propose(layers, found, [d is None for d in densities], goal)


def _goal(wish: Wish) -> Goal | None:
    """What all layers together are to reach. Raises InputError for two such wishes."""
    if wish.ratio and wish.total_density:
        raise InputError("--target-ratio and --total-density are two ways to choose densities: take one")
    if wish.ratio:
        return Goal(choose.ratio(wish.ratio), wish.scale or SCALE)
    if wish.total_density:
        try:
            return Goal(1 / choose.density(wish.total_density), wish.scale or SCALE, of_weights=True)
        except ValueError as error:
            raise InputError(f"--total-density {wish.total_density}: {error}") from None
    if wish.scale is not None:
        raise InputError(f"--prune-by {wish.scale}: of what? Name a --target-ratio or a --total-density")
    return None


def _require_meaning(layers: Sequence[Layer], codes: Sequence[int], wish: Wish) -> None:
    """Raises InputError for words that would do nothing."""
    if wish.seed is not None and wish.start != "random":
        raise InputError(f"--seed {wish.seed} is of random centroids", remedy="add --centroids random")
    if wish.gap_bits and wish.form == "codebook":
        raise InputError(
            "--gap-bits is of relative indices, --form codebook has none", remedy="leave one out"
        )
    if set(codes) == {UNCHANGED}:
        raise InputError(
            f"--bits {UNCHANGED} for every layer compresses nothing", remedy="name the layers to leave alone"
        )
    choose.require_changed(wish.density, layers, codes, "--density")
    choose.require_changed(wish.gap_bits, layers, codes, "--gap-bits")


def _require_floats(layers: Sequence[Layer], what: str) -> None:
    """Raises InputError for weights that are no floats."""
    for layer in layers:
        if layer.is_int8:
            raise InputError(
                f"{what} is for weights of floats, and {layer.name!r} has INT8",
                remedy="compress the model in floats, or this one without",
            )


def _require_numbers(layers: Sequence[Layer], codes: Sequence[int]) -> None:
    """Raises ModelError for weights to be encoded that are no numbers of float32."""
    for layer, bits in zip(layers, codes, strict=True):
        if bits != UNCHANGED and not np.isfinite(layer.weights).all():
            raise ModelError(
                f"the weights {layer.name!r} hold NaN or infinity (as float32), which no code stands for",
                remedy=f"--bits {layer.name}={UNCHANGED} leaves them as they are",
            )


def inlined(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model without functions of its own but those of encodings: weights are seen where they are used.

    Raises ModelError for functions that call each other in a circle.
    """
    others = [(f.domain, f.name) for f in model.functions if not is_ours(f)]
    if not others:
        return model
    try:
        return onnx.inliner.inline_selected_functions(model, others)
    except (RuntimeError, ValueError, onnx.checker.ValidationError) as error:
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise ModelError(f"the functions of the model cannot be inlined: {reason}") from None


def floats(model: onnx.ModelProto, read: Read) -> dict[str, Array]:
    """The constants of the outermost graph that training can change, by name."""
    found = {t.name: read(t, f"tensor {t.name!r}") for t in model.graph.initializer if t.data_type in FLOATS}
    return {name: array.astype(np.float32) for name, array in found.items()}


def put(model: onnx.ModelProto, constants: Mapping[str, Array]) -> None:
    """Give constants other elements."""
    for tensor in model.graph.initializer:
        if tensor.name in constants:
            kind = helper.tensor_dtype_to_np_dtype(tensor.data_type)
            tensor.CopyFrom(numpy_helper.from_array(constants[tensor.name].astype(kind), tensor.name))


def _other_bits(graph: onnx.GraphProto) -> int:
    """The size of all constants that are no part of an encoding."""
    parts = {name for node in graph.node if is_encoded(node) for name in node.input}
    bits = sum(_bits(t) for t in graph.initializer if t.name not in parts)
    for node in graph.node:
        for attribute in node.attribute:
            bits += sum(_bits(t) for t in (attribute.t, *attribute.tensors))
            bits += sum(_other_bits(inner) for inner in (attribute.g, *attribute.graphs))
    return bits


def _bits(tensor: onnx.TensorProto) -> int:
    if tensor.data_type in (onnx.TensorProto.UNDEFINED, onnx.TensorProto.STRING):
        return 0
    return int(math.prod(tensor.dims)) * _width(tensor.data_type)


def _width(dtype: int) -> int:
    """The bits of an element."""
    return 8 * int(helper.tensor_dtype_to_np_dtype(dtype).itemsize)
