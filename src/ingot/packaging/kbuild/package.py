"""The files of a kernel module: one bundle per variant of the processor, and the C around them.

In: a model, options, and what compiles. Out: file names and contents. The module compiles the bundles' C with
the kernel's own compiler, or links objects that the pinned compiler made for the kernel (`prebuilt`: no red
zone, the kernel's code model, no assumption about the stack's alignment).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ingot.audit.audit import audit
from ingot.audit.policy import POLICIES, broken, judge
from ingot.binary.objects import undefined_symbols
from ingot.bundle.bundle import Bundle
from ingot.emit.names import LIBRARY, LONGEST, Scope
from ingot.errors import InputError
from ingot.options import Options
from ingot.packaging.kbuild.golden import golden
from ingot.packaging.kbuild.layout import layout
from ingot.packaging.kbuild.text import module_files
from ingot.packaging.kbuild.variants import DEFAULT, GENERAL, OFFERS, VARIANTS, Variant
from ingot.targets.linux import FRAME_BYTES, THUNKS, prebuilt_flags
from ingot.targets.records import find
from ingot.targets.toolchain import obstacle

LONGEST_NAME = LONGEST - len("_x86_64_v4")  # so that those of the variants are apart
Build = Callable[[Any, Options], Bundle]
LESS_STACK = ((), ("-fno-unroll-loops",), ("-O1",))
"""More flags for each attempt: loops as they are written, then fewer values held for later."""
MOST_BYTES = 0x7FFFF000 - 5 * 64  # the kernel's MAX_RW_COUNT, less what aligns the parts of one allocation


def kbuild(model: Any, options: Options, build: Build, prebuilt: bool = False) -> Bundle:
    """The module's files, as a bundle to be saved. Raises InputError for what no kernel module can be."""
    if options.memory or options.flash:
        raise InputError("a kernel module has one memory", remedy="leave out --memory and --flash")
    if options.selftest:
        raise InputError(
            "--selftest: a kernel module has its own golden vectors",
            remedy="leave it out, and load the module with selftest=1",
        )
    variants = _variants(options.target)
    if options.optimize == "speed":
        options = replace(options, optimize=variants[0].processor.optimize)
    stem = Path(model).stem if isinstance(model, str | Path) else "network"
    name = Scope(LIBRARY).fresh((options.name or stem)[:LONGEST_NAME], "network")
    plain = replace(options, api="direct", weights=None, threads=False, profile=False)
    reference = build(model, replace(plain, name=name, target=variants[0].target, emit=("c", "obj")))
    _require_fixed(reference.manifest)
    if variants[0].target == GENERAL:
        _require_integers(reference)
    kernel = replace(plain, pauses=True, frame_bytes=FRAME_BYTES, emit=("obj",) if prebuilt else ("c",))
    made = [
        (v, _made(model, replace(kernel, name=f"{name}_{v.symbol}"), v, build, prebuilt)) for v in variants
    ]
    _require_room([reference.manifest, *(b.manifest for _, b in made)])
    files = {n: data for _, bundle in made for n, data in _parts(bundle, prebuilt).items()}
    files |= module_files(
        name, made, golden(_tested(model, replace(plain, name=name), reference, build)), prebuilt
    )
    hashes = {n: hashlib.sha256(data).hexdigest() for n, data in sorted(files.items())}
    targets = [v.target for v in variants]
    shown = {**reference.manifest, "package": "kbuild", "variants": targets, "files": hashes}
    return Bundle(name, files, shown)


def _tested(model: Any, options: Options, reference: Bundle, build: Build) -> Bundle:
    """The bundle that gives golden vectors: portable C where objects of the module's processor cannot run."""
    if not obstacle(find(reference.manifest["target"])):
        return reference
    return build(model, replace(options, target="c99", emit=("c", "obj"), cc=None, cflags=()))


def _made(model: Any, options: Options, variant: Variant, build: Build, prebuilt: bool) -> Bundle:
    """One variant. What takes too much stack is compiled once more, with other flags."""
    for more in LESS_STACK:
        flags = (*prebuilt_flags(find(variant.target)), *more, *options.cflags)
        cc = options.cc if prebuilt else None  # else the object is for the audit only
        bundle = build(model, replace(options, target=variant.target, cc=cc, cflags=flags))
        reasons = broken_rules(bundle, variant, prebuilt)
        if not reasons:
            return bundle
    raise InputError(
        f"the object for {variant.target} cannot be linked into the kernel: {'; '.join(reasons)}",
        remedy="ingot audit --policy kernel tells what an object does",
    )


