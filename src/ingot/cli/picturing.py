"""Options for images that several commands share, and what they make of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ingot.cli import arguments as arg
from ingot.errors import InputError

if TYPE_CHECKING:
    from ingot.data.images import Preprocessing
    from ingot.data.samples import Input
    from ingot.formula.expr import Array

Image = Annotated[
    list[str] | None,
    typer.Option(
        "--image",
        metavar="[NAME=]FILE",
        help="A PNG, JPEG, PPM or BMP file for the image input; repeat it for a batch.",
        rich_help_panel=arg.DATA,
    ),
]
Images = Annotated[
    Path | None,
    typer.Option(
        "--images",
        metavar="DIR",
        help="Samples: the images in a folder and in its subfolders.",
        rich_help_panel=arg.DATA,
    ),
]
ImageMode = Annotated[
    Literal["0to1", "neg1to1", "0to255", "neg128to127", "imagenet"] | None,
    typer.Option(
        "--image-mode",
        help="The range of pixels; imagenet: 0 to 1, then torchvision's mean and deviation "
        "(default: 0to1; unchanged for integer inputs).",
        rich_help_panel=arg.DATA,
    ),
]
ChannelOrder = Annotated[
    Literal["RGB", "BGR"],
    typer.Option(
        "--channel-order", help="The order of channels that the model expects.", rich_help_panel=arg.DATA
    ),
]
ImageLayout = Annotated[
    Literal["NCHW", "NHWC"] | None,
    typer.Option(
        "--layout",
        help="The layout of the image (default: from the axis of the input that has 1 or 3 channels)",
        rich_help_panel=arg.DATA,
    ),
]
Mean = Annotated[
    str | None,
    typer.Option(
        metavar="A,B,C",
        help="Subtracted after the mode is applied: one number, or one per channel.",
        rich_help_panel=arg.DATA,
    ),
]
Std = Annotated[
    str | None,
    typer.Option(metavar="A,B,C", help="The divisor after the mean is subtracted.", rich_help_panel=arg.DATA),
]
Fit = Annotated[
    Literal["stretch", "crop"],
    typer.Option(
        help="For an image of another size: stretch it, or crop its middle (bilinear, antialiased).",
        rich_help_panel=arg.DATA,
    ),
]


def preprocessing(
    mode: str | None, order: str, layout: str | None, mean: str | None, std: str | None, fit: str
) -> Preprocessing:
    """What the options say, as one record. Raises InputError for numbers that are none."""
    from ingot.data.images import Preprocessing

    numbers = {"mean": _numbers("--mean", mean), "std": _numbers("--std", std)}
    return Preprocessing(mode, order, layout, fit=fit, **numbers)  # type: ignore[arg-type]  # words of the options


def _numbers(option: str, text: str | None) -> tuple[float, ...]:
    import math

    try:
        found = tuple(float(word) for word in text.split(",")) if text is not None else ()
    except ValueError:
        found = (math.nan,)
    if not all(map(math.isfinite, found)):
        raise InputError(f"{option} {text}: write numbers with commas between them")
    return found


def images_of(words: Sequence[str], inputs: Sequence[Input], how: Preprocessing) -> dict[str, Array]:
    """The arrays of --image, by their inputs. Raises InputError."""
    from ingot.data.images import image_column

    files: dict[str, list[Path]] = {}
    for word in words:
        name = max((i.name for i in inputs if word.startswith(f"{i.name}=")), key=len, default="")
        files.setdefault(name, []).append(Path(word[len(name) + 1 :] if name else word))
    found: dict[str, Array] = {}
    for name, paths in files.items():
        column = image_column([i for i in inputs if name in ("", i.name)], paths, how)
        if column.count != column.per_run:
            raise InputError(f"the model takes {column.per_run} images at once, {column.count} are given")
        found[column.input.name] = column.read(0)
    return found
