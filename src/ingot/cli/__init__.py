"""The command line: `ingot COMMAND`, thin: parse, call, show.

In: arguments. Out: tables (or JSON with `--json`) on standard output, everything else on standard error, and
an exit code: 0 ok, 1 mismatch, 2 bad input, 3 toolchain, 70 a fault of Ingot's own. What does the work is
imported when a command runs, so that `ingot --help` answers at once.
"""

from __future__ import annotations

import gc
import os
import sys
import traceback
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from ingot.cli import (
    accelerating,
    assembling,
    auditing,
    benching,
    compiling,
    compressing,
    evaluating,
    frontier,
    hardware,
    importing,
    inspecting,
    profiling,
    project,
    quantizing,
    reporting,
    running,
    scanning,
    tables,
    tuning,
    verifying,
)
from ingot.cli.examples import epilog
from ingot.errors import IngotError, ToolchainError
from ingot.log import forget
from ingot.tables import single_line

INTERNAL = 70
LONGEST = 1500  # characters of a message
COLLECTED = 20_000  # objects made between two searches for cycles: with 700, compiling takes a third longer


class _Group(TyperGroup):
    """Turns what the work raises on purpose into one line and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        forget()
        gc.set_threshold(COLLECTED, *gc.get_threshold()[1:])
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise
        except (IngotError, OSError, MemoryError) as error:
            if os.environ.get("INGOT_DEBUG"):
                traceback.print_exc()
            print(f"ingot: error: {_reason(error)}", file=sys.stderr)
            raise typer.Exit(error.exit_code if isinstance(error, IngotError) else 2) from None


def _reason(error: Exception) -> str:
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return _shortened(single_line(f"{where}{error.strerror or error}"))
    if isinstance(error, ToolchainError):  # the compiler's own report follows, line by line
        return "\n".join(map(single_line, str(error).rstrip().split("\n")))
    return _shortened(single_line(str(error))) or "out of memory"


def _shortened(line: str) -> str:
    """Without the middle of what is too long to be read: names out of files may be of any length."""
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 300]} [...] {line[-300:]}"


app = typer.Typer(
    name="ingot",
    cls=_Group,
    help="Compile neural networks to self-contained C.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (
    project.init,
    compiling.compile,
    running.run,
    verifying.verify,
    compressing.compress,
    profiling.profile,
    evaluating.evaluate,
    quantizing.quantize,
    scanning.sensitivity,
    frontier.pareto,
    inspecting.inspect,
    reporting.report,
    assembling.asm,
    auditing.audit,
    benching.bench,
    tuning.tune,
    tables.targets,
    tables.ops,
):
    app.command(cls=project.ProjectCommand, epilog=epilog(command.__name__))(command)
app.command("import")(importing.import_)
accelerating.app.command()(hardware.rtl)
app.add_typer(accelerating.app)


def _version(asked: bool) -> None:
    if asked:
        from ingot import __version__

        print(f"ingot {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """The entry point of the program `ingot`."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)  # names in models hold what a terminal may not
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
    try:
        app()
    except Exception as error:
        if os.environ.get("INGOT_DEBUG"):
            raise
        kind = type(error).__name__
        print(f"ingot: internal error: {kind}: {single_line(str(error))}", file=sys.stderr)
        print("ingot: this is a bug in Ingot; INGOT_DEBUG=1 shows where", file=sys.stderr)
        sys.exit(INTERNAL)
