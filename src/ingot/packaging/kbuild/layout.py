"""How a device's inputs and outputs lie in memory: as the members of a C struct.

In: tensors of a manifest. Out: where each begins, how many bytes all take, and the struct's text. Every
tensor is aligned to its elements, on machines of 32 bits too, so whoever declares the struct has the layout.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from ingot.bundle.binding import shape
from ingot.formula.packing import packed_bytes
from ingot.formula.types import DType, dtype_named

Tensor = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Member:
    """One tensor, `offset` bytes behind the struct's begin."""

    tensor: Tensor
    name: str
    offset: int

    @property
    def dtype(self) -> DType:
        return dtype_named(self.tensor["dtype"])

    @property
    def shape(self) -> tuple[int, ...]:
        return shape(self.tensor, {})

    @property
    def count(self) -> int:
        return prod(self.shape)

    @property
    def bytes(self) -> int:
        return packed_bytes(self.count, self.dtype)

    @property
    def declaration(self) -> str:
        """`float in_x[1][9]`; elements below 8 bits are packed in bytes."""
        extents = (self.bytes,) if self.dtype.is_packed else self.shape or (1,)
        extents += (self.dtype.bytes,) if self.dtype.is_text else ()
        aligned = f" __attribute__((aligned({WIDE})))" if alignment(self.dtype) == WIDE else ""
        return f"{element(self.dtype)} {self.name}{''.join(f'[{n}]' for n in extents)}{aligned}"


@dataclass(frozen=True, slots=True)
class Layout:
    """All inputs, or all outputs; `size` is what sizeof gives."""

    members: tuple[Member, ...]
    size: int

    def packed(self, parts: Sequence[bytes]) -> bytes:
        """The struct's bytes, zeros between the tensors."""
        whole = bytearray(self.size)
        for m, part in zip(self.members, parts, strict=True):
            whole[m.offset : m.offset + m.bytes] = part
        return bytes(whole)


WIDE = 8
"""Types of so many bytes have a weaker alignment in structs of 32-bit programs, unless they are told."""


def layout(tensors: Sequence[Tensor], prefix: str) -> Layout:
    """`prefix` is in front of the tensors' names, so that none of them is a macro of the kernel."""
    members, at, most = [], 0, 1
    for t in tensors:
        step = alignment(dtype_named(t["dtype"]))
        member = Member(t, f"{prefix}_{t['symbol']}", -(-at // step) * step)
        members.append(member)
        at, most = member.offset + member.bytes, max(most, step)
    return Layout(tuple(members), -(-at // most) * most)


def alignment(dtype: DType) -> int:
    return 1 if dtype.is_text or dtype.is_packed else dtype.bytes


def element(dtype: DType) -> str:
    """What C calls an element where the caller sees it."""
    return "uint8_t" if dtype.is_packed else dtype.edge


def struct_text(name: str, of: Layout) -> str:
    rows = [f"\t{m.declaration}; /* {_described(m)} */" for m in of.members]
    return "\n".join([f"struct {name} {{", *rows, "};"])


def _described(m: Member) -> str:
    """The offset, for who has no C; the type where C's says less."""
    packed = f", {'x'.join(map(str, m.shape)) or 'scalar'} packed" if m.dtype.is_packed else ""
    return f"at {m.offset}: {m.dtype}{packed}"


def assertions(name: str, of: Layout) -> list[str]:
    """That a compiler sees the same layout."""
    rows = [f'_Static_assert(sizeof(struct {name}) == {of.size}, "sizeof {name}");']
    rows += [
        f'_Static_assert(__builtin_offsetof(struct {name}, {m.name}) == {m.offset}, "{m.name}");'
        for m in of.members
    ]
    return rows
