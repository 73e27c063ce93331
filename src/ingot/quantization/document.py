"""YAML files as Python values, read from the parser's events. Called by whatever reads a profile.

A user's YAML is hostile: aliases that multiply, tags that construct, nesting that exhausts the stack. None of
it is in a profile, so none of it is read: what remains is mappings, lists, numbers and strings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ingot.errors import InputError
from ingot.files import read_text, write_file

YAML_BYTES = 1 << 28
DEPTH_LIMIT = 16
_INTEGER = re.compile(r"[-+]?[0-9]{1,40}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]{1,9})?")


def read_documents(path: Path) -> list[Any]:
    """Return the values of the documents of a YAML file, in order. Raises InputError."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    text = read_text(path, YAML_BYTES)
    try:
        return list(_documents(yaml.parse(text, Loader=loader)))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}: " if mark is not None else ""
        raise InputError(f"{path} is not YAML: {where}{error.problem or error.context}") from None
    except yaml.YAMLError as error:
        reason = str(error).split("\n")[0]
        raise InputError(f"{path} is not YAML: {reason}") from None
    except ValueError as error:
        raise InputError(f"{path}: {error}") from None


def write_document(path: Path, document: Mapping[str, Any]) -> None:
    """Write a mapping as a YAML file, lists of numbers in lines. Raises InputError."""
    import yaml

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    text = yaml.dump(document, Dumper=dumper, default_flow_style=None, sort_keys=False, width=110)
    write_file(path, text.encode())


def _documents(events: Iterator[Any]) -> Iterator[Any]:
    """Build each document from its events; the stack holds (container, key that waits for its value)."""
    stack: list[tuple[Any, str | None]] = []
    for event in events:
        match type(event).__name__:
            case "AliasEvent":
                raise ValueError(f"line {event.start_mark.line + 1}: aliases are not read")
            case "DocumentStartEvent":
                stack = [([], None)]
            case "DocumentEndEvent":
                yield from stack[0][0]
            case "MappingStartEvent" | "SequenceStartEvent" as kind:
                _require_plain(event, len(stack))
                stack.append(({} if kind == "MappingStartEvent" else [], None))
            case "MappingEndEvent" | "SequenceEndEvent":
                value, _ = stack.pop()
                stack[-1] = _with(stack[-1], value, event)
            case "ScalarEvent":
                _require_plain(event, 0)
                stack[-1] = _with(stack[-1], event, event)


def _require_plain(event: Any, depth: int) -> None:
    if event.tag is not None:
        raise ValueError(f"line {event.start_mark.line + 1}: tags are not read")
    if depth > DEPTH_LIMIT:
        raise ValueError(f"line {event.start_mark.line + 1}: nested deeper than {DEPTH_LIMIT}")


def _with(top: tuple[Any, str | None], value: Any, event: Any) -> tuple[Any, str | None]:
    """Add a value (a container, or the event of a scalar) to the innermost container; keys are strings."""
    container, key = top
    if isinstance(container, list):
        container.append(_scalar(value) if value is event else value)
        return container, None
    if key is not None:
        container[key] = _scalar(value) if value is event else value
        return container, None
    if value is not event:
        raise ValueError(f"line {event.start_mark.line + 1}: a key is no string")
    if value.value in container:
        raise ValueError(f"line {event.start_mark.line + 1}: the key {value.value[:64]!r} is given twice")
    return container, str(value.value)


def _scalar(event: Any) -> Any:
    """A plain scalar that reads as a number is one; everything else is a string."""
    text = event.value
    if event.style is None or event.style == "":
        if _INTEGER.fullmatch(text):
            return int(text)
        if len(text) <= 400 and _FLOAT.fullmatch(text):
            return float(text)
    return text
