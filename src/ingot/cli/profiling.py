"""`ingot profile`: representative data through a float model, and what its tensors hold as a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ingot.cli import arguments as arg
from ingot.cli import picturing as pic
from ingot.cli.show import note, progress, report
from ingot.errors import InputError
from ingot.options import fields_of

if TYPE_CHECKING:
    from ingot.check.calibrate import Profiled
    from ingot.options import Options
    from ingot.quantization.profile import Profile

NAMED = 5  # tensors that a note lists
Model = Annotated[
    Path | None,
    typer.Argument(metavar="MODEL", help="The float model (not with --merge).", show_default=False),
]
Merge = Annotated[
    list[Path] | None,
    typer.Option("--merge", metavar="FILE", help="Merge several profiles of one model (repeat the option)."),
]
Glow = Annotated[
    Path | None,
    typer.Option(
        "--glow", metavar="FILE", help="Convert a profile that Glow wrote, instead of running data."
    ),
]
Output = Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="The profile to write.")]
Workers = Annotated[
    int,
    typer.Option("--workers", min=1, max=256, help="The number of processes; it does not affect the result."),
]
Dask = Annotated[
    str | None, typer.Option("--dask", metavar="ADDRESS", help="Use a Dask scheduler instead of processes.")
]


def profile(
    model: Model = None,
    merge: Merge = None,
    data: arg.Data = None,
    images: pic.Images = None,
    image_mode: pic.ImageMode = None,
    channel_order: pic.ChannelOrder = "RGB",
    layout: pic.ImageLayout = None,
    mean: pic.Mean = None,
    std: pic.Std = None,
    fit: pic.Fit = "stretch",
    glow: Glow = None,
    output: Output = Path("profile.yaml"),
    workers: Workers = 1,
    dask: Dask = None,
    define: arg.Defines = None,
    fix: arg.Fixed = None,
    model_inputs: arg.ModelInputs = None,
    capacity: arg.Capacities = None,
    string_bytes: arg.StringBytes = 64,
    as_json: arg.Json = False,
) -> None:
    """Record the range and a histogram of every float tensor over representative data.

    `ingot quantize` and `ingot compile --profile` choose ranges from this profile.
    """
    if (model is None) == (not merge):
        raise InputError("give a model and its data, or --merge with profiles of one model")
    if merge:
        made = _merged(merge)
    else:
        assert model is not None
        more: dict[str, Any] = {"fix": fix, "model_inputs": tuple(model_inputs or ())}
        wanted = arg.options("native", define, capacity=capacity, string_bytes=string_bytes, **more)
        if glow is not None:
            return _write(output, _from_glow(glow, model, wanted), as_json)
        how = pic.preprocessing(image_mode, channel_order, layout, mean, std, fit)
        with progress(f"Profiling {model.name}"):
            from ingot.api.shrinking import profiled

            found = profiled(
                model,
                data or [],
                images=images,
                preprocessing=how,
                workers=workers,
                dask=dask,
                **fields_of(wanted),
            )
        _say(found)
        made = found.profile
    _write(output, made, as_json)


def _write(path: Path, made: Profile, as_json: bool) -> None:
    made.save(path)
    note(f"wrote {path}")
    report(made.as_dict(), as_json, *made.tables())


def _from_glow(path: Path, model: Path, wanted: Options) -> Profile:
    """A profile of Glow's as ours; what fits no tensor is said."""
    from ingot.check.calibrate import subject
    from ingot.quantization.glow_profile import read_glow_profile

    made, unknown = read_glow_profile(path, subject(model, wanted).proto)
    if unknown:
        more = f", and {len(unknown) - NAMED} more" if len(unknown) > NAMED else ""
        note(f"warning: no tensor of the model is called {', '.join(unknown[:NAMED])}{more}: left out")
    return made


def _merged(paths: Sequence[Path]) -> Profile:
    from ingot.quantization.profile import merged, read_profile

    return merged(read_profile(path) for path in paths)


def _say(found: Profiled) -> None:
    """What the numbers do not show."""
    if found.left_out:
        note(f"{found.left_out} samples at the end are fewer than the model takes at once: left out")
    if found.dropped:
        count, first = sum(found.dropped.values()), list(found.dropped)[:NAMED]
        more = f", and {len(found.dropped) - NAMED} more tensors" if len(found.dropped) > NAMED else ""
        note(f"warning: {count:,} elements are not finite and left out, of {', '.join(first)}{more}")
