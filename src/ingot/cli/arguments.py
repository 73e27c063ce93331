"""Options that several commands share, and the readers of their values.

In: strings as typed. Out: what `ingot.Options` holds, or an InputError that says how to write it.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict, get_args

import typer

from ingot.data.arrays import read_array
from ingot.errors import InputError
from ingot.files import parse_json
from ingot.options import Capacity, Emit, Options

READING, TARGET, MEMORY = "How the model is read", "The target and the arithmetic", "Memory"
CALLING, WRITING, QUANTISING, DATA = "How it is called", "What is written", "Quantisation", "Data"
"""The panels of the help texts."""

ModelFile = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL",
        help="A model: ONNX, TensorFlow, TensorFlow Lite, Keras, PyTorch (.pt2) or Caffe2. Optional if the "
        "directory has an ingot.toml, which names the model.",
        show_default=False,
    ),
]
ModelOrBundle = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL_OR_DIR",
        help="A model file, or the directory or manifest of a bundle.",
        show_default=False,
    ),
]
TargetName = Annotated[
    str, typer.Option("--target", help="The processor; `ingot targets` lists them.", rich_help_panel=TARGET)
]
Defines = Annotated[
    list[str] | None,
    typer.Option(
        "--define",
        metavar="SYMBOL=N",
        help="Set a dynamic dimension to a number (N=4) or a range (N=1..8).",
        rich_help_panel=READING,
    ),
]
Fixed = Annotated[
    list[str] | None,
    typer.Option(
        "--fix",
        metavar="INPUT=VALUE",
        help="Make an input a constant: a number that fills it, a list such as [1,2,3], or @FILE.npy.",
        rich_help_panel=READING,
    ),
]
Capacities = Annotated[
    list[str] | None,
    typer.Option(
        "--capacity",
        metavar="[VALUE=]N",
        help="The largest extents of values with data-dependent shapes: y=8x64 for one value, 64 for all "
        "others.",
        rich_help_panel=READING,
    ),
]
StringBytes = Annotated[
    int,
    typer.Option(
        "--string-bytes",
        metavar="N",
        help="The size of a string, including the terminating zero; constants may need more.",
        rich_help_panel=READING,
    ),
]
InferShapes = Annotated[
    bool,
    typer.Option(
        "--infer-shapes",
        help="Ignore declared shapes and types of outputs that contradict the operators.",
        rich_help_panel=READING,
    ),
]
States = Annotated[
    list[str] | None,
    typer.Option(
        "--state",
        metavar="NEXT=PREV",
        help="Keep the output NEXT in a struct, as the input PREV of the next run.",
        rich_help_panel=READING,
    ),
]
Compiler = Annotated[
    str | None,
    typer.Option(
        "--cc", metavar="CMD", help="Use this C compiler instead of the pinned one.", rich_help_panel=TARGET
    ),
]
Flags = Annotated[
    list[str] | None,
    typer.Option(
        "--cflags", metavar="FLAGS", help="Additional flags for the C compiler.", rich_help_panel=TARGET
    ),
]
Arithmetic = Annotated[
    Literal["exact", "standard"],
    typer.Option(
        "--math",
        help="exact: compute the model's own sums, without fast convolution algorithms.",
        rich_help_panel=TARGET,
    ),
]
Priority = Annotated[
    Literal["size", "balanced", "speed"],
    typer.Option(
        "--optimize",
        help="size: shared functions, no unrolling, no fast convolutions; balanced: in between.",
        rich_help_panel=TARGET,
    ),
]
Activations = Annotated[
    Literal["float", "int8"],
    typer.Option(
        "--activations",
        help="int8: multiply encoded weights by activations that are quantised at run time.",
        rich_help_panel=TARGET,
    ),
]
Huffman = Annotated[
    bool,
    typer.Option(
        "--huffman",
        help="Store encoded weights in Huffman codes: less flash, more time.",
        rich_help_panel=TARGET,
    ),
]
SeedInput = Annotated[
    bool,
    typer.Option(
        "--seed-input",
        help="Add an input, seed; random operators draw different numbers for each of its values.",
        rich_help_panel=READING,
    ),
]
TuningFile = Annotated[
    Path | None,
    typer.Option("--tuning", metavar="FILE", help="A file that `ingot tune` wrote.", rich_help_panel=TARGET),
]
Inputs = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        metavar="NAME=FILE.npy",
        help="The elements of an input for one run (not to be confused with `--inputs`). For a sequence, "
        "give one file per element.",
        rich_help_panel=DATA,
    ),
]
Data = Annotated[
    list[str] | None,
    typer.Option(
        "--inputs",
        "--data",
        metavar="[NAME=]FILE",
        help="Samples: a .npz file whose arrays have the inputs' names, a .npy file, or a folder of them. "
        "An array holds one sample, or many along its first axis.",
        rich_help_panel=DATA,
    ),
]
Feeds = Annotated[
    list[str] | None,
    typer.Option(
        "--inputs",
        metavar="NAME:SHAPE",
        help="An input of a TensorFlow or Keras graph and its shape, for example x:1x28x28x1. (For the "
        "elements of an input, use `--input NAME=FILE.npy`.)",
        rich_help_panel=READING,
    ),
]
Fetches = Annotated[
    list[str] | None,
    typer.Option(
        "--outputs",
        metavar="NAME",
        help="Compile the part of the model that computes this value (ONNX, TensorFlow, Keras, TFLite).",
        rich_help_panel=READING,
    ),
]
ModelInputs = Annotated[
    list[str] | None,
    typer.Option(
        "--model-input",
        metavar="NAME,TYPE,SHAPE",
        help="The type and shape of an input, for example data,float,[1,3,224,224] (Caffe2, ONNX).",
        rich_help_panel=READING,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the report as JSON.", rich_help_panel=WRITING)]


class Edges(TypedDict):
    """The fields of the options that say what of a foreign graph is wanted."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    model_inputs: tuple[str, ...]


