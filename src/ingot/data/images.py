"""Image files as a model's input: decoded, resized, and normalised as the model was trained.

In: PNG, JPEG, PPM or BMP files, a `Preprocessing`, an input of a model. Out: arrays of the input's shape and
type. Called by `ingot run --image`, `ingot profile --images` and `ingot evaluate --images`.

Everything is done on 8 bits for each channel: 16 are scaled down, palettes looked up, transparency is
dropped. A model of one channel sees ITU-R 601 luma; one of three sees a grey image three times. An image of
another size is resampled bilinearly over the area that a pixel covers (Pillow's antialiased BILINEAR).
"""

from __future__ import annotations

import io
import struct
import warnings
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ingot.data.samples import Data, Input, Samples, joined, open_samples
from ingot.errors import InputError
from ingot.files import read_file

if TYPE_CHECKING:
    from ingot.formula.expr import Array

Mode = Literal["0to1", "neg1to1", "0to255", "neg128to127", "imagenet"]
Order = Literal["RGB", "BGR"]
Layout = Literal["NCHW", "NHWC"]
Fit = Literal["stretch", "crop"]
SUFFIXES = (".png", ".jpg", ".jpeg", ".ppm", ".pgm", ".pnm", ".bmp")
FORMATS = ("PNG", "JPEG", "PPM", "BMP")
FILE_BYTES = 1 << 28
PIXELS = 1 << 26
PLAIN, PLAIN_BYTES = (b"P1", b"P2", b"P3"), 1 << 24  # numbers in digits: seconds of reading
SCAN, SCANNED = b"\xff\xda", 1 << 30  # a progressive JPEG has ten scans, each of which touches every pixel
IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # mean and deviation of RGB in 0 to 1
INTEGERS: dict[str, Mode] = {"uint8": "0to255", "int8": "neg128to127"}
_FAILURES = (OSError, SyntaxError, ValueError, EOFError, struct.error, zlib.error, LookupError, TypeError)


@dataclass(frozen=True, slots=True)
class Preprocessing:
    """How pixels from 0 to 255 become the values of an input.

    Without a `mode`, pixels become 0 to 1, or stay as they are for integer inputs. `mean` and `std` apply
    after the mode, as (x - mean) / std: one number, or one for each channel in the model's order. Without a
    `layout`, the shape of the input decides.
    """

    mode: Mode | None = None
    order: Order = "RGB"
    layout: Layout | None = None
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    fit: Fit = "stretch"


AS_THEY_ARE = Preprocessing()


@dataclass(frozen=True, slots=True)
class Frame:
    """How an input lies: channels, and height and width, which None leaves to the image."""

    layout: Layout
    channels: int
    height: int | None
    width: int | None


@dataclass(frozen=True)
class ImageColumn:
    """Image files as samples of one input."""

    input: Input
    paths: tuple[Path, ...]
    how: Preprocessing

    @property
    def count(self) -> int:
        return len(self.paths)

    @property
    def per_run(self) -> int:
        return self.input.batch if len(self.input.shape) == 4 else 1

    def read(self, run: int) -> Array:
        import numpy as np

        first = run * self.per_run
        taken = [self.paths[min(i, self.count - 1)] for i in range(first, first + self.per_run)]
        images = [image_array(path, self.input, self.how) for path in taken]
        if len({i.shape for i in images}) > 1:
            raise InputError(f"the images up to {taken[-1]} differ in size, and the model leaves it open")
        return np.stack(images) if len(self.input.shape) == 4 else images[0]


def image_column(inputs: Sequence[Input], paths: Sequence[Path], how: Preprocessing) -> ImageColumn:
    """Return the column of the input that is an image. Raises InputError where none is, or several are."""
    able = [i for i in inputs if _is_image(i)]
    if len(able) != 1:
        listed = ", ".join(f"{i.name!r} {'x'.join(map(str, i.shape))} {i.dtype}" for i in inputs) or "none"
        what = "no input of the model is an image" if not able else "several inputs of the model are images"
        raise InputError(f"{what}; its inputs: {listed}", remedy="feed arrays, as --input or --inputs")
    frame_of(able[0], how.layout)
    _require_mode(able[0], how)
    return ImageColumn(able[0], tuple(paths), how)


def image_files(folder: Path) -> list[Path]:
    """Return the images of a folder and of those in it, in the order of their names. Raises InputError."""
    if not folder.is_dir():
        raise InputError(
            f"{folder} is not a folder of images", remedy="give a folder with PNG, JPEG, PPM or PGM files"
        )
    found = sorted(p for p in folder.rglob("*") if p.suffix.lower() in SUFFIXES and p.is_file())
    if not found:
        raise InputError(f"{folder} holds no images", remedy=f"files are recognised by {', '.join(SUFFIXES)}")
    return found


def _is_image(input: Input) -> bool:
    inner = input.shape[-3:]
    return len(input.shape) in (3, 4) and (inner[0] in (1, 3) or inner[2] in (1, 3))


def frame_of(input: Input, layout: Layout | None) -> Frame:
    """Return how an input lies, from its shape: one or three channels in front or last. Raises InputError."""
    inner = input.shape[-3:]
    ends: tuple[tuple[Layout, int | str], ...] = (("NCHW", inner[0]), ("NHWC", inner[2]))
    able = [name for name, n in ends if n in (1, 3)]
    if layout is None and len(able) == 1:
        layout = able[0]
    shape = "x".join(map(str, input.shape))
    if layout is None:
        raise InputError(f"input {input.name!r} is {shape}: NCHW or NHWC?", remedy="say it with --layout")
    if layout not in able:
        raise InputError(f"input {input.name!r} is {shape}, which has no channels of an image as {layout}")
    sizes = (inner[0], *inner[1:]) if layout == "NCHW" else (inner[2], *inner[:2])
    channels, *area = sizes
    assert isinstance(channels, int)
    height, width = (n if isinstance(n, int) else None for n in area)
    return Frame(layout, channels, height, width)


