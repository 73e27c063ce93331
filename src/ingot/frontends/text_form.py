"""Protobuf's text form of a message, read in bounded time. In: bytes; out: the message, or one error.

Protobuf's own reader recurses on braces, and takes time by the square of a line's length. Called by the
readers of ONNX's, TensorFlow's and Caffe2's text files.
"""

from __future__ import annotations

import re
from itertools import accumulate
from typing import Any

from google.protobuf import text_format  # type: ignore[import-untyped]  # protobuf ships no types

from ingot.errors import ModelError, UnsupportedError

TEXT_DEPTH_LIMIT = 64
LONG_LINE = 1 << 14
BARE_LIMIT = 1 << 21
"""Characters that are no strings, comments or closing brackets: seconds of reading."""
_TOKEN = re.compile(r"\"(?:\\.|[^\"\\\n])*\"?|'(?:\\.|[^'\\\n])*'?|#[^\n]+|[]}>]")
_RUN = re.compile(r"(?:\\\\){32}")
_NO_BRACES = bytes(c for c in range(256) if c not in b"{}<>")
_STEPS = [(c in b"{<") - (c in b"}>") for c in range(256)]
SHOWN = 300


def parse_text(message: Any, data: bytes, what: str, kind: str) -> Any:
    """The message, filled from its text form, fields that it does not know skipped.

    `what` names the file and `kind` what should be in it. Raises ModelError, or UnsupportedError for a text
    that would take minutes to read.
    """
    try:
        text = data.decode()
        if _depth(text) > TEXT_DEPTH_LIMIT:
            raise UnsupportedError(f"{what} is nested too deeply")
        if len(_TOKEN.sub("", text)) > BARE_LIMIT:
            remedy = "save the model in its binary form"
            raise UnsupportedError(
                f"{what} has more than {BARE_LIMIT:,} characters beside strings", remedy=remedy
            )
        text_format.Parse(_in_lines(text), message, allow_unknown_field=True)
    except (text_format.ParseError, ValueError, RecursionError) as error:  # ValueError: a number out of range
        reason = " ".join(str(error)[:SHOWN].split())
        raise ModelError(f"{what} is no text form of {kind}: {reason}") from None
    return message


def _in_lines(text: str) -> str:
    """The text without long lines, and without long runs of backslashes in its strings: for both protobuf's
    reader takes time by the square of their length. Strings that follow each other are one."""
    if max(map(len, text.split("\n"))) <= LONG_LINE:
        return text
    return _TOKEN.sub(_in_pieces, text)


def _in_pieces(token: re.Match[str]) -> str:
    found = token[0]
    if found in "]}>":
        return f"{found}\n"
    return _RUN.sub(rf"\g<0>{found[0]}\n{found[0]}", found) if found[0] in "\"'" else found


def _depth(text: str) -> int:
    """How deep braces are nested; those inside strings count too, which does no harm."""
    braces = text.encode().translate(None, _NO_BRACES)
    return max(accumulate(map(_STEPS.__getitem__, braces)), default=0)
