"""`ingot.profile`, `ingot.quantize` and `ingot.compress`: models that take less."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ingot.api.subjects import Data, Model, opened, options_of, words_of
from ingot.check.calibrate import Profiled, calibrate, subject
from ingot.check.evidence import LabelledData
from ingot.compression.container import CONTAINER_BYTES
from ingot.compression.encode import Form
from ingot.compression.finetune import STEPS, planned
from ingot.compression.model import Compressed, Wish
from ingot.compression.propose import Scale
from ingot.compression.share import Start
from ingot.data.images import AS_THEY_ARE, Preprocessing, image_files, samples_of
from ingot.driver import compile_with, compress_model, quantize_model
from ingot.errors import InputError
from ingot.files import read_file
from ingot.options import Define, OptionFields
from ingot.quantization.profile import Profile, read_profile
from ingot.quantization.quantize import Quantized
from ingot.quantization.scheme import (
    BiasPrecision,
    Edge,
    Precision,
    Rounding,
    Schema,
    Scheme,
    parse_calibration,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ingot.formula.expr import Array


def profile(
    model: Model,
    data: Data = (),
    *,
    images: str | Path | None = None,
    preprocessing: Preprocessing = AS_THEY_ARE,
    workers: int = 1,
    dask: str | None = None,
    **options: Unpack[OptionFields],
) -> Profile:
    """Record the range and a histogram of every float tensor over representative data.

    The data is arrays by the inputs' names, files, or a folder of `images`. `workers` processes, or a `dask`
    scheduler, affect only the time. Raises InputError for samples that do not fit the model.
    """
    return profiled(
        model, data, images=images, preprocessing=preprocessing, workers=workers, dask=dask, **options
    ).profile


def profiled(
    model: Model,
    data: Data = (),
    *,
    images: str | Path | None = None,
    preprocessing: Preprocessing = AS_THEY_ARE,
    workers: int = 1,
    dask: str | None = None,
    **options: Unpack[OptionFields],
) -> Profiled:
    """Return the profile, and what was left out of it; see `profile`."""
    wanted, words = options_of("profile", options), words_of(data)
    if not words and images is None:
        raise InputError(
            "there is no data", remedy="give --inputs FILE.npz or a folder, or --images a folder"
        )
    of = subject(opened(model), wanted)
    paths = image_files(Path(images)) if images is not None else []
    return calibrate(of, samples_of(of.inputs, words, paths, preprocessing), compile_with, workers, dask)


def quantize(
    model: Model,
    profile: Profile | str | Path,
    *,
    schema: Schema = "asymmetric",
    calibration: str = "mse",
    precision: Precision = "int8",
    bias_precision: BiasPrecision = "int32",
    per_tensor: bool = False,
    keep_float: Sequence[str] = (),
    max_drop: float | None = None,
    edge: Edge = "float",
    bias_correction: bool = True,
    equalize: bool = True,
    rounding: Rounding = "nearest",
    assert_all: bool = False,
    data: Data | None = None,
    labels: str | Path | Array | None = None,
    define: Define | None = None,
    fix: Mapping[str, object] | None = None,
    inputs: Sequence[str] = (),
    outputs: Sequence[str] = (),
    model_inputs: Sequence[str] = (),
) -> Quantized:
    """Quantise a float model with its profile, to an ordinary QDQ model that any runtime can run.

    The parameters up to `assert_all` are the fields of `ingot.quantization.scheme.Scheme`. `calibration` is
    mse, minmax, entropy or percentile:99.99. `max_drop` is the loss on `data` that is allowed when layers
    that stay float are searched for. `data` (with `labels`) also decides on equalisation and rounding. Raises
    InputError for a profile of another model, and for names that the model does not have.
    """
    scheme = Scheme(
        schema=schema,
        calibration=parse_calibration(calibration),
        precision=precision,
        bias_precision=bias_precision,
        per_tensor=per_tensor,
        keep_float=tuple(keep_float),
        max_drop=max_drop,
        edge=edge,
        bias_correction=bias_correction,
        equalize=equalize,
        rounding=rounding,
        assert_all=assert_all,
    )
    given: OptionFields = {
        "define": define or {},
        "fix": fix or {},
        "inputs": tuple(inputs),
        "outputs": tuple(outputs),
        "model_inputs": tuple(model_inputs),
    }
    known = _labelled(data, labels)
    found = profile if isinstance(profile, Profile) else read_profile(_profile_file(profile))
    return quantize_model(opened(model), found, scheme, options_of("quantize", given), known)


def _labelled(data: Data | None, labels: str | Path | Array | None) -> LabelledData | None:
    if data is None and labels is not None:
        raise InputError("labels= are of data", remedy="give data= too")
    if data is None:
        return None
    return LabelledData(words_of(data), Path(labels) if isinstance(labels, str) else labels)


def _profile_file(profile: object) -> Path:
    """The path of a profile. Raises InputError for what is neither a profile nor a path."""
    if not isinstance(profile, (str, Path)):
        raise InputError(
            f"profile= is a {type(profile).__name__}",
            remedy="give what ingot.profile returns, or the path of its file",
        )
    return Path(profile)


def compress(
    model: Model,
    *,
    density: float | Mapping[str, float] | None = None,
    ratio: float | None = None,
    total_density: float | None = None,
    prune_by: Scale | None = None,
    bits: int | Mapping[str, int] | None = None,
    gap_bits: int | str | Mapping[str, int | str] | None = None,
    form: Form = "auto",
    centroids: Start = "optimal",
    seed: int | None = None,
    container: str | Path | None = None,
    finetune: str | Path | None = None,
    rounds: int | None = None,
    steps: int = STEPS,
    share_rounds: int | None = None,
    entropic: bool = False,
    fold: bool = False,
    short_names: bool = False,
    data: Data | None = None,
    labels: str | Path | Array | None = None,
) -> Compressed:
    """Compress a model's weights: pruning, weight sharing, relative indices, Huffman coding.

    `density` is the share of weights to keep, for all layers or by patterns of layers' names. `ratio` and
    `total_density` choose the densities of the other layers, so that the model is that many times smaller, or
    keeps that share of all weights. `bits` are the bits of a code, and `gap_bits` those of a relative index
    (a number, auto or coded). A `container` replaces the model's weights. `finetune` is a script that trains
    between `rounds` of pruning and in `share_rounds` of sharing, for `steps` each; with `entropic`, weights
    are not pruned first, but share the values that cost least in loss and in bits. With `fold`, batch
    normalisations and biases become part of the weights first, and `short_names` renames inner tensors. With
    `data` (and `labels`), the result says what compression costs on them. Raises InputError for options that
    do not fit the model.
    """
    wish = Wish(
        density=_per_layer(density),
        ratio="" if ratio is None else f"{ratio}x",
        total_density="" if total_density is None else str(total_density),
        scale=prune_by,
        bits=_per_layer(bits),
        gap_bits=_per_layer(gap_bits),
        form=form,
        start=centroids,
        seed=seed,
        container=None if container is None else read_file(Path(container), CONTAINER_BYTES),
        entropic=entropic,
        training=None if finetune is None else planned(Path(finetune), rounds, steps, share_rounds, entropic),
    )
    return compress_model(opened(model), wish, fold, _labelled(data, labels), short_names)


def _per_layer(value: float | str | Mapping[str, Any] | None) -> tuple[str, ...]:
    """A value for all layers, or values by pattern, as words."""
    if value is None:
        return ()
    if isinstance(value, Mapping):
        return tuple(f"{layer}={v}" for layer, v in value.items())
    return (str(value),)