def parse_define(words: Sequence[str] | None) -> dict[str, int | tuple[int, int]]:
    """`N=4` and `N=1..8`; symbols may themselves hold `=`."""
    out: dict[str, int | tuple[int, int]] = {}
    for word in words or ():
        symbol, equals, value = word.rpartition("=")
        low, dots, high = value.partition("..")
        try:
            bounds = int(low) if not dots else (int(low), int(high))
        except ValueError:
            equals = ""
            bounds = 0
        if not equals or not symbol:
            raise InputError(f"--define {word}: write SYMBOL=N or SYMBOL=LO..HI")
        if symbol in out:
            raise InputError(f"--define {symbol} is given twice")
        out[symbol] = bounds
    return out


def parse_fix(words: Sequence[str] | None) -> dict[str, Any]:
    """`sr=16000`, `x=[[1, 2], [3, 4]]`, `mask=@mask.npy`; any other word is a string."""
    out: dict[str, Any] = {}
    for word in words or ():
        name, equals, value = word.partition("=")
        if not (name and equals and value):
            raise InputError(f"--fix {word}: write INPUT=VALUE, INPUT=[...] or INPUT=@FILE.npy")
        if name in out:
            raise InputError(f"--fix {name} is given twice")
        if value.startswith("@"):
            out[name] = read_array(Path(value[1:]))
        elif value[0] in "[-.0123456789" or value in ("true", "false"):
            out[name] = parse_json(value, f"--fix {name}: the value")
        else:
            out[name] = value
    return out


def parse_capacity(words: Sequence[str] | None) -> dict[str, Capacity]:
    """`64` for all values, `y=64` for every axis of y, `y=8x64` for one after the other."""
    out: dict[str, Capacity] = {}
    for word in words or ():
        name, equals, value = word.rpartition("=")
        if (equals and not name) or not all(n.isdecimal() for n in value.split("x")):
            raise InputError(f"--capacity {word}: write N, VALUE=N or VALUE=NxM (one number per axis)")
        if name in out:
            raise InputError(f"--capacity {name or 'for all values'} is given twice")
        numbers = tuple(int(n) for n in value.split("x"))
        out[name] = numbers[0] if len(numbers) == 1 else numbers
    return out


def edges(
    inputs: Sequence[str] | None, outputs: Sequence[str] | None, model_inputs: Sequence[str] | None = None
) -> Edges:
    """What of a foreign graph is wanted, as fields of the options; several outputs may share a word."""
    names = (name.strip() for word in outputs or () for name in word.split(","))
    return {
        "inputs": tuple(inputs or ()),
        "outputs": tuple(n for n in names if n),
        "model_inputs": tuple(model_inputs or ()),
    }


def parse_rename(words: Sequence[str] | None) -> dict[str, str]:
    """`A=B`: the tensor A is called B in the header."""
    out: dict[str, str] = {}
    for word in words or ():
        old, equals, new = word.rpartition("=")
        if not (equals and old and new):
            raise InputError(f"--rename {word}: write OLD=NEW")
        out[old] = new
    return out


