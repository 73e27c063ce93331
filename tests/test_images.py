"""Images as inputs: every mode against its formula, every layout and order, and files that are none."""

from __future__ import annotations

import io
import json
import struct
import zlib
from pathlib import Path

import numpy as np
import onnx
import onnx.helper as oh
import pytest
from PIL import Image
from typer.testing import CliRunner

from ingot.cli import app
from ingot.data.images import Preprocessing, image_array, image_column, image_files
from ingot.data.samples import Input
from ingot.errors import InputError

RNG = np.random.default_rng(5)
PIXELS = RNG.integers(0, 256, (4, 6, 3), np.uint8)
NCHW, NHWC = Input("x", "float32", (1, 3, 4, 6)), Input("x", "float32", (1, 4, 6, 3))
MODES = {
    "0to1": PIXELS / 255,
    "neg1to1": PIXELS / 127.5 - 1,
    "0to255": PIXELS * 1.0,
    "neg128to127": PIXELS - 128.0,
    "imagenet": (PIXELS / 255 - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225],
}


@pytest.fixture(scope="module")
def png(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("images") / "a.png"
    Image.fromarray(PIXELS).save(path)
    return path


@pytest.mark.parametrize("mode", MODES)
def test_modes_layouts_and_orders(mode: str, png: Path) -> None:
    right = MODES[mode].astype(np.float32)
    for order, step in (("RGB", 1), ("BGR", -1)):
        how = Preprocessing(mode, order)  # type: ignore[arg-type]
        last, first = image_array(png, NHWC, how), image_array(png, NCHW, how)
        np.testing.assert_array_equal(last, right[..., ::step])
        np.testing.assert_array_equal(first, right[..., ::step].transpose(2, 0, 1))


def test_mean_and_deviation_are_in_the_models_order(png: Path) -> None:
    how = Preprocessing("0to255", "BGR", mean=(1.0, 2.0, 3.0), std=(2.0,))
    right = (PIXELS[..., ::-1] - [1.0, 2.0, 3.0]) / 2
    np.testing.assert_array_equal(image_array(png, NHWC, how), right.astype(np.float32))


def test_integers_take_pixels(png: Path) -> None:
    how = Preprocessing()
    as_bytes = image_array(png, Input("x", "uint8", (1, 4, 6, 3)), how)
    np.testing.assert_array_equal(as_bytes, PIXELS)
    signed = image_array(png, Input("x", "int8", (4, 6, 3)), how)
    np.testing.assert_array_equal(signed, PIXELS.astype(int) - 128)
    with pytest.raises(InputError, match="is uint8: it takes --image-mode 0to255"):
        image_column([Input("x", "uint8", (1, 4, 6, 3))], [png], Preprocessing("0to1"))


def saved(path: Path, image: Image.Image) -> Path:
    image.save(path)
    return path


def test_every_kind_of_image(tmp_path: Path) -> None:
    """Grey, palettes, alpha, 16 bits, PPM; luma for one channel."""
    grey = PIXELS[..., 0]
    one, three = Input("x", "float32", (1, 1, 4, 6)), Preprocessing("0to255")
    kinds = {
        "l.png": Image.fromarray(grey),
        "la.png": Image.fromarray(np.dstack([grey, 255 - grey]), "LA"),
        "p.png": Image.fromarray(grey).convert("P"),
        "wide.png": Image.fromarray(grey.astype(np.uint16) * 257),
        "l.pgm": Image.fromarray(grey),
        "l.bmp": Image.fromarray(grey),
        "rgb.ppm": Image.fromarray(np.dstack([grey] * 3)),
        "rgba.png": Image.fromarray(np.dstack([grey, grey, grey, 255 - grey])),
    }
    for name, image in kinds.items():
        path = saved(tmp_path / name, image)
        np.testing.assert_array_equal(image_array(path, one, three)[0], grey, name)
        np.testing.assert_array_equal(image_array(path, NCHW, three), np.stack([grey] * 3), name)
    luma = image_array(saved(tmp_path / "c.png", Image.fromarray(PIXELS)), one, three)[0]
    np.testing.assert_allclose(luma, PIXELS @ [0.299, 0.587, 0.114], atol=0.51)


def test_sizes_are_stretched_or_cropped(tmp_path: Path) -> None:
    wide = np.zeros((8, 24, 3), np.uint8)
    wide[:, 8:16] = 200
    path = saved(tmp_path / "w.png", Image.fromarray(wide))
    square = Input("x", "float32", (1, 8, 8, 3))
    cropped = image_array(path, square, Preprocessing("0to255", fit="crop"))
    assert (cropped == 200).all()
    stretched = image_array(path, square, Preprocessing("0to255"))
    assert stretched[4, 0, 0] == 0 and stretched[4, 4, 0] == 200
    free = image_array(path, Input("x", "float32", ("N", "H", "W", 3)), Preprocessing("0to255"))
    np.testing.assert_array_equal(free, wide)


NO_IMAGE = {
    "ambiguous": ([Input("x", "float32", (1, 3, 8, 3))], "NCHW or NHWC"),
    "flat": ([Input("x", "float32", (1, 784))], "no input of the model is an image; its inputs: 'x' 1x784"),
    "two": ([NCHW, NHWC], "several inputs"),
    "int64": ([Input("x", "int64", (1, 3, 8, 8))], "int64, which no image mode gives"),
}


@pytest.mark.parametrize("inputs, message", NO_IMAGE.values(), ids=NO_IMAGE)
def test_what_is_no_image_says_so(inputs: list[Input], message: str, png: Path) -> None:
    with pytest.raises(InputError, match=message):
        image_column(inputs, [png], Preprocessing())


def test_a_layout_that_is_said(png: Path) -> None:
    both = Input("x", "float32", (1, 3, 8, 3))
    assert image_array(png, both, Preprocessing(layout="NHWC")).shape == (3, 8, 3)
    with pytest.raises(InputError, match="no channels of an image as NHWC"):
        image_column([NCHW], [png], Preprocessing(layout="NHWC"))
    with pytest.raises(InputError, match="--mean has 2 numbers, the model 3 channels"):
        image_column([NCHW], [png], Preprocessing(mean=(1.0, 2.0)))


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png_of(width: int, height: int, data: bytes) -> bytes:
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def encoded(kind: str) -> bytes:
    held = io.BytesIO()
    Image.fromarray(np.kron(PIXELS, np.ones((9, 9, 1), np.uint8))).save(held, kind)
    return held.getvalue()


def scanned(times: int) -> bytes:
    """A progressive JPEG, whose last scan is repeated."""
    held = io.BytesIO()
    Image.new("L", (2048, 2048)).save(held, "JPEG", progressive=True)
    data = held.getvalue()[:-2]
    return data + data[data.rindex(b"\xff\xda") :] * times


HOSTILE = {
    "empty": (b"", "not a PNG"),
    "text": (b"hello", "not a PNG"),
    "a format that is not read": (encoded("GIF"), "not a PNG"),
    "cut PNG": (encoded("PNG")[:150], "cannot decode"),
    "cut JPEG": (encoded("JPEG")[:700], "cannot decode"),
    "a thousand scans": (scanned(1000), "goes 1,00. times over 2,048 x 2,048 pixels"),
    "seventeen megabytes of digits": (b"P3 4000 4000 255\n" + b"1 " * (17 << 19), "bytes of digits"),
    "cut PPM": (encoded("PPM")[:300], "cannot decode"),
    "a bomb": (png_of(12000, 12000, zlib.compress(bytes(10**6))), "12,000 x 12,000 pixels"),
    "a larger one": (png_of(30000, 30000, zlib.compress(bytes(10**6))), "900000000 pixels"),
    "larger than any": (png_of(2**31 - 1, 2**31 - 1, b""), "pixels|cannot decode"),
    "no size": (png_of(0, 4, zlib.compress(b"")), "cannot decode|not a PNG"),
    "garbage inside": (png_of(4, 4, b"not deflated"), "cannot decode"),
}


@pytest.mark.parametrize("data, message", HOSTILE.values(), ids=HOSTILE)
def test_hostile_images(data: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "x.png").write_bytes(data)
    with pytest.raises(InputError, match=message):
        image_array(tmp_path / "x.png", NCHW, Preprocessing())


def test_folders(tmp_path: Path, png: Path) -> None:
    (tmp_path / "b").mkdir()
    for name in ("b/2.PNG", "b/1.png", "a.png", "notes.txt"):
        (tmp_path / name).write_bytes(png.read_bytes())
    assert [str(p.relative_to(tmp_path)) for p in image_files(tmp_path)] == ["a.png", "b/1.png", "b/2.PNG"]
    with pytest.raises(InputError, match="not a folder"):
        image_files(tmp_path / "a.png")


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Scores are the mean of each channel: class 0 is red."""
    x, y = oh.make_tensor_value_info("x", 1, [1, 3, 4, 6]), oh.make_tensor_value_info("y", 1, [1, 3])
    nodes = [oh.make_node("GlobalAveragePool", ["x"], ["p"]), oh.make_node("Flatten", ["p"], ["y"])]
    path = tmp_path_factory.mktemp("net") / "net.onnx"
    model = oh.make_model(oh.make_graph(nodes, "net", [x], [y]), opset_imports=[oh.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.save(model, path)
    return path


def test_run_shows_the_best_classes(net: Path, tmp_path: Path) -> None:
    red = np.zeros((4, 6, 3), np.uint8)
    red[..., 0], red[..., 2] = 255, 51
    path = saved(tmp_path / "red.png", Image.fromarray(red))
    (tmp_path / "names.txt").write_text("red\ngreen\nblue\n")
    words = [
        "run",
        str(net),
        "--image",
        str(path),
        "--top",
        "2",
        "--labels",
        str(tmp_path / "names.txt"),
        "--json",
    ]
    ran = CliRunner().invoke(app, words)
    assert ran.exit_code == 0, ran.stderr
    best = json.loads(ran.stdout)[0]["top"]
    assert [(b["number"], b["name"], b["is_softmax"]) for b in best] == [(0, "red", True), (2, "blue", True)]
    right = np.exp([1, 0, 0.2]) / np.exp([1, 0, 0.2]).sum()
    np.testing.assert_allclose([b["probability"] for b in best], right[[0, 2]], rtol=1e-5)
    swapped = CliRunner().invoke(app, [*words, "--channel-order", "BGR"])
    assert json.loads(swapped.stdout)[0]["top"][0]["name"] == "blue"


MISUSED = {
    "names without top": (["--labels", "{names}"], "add --top"),
    "too few names": (["--top", "2", "--labels", "{names}"], "--labels names 1 classes, the output has 3"),
    "two images": (["--image", "{png}"], "takes 1 images at once, 2 are given"),
    "no numbers": (["--mean", "a,b"], "--mean a,b: write numbers"),
    "nothing to divide by": (["--std", "0"], "--std 0 divides by nothing"),
    "gone": (["--image", "gone.png"], "takes 1 images|no such file"),
}


@pytest.mark.parametrize("more, message", MISUSED.values(), ids=MISUSED)
def test_misuse_of_run(more: list[str], message: str, net: Path, png: Path, tmp_path: Path) -> None:
    (tmp_path / "n.txt").write_text("one\n")
    words = [w.format(names=tmp_path / "n.txt", png=png) for w in more]
    ran = CliRunner().invoke(app, ["run", str(net), "--image", str(png), *words])
    assert ran.exit_code == 2 and message.partition("|")[0] in ran.stderr, ran.stderr
