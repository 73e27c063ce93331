"""Both LeNets on a Cortex-M4: what the 360 held-out digits cost as floats, as bytes, and compressed.

    python examples/compression/cortex_m4.py        # extra: train; needs qemu-system-arm

Trains and compresses what `build/compression` lacks (`NAME.onnx`, `NAME.ingot.onnx`), quantises the dense
networks to bytes with onnxruntime's quantiser, and runs every bundle as firmware of an emulated board. Out: a
table of mistakes, instructions for one image, flash and RAM.
"""

import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from lenets import CLASSES, digits, evaluate, to_onnx, train, trained
from measure import CASES, Case
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import ingot
from ingot.bundle.bundle import Bundle
from ingot.compression.finetune import Training
from ingot.compression.script import Script
from ingot.driver import compress_model
from ingot.targets.process import produce, run, zig, zig_version
from ingot.targets.records import find
from ingot.targets.toolchain import compile_c

BUILD = Path("build/compression")
TARGET = "armv7e-m"
BOARD = ("qemu-system-arm", "-M", "mps2-an386", "-nographic", "-monitor", "none", "-serial", "none")
CONSOLE = ("-chardev", "stdio,id=out", "-semihosting-config", "enable=on,target=native,chardev=out")
COUNTING = ("-icount", "shift=2")  # 4 ns an instruction
INSTRUCTIONS = 10  # of one tick of SysTick, which this board clocks with 25 MHz
CALIBRATED = 100
MEMORY = """
ENTRY(reset)
MEMORY { FLASH (rx) : ORIGIN = 0, LENGTH = 4M  RAM (rwx) : ORIGIN = 0x20000000, LENGTH = 4M }
SECTIONS {
  .text : { KEEP(*(.vectors)) *(.text*) *(.rodata*) . = ALIGN(8); } > FLASH
  .bss (NOLOAD) : { bss_begin = .; *(.bss*) *(COMMON) . = ALIGN(8); bss_end = .; } > RAM
  stack_top = ORIGIN(RAM) + LENGTH(RAM);
  /DISCARD/ : { *(.ARM.exidx*) *(.comment) *(.note*) }
}
"""


@dataclass(frozen=True)
class Result:
    """Mistakes among the held-out images, the mean of instructions for one, bytes."""

    mistakes: int
    instructions: float
    flash: int
    ram: int


class Images(CalibrationDataReader):
    """Some images to train with, for the quantiser to see the ranges of activations."""

    def __init__(self) -> None:
        self.images = iter(digits().train_images[:CALIBRATED].numpy())

    def get_next(self) -> Any:
        image = next(self.images, None)
        return None if image is None else {"image": image[None]}


def networks(case: Case) -> tuple[Path, Path]:
    """The files of a network as it was trained, and compressed; made if they are not there."""
    name = case.kind.__name__.lower()
    dense, small = BUILD / f"{name}.onnx", BUILD / f"{name}.ingot.onnx"
    if not (dense.exists() and small.exists()):
        BUILD.mkdir(parents=True, exist_ok=True)
        network = trained(case.kind, 0)
        onnx.save(to_onnx(network), dense)
        script = Script(Path(__file__), {"model": lambda: network, "train": train, "evaluate": evaluate})
        wish = replace(case.wish, training=Training(script, 4, 400))
        onnx.save(compress_model(onnx.load(dense), wish).model, small)
    return dense, small


def quantised(dense: Path) -> onnx.ModelProto:
    """Weights and activations of a network in bytes, one scale for each output channel."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "bytes.onnx"
        how = {"quant_format": QuantFormat.QOperator, "per_channel": True}
        types = {"weight_type": QuantType.QInt8, "activation_type": QuantType.QUInt8}
        quantize_static(dense, path, Images(), **how, **types)
        return onnx.load(path)


def bundles(case: Case) -> Iterator[tuple[str, Bundle]]:
    """Every form of a network, compiled."""
    dense, small = networks(case)
    options: dict[str, Any] = {"target": TARGET, "name": "net", "emit": ("c", "obj")}
    yield "dense, float", ingot.compile(dense, **options)
    yield "dense, bytes", ingot.compile(quantised(dense), **options)
    yield "compressed, float", ingot.compile(small, **options)
    yield "compressed, int8", ingot.compile(small, activations="int8", **options)
    options["cflags"] = ("-Os",)
    yield "compressed, float, -Os", ingot.compile(small, **options)
    yield "compressed, float, --huffman, -Os", ingot.compile(small, huffman=True, **options)


def firmware(bundle: Bundle) -> bytes:
    """A program for the board that runs the bundle on the held-out images."""
    images = digits().test_images.numpy().reshape(-1, 784)
    rows = ",\n".join("{" + ",".join(f"{float(v)!r}f" for v in image) + "}" for image in images)
    sizes = f"enum {{ IMAGES = {len(images)}, PIXELS = {images.shape[1]}, CLASSES = {CLASSES} }};\n"
    source = {
        "firmware.c": (Path(__file__).parent / "firmware.c").read_text(),
        "images.h": f"{sizes}static const float images[IMAGES][PIXELS] = {{\n{rows}}};\n",
        "net.h": bundle.files["net.h"],
    }
    made = compile_c(source, find(TARGET), name="firmware.c")
    objects = [data for name, data in bundle.files.items() if name.endswith(".o")]
    files = {"board.ld": MEMORY, **{f"{i}.o": data for i, data in enumerate([made, *objects])}}
    inputs = [name for name in files if name.endswith(".o")]
    command = zig("ld.lld", "-T", "board.ld", "--gc-sections", *inputs, "-o", "unit.elf")
    return produce(command, files, "unit.elf", version=zig_version())


def measure(bundle: Bundle) -> Result:
    """Runs a bundle on the board."""
    with tempfile.TemporaryDirectory() as directory:
        Path(directory, "unit.elf").write_bytes(firmware(bundle))
        text = run((*BOARD, *COUNTING, *CONSOLE, "-kernel", "unit.elf"), Path(directory), timeout=1200)
    found = np.array([line.split() for line in text.decode().splitlines()], np.int64)
    mistakes = int(np.sum(found[:, 0] != digits().test_labels.numpy()))
    sizes = bundle.manifest["sizes"]
    ram = sizes["arena_bytes"] + sizes["stack_bytes"]
    return Result(mistakes, float(found[:, 1].mean()) * INSTRUCTIONS, sizes["flash_bytes"], ram)


def main() -> int:
    """Measures everything; returns the exit code."""
    torch.set_num_threads(1)
    console = Console()
    table = Table("network", "bundle", "mistakes of 360", "instructions", "flash", "RAM")
    with Progress(console=console) as bar:
        task = bar.add_task("running the board", total=6 * len(CASES))
        for case in CASES:
            for what, bundle in bundles(case):
                r = measure(bundle)
                cells = (str(r.mistakes), f"{r.instructions:,.0f}", f"{r.flash:,}", f"{r.ram:,}")
                table.add_row(case.name, what, *cells)
                bar.advance(task)
    console.print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
