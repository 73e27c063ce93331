"""`ingot.verify`, `ingot.bench` and `ingot.evaluate`: is a bundle right, how fast, and what is it worth?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ingot.api.subjects import Data, Model, bundle_of, is_bundle, name_of, opened, options_of, words_of
from ingot.bundle.bundle import Bundle
from ingot.check.bench import SECONDS, Benchmark
from ingot.check.bench import bench as measured
from ingot.check.evaluate import Contender, Evaluation
from ingot.check.evaluate import evaluate as scored
from ingot.check.profile import profile as kernels_of
from ingot.check.verify import Verification
from ingot.check.verify import verify as compared
from ingot.data.images import AS_THEY_ARE, Preprocessing, image_files, samples_of
from ingot.data.labels import class_names, labels_beside, labels_of_images, read_labels
from ingot.data.samples import LABELS, inputs_of
from ingot.driver import compile_with, digest
from ingot.errors import InputError
from ingot.options import OptionFields, Options
from ingot.targets.records import find
from ingot.targets.toolchain import obstacle

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ingot.formula.expr import Array


def verify(
    subject: Model | Bundle,
    *,
    model: Model | None = None,
    feeds: Mapping[str, Array] | None = None,
    seed: int = 0,
    tolerance: float | None = None,
    layers: bool = False,
    **options: Unpack[OptionFields],
) -> Verification:
    """Compare the shipped object with onnxruntime; if they differ, find the layer and which side is wrong.

    The subject is a model, or a bundle (or its directory) that was compiled from `model`, with the options in
    its manifest. It runs on `feeds`, arrays by the inputs' names, or on random numbers with the given `seed`.
    `tolerance` is relative to max|y|; by default, it depends on the types. `layers` compares every layer,
    even if all outputs agree. Raises InputError for a model that cannot be compiled, or for a bundle of
    another model.
    """
    wanted, shipped = options_of("verify", options), None
    if is_bundle(subject):
        shipped = bundle_of(subject, wanted)
        subject, wanted = _origin(shipped, model, options), _recorded(shipped)
    elif model is not None:
        raise InputError("--model is of a bundle", remedy="give the bundle first, or the model alone")
    return compared(
        opened(subject),  # type: ignore[arg-type]  # no bundle any more
        wanted,
        compile_with,
        inputs=feeds,
        seed=seed,
        tolerance=tolerance,
        layers=layers,
        bundle=shipped,
    )


def _origin(bundle: Bundle, model: Model | None, options: OptionFields) -> Model:
    """The model of a bundle. Raises InputError where it is another one."""
    if model is None:
        raise InputError(
            f"the bundle {bundle.name!r} holds no model to be compared with",
            remedy="add --model with the file that it was compiled from",
        )
    if options:
        named = ", ".join(f"--{name.replace('_', '-')}" for name in options)
        raise InputError(f"{named}: a bundle's options are in its manifest", remedy="leave them out")
    if digest(opened(model)) != bundle.manifest["model_sha256"]:
        raise InputError(
            f"the bundle {bundle.name!r} was compiled from another model than {name_of(model)}",
            remedy="give the file that it was compiled from, or compile this one",
        )
    return model


def _recorded(bundle: Bundle) -> Options:
    """The options that a manifest holds. Raises InputError for what it holds the hash of only."""
    given: dict[str, Any] = dict(bundle.manifest["options"])
    if any(isinstance(v, str) and "sha256:" in v for v in given["fix"].values()):
        raise InputError(f"the bundle {bundle.name!r} has fixed inputs that its manifest does not hold")
    return replace(options_of("verify", given), emit=())  # type: ignore[arg-type]  # the manifest's schema


def bench(
    model: Model,
    *,
    against: Sequence[str] = (),
    seconds: float = SECONDS,
    kernels: bool = False,
    peers_python: str | None = None,
    peer_cc: str | None = None,
    entry: str | None = None,
    **options: Unpack[OptionFields],
) -> Benchmark:
    """Measure a model's bundle on one core, in turns with peers (`against`), for about `seconds` each.

    `kernels` also times every kernel. `peers_python` is the Python that has the peers. `peer_cc` and `entry`
    are the compiler and the function for C files. Raises InputError for a target that does not run on this
    machine.
    """
    wanted, source = options_of("bench", options), opened(model)
    for name in wanted.target.split("+"):
        _require_here(name)
    found = measured(
        source,
        wanted,
        compile_with,
        against=against,
        seconds=seconds,
        python=peers_python,
        cc=peer_cc,
        entry=entry,
    )
    return replace(found, kernels=kernels_of(source, wanted, compile_with)) if kernels else found


def _require_here(name: str) -> None:
    """InputError unless a target's code runs in this process."""
    target = find(name)
    reason = obstacle(target) or ("an emulator cannot measure times" if target.runner else "")
    if reason:
        raise InputError(
            f"{target.name} cannot be timed on this machine: {reason}",
            remedy="measure on the board (ingot compile --emit main,lib), or leave --target out",
        )


def evaluate(
    subjects: Model | Bundle | Sequence[Model | Bundle],
    data: Data = (),
    *,
    images: str | Path | None = None,
    labels: str | Path | Array | None = None,
    classes: str | Path | None = None,
    output: str = "",
    preprocessing: Preprocessing = AS_THEY_ARE,
    **options: Unpack[OptionFields],
) -> Evaluation:
    """Measure models or bundles on data: top-1, top-5, AUC, mean IoU, or errors of the outputs.

    The data is arrays by the inputs' names, files, or a folder of `images`, which `preprocessing` converts to
    arrays. `labels` are integers (classes) or floats (expected outputs), one for each sample; by default, the
    array `labels` of the data. `classes` is a file with the names of the classes, for labels that are names.
    `output` is the output to evaluate; by default, the first one. Raises InputError for data that does not
    fit.
    """
    wanted, words = options_of("evaluate", options), words_of(data)
    folder = None if images is None else Path(images)
    if not words and folder is None:
        raise InputError("there is no data", remedy="give --inputs FILE.npz or --images DIR")
    paths = [] if folder is None else image_files(folder)
    right = _right(words, paths, folder, labels, None if classes is None else Path(classes))
    if isinstance(words, Mapping):
        words = {name: array for name, array in words.items() if name != LABELS}
    every = (
        subjects if isinstance(subjects, Sequence) and not isinstance(subjects, (str, bytes)) else [subjects]
    )
    contenders = []
    for one in every:
        bundle = bundle_of(one, wanted)
        samples = samples_of(inputs_of(bundle.manifest["inputs"]), words, paths, preprocessing)
        contenders.append(Contender(name_of(one), bundle, samples, output))
    return scored(contenders, right)


def _right(
    words: Sequence[str] | Mapping[str, Array],
    paths: Sequence[Path],
    folder: Path | None,
    labels: str | Path | Array | None,
    classes: Path | None,
) -> Array | None:
    """What is known of each sample."""
    if labels is not None and not isinstance(labels, (str, Path)):
        return np.asarray(labels)
    table = None if labels is None else Path(labels)
    if folder is None:
        if table is not None:
            return read_labels(table)
        return words.get(LABELS) if isinstance(words, Mapping) else labels_beside(words)
    if table is not None and table.suffix in (".npy", ".npz"):
        return read_labels(table)
    return labels_of_images(paths, folder, table, class_names(classes) if classes is not None else [])
