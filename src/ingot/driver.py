"""THE pipeline: one straight function from a model to a bundle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import onnx

from ingot.bundle.budget import within_ram
from ingot.bundle.bundle import Bundle
from ingot.bundle.manifest import Origin
from ingot.bundle.several import Collection, Made, write_several
from ingot.bundle.variants import write_variants
from ingot.bundle.write import write
from ingot.check.evidence import LabelledData, evidence_of
from ingot.check.trainable import trainable
from ingot.check.worth import worth
from ingot.compression.layers import Layer, layers_of
from ingot.compression.merge import merge_equal
from ingot.compression.model import Compressed, Wish, compress, floats, inlined, to_container
from ingot.compression.rename import shorten
from ingot.compression.worth import Worth
from ingot.errors import InputError
from ingot.files import named, read_file, sha256_of
from ingot.formula.expr import Array, Tensor
from ingot.frontends.canonical import canonical, is_foreign, source_files
from ingot.frontends.onnx import opsets as model_opsets
from ingot.frontends.onnx import read_proto, read_with
from ingot.frontends.onnx.narrow import require_narrow
from ingot.frontends.onnx.tensors import array_of, embed_external, embed_sparse, external_parts
from ingot.graph.ir import Graph
from ingot.graph.text import graph_text
from ingot.graph.verify import verify
from ingot.log import Level, announce, remark
from ingot.loops.choice import LoweringOptions, Ways
from ingot.loops.generate import OF_ENTRIES
from ingot.loops.layout import Layout
from ingot.loops.lower import lower
from ingot.loops.operations import require_vectors
from ingot.loops.priority import PRIORITIES
from ingot.loops.program import Program, calls, program_text
from ingot.loops.program_passes.parallel import PARTS, parallelize
from ingot.loops.program_passes.pauses import pausing
from ingot.loops.program_passes.share import share
from ingot.loops.program_passes.state import keep_states
from ingot.loops.program_passes.whole_numbers import whole_numbers
from ingot.loops.region import Region, copied, formulate_graph, region_text
from ingot.loops.region_passes.averages import multiply_averages
from ingot.loops.region_passes.byte_functions import tabulate_bytes
from ingot.loops.region_passes.dequantised import inline_dequantised, inline_dequantised_sums
from ingot.loops.region_passes.fold import fold_stages
from ingot.loops.region_passes.frames import without_halos
from ingot.loops.region_passes.fuse import fuse
from ingot.loops.region_passes.layout_assignment import assign_layouts
from ingot.loops.region_passes.pack import pack_boundary, pack_constants
from ingot.loops.region_passes.quotients import join_quotients
from ingot.loops.region_passes.recurrent_cells import join_gates
from ingot.loops.region_passes.reorder import reorder
from ingot.loops.region_passes.sums import split_sums
from ingot.loops.region_passes.zero_points import fold_zero_points
from ingot.loops.tuning import choices_of, require_used
from ingot.loops.verify import require_proved, verify_region
from ingot.memory.check import check
from ingot.memory.order import order
from ingot.memory.plan import Plan, plan, plan_text
from ingot.ops.infer import infer
from ingot.options import Options
from ingot.passes.byte_activations import byte_activations, layers_in_a_row
from ingot.passes.byte_signs import byte_signs
from ingot.passes.edge_scales import edge_scales
from ingot.passes.encoded_integers import encoded_integers, products_of_entries
from ingot.passes.exact_products import exact_products
from ingot.passes.exact_transposed import exact_transposed
from ingot.passes.inline_if import inline_if
from ingot.passes.integer_layers import integer_layers
from ingot.passes.number_calls import number_calls
from ingot.passes.pair_states import pair_states
from ingot.passes.prune import prune
from ingot.passes.require_use import require_use
from ingot.passes.skip_identities import skip_identities
from ingot.quantization.fold import fold
from ingot.quantization.network import closed, opened
from ingot.quantization.profile import Profile, require_profile_of
from ingot.quantization.quantize import Quantized, quantize
from ingot.quantization.scheme import Scheme
from ingot.targets.machine import Machine, adapted
from ingot.targets.record import Target
from ingot.targets.records import find, find_all

GRAPH = Level("graph", "reading the model", graph_text, verify)
PLAN = Level("plan", "placing tensors in memory", plan_text, check)


def compress_model(
    model: Any,
    wish: Wish,
    folds: bool = False,
    data: LabelledData | None = None,
    shortens: bool = False,
) -> Compressed:
    """A model (of any format that `compile` reads) with encoded weights; see `ingot.compression`.

    Where it `folds`, batch normalisations and biases become part of the weights before they are encoded.
    With `data`, the result says what it costs there. Where it `shortens`, inner tensors get short names.
    """
    proto = self_contained(model, Options())
    size = proto.ByteSize()
    if folds:
        proto = closed(fold(opened(inlined(proto), Options().define)))
    before = onnx.ModelProto()
    before.CopyFrom(proto)
    if wish.training is not None:
        wish = replace(wish, training=replace(wish.training, build=trainable))
    made = replace(compress(proto, _read, wish), model_bytes=size)
    if data is not None:
        made = replace(made, worth=_worth(model, before, wish, made, data))
    return replace(made, model=shorten(made.model)) if shortens else made


def _worth(model: Any, before: onnx.ModelProto, wish: Wish, made: Compressed, data: LabelledData) -> Worth:
    """What compression costs on data; where weights are only encoded, layer by layer too."""
    before = inlined(before)
    if wish.container is not None or wish.training is not None:
        return worth(model, before, [], made, data)
    merge_equal(before)
    return worth(model, before, layers_of(before, _read), made, data)


def quantize_model(
    model: Any, profile: Profile, scheme: Scheme, options: Options, data: LabelledData | None = None
) -> Quantized:
    """A float model (of any format that `compile` reads) quantised by its profile; see `ingot.quantization`.

    Raises InputError for a profile of another model, and for what the scheme asks and the model has not.
    """
    proto = self_contained(model, options)
    require_profile_of(profile, proto)
    evidence = None if data is None else evidence_of(model, options, data)
    return quantize(inlined(proto), profile, scheme, options.define, evidence)


def quantized_source(
    model: Path, profile: Profile, scheme: Scheme, options: Options, data: LabelledData | None = None
) -> tuple[bytes, Options]:
    """The bytes that `ingot quantize` writes of a model, to be compiled in its place, and with what
    options."""
    made = quantize_model(model, profile, scheme, options, data)
    left = replace(options, name=options.name or model.stem, inputs=(), outputs=())
    return made.model.SerializeToString(), left


def layers_apart(
    model: Any, options: Options, is_merged: bool
) -> tuple[onnx.ModelProto, list[Layer], dict[str, Array]]:
    """A model without functions of its own, its layers with weights, and its constants of floats by name.

    Equal weights are one layer where `is_merged`, as `compress_model` has them without training.
    """
    proto = inlined(self_contained(model, options))
    if is_merged:
        merge_equal(proto)
    return proto, layers_of(proto, _read), floats(proto, _read)


def self_contained(model: Any, options: Options) -> onnx.ModelProto:
    """A copy of a model (of any format that `compile` reads), with what lies in files beside it."""
    home = Path(model) if isinstance(model, str | Path) else None
    proto = onnx.ModelProto()
    proto.CopyFrom(read_proto(canonical(model, options)))
    model_opsets(proto)
    embed_external(proto, home)
    embed_sparse(proto)
    return proto


def container_of(made: Compressed) -> bytes:
    """A compressed model in the container of the method's authors."""
    return to_container(made.model, _read)


