"""C from disk, as onnx2c, emx-onnx-cgen, NNCG and their like generate it: one function, one file.

The entry is the public function with as many pointers as the model has inputs and outputs, in that order,
that no other calls; `--entry` names it where there are several. The compiler is the user's choice.
"""

from __future__ import annotations

import ctypes
import re
import shlex
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from ingot.peers.job import ARGUMENTS, Array, Job, Native, Refused

COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
LITERAL = re.compile(r'"(?:\\.|[^"\\\n])*"')
NUMBERS = re.compile(r"[\s\dxXa-fA-FpP.,+{}-]*\d[\s\dxXa-fA-FpP.,+{};-]*")  # megabytes of weights
FUNCTION = re.compile(r"^([^\n;{}()#=]*?)\b(\w+)\s*\(([^(){};]*(?:\([^()]*\)[^(){};]*)*)\)\s*\{", re.M)
ALIGNMENT = 64


@contextmanager
def open_session(job: Job) -> Iterator[Native]:
    """The compiled function on arrays of our own."""
    source = Path(job.settings["source"])
    tensors = len(job.inputs) + len(job.outputs)
    name = entry(source.read_text(errors="replace"), tensors, job.settings["entry"])
    if tensors > ARGUMENTS:
        raise Refused(f"{name} has {tensors} arguments, more than {ARGUMENTS} are not passed")
    given = [_aligned(a) for a in job.inputs.values()]
    written = {n: _aligned(a) for n, a in job.outputs.items()}
    with tempfile.TemporaryDirectory(prefix="ingot-source-") as folder:
        library = ctypes.CDLL(str(_compiled(source, job.settings["cc"], Path(folder))))
    address = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
    assert address is not None, "a symbol that was found has an address"
    arguments = [a.ctypes.data for a in (*given, *written.values())]
    yield Native(job, address, arguments, lambda: {n: a.copy() for n, a in written.items()})


def entry(text: str, tensors: int, wanted: str = "") -> str:
    """The name of the function to call. Refused where none or several come into question.

    >>> entry("static void a(float *x) {} void net(const float x[2], float y[2]) {}", 2)
    'net'
    """
    code = "\n".join(line for line in text.splitlines() if not NUMBERS.fullmatch(line))
    plain = LITERAL.sub('""', COMMENT.sub(" ", code)).replace("}", "}\n")
    found = {}
    for before, name, inside in FUNCTION.findall(plain):
        parameters = [p for p in inside.split(",") if p.strip() not in ("", "void")]
        is_public = before.strip() and not re.search(r"\b(static|return|else|typedef)\b", before)
        if is_public and name != "main" and all("*" in p or "[" in p for p in parameters):
            found[name] = len(parameters)
    fitting: list[str] = [name for name, n in found.items() if n == tensors]
    if wanted:
        if wanted not in found or found[wanted] != tensors:
            raise Refused(f"{wanted} is no public function with {tensors} pointers")
        return wanted
    if len(fitting) > 1:  # what another function calls is a part
        fitting = [name for name in fitting if not re.search(rf"[;{{}}=(,]\s*{name}\s*\(", plain)]
    if len(fitting) != 1:
        several = f"several functions fit: {', '.join(fitting)}" if fitting else "no public function"
        raise Refused(f"{several} with {tensors} pointers; name one with --entry")
    return fitting[0]


def _compiled(source: Path, cc: str, folder: Path) -> Path:
    """A shared library, made where the source's own headers are found."""
    library = folder / "source.so"
    command = [*shlex.split(cc), "-w", "-shared", "-fPIC", source.name, "-o", str(library), "-lm"]
    try:
        done = subprocess.run(command, cwd=source.parent, capture_output=True, text=True)
    except OSError as error:
        raise Refused(f"cannot run {command[0]}: {error.strerror}") from None
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if "error" in line] or [f"status {done.returncode}"]
        raise Refused(f"{command[0]}: {said[0]}")
    return library


def _aligned(like: Array) -> Array:
    """A copy at an address that vector code may want."""
    raw = np.zeros(like.nbytes + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    made: Array = raw[start : start + like.nbytes].view(like.dtype).reshape(like.shape)
    made[...] = like
    return made
