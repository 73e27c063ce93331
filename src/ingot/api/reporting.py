"""`ingot.report`: one page about a model's build or a bundle, for people to look at."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ingot.api.subjects import Model, bundle_of, is_bundle, name_of, opened, options_of
from ingot.bundle.bundle import Bundle
from ingot.check.profile import profile as kernels_of
from ingot.driver import Stages, built, compile_with
from ingot.errors import InputError, ToolchainError
from ingot.files import require_place, write_file
from ingot.inspection.account import Account, Layer, account
from ingot.inspection.assembly import comment_mark, listed, shown, units
from ingot.inspection.histograms import of_profile, of_weights
from ingot.inspection.report_page import Drawn, Subject, report_page
from ingot.options import OptionFields, Options
from ingot.quantization.profile import Profile
from ingot.tables import Result, Table, table
from ingot.targets.records import find_all
from ingot.targets.toolchain import obstacle

if TYPE_CHECKING:
    from typing_extensions import Unpack

SETTINGS: dict[str, tuple[str, ...]] = {
    "math": ("standard", "exact"),
    "activations": ("float", "int8"),
    "api": ("direct", "static", "dynamic"),
}
SWITCHES = ("fuse", "generators", "huffman", "threads")
LONGEST = 3000  # lines of one function
UNKNOWN = "a bundle cannot time its kernels: report its model"


@dataclass(frozen=True, slots=True)
class _Build:
    """A bundle and its account; the levels it came from where it was compiled here."""

    bundle: Bundle
    account: Account
    stages: Stages | None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Report(Result):
    """A page and its figures: the layers of the build, and those of the build that it is compared with."""

    name: str
    page: str
    layers: tuple[Layer, ...]
    against: tuple[Layer, ...] | None = None
    untimed: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return plain data: the figures of every layer."""
        data = {"layers": [asdict(layer) for layer in self.layers]}
        beside = {} if self.against is None else {"against": [asdict(layer) for layer in self.against]}
        return data | beside

    def tables(self) -> list[Table]:
        """Return the layers."""
        rows = [
            (
                layer.title,
                layer.macs,
                layer.bytes,
                layer.flash_bytes,
                _us(layer.seconds),
                ", ".join(layer.generators),
            )
            for layer in self.layers
        ]
        return [table(self.name, ("layer", "MACs>", "bytes>", "flash>", "us>", "generators"), rows)]

    def save(self, path: str | Path) -> Path:
        """Write the page. Raises InputError."""
        write_file(Path(path), self.page.encode(errors="backslashreplace"))
        return Path(path)


def _us(seconds: float | None) -> str:
    return "-" if seconds is None else f"{1e6 * seconds:.2f}"


def report(
    subject: Model | Bundle,
    output: str | Path | None = None,
    *,
    against: str | Path | None = None,
    time: bool = True,
    error: bool = False,
    histograms: Profile | str | Path | None = None,
    assembly: bool = True,
    **options: Unpack[OptionFields],
) -> Report:
    """Write a page about a build: graph, layers, costs, memory, weights, assembly; `output` is its file.

    `against` is a build to compare with: a target, a bundle's directory, or options such as
    math=exact,fuse=no. `time` times every kernel if the target runs on this machine, `error` measures the
    error of every layer in float64, and `histograms` draws those of a profile. Raises InputError for what
    cannot be reported.
    """
    wanted = options_of("report", options)
    if output is not None:
        require_place(Path(output))
    if is_bundle(subject) and (error or histograms):
        raise InputError("--error and --profile are of a model", remedy="report the model, not its bundle")
    ours = _built(subject, wanted, time, error)
    other = None if against is None else _other(subject, wanted, str(against), time)
    listings, missing = _listings(ours.bundle, wanted) if assembly else ({}, "")
    drawn = _histograms(subject, wanted, ours.stages, histograms)
    gaps = [text for text in (_absent(ours), missing) if text]
    page = _page(ours, other, str(against or ""), listings, drawn, gaps, _sources(subject, ours, error))
    beside = None if other is None else other.account.layers
    made = Report(ours.bundle.name, page, ours.account.layers, beside, ours.account.untimed)
    if output is not None:
        made.save(output)
    return made


def _page(
    ours: _Build,
    other: _Build | None,
    against: str,
    listings: dict[str, str],
    drawn: list[Drawn],
    gaps: list[str],
    sources: list[tuple[str, str]],
) -> str:
    """The page's text."""
    stages = ours.stages
    return report_page(
        Subject(
            ours.bundle.name,
            ours.account,
            None if stages is None else stages.graph,
            None if stages is None else (stages.program, stages.plan),
            listings,
            drawn,
            None if other is None else other.account,
            against,
            gaps,
            sources,
        )
    )