def broken_rules(bundle: Bundle, variant: Variant, prebuilt: bool) -> list[str]:
    """The kernel's rules that the object of a variant breaks: what keeps it out of a module.

    Where the kernel's own compiler will build the C, the object is what the pinned one makes of it, and
    that compiler measures the stack itself (-Werror=frame-larger-than).
    """
    allowed = (*THUNKS, f"{bundle.name}_pause")
    rules = replace(POLICIES["kernel"], undefined=allowed)
    rules = rules if prebuilt else replace(rules, frame_bytes=None)
    target = find(variant.base)
    return broken(judge(audit(bundle.object, None, target, variant.flags), rules))


def _variants(target: str) -> list[Variant]:
    names = DEFAULT if target == "native" else tuple(find(t).name for t in target.split("+"))
    if names != (GENERAL,) and not any(names[0] == o[0] and {*names} <= {*o} for o in OFFERS):
        offers = "; ".join(f"some of {', '.join(o)}, the first of them always" for o in OFFERS)
        raise InputError(
            f"a kernel module cannot be made for {'+'.join(names)}",
            remedy=f"name {offers}; or {GENERAL} alone",
        )
    return [VARIANTS[t] for t in names]


def _require_fixed(manifest: Mapping[str, Any]) -> None:
    if manifest["params"]:
        names = ", ".join(p["name"] for p in manifest["params"])
        raise InputError(f"a kernel module has fixed shapes, but {names} varies", remedy="--define one value")
    if not manifest["inputs"] or not manifest["outputs"]:
        raise InputError("a kernel module needs an input and an output")
    for port in (p for side in ("inputs", "outputs") for p in (manifest["ports"] or {}).get(side, ())):
        if port["kind"] != "tensor":
            raise InputError(
                f"a kernel module takes and gives tensors, but {port['name']!r} is of kind {port['kind']}",
                remedy="skl2onnx writes a tensor with options={'zipmap': False}"
                if "map" in port["kind"]
                else "",
            )
    for t in (*manifest["inputs"], *manifest["outputs"]):
        if not all(isinstance(n, int) for n in t["shape"]):
            raise InputError(
                f"a kernel module's outputs have fixed shapes, but data says how many {t['name']} has"
            )


def _require_integers(reference: Bundle) -> None:
    """Floats need the FPU, or functions that no kernel has."""
    edge = (*reference.manifest["inputs"], *reference.manifest["outputs"])
    floats = [t["name"] for t in edge if "float" in t["dtype"]]
    wanted = ", ".join(floats or undefined_symbols(reference.object))
    if wanted:
        raise InputError(
            f"a kernel module for {GENERAL} has no floats, but the network has: {wanted}",
            remedy=f"ingot quantize --io int8, or --target {'+'.join(OFFERS[0])}",
        )


def _require_room(manifests: Sequence[Mapping[str, Any]]) -> None:
    """Neither kvmalloc() nor read() and write() go further."""
    first = manifests[0]
    needs = {
        "inputs": layout(first["inputs"], "in").size,
        "outputs": layout(first["outputs"], "out").size,
        "state": first["sizes"]["state_bytes"],
        "arena": max(m["sizes"]["arena_bytes"] for m in manifests),
    }
    if sum(needs.values()) > MOST_BYTES:
        parts = ", ".join(f"{what} {n:,}" for what, n in needs.items())
        raise InputError(
            f"a kernel module has at most {MOST_BYTES:,} bytes for each user, but the network takes "
            f"{sum(needs.values()):,} ({parts})",
            remedy="make the inputs or the layers smaller",
        )


def _parts(bundle: Bundle, prebuilt: bool) -> dict[str, bytes]:
    """The files of a bundle that the module is built from."""
    wanted = (".h", ".o") if prebuilt else (".h", ".c", ".S", ".bin")
    chosen = {n: data for n, data in bundle.files.items() if n.endswith(wanted)}
    return {f"{n}_shipped" if n.endswith(".o") else n: data for n, data in chosen.items()}
