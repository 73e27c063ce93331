"""`ingot report`: one page about a model's build or a bundle, for people to look at."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ingot.cli import arguments as arg
from ingot.cli.compiling import is_bundle
from ingot.cli.show import note, progress, write_text
from ingot.cli.show import report as show
from ingot.errors import InputError, ToolchainError
from ingot.files import require_place

if TYPE_CHECKING:
    from ingot.bundle.bundle import Bundle
    from ingot.driver import Stages
    from ingot.inspection.account import Account
    from ingot.inspection.report_page import Drawn
    from ingot.options import Options

Output = Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="Where the page goes.")]
Against = Annotated[
    str | None,
    typer.Option(
        metavar="OTHER",
        help="Another build beside it: a target, a bundle's directory, or options as math=exact,fuse=no.",
    ),
]
Time = Annotated[
    bool, typer.Option("--time/--no-time", help="Time every kernel, where the target runs in this process.")
]
Error = Annotated[
    bool, typer.Option("--error", help="Also the error of every layer beside an evaluation in float64.")
]
Histograms = Annotated[
    Path | None,
    typer.Option("--profile", metavar="P.yaml", help="Draw the histograms that `ingot profile` wrote."),
]
Listings = Annotated[bool, typer.Option("--assembly/--no-assembly", help="Put every function's assembly in.")]
SETTINGS: dict[str, tuple[str, ...]] = {
    "math": ("standard", "exact"),
    "activations": ("float", "int8"),
    "api": ("direct", "static", "dynamic"),
}
SWITCHES = ("fuse", "generators", "huffman", "threads")
LONGEST = 3000  # lines of one function
UNKNOWN = "a bundle holds no clock: report its model"


@dataclass(frozen=True, slots=True)
class _Build:
    """A bundle and its account; the levels it came from where it was compiled here."""

    bundle: Bundle
    account: Account
    stages: Stages | None


def report(
    subject: arg.ModelOrBundle,
    output: Output = Path("report.html"),
    against: Against = None,
    time: Time = True,
    error: Error = False,
    profile: Histograms = None,
    assembly: Listings = True,
    define: arg.Defines = None,
    fix: arg.Fixed = None,
    capacity: arg.Capacities = None,
    string_bytes: arg.StringBytes = 64,
    state: arg.States = None,
    feeds: arg.Feeds = None,
    fetches: arg.Fetches = None,
    model_inputs: arg.ModelInputs = None,
    target: arg.TargetName = "native",
    cc: arg.Compiler = None,
    cflags: arg.Flags = None,
    math: arg.Arithmetic = "standard",
    activations: arg.Activations = "float",
    huffman: arg.Huffman = False,
    tuning: arg.TuningFile = None,
    as_json: arg.Json = False,
) -> None:
    """Write one page about a build: graph, layers, costs, memory, weights, assembly."""
    require_place(output)
    more: dict[str, Any] = {
        "math": math,
        "activations": activations,
        "huffman": huffman,
        "string_bytes": string_bytes,
        **arg.edges(feeds, fetches, model_inputs),
    }
    wanted = arg.options(target, define, cc, cflags, tuning, capacity, state, fix, **more)
    if is_bundle(subject) and (error or profile):
        raise InputError("--error and --profile are of a model", remedy="report the model, not its bundle")
    with progress(f"Reporting on {subject.name}"):
        ours = _built(subject, wanted, time, error)
        other = None if against is None else _other(subject, wanted, against, time)
        listings, missing = _listings(ours.bundle, wanted) if assembly else ({}, "")
        drawn = _histograms(subject, wanted, ours.stages, profile)
        gaps = [text for text in (_absent(ours), missing) if text]
        page = _page(ours, other, against or "", listings, drawn, gaps, _sources(subject, ours, error))
    write_text(output, page)
    data = {"page": str(output), "layers": [asdict(layer) for layer in ours.account.layers]}
    if other is not None:
        data["against"] = [asdict(layer) for layer in other.account.layers]
    if ours.account.untimed:
        note(f"no times: {ours.account.untimed}")
    if as_json:
        show(data, True)


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
    from ingot.inspection.report_page import Subject, report_page

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


def _built(subject: Path, wanted: Options, time: bool, error: bool) -> _Build:
    """The build of a model, or the bundle in a directory."""
    from ingot.inspection.account import account

    if is_bundle(subject):
        from ingot.bundle.bundle import load

        bundle = load(subject)
        return _Build(bundle, account(bundle, untimed=UNKNOWN), None)
    from ingot.driver import built, compile_with
    from ingot.targets.records import find_all

    if len(find_all(wanted.target)) > 1:
        raise InputError(
            f"--target {wanted.target}: a report is of one target", remedy="show two with --against"
        )
    (stages,), bundle = built(subject, wanted)
    times, untimed = _times(subject, wanted, stages) if time else ((), "not asked for (--no-time)")
    errors: dict[str, tuple[float, float]] = {}
    if error:
        from ingot.check.rounding import layer_errors

        for e in layer_errors(subject, wanted, compile_with, bundle.manifest):
            total, own = errors.get(e.node, (0.0, 0.0))
            errors[e.node] = max(total, e.total), max(own, e.own)
    return _Build(bundle, account(bundle, (stages.program, stages.plan), times, untimed, errors), stages)


def _times(model: Path, wanted: Options, stages: Stages) -> tuple[tuple[float, ...], str]:
    """Seconds of each kernel call, or why there are none."""
    from ingot.check.profile import profile
    from ingot.driver import compile_with
    from ingot.targets.toolchain import obstacle

    if reason := obstacle(stages.target):
        return (), f"{stages.target.name} does not run here: {reason}"
    if stages.target.runner:
        return (), f"{stages.target.name} runs in an emulator here, which tells no times"
    try:
        found = profile(model, wanted, compile_with)
    except (InputError, ToolchainError) as failure:
        return (), str(failure)
    return tuple(k.seconds for k in found.kernels), ""


def _other(subject: Path, wanted: Options, word: str, time: bool) -> _Build:
    """The build that `--against` names."""
    path = Path(word)
    if path.exists() and is_bundle(path):
        return _built(path, wanted, time, False)
    if is_bundle(subject):
        raise InputError(f"--against {word}: beside a bundle stands a bundle", remedy="report its model")
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
    from ingot.inspection.assembly import comment_mark, listed, shown, units

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


def _histograms(subject: Path, wanted: Options, stages: Stages | None, profile: Path | None) -> list[Drawn]:
    from ingot.inspection.histograms import of_profile, of_weights
    from ingot.inspection.report_page import Drawn

    drawn = []
    if stages is not None:
        text = (
            "How the constants of bytes, or less, use the range of their types; each picture spans the type."
        )
        drawn.append(Drawn("Quantised weights", text, list(of_weights(stages.graph))))
    if profile is not None:
        from ingot.driver import self_contained
        from ingot.quantization.profile import read_profile, require_profile_of

        found = read_profile(profile)
        require_profile_of(found, self_contained(subject, wanted))
        text = "What the float tensors hold over the samples, from the least to the greatest element."
        drawn.append(Drawn(f"Activations in {profile.name}", text, list(of_profile(found))))
    return drawn


def _absent(ours: _Build) -> str:
    if ours.stages is not None:
        return ""
    return "A bundle holds no graph and no memory plan: the report of its model draws them."


def _sources(subject: Path, ours: _Build, error: bool) -> list[tuple[str, str]]:
    """Which command tells the same figures."""
    target, name = ours.bundle.manifest["target"], subject.name
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