def _built(subject: Model | Bundle, wanted: Options, time: bool, error: bool) -> _Build:
    """The build of a model, or the bundle in a directory."""
    if is_bundle(subject):
        bundle = bundle_of(subject, wanted)
        return _Build(bundle, account(bundle, untimed=UNKNOWN), None)
    if len(find_all(wanted.target)) > 1:
        raise InputError(
            f"--target {wanted.target}: a report is of one target", remedy="show two with --against"
        )
    model = opened(cast("Model", subject))
    (stages,), bundle = built(model, wanted)
    times, untimed = _times(model, wanted, stages) if time else ((), "not asked for (--no-time)")
    errors: dict[str, tuple[float, float]] = {}
    if error:
        from ingot.check.rounding import layer_errors

        for e in layer_errors(model, wanted, compile_with, bundle.manifest):
            total, own = errors.get(e.node, (0.0, 0.0))
            errors[e.node] = max(total, e.total), max(own, e.own)
    return _Build(bundle, account(bundle, (stages.program, stages.plan), times, untimed, errors), stages)


def _times(model: Any, wanted: Options, stages: Stages) -> tuple[tuple[float, ...], str]:
    """Seconds of each kernel call, or why there are none."""
    if reason := obstacle(stages.target):
        return (), f"{stages.target.name} does not run here: {reason}"
    if stages.target.runner:
        return (), f"{stages.target.name} runs in an emulator here, which cannot measure times"
    try:
        found = kernels_of(model, wanted, compile_with)
    except (InputError, ToolchainError) as failure:
        return (), str(failure)
    return tuple(k.seconds for k in found.kernels), ""


def _other(subject: Model | Bundle, wanted: Options, word: str, time: bool) -> _Build:
    """The build that `--against` names."""
    path = Path(word)
    if path.exists() and is_bundle(path):
        return _built(path, wanted, time, False)
    if is_bundle(subject):
        raise InputError(
            f"--against {word}: a bundle can only be compared with a bundle", remedy="report its model"
        )
    changed = _changed(word) if "=" in word else {"target": word}
    return _built(subject, replace(wanted, **changed), time, False)


def _changed(text: str) -> dict[str, Any]:
    """`math=exact,fuse=no`: the fields of the options that differ."""
    found: dict[str, Any] = {}
    for word in text.split(","):
        name, _, value = word.strip().partition("=")
        if name == "target" and value:
            found[name] = value
        elif name in SWITCHES and value in ("yes", "no"):
            found[name] = value == "yes"
        elif value in SETTINGS.get(name, ()):
            found[name] = value
        else:
            known = [f"{n}={'|'.join(v)}" for n, v in SETTINGS.items()] + [f"{n}=yes|no" for n in SWITCHES]
            raise InputError(f"--against {word}: unknown option", remedy=f"write {', '.join(known)}")
    return found


def _listings(bundle: Bundle, wanted: Options) -> tuple[dict[str, str], str]:
    """Function -> its assembly; or why there is none."""
    found: dict[str, str] = {}
    try:
        for unit in units(bundle, (), wanted.cc):
            mark = comment_mark(unit.how.listing(unit.text))
            for f in listed(unit):
                lines = shown(f.lines[:LONGEST], mark, False)
                rest = len(f.lines) - LONGEST
                found[f.name] = lines + (
                    f"\n{mark} {rest} more lines: ingot asm shows all" if rest > 0 else ""
                )
    except (InputError, ToolchainError) as error:
        return {}, f"No assembly: {str(error).splitlines()[0]}."
    return found, ""


def _histograms(
    subject: Model | Bundle, wanted: Options, stages: Stages | None, profile: Profile | str | Path | None
) -> list[Drawn]:
    drawn = []
    if stages is not None:
        text = "How constants of 8 bits or fewer use the range of their types, which each picture spans."
        drawn.append(Drawn("Quantised weights", text, list(of_weights(stages.graph))))
    if profile is not None:
        from ingot.driver import self_contained
        from ingot.quantization.profile import read_profile, require_profile_of

        found = profile if isinstance(profile, Profile) else read_profile(Path(profile))
        require_profile_of(found, self_contained(opened(cast("Model", subject)), wanted))
        text = "The values of the float tensors over all samples, from the smallest to the largest element."
        title = "Activations" if isinstance(profile, Profile) else f"Activations in {Path(profile).name}"
        drawn.append(Drawn(title, text, list(of_profile(found))))
    return drawn


def _absent(ours: _Build) -> str:
    if ours.stages is not None:
        return ""
    return "A bundle has no graph and no memory plan; the report of its model draws them."


def _sources(subject: Model | Bundle, ours: _Build, error: bool) -> list[tuple[str, str]]:
    """Which command tells the same figures."""
    target, name = ours.bundle.manifest["target"], Path(name_of(subject)).name
    if ours.stages is None:
        return [
            ("Costs, kernels, generators", f"ingot inspect {name} --json"),
            ("Assembly", f"ingot asm {name}"),
        ]
    rows = [
        ("Costs, kernels, generators", f"ingot compile {name} --target {target} --json"),
        ("Graph", f"ingot inspect {name} --svg graph.svg"),
        ("Memory over time", f"ingot inspect {name} --target {target} --stage plan --json"),
        ("Assembly", f"ingot asm {name} --target {target}"),
    ]
    if ours.account.seconds is not None:
        rows.append(("Times", f"ingot bench {name} --profile --json"))
    if error:
        rows.append(("Errors", f"ingot report {name} --error --json"))
    return rows
