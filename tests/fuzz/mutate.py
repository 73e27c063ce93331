"""Mutations of what readers read: messages of protobuf field by field, text by its words, anything by bytes.

In: a seed and something well formed. Out: something nearly so. A message is changed where it lies: numbers to
the extremes of their type, names to those of other things in the file or to what C, a path or a terminal
would take for something else, parts repeated, dropped, swapped, or put where another of their type stood,
which gives graphs cycles, equal names and subgraphs in themselves.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

NUMBERS = (
    *(0, 1, -1, 2, 3, 4, 7, 8, 16, 64, 65, 127, 128, 255, 1000, 65536, 10**6, 10**9, -2, -5, -128),
    *(2**31 - 1, 2**31, -(2**31), 2**32, 2**40, 2**53, 2**62, 2**63 - 1, -(2**63)),
)
REALS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-45, 1e38, -1e38, 1e9, float("nan"), float("inf"), -float("inf"))
NAMES = (
    *("", "x", "y", "int", "main", "NULL", "restrict", "_Bool", "0", "9a", "__x", "a/b", "a.b", "a b", "^x"),
    *('*/ system("x"); /*', "*/", "/*", "//", "\\", '"', "'", "%s%n", "??/", "??)", "a\nb", "a\rb", "a\0b"),
    *("#include <x>", "../../x", "/etc/passwd", "..", ".", "${HOME}", "`id`", "\x1b[31m", "\u202e", "\x7f"),
    *("a" * 300, "a" * 65536, "\U0001f600", "é", "x:0", "x:1", "x:99", ":", "x:-1", "NOTSET", "SAME_UPPER"),
    *("1e400", "-1", "18446744073709551616", "nan", "ai.onnx", "ai.onnx.ml", "com.microsoft", "ingot"),
)
INTEGERS = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
    FieldDescriptor.CPPTYPE_ENUM: (-(2**31), 2**31 - 1),
}
LARGEST = 1 << 20
"""What a mutated message may hold: a reader's time is to be spent on form, not on length."""
_WORD = re.compile(r'"(?:\\.|[^"\\\n])*"|[A-Za-z_][\w.]*|-?\d[\d.eE+-]*|\S')


