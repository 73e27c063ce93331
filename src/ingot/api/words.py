"""Messages in the words of Python: `--define N=...` is the parameter `define={'N': ...}`.

The rooms below say what is wrong in the words of the command line. The public functions of `ingot` are the
verbs of this package, wrapped by `pythonic`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from functools import partial, wraps
from inspect import signature
from typing import Any, Literal, ParamSpec, TypeVar, get_args, get_origin, get_type_hints

from ingot.errors import IngotError, InputError
from ingot.log import worded
from ingot.options import Emit, OptionFields, Package

P = ParamSpec("P")
R = TypeVar("R")
OTHERS = {
    "io": "edge",
    "assert-all-quantized": "assert_all",
    "no-bias-correction": "bias_correction=False",
    "no-equalize": "equalize=False",
    "relocation-model": "relocation",
    "model-input": "model_inputs",
    "target-ratio": "ratio",
    "from": "container",
    "input": "feeds",
    "image-mode": "preprocessing",
    "channel-order": "preprocessing",
    "layout": "preprocessing",
    "mean": "preprocessing",
    "std": "preprocessing",
}
"""Options of the command line that have another name as a parameter."""
PAIRS = ("define", "capacity", "state", "rename", "fix")
NAMES = ("state", "rename")
"""Options that pair names with values, and those whose values are names."""
HINTS = get_type_hints(OptionFields)


def in_python(text: str, parameters: Collection[str] = ()) -> str:
    """Return a message of the command line's in the words of Python.

    Options are keywords of a compilation, or `parameters` of the function that is called.

    >>> in_python("give it with --define N=4; or leave out --api static")
    "give it with define={'N': 4}; or leave out api='static'"
    """
    text = re.sub(rf"--({'|'.join(PAIRS)}) ([^\s=;,]+)=([^\s;,]*(?:\.\.\.|[^\s;,.:]))", _paired, text)
    kind = f"(?:{'|'.join(get_args(Emit))})"
    text = re.sub(rf"--emit ({kind}(?:,{kind})*)\b", _emitted, text)
    known = {*HINTS, *parameters}
    return re.sub(r"--([a-z][a-z0-9-]*)(?: ([A-Za-z0-9.+_-]+))?", partial(_parameter, known=known), text)


def _paired(found: re.Match[str]) -> str:
    option, name, value = found.groups()
    return f"{option}={{{name!r}: {repr(value) if option in NAMES else value}}}"


def _emitted(found: re.Match[str]) -> str:
    return f"emit={tuple(found[1].split(','))!r}"


def _parameter(found: re.Match[str], known: Collection[str]) -> str:
    """`--api static` and `--api`, as a keyword with its value where that is one of the option's words."""
    option, word = found[1], found[2]
    name = OTHERS.get(option, option.replace("-", "_"))
    if name.partition("=")[0] not in known:
        return found[0]
    if word is not None and word in _words(name):
        return f"{name}={word!r}"
    if word is not None and word.isdecimal():
        return f"{name}={word}"
    is_subject = found.start() == 0 and found.string[found.end() :].startswith(":")
    if word is None and is_subject:
        return name
    behind = "" if word is None else f" {word}"
    return (name if "=" in name else f"{name}=") + behind


def _words(name: str) -> tuple[Any, ...]:
    """The words that a parameter knows."""
    hint = Package if name == "package" else HINTS.get(name)
    return tuple(
        value for part in (hint, *get_args(hint)) if get_origin(part) is Literal for value in get_args(part)
    )


def pythonic(verb: Callable[P, R]) -> Callable[P, R]:
    """Return the function with its errors and remarks in the words of Python."""

    words = partial(in_python, parameters=signature(verb).parameters)

    @wraps(verb)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        with worded(words):
            try:
                return verb(*args, **kwargs)
            except InputError as error:
                error.reword(words)
                raise
            except IngotError as error:
                error.args = tuple(words(a) if isinstance(a, str) else a for a in error.args)
                raise

    return called
