"""`ingot.toml`: the model and the options of a project, and `ingot init`, which writes one.

In: a file in the current folder. Out: defaults of the command line. A command without MODEL reads it; what is
typed goes before what the file says. `ingot compile` takes all of it; other commands take the model and what
says how it is read and compiled.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import msgspec
import typer
from typer.core import TyperCommand

from ingot.cli import arguments as arg
from ingot.cli.show import note, progress, write_text
from ingot.errors import InputError
from ingot.files import read_toml
from ingot.options import (
    Activations,
    Api,
    CodeModel,
    Emit,
    FloatAbi,
    Math,
    Optimize,
    Package,
    Relocation,
    Weights,
)
from ingot.quantization.scheme import BiasPrecision, Edge, Precision, Rounding, Schema

FILE = Path("ingot.toml")
Size: TypeAlias = int | str
Sizes: TypeAlias = str | dict[str, Size]


class Quantize(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, rename="kebab"):
    """The table `[quantize]`: what `ingot quantize` takes; `profile` is what `ingot profile` wrote."""

    profile: str | None = None
    schema: Schema | None = None
    calibration: str | None = None
    precision: Precision | None = None
    bias_precision: BiasPrecision | None = None
    per_tensor: bool | None = None
    keep_float: list[str] | None = None
    io: Edge | None = None
    assert_all_quantized: bool | None = None
    no_bias_correction: bool | None = None
    no_equalize: bool | None = None
    rounding: Rounding | None = None
    max_drop: str | None = None
    data: list[str] | None = None
    labels: str | None = None


class Common(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, rename="kebab"):
    """How a model is read and compiled: what every command takes that compiles."""

    target: str | None = None
    cc: str | None = None
    cflags: list[str] | None = None
    define: dict[str, int | str] | None = None
    fix: dict[str, Any] | None = None
    capacity: dict[str, int | str] | None = None
    string_bytes: int | None = None
    state: dict[str, str] | None = None
    infer_shapes: bool | None = None
    seed_input: bool | None = None
    inputs: list[str] | None = None
    outputs: list[str] | None = None
    model_input: list[str] | None = None
    math: Math | None = None
    activations: Activations | None = None
    huffman: bool | None = None
    tuning: str | None = None


class Project(Common, forbid_unknown_fields=True, omit_defaults=True, rename="kebab"):
    """All that the file may hold, under the names of the command line's options."""

    model: str | None = None
    with_: list[str] | None = msgspec.field(default=None, name="with")
    output: str | None = None
    name: str | None = None
    api: Api | None = None
    weights: Weights | None = None
    cpu: str | None = None
    features: list[str] | None = None
    float_abi: FloatAbi | None = None
    relocation_model: Relocation | None = None
    code_model: CodeModel | None = None
    max_ram: Size | None = None
    max_flash: Size | None = None
    memory: Sizes | None = None
    flash: Sizes | None = None
    emit: list[Emit] | None = None
    rename: dict[str, str] | None = None
    threads: bool | None = None
    selftest: bool | None = None
    package: Package | None = None
    prebuilt: bool | None = None
    strict_speed: bool | None = None
    optimize: Optimize | None = None
    quantize: Quantize = msgspec.field(default_factory=Quantize)


COMMON = frozenset(f.encode_name for f in msgspec.structs.fields(Common))
LISTED = ("features", "emit", "memory", "flash")
"""Options that are one word with commas."""


def read_project(path: Path) -> Project:
    """Return what a project's file holds. Raises InputError for what is no TOML, or says nothing known."""
    document = read_toml(path)
    _require_known(path, document, Project, "")
    quantize = document.get("quantize")
    if isinstance(quantize, dict):
        _require_known(path, quantize, Quantize, "[quantize] ")
    try:
        return msgspec.convert(document, Project)
    except msgspec.ValidationError as error:
        reason, _, place = str(error).partition(" - at `$.")
        raise InputError(f"{path}: {place.rstrip('`')}: {reason[0].lower()}{reason[1:]}") from None


def _require_known(path: Path, table: Mapping[str, Any], schema: type[msgspec.Struct], where: str) -> None:
    """InputError for a key that says nothing, with the nearest that does."""
    known = [f.encode_name for f in msgspec.structs.fields(schema)]
    for key in table:
        if key not in known:
            near = difflib.get_close_matches(key.replace("_", "-"), known, 1)
            remedy = f"did you mean {near[0]!r}?" if near else f"it may hold {', '.join(known)}"
            raise InputError(f"{path}: {where}{key!r} is not an option of a project", remedy=remedy)


def typed(project: Project, command: str) -> dict[str, Any]:
    """Return what the project says as values of the options of a command, by their names."""
    given = {**msgspec.to_builtins(project)}
    quantize = given.pop("quantize", {})
    if command not in ("compile", "quantize"):
        quantize = {}
    if command != "compile":
        given = {name: value for name, value in given.items() if name in COMMON}
    return {name: _words(name, value) for name, value in (given | quantize).items()}


