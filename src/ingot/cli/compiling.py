"""`ingot compile`: a model in, a bundle's directory out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ingot.cli import arguments as arg
from ingot.cli import quantizing as quant
from ingot.cli.show import progress, report
from ingot.errors import InputError
from ingot.options import Api, Options
from ingot.tables import Table, table

if TYPE_CHECKING:
    from ingot.bundle.bundle import Bundle

Directory = Annotated[
    Path | None,
    typer.Option("-o", "--output", metavar="DIR", help="Where the bundle goes (default: the bundle's name)"),
]
Name = Annotated[str | None, typer.Option(help="The bundle's name in C (default: the file's name)")]
ApiName = Annotated[Api, typer.Option(help="The calling convention.")]
Weights = Annotated[
    Literal["embedded", "external"] | None,
    typer.Option(help="In the object, or the caller's (default: as the api has it)."),
]
Relocation = Annotated[
    Literal["static", "pic"] | None, typer.Option("--relocation-model", help="(default: the target's)")
]
Cpu = Annotated[
    str | None, typer.Option("--cpu", help="A processor of the target's, as the compiler calls it.")
]
Features = Annotated[
    str | None,
    typer.Option("--features", metavar="LIST", help="More or fewer instructions: +avx512fp16,-fma."),
]
FloatAbi = Annotated[
    Literal["hard", "softfp", "soft"] | None,
    typer.Option("--float-abi", help="32-bit Arm: how floats are passed."),
]
CodeModel = Annotated[
    Literal["tiny", "small", "kernel", "medium", "large"] | None,
    typer.Option("--code-model", help="How far apart code and data may be."),
]
MaxRam = Annotated[
    str | None, typer.Option("--max-ram", metavar="BYTES", help="Refuse a bundle that takes more: 96K, 1M.")
]
MaxFlash = Annotated[
    str | None,
    typer.Option("--max-flash", metavar="BYTES", help="Refuse a bundle that takes more: 256K, 1M."),
]
Memory = Annotated[
    str | None,
    typer.Option(
        "--memory",
        metavar="REGIONS",
        help="Regions of RAM, fastest first, to lay tensors in: tcm:64K,sram:256K.",
    ),
]
Flash = Annotated[
    str | None,
    typer.Option(
        "--flash", metavar="REGIONS", help="Regions of flash, fastest first: 1M, or flash:1M,qspi:8M."
    ),
]
EmitList = Annotated[
    str | None,
    typer.Option(
        metavar="LIST",
        help="What to write: c,obj,lib,shared,weights-bin,weights-txt,main,module "
        "(default: c,obj,weights-bin; external weights also as text, WebAssembly as a module)",
    ),
]
Threads = Annotated[bool, typer.Option(help="Give the entry a parallel_for of the caller's.")]
PackageName = Literal[
    "cmake",
    "make",
    "pkg-config",
    "cargo",
    "python",
    "wasm",
    "arduino",
    "platformio",
    "zephyr",
    "esp-idf",
    "cmsis-pack",
    "kbuild",
]
Package = Annotated[
    PackageName | None,
    typer.Option(help="A directory that the users of an ecosystem build; kbuild: a module of Linux."),
]
Prebuilt = Annotated[bool, typer.Option(help="Of a kernel module: ship objects, not their C.")]
Rename = Annotated[list[str] | None, typer.Option(metavar="A=B", help="Call the tensor A B in the header.")]

StrictSpeed = Annotated[
    bool, typer.Option("--strict-speed", help="Refuse kernels that leave the target's vectors unused.")
]
Force = Annotated[
    bool, typer.Option("--force", help="Replace files in DIR that were edited, or that no bundle wrote.")
]

SCALAR, NAMED = 0.5, 3  # a kernel is scalar if more of its operations are; how many are named


def compile(
    model: arg.ModelFile,
    output: Directory = None,
    name: Name = None,
    api: ApiName = "direct",
    target: arg.TargetName = "native",
    cc: arg.Compiler = None,
    cflags: arg.Flags = None,
    define: arg.Defines = None,
    fix: arg.Fixed = None,
    capacity: arg.Capacities = None,
    string_bytes: arg.StringBytes = 64,
    state: arg.States = None,
    infer_shapes: arg.InferShapes = False,
    seed_input: arg.SeedInput = False,
    weights: Weights = None,
    cpu: Cpu = None,
    features: Features = None,
    float_abi: FloatAbi = None,
    relocation: Relocation = None,
    code_model: CodeModel = None,
    max_ram: MaxRam = None,
    max_flash: MaxFlash = None,
    memory: Memory = None,
    flash: Flash = None,
    emit: EmitList = None,
    rename: Rename = None,
    inputs: arg.Feeds = None,
    outputs: arg.Fetches = None,
    model_inputs: arg.ModelInputs = None,
    threads: Threads = False,
    package: Package = None,
    prebuilt: Prebuilt = False,
    math: arg.Arithmetic = "standard",
    activations: arg.Activations = "float",
    huffman: arg.Huffman = False,
    tuning: arg.TuningFile = None,
    strict_speed: StrictSpeed = False,
    profile: quant.AnyProfile = None,
    schema: quant.SchemaName = "asymmetric",
    calibration: quant.CalibrationName = "mse",
    precision: quant.PrecisionName = "int8",
    bias_precision: quant.BiasName = "int32",
    per_tensor: quant.PerTensor = False,
    keep_float: quant.KeepFloat = None,
    edge: quant.EdgeName = "float",
    assert_all: quant.AssertAll = False,
    no_bias_correction: quant.NoCorrection = False,
    no_equalize: quant.NoEqualize = False,
    rounding: quant.Rounds = "nearest",
    max_drop: quant.MaxDrop = None,
    data: quant.Evidence = None,
    labels: quant.Labels = None,
    force: Force = False,
    as_json: arg.Json = False,
) -> None:
    """Compile a model to a bundle: C, header, weights, object, manifest."""
    wanted = arg.options(
        target,
        define,
        cc,
        cflags,
        capacity=capacity,
        fix=fix,
        string_bytes=string_bytes,
        state=state,
        infer_shapes=infer_shapes,
        seed_input=seed_input,
        name=name,
        api=api,
        emit=arg.parse_emit(emit),
        weights=weights,
        cpu=cpu,
        features=tuple(f for f in (features or "").split(",") if f),
        float_abi=float_abi,
        relocation=relocation,
        code_model=code_model,
        max_ram=arg.parse_bytes(max_ram, "--max-ram"),
        max_flash=arg.parse_bytes(max_flash, "--max-flash"),
        memory=arg.parse_regions(memory, "--memory", "ram"),
        flash=arg.parse_regions(flash, "--flash", "flash"),
        rename=arg.parse_rename(rename),
        **arg.edges(inputs, outputs, model_inputs),
        threads=threads,
        tuning=tuning,
        math=math,
        activations=activations,
        huffman=huffman,
        strict_speed=strict_speed,
    )
    if prebuilt and package != "kbuild":
        raise InputError("--prebuilt says how a kernel module is made", remedy="add --package kbuild")
    wish = quant.scheme(
        schema=schema,
        calibration=calibration,
        precision=precision,
        bias_precision=bias_precision,
        per_tensor=per_tensor,
        keep_float=keep_float,
        edge=edge,
        assert_all=assert_all,
        no_bias_correction=no_bias_correction,
        no_equalize=no_equalize,
        rounding=rounding,
        max_drop=max_drop,
    )
    source, wanted = quant.quantized_first(model, profile, wish, wanted, data, labels)
    bundle = packaged(source, wanted, package, prebuilt) if package else compiled(source, wanted)
    directory = bundle.save(output or Path(bundle.name), force=force)
    files = {file: len(content) for file, content in sorted(bundle.files.items())}
    summary = {"directory": str(directory), "files": files, "manifest": bundle.manifest}
    written = table(f"{directory}/", ("file", "bytes>"), files.items())
    report(summary, as_json, written, cost_table(bundle.manifest))


def compiled(model: Path | bytes, wanted: Options) -> Bundle:
    """The bundle of a model, with a progress bar."""
    with progress(f"Compiling {_title(model, wanted)}"):
        from ingot.driver import compile_with

        return compile_with(model, wanted)


def _title(model: Path | bytes, wanted: Options) -> str:
    return model.name if isinstance(model, Path) else str(wanted.name)


def packaged(model: Path | bytes, wanted: Options, kind: str, prebuilt: bool) -> Bundle:
    """A package of a model, with a progress bar."""
    with progress(f"Compiling {_title(model, wanted)}"):
        from ingot.driver import compile_with
        from ingot.packaging.kbuild import kbuild
        from ingot.packaging.project import project

        if kind == "kbuild":
            return kbuild(model, wanted, compile_with, prebuilt)
        return project(model, wanted, compile_with, kind)


def loaded(model_or_directory: Path, wanted: Options) -> Bundle:
    """The bundle in a directory or of a manifest, or the one that a model compiles to."""
    if not is_bundle(model_or_directory):
        return compiled(model_or_directory, wanted)
    from ingot.bundle.bundle import load

    return load(model_or_directory)


def is_bundle(path: Path) -> bool:
    """Whether a path is that of a bundle: its directory, or its manifest where there are several."""
    from ingot.frontends.canonical import is_foreign

    return path.suffix == ".json" or (path.is_dir() and not is_foreign(path))


def _region_rows(manifest: dict[str, Any]) -> Iterator[tuple[str, int, str]]:
    """RAM and flash by region."""
    for r in manifest.get("memory", ()):
        state = f", {r['state_bytes']:,} of state" if r["state_bytes"] else ""
        yield f"RAM in {r['name']}", r["arena_bytes"] + r["state_bytes"], f"of {r['room_bytes']:,}{state}"
    for r in manifest.get("flash", ()):
        code = f", {r['code_bytes']:,} of code" if r["code_bytes"] else ""
        yield f"flash in {r['name']}", r["weights_bytes"] + r["code_bytes"], f"of {r['room_bytes']:,}{code}"


def cost_table(manifest: dict[str, Any]) -> Table:
    """What the bundle costs, as its manifest says."""
    from ingot.targets.records import find

    sizes, kernels = manifest["sizes"], manifest["kernels"]
    scalar = [k["name"] for k in kernels if k["scalar_share"] > SCALAR]
    rows = [
        ("flash", sizes["flash_bytes"], f"of which weights {sizes['weights_bytes']:,}"),
        ("RAM (arena)", sizes["arena_bytes"], f"no plan needs less than {sizes['arena_bound_bytes']:,}"),
        *_region_rows(manifest),
        ("stack", sizes["stack_bytes"], "" if sizes["stack_bytes"] is not None else "unknown"),
        ("MACs", sum(k["macs"] for k in kernels), f"in {len(kernels)} kernel calls"),
    ]
    if any(find(name).vector_bytes for name in manifest["target"].split("+")):
        named = ", ".join(scalar[:NAMED]) + (" ..." if scalar[NAMED:] else "")
        rows.append(("scalar kernels", len(scalar), named))
    return table(f"{manifest['name']} on {manifest['target']}", ("cost", "bytes>", ""), rows)