def _read(tensor: onnx.TensorProto, what: str) -> Array:
    return array_of(tensor, None, what)


@dataclass(frozen=True, slots=True, eq=False)
class Stages:
    """The model at every level, for who wants to look at one."""

    graph: Graph
    region: Region
    program: Program
    plan: Plan
    target: Target


def compile_with(model: Any, options: Options) -> Bundle:
    """Return the bundle of a model (a path, bytes, or an `onnx.ModelProto`): all steps.

    Raises InputError for a model that cannot be compiled, ToolchainError where a compiler fails.
    """
    return built(model, options)[1]


def built(model: Any, options: Options) -> tuple[list[Stages], Bundle]:
    """What `compile_with` returns, and the levels that it came from, of each target."""
    source, model = model, canonical(model, options)
    made = [stages(model, replace(options, target=t.name)) for t in find_all(options.target)]
    announce("compiling C")
    origin = _origin(source, made)
    if len(made) > 1:
        return made, write_variants([(m.program, m.plan, m.target) for m in made], options, origin)
    return made, write(made[0].program, made[0].plan, made[0].target, options, origin)


def _origin(model: Any, made: Sequence[Stages]) -> Origin:
    """What a bundle says of the model that it came from, compiled for one target or several."""
    in_bytes = max(layers_in_a_row(m.graph) for m in made)
    graph = made[0].graph
    left = _by_target([(m.target, m.graph.left_float) for m in made])
    expanded = _by_target([(m.target, m.graph.expanded) for m in made])
    return Origin(digest(model), opsets(graph), graph.ports, in_bytes, graph.scales, left, expanded)