def _words(name: str, value: Any) -> Any:
    """A value as it is typed."""
    if isinstance(value, dict):
        sign = ":" if name in LISTED else "="
        value = [f"{key}{sign}{_word(each)}" if key else _word(each) for key, each in value.items()]
    if isinstance(value, list):
        return ",".join(value) if name in LISTED else [_word(each) for each in value]
    return value if isinstance(value, bool) else _word(value)


def _word(value: Any) -> str:
    if isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()


class ProjectCommand(TyperCommand):
    """A command that reads the project's file where no MODEL is typed."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        model = next((p for p in self.params if _metavar(p).startswith("MODEL")), None)
        is_help = bool({"--help", "-h"} & set(args))
        if model is not None and self.name != "init" and not is_help and not self._is_typed(ctx, args, model):
            if FILE.is_file():
                args = self._from_project(ctx, args)
            elif model.required:
                remedy = "name one, or write an ingot.toml that does: ingot init MODEL"
                raise InputError(f"there is no {_metavar(model)}", remedy=remedy)
        return super().parse_args(ctx, args)

    def _is_typed(self, ctx: Any, args: list[str], model: Any) -> bool:
        """Return whether the words have a model: one word or, where several may be named, a tuple of them."""
        given = self.make_parser(ctx).parse_args(list(args))[0].get(model.name)
        return isinstance(given, (str, tuple)) and bool(given)

    def _from_project(self, ctx: Any, args: list[str]) -> list[str]:
        """Return the words with the model of the project's file, whose options become defaults."""
        project = read_project(FILE)
        if project.model is None:
            raise InputError(f"{FILE} names no model", remedy='add model = "FILE" at its top')
        ctx.default_map = dict(self._defaults(typed(project, self.name or "")))
        return [*args, "--", project.model] if "--" not in args else [*args, project.model]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Show MODEL as an argument that may be left out: ingot.toml may name it."""
        for parameter in self.params:
            if _metavar(parameter).startswith("MODEL"):
                parameter.required = False
        super().format_help(ctx, formatter)

    def _defaults(self, given: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        """The parameters of this command that the options are called by."""
        for parameter in self.params:
            flags = {opt.removeprefix("--") for opt in parameter.opts}
            found = flags & given.keys()
            if found and parameter.name is not None and "data" not in flags - found:
                yield parameter.name, given[found.pop()]


def _metavar(parameter: Any) -> str:
    return getattr(parameter, "metavar", None) or ""


Model = Annotated[
    Path | None, typer.Argument(metavar="MODEL", help="The project's model.", show_default=False)
]
Force = Annotated[bool, typer.Option("--force", help="Replace an existing ingot.toml.")]


def init(model: Model = None, target: arg.TargetName = "native", force: Force = False) -> None:
    """Write an ingot.toml with the model and the options of a project."""
    from ingot.targets.records import find_all

    find_all(target)
    if os.path.lexists(FILE) and not force:
        raise InputError(f"{FILE} exists", remedy="edit it, or replace it with --force")
    dimensions = () if model is None else _dimensions(model)
    write_text(FILE, _template(model, target, dimensions))
    note("`ingot compile`, `ingot verify` and the others read it where no MODEL is given")


def _dimensions(model: Path) -> tuple[str, ...]:
    """The names of dimensions that are free. Raises InputError for what is no model."""
    with progress(f"Reading {model.name}"):
        from ingot.frontends.canonical import canonical
        from ingot.frontends.onnx import read_proto
        from ingot.inspection.declared import declared
        from ingot.options import Options

        return declared(read_proto(canonical(model, Options()))).dimensions


def _template(model: Path | None, target: str, dimensions: tuple[str, ...]) -> str:
    """The text of a new file: what is set, and what could be."""
    name = "model.onnx" if model is None else str(model)
    sizes = [f"{_word(d)} = 1" if d.isidentifier() else f"{_quoted(d)} = 1" for d in dimensions] or [
        "# N = 1"
    ]
    return "\n".join(
        [
            "# The options of this project; `ingot compile --help` explains each.",
            f"model = {_quoted(name)}",
            '# output = "build"',
            f"target = {_quoted(target)}",
            '# api = "direct"',
            '# emit = ["c", "obj"]',
            '# math = "exact"',
            '# max-ram = "96K"',
            '# max-flash = "1M"',
            "",
            '[define]  # dimensions: a number, or a range as in "1..8"',
            *sizes,
            "",
            "# [quantize]",
            '# profile = "profile.yaml"  # of `ingot profile`',
            '# keep-float = ["Softmax"]',
            "",
        ]
    )


def _quoted(text: str) -> str:
    """A basic string of TOML, which JSON's is."""
    return msgspec.json.encode(text).decode()
