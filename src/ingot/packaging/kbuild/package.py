"""The files of a kernel module: one bundle per variant of the processor, and the C around them.

In: a model, options, and what compiles. Out: file names and contents. The module compiles the bundles' C with
the kernel's own compiler, or links objects that the pinned compiler made for the kernel (`prebuilt`: no red
zone, the kernel's code model, no assumption about the stack's alignment).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ingot.bundle.bundle import Bundle
from ingot.emit.names import LIBRARY, Scope
from ingot.errors import InputError
from ingot.options import Options
from ingot.packaging.kbuild.golden import golden
from ingot.packaging.kbuild.text import module_files
from ingot.packaging.kbuild.variants import DEFAULT, FRAME_BYTES, PREBUILT, VARIANTS, Variant

Build = Callable[[Any, Options], Bundle]


def kbuild(model: Any, options: Options, build: Build, prebuilt: bool = False) -> Bundle:
    """The module's files, as a bundle to be saved. Raises InputError for what no kernel module can be."""
    variants = _variants(options.target)
    stem = Path(model).stem if isinstance(model, str | Path) else "network"
    name = Scope(LIBRARY).fresh(options.name or stem, "network")
    plain = replace(options, api="direct", weights=None, threads=False, profile=False)
    reference = build(model, replace(plain, name=name, target=variants[0].target, emit=("c", "obj")))
    _require_fixed(reference.manifest)
    made = []
    for v in variants:
        wanted = replace(
            plain,
            name=f"{name}_{v.symbol}",
            target=v.target,
            pauses=True,
            frame_bytes=FRAME_BYTES,
            emit=("obj",) if prebuilt else ("c",),
            cflags=(*options.cflags, *(PREBUILT if prebuilt else ())),
        )
        made.append((v, build(model, wanted)))
    files = {n: data for _, bundle in made for n, data in _parts(bundle, prebuilt).items()}
    files |= module_files(name, made, golden(reference), prebuilt)
    hashes = {n: hashlib.sha256(data).hexdigest() for n, data in sorted(files.items())}
    targets = [v.target for v in variants]
    shown = {**reference.manifest, "package": "kbuild", "variants": targets, "files": hashes}
    return Bundle(name, files, shown)


def _variants(target: str) -> list[Variant]:
    names = (DEFAULT if target == "native" else target).split("+")
    unknown = [t for t in names if t not in VARIANTS]
    if unknown or names[0] != DEFAULT.split("+")[0]:
        raise InputError(
            f"a kernel module cannot be made for {'+'.join(names)}",
            remedy=f"name some of {', '.join(VARIANTS)}, the first of them always",
        )
    return [VARIANTS[t] for t in names]


def _require_fixed(manifest: Mapping[str, Any]) -> None:
    if manifest["params"]:
        names = ", ".join(p["name"] for p in manifest["params"])
        raise InputError(f"a kernel module has fixed shapes, but {names} varies", remedy="--define one value")
    if not manifest["inputs"] or not manifest["outputs"]:
        raise InputError("a kernel module needs an input and an output")


def _parts(bundle: Bundle, prebuilt: bool) -> dict[str, bytes]:
    """The files of a bundle that the module is built from."""
    wanted = (".h", ".o") if prebuilt else (".h", ".c", ".S", ".bin")
    chosen = {n: data for n, data in bundle.files.items() if n.endswith(wanted)}
    return {f"{n}_shipped" if n.endswith(".o") else n: data for n, data in chosen.items()}