def _by_target(made: Sequence[tuple[Target, dict[str, str]]]) -> dict[str, str]:
    """What is said of layers; of several targets, for which."""
    if len(made) == 1:
        return made[0][1]
    return {f"{layer} on {target.name}": why for target, said in made for layer, why in said.items()}


def compile_several(models: Sequence[Any], options: Options) -> Collection:
    """Several models in one bundle, called by their files' names; `options.name` is the bundle's.

    Raises what `compile_with` does, and InputError for what only one model can have.
    """
    if not models:
        raise InputError("no model to compile")
    if len(find_all(options.target)) > 1 or options.rename:
        raise InputError("several models in one bundle have one target and keep their tensors' names")
    _require_apart(models)
    made = [_made(model, replace(options, name=None)) for model in models]
    announce("compiling C")
    return write_several(made, options, bundle_name(options.name, None, "networks"))


def _require_apart(models: Sequence[Any]) -> None:
    """InputError where files are called alike, before any of them is compiled."""
    stems = Counter(Path(model).stem for model in models if isinstance(model, (str, Path)))
    for stem, count in stems.most_common(1):
        if count > 1:
            raise InputError(
                f"{count} models of one bundle are called {stem!r}",
                remedy="rename the files: networks are called by their names",
            )


def _made(model: Any, options: Options) -> Made:
    """One of several models, ready to be printed."""
    at = stages(model, options)
    return Made(at.program, at.plan, at.target, _origin(model, [at]))


def front(model: Any, options: Options, unread: frozenset[str] = frozenset()) -> Graph:
    """The steps on the graph, in their order; the comment says why each stands where it does.

    `unread`: labels of products whose encoded weights no generator has read.
    """
    graph = GRAPH(read_with, canonical(model, options), options)
    graph = GRAPH(number_calls, graph, options.seed_input)  # adds nodes and an input: these are inferred too
    graph = require_narrow(GRAPH(infer, graph))  # everything below needs shapes, and constants folded
    graph = require_use(graph, options)  # constants are folded now, and no pass has rewritten weights
    graph = GRAPH(pair_states, graph, options.state)  # types must be known, passes keep the edge's order
    graph = GRAPH(inline_if, graph)  # conditions that are constants are known now
    graph = GRAPH(edge_scales, graph)  # before integer_layers: the nodes at the edge are still the model's
    if options.fuse and options.math != "exact":
        graph = GRAPH(integer_layers, graph)  # needs types and folded constants; prune takes the floats away
        graph = GRAPH(exact_products, graph, target_of(options))  # of integer products those with no weights
        graph = GRAPH(exact_transposed, graph, target_of(options))  # and those that fill no vectors of bytes
        graph = GRAPH(byte_signs, graph, target_of(options))  # behind the steps that leave products of bytes
    # behind integer_layers, which makes the products; before byte_activations, whose weights stay encoded
    is_small = options.optimize == "size"
    graph = GRAPH(encoded_integers, graph, target_of(options), options.huffman, is_small, unread)
    if options.activations == "int8":
        # needs types and constant weights
        graph = GRAPH(byte_activations, graph, target_of(options), options.huffman)
    if options.fuse:
        graph = GRAPH(skip_identities, graph)  # integer_layers leaves some, and prune takes them away
    return GRAPH(prune, graph)  # last: folded shape arithmetic leaves nodes without readers


