"""The files of a package: the bundle's where the kind wants them, and its templates, filled.

In: a model, options, what compiles, a kind. Out: a `Bundle` to be saved. Called by `ingot compile --package`.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from importlib.abc import Traversable
from importlib.resources import files as resources
from typing import Any

import numpy as np

from ingot.bundle.binding import shape
from ingot.bundle.bundle import Bundle
from ingot.bundle.containers import packed, random_values
from ingot.bundle.golden import random_input
from ingot.errors import InputError
from ingot.formula.expr import Array
from ingot.formula.types import dtype_named
from ingot.options import Options
from ingot.packaging.project.description import PLATFORMS, Golden, described, level_of, require_plain
from ingot.packaging.project.kinds import KINDS, PORTABLE, Kind
from ingot.targets.record import Target
from ingot.targets.records import find

Build = Callable[[Any, Options], Bundle]
WORD = re.compile(r"@\{(\w+)\}")
LICENSE = """\
Permission to use, copy, modify, and/or distribute this software for any purpose with or without fee is hereby
granted. It is provided "as is", and its authors disclaim all warranties; they are not liable for any damages
that arise from its use.
"""


def project(model: Any, options: Options, build: Build, name: str) -> Bundle:
    """A package of that kind. Raises InputError for what cannot be one."""
    kind = KINDS[name]
    options = replace(options, target=kind.target if options.target == "native" else options.target)
    target = find(options.target)
    _require(kind, target, options)
    bundle = build(model, replace(options, emit=kind.emit))
    _require_content(kind, bundle)
    golden = _golden(model, options, build) if kind.plain else Golden({}, {})
    words = described(bundle, target, kind, golden)
    others = ("Makefile", f"{bundle.name}.json", *(f"{bundle.name}_board.{end}" for end in ("c", "h", "ld")))
    own = {n: data for n, data in bundle.files.items() if n not in others}
    files = {
        _place(kind, bundle.name, n): _content(kind, n, data, level_of(bundle)) for n, data in own.items()
    }
    files |= dict(_filled(kind, words)) | _golden_files(kind, bundle, golden) | {"LICENSE": LICENSE.encode()}
    hashes = {n: hashlib.sha256(data).hexdigest() for n, data in sorted(files.items())}
    return Bundle(
        bundle.name, files, {**bundle.manifest, "package": kind.name, "files": hashes}, bundle.files
    )


def _require(kind: Kind, target: Target, options: Options) -> None:
    """What no package of the kind can be made of."""
    if target.format not in kind.formats:
        wanted = (
            "a WebAssembly target: wasm32, wasm32-simd128" if kind.formats == ("wasm",) else "another target"
        )
        raise InputError(
            f"--package {kind.name} cannot be made for {target.name}", remedy=f"--target {wanted}"
        )
    if "shared" in kind.emit and target.triple.partition("-")[0] not in PLATFORMS:
        raise InputError(
            f"no wheels are made for {target.name}", remedy=f"choose from {', '.join(PLATFORMS)}"
        )
    if options.memory or options.flash:
        raise InputError(
            f"--package {kind.name} brings one memory of its own", remedy="leave out --memory and --flash"
        )
    if options.api != "direct" or options.weights == "external" or options.threads or options.profile:
        raise InputError(
            f"--package {kind.name} calls the bundle itself",
            remedy="leave out --api, --weights, --threads and --profile",
        )


def _require_content(kind: Kind, bundle: Bundle) -> None:
    if bundle.name in kind.taken:
        raise InputError(
            f"--package {kind.name}: {bundle.name} is the name of a library of the language's own",
            remedy="--name another",
        )
    if kind.plain:
        require_plain(bundle.manifest, kind.name)
    large = [n for n in bundle.files if n.endswith("_weights.S")]
    if large and not kind.assembly:
        size = bundle.manifest["sizes"]["weights_bytes"]
        raise InputError(
            f"--package {kind.name} compiles constants as C, and {size:,} bytes are too many for that",
            remedy="ingot quantize or ingot compress makes them fewer",
        )


def _place(kind: Kind, name: str, file: str) -> str:
    """Where a file of the bundle is put."""
    if file == f"{name}_main.c":
        return kind.example.format(name=name)
    return f"{kind.sources.format(name=name)}{file}"


def _content(kind: Kind, name: str, data: bytes, level: str) -> bytes:
    is_network = name.endswith(".c") and not name.endswith(("_main.c", "_weights.c"))
    return kind.first.format(level=level.removeprefix("-")).encode() + data if is_network else data


def _filled(kind: Kind, words: Mapping[str, str]) -> Iterator[tuple[str, bytes]]:
    """The templates of a kind: `@{word}` in their text, NAME in their paths."""
    root = resources("ingot.packaging.project").joinpath("templates")
    for path in _templates(root.joinpath(kind.templates), ""):
        text = resources("ingot.packaging.project").joinpath(f"templates/{kind.templates}/{path}").read_text()
        filled = WORD.sub(lambda m: words[m[1]], text)
        yield path.removesuffix(".in").replace("NAME", words["name"]), filled.encode()


def _templates(folder: Traversable, under: str) -> Iterator[str]:
    """Paths below the folder."""
    for entry in sorted(folder.iterdir(), key=lambda e: e.name):
        if entry.is_dir():
            yield from _templates(entry, f"{under}{entry.name}/")
        elif entry.name.endswith(".in"):
            yield f"{under}{entry.name}"


def _golden(model: Any, options: Options, build: Build) -> Golden:
    """Random inputs, and what portable C gives here."""
    reference = build(
        model, replace(options, target=PORTABLE, cc=None, cflags=(), relocation=None, emit=("obj",))
    )
    m = reference.manifest
    drawn = {t["name"]: random_input(t["name"], dtype_named(t["dtype"]), shape(t, {})) for t in m["inputs"]}
    inputs = packed(m, random_values(m, drawn))
    status, outputs, _ = reference.runner.step(inputs, None)
    if status:  # numbers that are indices, most likely
        inputs = {n: np.zeros_like(a) for n, a in inputs.items()}
        _, outputs, _ = reference.runner.step(inputs, None)
    return Golden({t["name"]: inputs[t["name"]] for t in m["inputs"]}, outputs)


def _golden_files(kind: Kind, bundle: Bundle, golden: Golden) -> dict[str, bytes]:
    """The golden values as a language of its own kind reads them."""
    m, name = bundle.manifest, bundle.name
    if "shared" in kind.emit:
        arrays = {f"in_{i}": golden.inputs[t["name"]] for i, t in enumerate(m["inputs"])}
        arrays |= {f"out_{i}": golden.outputs[t["name"]] for i, t in enumerate(m["outputs"])}
        file = io.BytesIO()
        np.savez(file, **{n: _bits(a) for n, a in arrays.items()})  # type: ignore[arg-type]  # names, not its option
        manifest = json.dumps(
            {k: m[k] for k in ("inputs", "outputs", "params", "measured", "state", "sizes")}
        )
        return {f"{name}/golden.npz": file.getvalue(), f"{name}/bundle.json": manifest.encode()}
    if "module" in kind.emit:
        sides = {"inputs": golden.inputs, "outputs": golden.outputs}
        plain = {side: {n: _numbers(a) for n, a in arrays.items()} for side, arrays in sides.items()}
        return {"golden.json": json.dumps(plain).encode()}
    if kind.name == "micropython":
        arrays_in_order = (*golden.inputs.values(), *(golden.outputs[t["name"]] for t in m["outputs"]))
        return {"golden.bin": b"".join(_bits(a).tobytes() for a in arrays_in_order)}
    return {}


def _bits(array: Array) -> Array:
    """Types that numpy does not have itself, as their bits."""
    return array if array.dtype.kind in "fiubS" else array.view(f"u{array.dtype.itemsize}")


def _numbers(array: Array) -> list[object]:
    """Elements as JavaScript has them: 64-bit integers in words, and floats below 32 bits by their bits."""
    flat = _bits(array).reshape(-1)
    flat = flat.view("u2") if flat.dtype == np.float16 else flat
    is_wide = flat.dtype.itemsize == 8 and flat.dtype.kind in "iu"
    return [str(v) if is_wide or v - v != 0 else v for v in flat.tolist()]  # JSON has no infinities