def parse_state(words: Sequence[str] | None) -> dict[str, str]:
    """`NEXT=PREV`: what a run leaves in the output NEXT, the next one finds in the input PREV."""
    out: dict[str, str] = {}
    for word in words or ():
        after, equals, before = word.rpartition("=")
        if not (equals and after and before):
            raise InputError(f"--state {word}: write NEXT=PREV, an output and an input")
        if after in out:
            raise InputError(f"--state: the output {after!r} is in two pairs", remedy="pair it once")
        out[after] = before
    return out


def parse_emit(text: str | None) -> tuple[Emit, ...]:
    """A list with commas; the order is ours, so that equal requests make equal bundles."""
    if text is None:
        return ()
    wanted, known = {w.strip() for w in text.split(",") if w.strip()}, get_args(Emit)
    if wanted - set(known) or not wanted:
        wrong = ", ".join(sorted(wanted - set(known))) or "nothing"
        raise InputError(f"--emit: {wrong} cannot be written; choose from {', '.join(known)}")
    return tuple(e for e in known if e in wanted)


def parse_flags(words: Sequence[str] | None) -> tuple[str, ...]:
    """Split as the shell does."""
    try:
        return tuple(flag for word in words or () for flag in shlex.split(word))
    except ValueError as error:
        raise InputError(f"--cflags: {error}") from None


MOST_DIGITS = 15
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20}


def parse_bytes(word: str | None, flag: str) -> int | None:
    """`65536`, `64K`, `1M`."""
    if word is None:
        return None
    number, unit = (word[:-1], word[-1:].upper()) if word[-1:].isalpha() else (word, "")
    if not number.isdecimal() or len(number) > MOST_DIGITS or unit not in UNITS:
        raise InputError(f"{flag} {word}: write a number of bytes, as 65536, 64K or 1M")
    return int(number) * UNITS[unit]


def parse_regions(text: str | None, flag: str, plain: str) -> dict[str, int]:
    """`tcm:64K,sram:256K`: regions with their bytes, fastest first; `256K` alone is one, called `plain`."""
    out: dict[str, int] = {}
    for word in () if text is None else text.split(","):
        name, colon, size = word.strip().rpartition(":")
        if "=" in word or (not colon and "," in str(text)):
            raise InputError(f"{flag} {text}: write regions with their names, as in tcm:64K,sram:256K")
        name = name if colon else plain
        if name in out:
            raise InputError(f"{flag}: two regions are called {name!r}")
        bytes_ = parse_bytes(size, f"{flag} {name}:" if colon else flag)
        assert bytes_ is not None
        out[name] = bytes_
    return out


def options(
    target: str,
    define: Sequence[str] | None,
    cc: str | None = None,
    cflags: Sequence[str] | None = None,
    tuning: Path | None = None,
    capacity: Sequence[str] | None = None,
    state: Sequence[str] | None = None,
    fix: Sequence[str] | None = None,
    **rest: Any,
) -> Options:
    """The record of what several commands let one say about a compilation."""
    if tuning is not None:
        from ingot.loops.tuning import read_tuning

        rest["tuning"] = read_tuning(tuning)
    sizes: dict[str, Any] = {"define": parse_define(define), "capacity": parse_capacity(capacity)}
    rest |= {"state": parse_state(state), "fix": parse_fix(fix)}
    return Options(target=target, cc=cc, cflags=parse_flags(cflags), **sizes, **rest)


def read_inputs(words: Sequence[str] | None, tensors: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The arrays of `NAME=FILE.npy`, where `tensors` are the model's inputs (names may hold `=`).

    A sequence is given element by element, NAME=FILE.npy for each; NAME= alone is an empty one.
    """
    out: dict[str, Any] = {}
    known = {str(t["name"]): t for t in tensors}
    for word in words or ():
        names = [name for name in known if word.startswith(f"{name}=")]
        if not names:
            listed = ", ".join(known) or "none"
            stranger = "the model has no such input" if "=" in word else "write NAME=FILE.npy"
            raise InputError(f"--input {word}: {stranger}; the model's inputs are: {listed}")
        name = max(names, key=len)
        is_sequence, file = known[name].get("kind") == "sequence", word[len(name) + 1 :]
        if name in out and not is_sequence:
            raise InputError(f"--input {name} is given twice")
        if not file and not is_sequence:
            raise InputError(f"--input {word} names no file", remedy="write NAME=FILE.npy")
        array = read_array(Path(file), str(known[name]["dtype"])) if file else None
        if is_sequence:
            out.setdefault(name, []).extend([] if array is None else [array])
        else:
            out[name] = array
    return out