@dataclass(frozen=True, slots=True)
class RegionStep:
    """A step from region to region: why it stands where it does, and which options ask for it."""

    run: Callable[[Region], Region]
    why: str
    when: Callable[[Options], bool]

    @property
    def name(self) -> str:
        return self.run.__name__


def always(_: Options) -> bool:
    """always"""
    return True


def fused(options: Options) -> bool:
    """unless `fuse` is off"""
    return options.fuse


def scalar(options: Options) -> bool:
    """unless `fuse` is off, without vectors"""
    return options.fuse and not target_of(options).vector_bytes


def inexact(options: Options) -> bool:
    """unless `math` is exact"""
    return options.math != "exact"


def tables(options: Options) -> bool:
    """unless `fuse` is off or `math` is exact"""
    return options.fuse and options.math != "exact"


REGION_STEPS = (
    RegionStep(pack_boundary, "first: all later steps see bytes at the boundary", always),
    RegionStep(fold_stages, "before fuse, which merges the rest of a batch normalisation", always),
    RegionStep(tabulate_bytes, "before fuse, which would merge such maps into their neighbours", tables),
    RegionStep(inline_dequantised, "before fuse, which merges maps of bytes into their readers", fused),
    RegionStep(inline_dequantised_sums, "before fuse, too; vectors need the floats in memory", scalar),
    RegionStep(fuse, "before layouts: a fused tensor needs none", fused),
    RegionStep(reorder, "after fuse: a stage behind a view already contains its maps", fused),
    RegionStep(split_sums, "after reorder: readers of a part already read its source", fused),
    RegionStep(fold_zero_points, "after reorder: weights are in the order of their reads", fused),
    RegionStep(join_quotients, "after fuse: each kernel's maps are already one expression", inexact),
    RegionStep(multiply_averages, "after the steps that make integers of averages", inexact),
    RegionStep(join_gates, "after join_quotients: the maps of a cell are final", fused),
    RegionStep(pack_constants, "last to rewrite formulas: no later step folds constants", always),
)


def region_of(graph: Graph, options: Options, last: str = "") -> Region:
    """The region of a graph after all steps that the options ask for, or after the step named `last`."""
    regions = Level("region", "joining layers", region_text, partial(verify_region, sound=set()))
    region = regions(formulate_graph, graph)
    for step in REGION_STEPS:
        region = regions(step.run, region) if step.when(options) else region
        if step.name == last:
            break
    return region


def stages(model: Any, options: Options) -> Stages:
    """The steps from the model to offsets in the arena; only printing and compiling C is left.

    Where generators do not read the entries of encoded integers, their elements are stored: generators of all
    elements want other constants, so everything is made anew.
    """
    model = canonical(model, options)  # first: everything below reads ONNX
    made = _stages(model, options, frozenset())
    unread = unread_entries(made)
    made = _stages(model, options, unread) if unread else made
    if options.huffman and not any("Huffman" in note for k in made.program.kernels for note in k.notes):
        remark("--huffman does nothing: in every layer, its tables would take more bytes than it saves")
    return made


def unread_entries(made: Stages) -> frozenset[str]:
    """The products of encoded integers that no generator of entries has written."""
    found = list(calls(made.program.steps))
    names = {
        name for c in found if OF_ENTRIES & set(c.kernel.generators) for name in c.nodes or c.kernel.nodes
    }
    return frozenset(n.label for n in products_of_entries(made.graph) if (n.name or n.op) not in names)


def _stages(model: Any, options: Options, unread: frozenset[str]) -> Stages:
    target = target_of(options)
    graph = front(model, options, unread)
    region = region_of(graph, options)
    how = lowering_of(options, target)
    layouts = assign_layouts(region, target, how.may_be_fast)
    frames = PRIORITIES[options.optimize].frames
    framed = without_halos(region, layouts, target) if frames else layouts
    name = bundle_name(options.name, model, graph.name)

    def placed(room: int | None) -> Plan:
        stored = layouts if room else framed  # line buffers have halos of their own
        program = lower_steps(copied(region), stored, name, target, replace(how, room=room), graph, options)
        return PLAN(plan, program, options.memory)  # last: the kernels decide what lives when

    found = within_ram(placed, options)
    return Stages(graph, region, found.program, found, target)