def _require_mode(input: Input, how: Preprocessing) -> None:
    """Raise InputError where integers are asked to be fractions, or numbers do not fit the channels."""
    if input.dtype in INTEGERS and (how.mode not in (None, INTEGERS[input.dtype]) or how.mean or how.std):
        only = INTEGERS[input.dtype]
        raise InputError(f"input {input.name!r} is {input.dtype}: it takes --image-mode {only}, nothing else")
    if input.dtype not in (*INTEGERS, "float32", "float16", "bfloat16", "float64"):
        raise InputError(f"input {input.name!r} is {input.dtype}, which no image mode gives")
    channels = frame_of(input, how.layout).channels
    for option, numbers in (("--mean", how.mean), ("--std", how.std)):
        if len(numbers) not in (0, 1, channels):
            raise InputError(f"{option} has {len(numbers)} numbers, the model {channels} channels")
    if not all(how.std):
        raise InputError("--std 0 divides by nothing")


def image_array(path: Path, input: Input, how: Preprocessing) -> Array:
    """Return one image as the model takes it, without the batch axis. Raises InputError."""
    import numpy as np

    from ingot.formula.types import dtype_named

    frame = frame_of(input, how.layout)
    pixels = decode(path, frame, how.fit)
    x = _normalised(pixels, INTEGERS.get(input.dtype, how.mode or "0to1"))
    x = x[..., ::-1] if how.order == "BGR" else x
    if how.mean or how.std:
        x = (x - np.array(how.mean or 0.0)) / np.array(how.std or 1.0)
    x = x.transpose(2, 0, 1) if frame.layout == "NCHW" else x
    return np.ascontiguousarray(x).astype(dtype_named(input.dtype).numpy)


def _normalised(pixels: Array, mode: Mode) -> Array:
    """Channels-last pixels 0 to 255 as float64 numbers in the range of the mode."""
    import numpy as np

    x = pixels.astype(np.float64)
    match mode:
        case "0to255":
            return x
        case "neg128to127":
            return np.asarray(x - 128)
        case "0to1":
            return np.asarray(x / 255)
        case "neg1to1":
            return np.asarray(x / 127.5 - 1)
        case "imagenet":
            if x.shape[-1] != 3:
                raise InputError("--image-mode imagenet is for three channels, the model has one")
            mean, std = IMAGENET
            return np.asarray((x / 255 - mean) / std)


def decode(path: Path, frame: Frame, fit: Fit) -> Array:
    """Return the pixels of an image file, uint8 [height, width, channels]. Raises InputError."""
    import numpy as np

    try:
        from PIL import Image
    except ImportError:
        raise InputError("images are read by Pillow", remedy="pip install 'ingot[image]'") from None
    data = read_file(path, FILE_BYTES)
    if data[:2] in PLAIN and len(data) > PLAIN_BYTES:
        raise InputError(f"{path} has {len(data):,} bytes of digits; save it as a binary PPM, or as PNG")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of large images, whose limit is ours, and of odd palettes
            image = Image.open(io.BytesIO(data), formats=FORMATS)
            width, height = image.size
            if width * height > PIXELS:
                raise InputError(f"{path} has {width:,} x {height:,} pixels; at most {PIXELS:,} are decoded")
            scans = data.count(SCAN) if image.format == "JPEG" else 0
            if scans * width * height > SCANNED:
                raise InputError(
                    f"{path} goes {scans:,} times over {width:,} x {height:,} pixels; save it anew"
                )
            image.load()
            fitted = _fitted(_eight_bits(image, frame.channels), frame, fit)
    except (*_FAILURES, Image.DecompressionBombError) as error:
        reason = str(error) if not str(error).startswith("cannot identify") else "not a PNG, JPEG, PPM or BMP"
        raise InputError(f"cannot decode {path}: {reason}") from None
    pixels = np.asarray(fitted)
    return pixels.reshape(*pixels.shape[:2], frame.channels)


def _eight_bits(image: Any, channels: int) -> Any:
    """The image in 8 bits for each of one or three channels."""
    import numpy as np
    from PIL import Image

    if image.mode.startswith("I"):  # 16 bits, which `convert` would clip
        image = Image.fromarray((np.asarray(image).clip(0, 65535) / 257 + 0.5).astype(np.uint8))
    if image.mode == "P":
        image = image.convert("RGB")
    return image.convert("L" if channels == 1 else "RGB")


def _fitted(image: Any, frame: Frame, fit: Fit) -> Any:
    """The image in the model's size: stretched, or its middle, as large as fits."""
    from PIL import Image

    width, height = image.size
    wanted = (frame.width or width, frame.height or height)
    if wanted == image.size:
        return image
    box = (0.0, 0.0, float(width), float(height))
    if fit == "crop":
        scale = min(width / wanted[0], height / wanted[1])
        dx, dy = (width - scale * wanted[0]) / 2, (height - scale * wanted[1]) / 2
        box = (dx, dy, width - dx, height - dy)
    return image.resize(wanted, Image.Resampling.BILINEAR, box=box)


def samples_of(inputs: Sequence[Input], words: Data, paths: Sequence[Path], how: Preprocessing) -> Samples:
    """Return the samples in files or arrays, and those that are images. Raises InputError."""
    if not paths:
        return open_samples(words, inputs)
    column = image_column(inputs, paths, how)
    others = [i for i in inputs if i is not column.input]
    more = open_samples(words, others).columns if others else {}
    if words and not others:
        raise InputError("--images feeds the only input of the model", remedy="leave --inputs out")
    return joined({column.input.name: column, **more})
