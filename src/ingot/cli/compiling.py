"""`ingot compile`: a model in, a bundle's directory out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ingot.cli import arguments as arg
from ingot.cli import quantizing as quant
from ingot.cli.show import note, progress, report
from ingot.errors import InputError
from ingot.options import Api, Options, fields_of
from ingot.options import Package as PackageName
from ingot.tables import table

if TYPE_CHECKING:
    from ingot.bundle.bundle import Bundle

Others = Annotated[
    list[Path] | None,
    typer.Option(
        "--with",
        metavar="MODEL",
        help="Add a model to the bundle (give --name); the models share functions and an arena.",
        rich_help_panel=arg.WRITING,
    ),
]
Directory = Annotated[
    Path | None,
    typer.Option(
        "-o",
        "--output",
        metavar="DIR",
        help="The directory of the bundle (default: the bundle's name)",
        rich_help_panel=arg.WRITING,
    ),
]
Name = Annotated[
    str | None,
    typer.Option(help="The bundle's name in C (default: the file's name)", rich_help_panel=arg.WRITING),
]
ApiName = Annotated[Api, typer.Option(help="The calling convention.", rich_help_panel=arg.CALLING)]
Weights = Annotated[
    Literal["embedded", "external"] | None,
    typer.Option(
        help="In the object, or passed by the caller (default: depends on --api).",
        rich_help_panel=arg.CALLING,
    ),
]
Relocation = Annotated[
    Literal["static", "pic"] | None,
    typer.Option(
        "--relocation-model",
        help="Position-independent code or not (default: the target's)",
        rich_help_panel=arg.TARGET,
    ),
]
Cpu = Annotated[
    str | None,
    typer.Option(
        "--cpu", help="A processor of the target, by its name in the compiler.", rich_help_panel=arg.TARGET
    ),
]
Features = Annotated[
    str | None,
    typer.Option(
        "--features",
        metavar="LIST",
        help="Instruction sets to add or remove: +avx512fp16,-fma.",
        rich_help_panel=arg.TARGET,
    ),
]
FloatAbi = Annotated[
    Literal["hard", "softfp", "soft"] | None,
    typer.Option(
        "--float-abi", help="For 32-bit Arm: how functions pass floats.", rich_help_panel=arg.TARGET
    ),
]
CodeModel = Annotated[
    Literal["tiny", "small", "kernel", "medium", "large"] | None,
    typer.Option("--code-model", help="The distance between code and data.", rich_help_panel=arg.TARGET),
]
MaxRam = Annotated[
    str | None,
    typer.Option(
        "--max-ram",
        metavar="BYTES",
        help="The RAM that is available: 96K, 1M. Layers are computed row by row if necessary; a bundle "
        "that still does not fit is refused.",
        rich_help_panel=arg.MEMORY,
    ),
]
MaxFlash = Annotated[
    str | None,
    typer.Option(
        "--max-flash",
        metavar="BYTES",
        help="Refuse a bundle that needs more flash: 256K, 1M.",
        rich_help_panel=arg.MEMORY,
    ),
]
Memory = Annotated[
    str | None,
    typer.Option(
        "--memory",
        metavar="REGIONS",
        help="Regions of RAM for tensors, fastest first: tcm:64K,sram:256K.",
        rich_help_panel=arg.MEMORY,
    ),
]
Flash = Annotated[
    str | None,
    typer.Option(
        "--flash",
        metavar="REGIONS",
        help="Regions of flash, fastest first: 1M, or flash:1M,qspi:8M.",
        rich_help_panel=arg.MEMORY,
    ),
]
EmitList = Annotated[
    str | None,
    typer.Option(
        metavar="LIST",
        help="The kinds of files, separated by commas: c, obj, lib, shared, weights-bin, weights-txt, main, "
        "module (default: c,obj,weights-bin; also weights-txt for external weights, and module for "
        "WebAssembly)",
        rich_help_panel=arg.WRITING,
    ),
]
Threads = Annotated[
    bool,
    typer.Option(
        help="Pass a parallel_for function of the caller to the entry function.", rich_help_panel=arg.CALLING
    ),
]
SelfTest = Annotated[
    bool,
    typer.Option(
        "--selftest",
        help="Add NAME_selftest(), which runs golden inputs and finds the first layer that differs.",
        rich_help_panel=arg.WRITING,
    ),
]
Package = Annotated[
    PackageName | None,
    typer.Option(
        help="Write a package that users of this ecosystem can build; kbuild is a Linux kernel module.",
        rich_help_panel=arg.WRITING,
    ),
]
Prebuilt = Annotated[
    bool,
    typer.Option(help="For a kernel module: ship objects instead of their C.", rich_help_panel=arg.WRITING),
]
Rename = Annotated[
    list[str] | None,
    typer.Option(
        metavar="A=B", help="Give the tensor A the name B in the header.", rich_help_panel=arg.WRITING
    ),
]

StrictSpeed = Annotated[
    bool,
    typer.Option(
        "--strict-speed",
        help="Refuse kernels that do not use the target's vectors.",
        rich_help_panel=arg.TARGET,
    ),
]
Force = Annotated[
    bool,
    typer.Option(
        "--force",
        help="Replace files in the directory that were edited or that are not part of a bundle.",
        rich_help_panel=arg.WRITING,
    ),
]

NAMED = 4  # names that a note lists


def compile(
    model: arg.ModelFile,
    others: Others = None,
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
    selftest: SelfTest = False,
    package: Package = None,
    prebuilt: Prebuilt = False,
    optimize: arg.Priority = "speed",
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
        selftest=selftest,
        tuning=tuning,
        optimize=optimize,
        math=math,
        activations=activations,
        huffman=huffman,
        strict_speed=strict_speed,
    )
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
    if others:
        _several([model, *others], wanted, output, force, as_json, profile is not None or package is not None)
        return
    source, wanted = quant.quantized_first(model, profile, wish, wanted, data, labels)
    with progress(f"Compiling {model.name}"):
        from ingot.api.compiling import compile as compiled

        bundle = compiled(source, package=package, prebuilt=prebuilt, **fields_of(wanted))
        directory = bundle.save(output or Path(bundle.name), force=force)
    summary = {"directory": str(directory), **bundle.as_dict()}
    files = [(file, len(content)) for file, content in sorted(bundle.files.items())]
    report(summary, as_json, table(f"{directory}/", ("file", "bytes>"), files), *bundle.tables())
    _say_names(bundle, wanted)


def _several(
    models: list[Path], wanted: Options, output: Path | None, force: bool, as_json: bool, is_more: bool
) -> None:
    """Compile several models to one bundle."""
    if is_more:
        raise InputError(
            "--with: several models are compiled as they are, to no package",
            remedy="ingot quantize writes the model to compile; leave out --profile and --package",
        )
    with progress(f"Compiling {len(models)} models"):
        from ingot.api.compiling import compile_several

        made = compile_several(models, **fields_of(wanted))
        directory = made.save(output or Path(made.name), force=force)
    summary = {"directory": str(directory), **made.as_dict()}
    files = [(file, len(content)) for file, content in sorted(made.files.items())]
    report(summary, as_json, table(f"{directory}/", ("file", "bytes>"), files), *made.tables())


def _say_names(bundle: Bundle, wanted: Options) -> None:
    """What is called otherwise in C."""
    if wanted.name not in (None, bundle.name):
        note(f"the bundle is called {bundle.name}: {wanted.name!r} is no name in C, or one of its own")
    renamed = [
        f"{t['name']!r} is called {t['symbol']}"
        for side in ("inputs", "outputs")
        for t in bundle.manifest[side]
        if t["symbol"] != wanted.rename.get(t["name"], t["name"])
    ]
    if renamed:
        more = f" and {len(renamed) - NAMED} more" if len(renamed) > NAMED else ""
        note(f"in C, {', '.join(renamed[:NAMED])}{more}; --rename A=B chooses other names")


def loaded(model_or_directory: Path, wanted: Options) -> Bundle:
    """The bundle in a directory or of a manifest, or the one that a model compiles to."""
    with progress(f"Compiling {model_or_directory.name}"):
        from ingot.api.subjects import bundle_of

        return bundle_of(model_or_directory, wanted)


def is_bundle(path: Path) -> bool:
    """Whether a path is that of a bundle; see `ingot.api`."""
    from ingot.api import subjects

    return subjects.is_bundle(path)