def lower_steps(
    region: Region,
    layouts: dict[Tensor, Layout],
    name: str,
    target: Target,
    how: LoweringOptions,
    graph: Graph,
    options: Options,
) -> Program:
    """The steps from a region to the final program."""
    # what stays the same from step to step is proved once
    programs = Level("program", "writing loops", program_text, partial(require_proved, proved={}))
    program = programs(lower, region, layouts, name, target, how)
    if options.fuse and options.generators and options.math == "standard":
        require_used(how.tuned, program)
    if options.threads:
        program = programs(parallelize, program)
    # after parallelize, which knows floats' kernels; before share: bits tell kernels apart as floats do
    program = programs(whole_numbers, program, target)
    program = programs(share, program)  # last change to kernels: now it shows which are the same
    program = programs(order, program)  # after everything that makes or merges steps
    if options.strict_speed:  # before pauses: they are no work of the model's
        require_vectors(program, target)
    if options.pauses:  # after order: costs add up along the final one
        program = programs(pausing, program, options.frame_bytes)
    program = programs(
        keep_states, program, graph.states
    )  # after both: who reads last, and where a run may end
    return program


def ways(model: Any, options: Options) -> Ways:
    """What could be chosen for each stage of a model that can be computed in several ways."""
    target, found = target_of(options), Ways()
    region = region_of(front(model, options), options)
    how = lowering_of(options, target, found)
    lower(region, assign_layouts(region, target, how.may_be_fast), "ways", target, how)
    return found


def lowering_of(options: Options, target: Target, ways: Ways | None = None) -> LoweringOptions:
    """What the options say of how stages become kernels. Bands are for stages that were fused."""
    parts = (PARTS if options.threads else 1) if options.fuse and options.generators else 0
    tuned, fast = choices_of(options.tuning, target), options.generators
    is_fast = PRIORITIES[options.optimize].fast
    return LoweringOptions(options.math, tuned, ways, options.profile, parts, options.huffman, fast, is_fast)


def target_of(options: Options) -> Target:
    """The processor, with what the options say of it."""
    machine = Machine(options.cpu, options.features, options.float_abi, options.code_model)
    found = adapted(find(options.target), machine, options.cc)
    accumulators = PRIORITIES[options.optimize].accumulators
    return replace(found, frame_bytes=options.frame_bytes or found.frame_bytes, accumulators=accumulators)


def bundle_name(wanted: str | None, model: Any, fallback: str) -> str:
    """The C name of the bundle: as asked for, else the file's name, else the graph's."""
    from ingot.emit.names import LIBRARY, Scope

    stem = named(Path(model)).stem if isinstance(model, str | Path) else fallback
    return Scope(LIBRARY).fresh(wanted or stem, "model")


def opsets(graph: Graph) -> dict[str, int]:
    """The versions of the operators in use, by domain."""
    found: dict[str, int] = {}
    for node in graph.nodes:
        domain = node.domain or "ai.onnx"
        if domain == "ingot":
            continue
        found[domain] = max(node.version, found.get(domain, 0))
    return found


def digest(model: Any) -> str:
    """SHA-256 of the model file's bytes; if it lies in several files, of their names and hashes.

    What counts of a file beside an ONNX model are the elements of its tensors.
    """
    import hashlib

    if is_foreign(model):
        files = ((p.name, sha256_of(p)) for p in source_files(Path(model)))
        return hashlib.sha256("".join(f"{name} {found}\n" for name, found in files).encode()).hexdigest()
    if not isinstance(model, str | Path):
        return hashlib.sha256(model if isinstance(model, bytes) else model.SerializeToString()).hexdigest()
    total = hashlib.sha256(read_file(Path(model)))
    for location, (path, parts) in sorted(external_parts(read_proto(model), Path(model)).items()):
        total.update(f"\n{location} {sha256_of(path, parts)}".encode())
    return total.hexdigest()