def mutate_bytes(data: bytes, rng: random.Random) -> bytes:
    """A few bytes or runs of them changed, dropped, repeated, or the end cut off."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        at, size = rng.randrange(len(out) + 1), rng.choice((1, 2, 4, 8, 64, 1024))
        match rng.randrange(7):
            case 0 if out:
                out[min(at, len(out) - 1)] ^= 1 << rng.randrange(8)
            case 1 if out:
                out[min(at, len(out) - 1)] = rng.choice((0, 1, 0x7F, 0x80, 0xFF))
            case 2:
                del out[at : at + size]
            case 3 if len(out) < LARGEST:
                out[at:at] = out[at : at + size] * rng.choice((1, 2, 9))
            case 4:
                out[at : at + 8] = rng.choice(NUMBERS).to_bytes(8, "little", signed=True)
            case 5 if rng.random() < 0.3:
                del out[at:]
            case _:
                out[at:at] = rng.randbytes(rng.choice((1, 4, 10)))
    return bytes(out)


def mutate_text(data: bytes, rng: random.Random) -> bytes:
    """A few words exchanged, repeated, dropped, or become extremes; now and then bytes."""
    if rng.random() < 0.1:
        return mutate_bytes(data, rng)
    text = data.decode(errors="replace")
    for _ in range(rng.choice((1, 1, 2, 4))):
        words = list(_WORD.finditer(text))
        if not words:
            break
        a, b = rng.choice(words), rng.choice(words)
        text = text[: a.start()] + _word(a[0], b[0], rng) + text[a.end() :]
    return text.encode(errors="replace")[:LARGEST]


def _word(old: str, other: str, rng: random.Random) -> str:
    match rng.randrange(6):
        case 0:
            return ""
        case 1:
            return f"{old} {old}"
        case 2:
            return f"{old} " * rng.choice((2, 40, 3000))
        case 3:
            return str(rng.choice((*NUMBERS, *REALS)))
        case 4:
            return f'"{rng.choice(NAMES)}"' if old[:1] == '"' else rng.choice(NAMES)
        case _:
            return other


def mutate_message(message: Message, rng: random.Random) -> None:
    """Change a message where it lies, in one to eight places."""
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 8))):
        parts = list(_parts(message))
        part = rng.choice(parts)
        fields = [f for f, _ in part.ListFields()]
        if not fields or rng.random() < 0.25:
            fields = list(part.DESCRIPTOR.fields)
        _change(part, rng.choice(fields), parts, rng)
        if message.ByteSize() > LARGEST:
            break


def _parts(message: Message) -> Iterator[Message]:
    yield message
    for field, value in message.ListFields():
        if field.message_type is not None:
            for part in value if field.is_repeated else (value,):
                yield from _parts(part)


def _change(part: Any, field: Any, parts: list[Message], rng: random.Random) -> None:
    if field.is_repeated:
        _change_list(getattr(part, field.name), field, parts, rng)
    elif rng.random() < 0.15:
        part.ClearField(field.name)
    elif field.message_type is not None:
        _replace(getattr(part, field.name), parts, rng)
    else:
        old = getattr(part, field.name)
        setattr(part, field.name, _scalar(field, old, parts, rng))


def _change_list(values: Any, field: Any, parts: list[Message], rng: random.Random) -> None:
    at = rng.randrange(len(values)) if len(values) else -1
    kind = rng.randrange(6)
    if at < 0 or kind == 0:
        if field.message_type is not None:
            _replace(values.add(), parts, rng)
        else:
            values.extend(_scalar(field, None, parts, rng) for _ in range(rng.choice((1, 1, 2, 65))))
    elif kind == 1:
        del values[at]
    elif kind == 2:
        _repeat(values, at, rng.choice((1, 1, 2, 100)))
    elif kind == 3 and len(values) > 1:
        shuffled = list(values)
        rng.shuffle(shuffled)
        copies = [_copy(v) for v in shuffled]
        del values[:]
        values.extend(copies)
    elif field.message_type is not None:
        _replace(values[at], parts, rng)
    else:
        values[at] = _scalar(field, values[at], parts, rng)


def _repeat(values: Any, at: int, times: int) -> None:
    copied = _copy(values[at])
    values.extend([copied] * times)


def _copy(value: Any) -> Any:
    if not isinstance(value, Message):
        return value
    made = type(value)()
    made.CopyFrom(value)
    return made


def _replace(part: Message, parts: list[Message], rng: random.Random) -> None:
    """Another message of the same type, which may be one that this one lies in."""
    others = [p for p in parts if p.DESCRIPTOR is part.DESCRIPTOR and p is not part]
    if others and rng.random() < 0.9:
        part.CopyFrom(_copy(rng.choice(others)))
    else:
        part.Clear()


def _scalar(field: Any, old: Any, parts: list[Message], rng: random.Random) -> Any:
    kinds: dict[int, Callable[[], Any]] = {
        FieldDescriptor.CPPTYPE_BOOL: lambda: not old,
        FieldDescriptor.CPPTYPE_FLOAT: lambda: rng.choice(REALS),
        FieldDescriptor.CPPTYPE_DOUBLE: lambda: rng.choice((*REALS, 1e300)),
        FieldDescriptor.CPPTYPE_STRING: lambda: _string(field, old, parts, rng),
    }
    return kinds.get(field.cpp_type, lambda: _integer(field, old, rng))()


def _integer(field: Any, old: Any, rng: random.Random) -> int:
    low, high = INTEGERS[field.cpp_type]
    if field.enum_type is not None and (field.enum_type.is_closed or rng.random() < 0.8):
        return int(rng.choice(field.enum_type.values).number)
    near = () if not isinstance(old, int) else (old + 1, old - 1, 2 * old, -old)
    number = rng.choice((*near, *near, *NUMBERS, *range(31)))
    return min(max(number, low), high)


def _string(field: Any, old: Any, parts: list[Message], rng: random.Random) -> Any:
    if field.type == FieldDescriptor.TYPE_BYTES and rng.random() < 0.7:
        return mutate_bytes(old or b"", rng)
    others = [s for p in rng.sample(parts, min(len(parts), 40)) for s in _strings(p)]
    word = rng.choice(others) if others and rng.random() < 0.6 else rng.choice(NAMES)
    if field.type == FieldDescriptor.TYPE_BYTES:
        return word.encode() if isinstance(word, str) else word
    return word if isinstance(word, str) else rng.choice(NAMES)


def _strings(part: Message) -> Iterator[Any]:
    for field, value in part.ListFields():
        if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
            yield from value if field.is_repeated else (value,)
