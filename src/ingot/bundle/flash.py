"""Constants in several regions of flash: the hottest in the first, beside the code.

In: a program, the bytes of each region, those of the code. Out: the program with its constants in the order
of the regions, and what lies in each. Called by `write`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ingot.emit.weights import room_of
from ingot.errors import InputError
from ingot.formula.expr import Tensor
from ingot.loops.program import Program
from ingot.memory.plan import quantize_remedy
from ingot.memory.regions import Lacking, require_regions, spread
from ingot.memory.traffic import traffic

Flash = Mapping[str, tuple[tuple[Tensor, ...], int]]


@dataclass(frozen=True, slots=True)
class _Piece:
    """A constant with the bytes that its member takes."""

    tensor: Tensor
    bytes: int


def in_flash(program: Program, rooms: Mapping[str, int], code_bytes: int) -> tuple[Program, Flash]:
    """The code is in the first region. InputError names the constant without a place, and what it lacks."""
    if not rooms:
        return program, {}
    require_regions(rooms, "--flash")
    first = next(iter(rooms))
    left = {name: room - (code_bytes if name == first else 0) for name, room in rooms.items()}
    pieces = [_Piece(t, room_of(t)) for t in program.constants]
    touched = traffic(program)
    heat = {p: touched[p.tensor] / p.bytes for p in pieces}
    found = spread(pieces, heat, left, lambda held, _: sum(p.bytes for p in held))
    if isinstance(found, Lacking) or left[first] < 0:
        raise _no_room(program, found, rooms, code_bytes)
    held = {name: tuple(p.tensor for p in pieces if p in some) for name, some in found.items()}
    order = tuple(t for name in held for t in held[name])
    return replace(program, constants=order), {name: (held[name], rooms[name]) for name in rooms}


def _no_room(program: Program, found: object, rooms: Mapping[str, int], code_bytes: int) -> InputError:
    given = ", ".join(f"{name} of {room:,} bytes" for name, room in rooms.items())
    said = f"the code ({code_bytes:,} bytes) has no place in {next(iter(rooms))}"
    if isinstance(found, Lacking) and code_bytes <= next(iter(rooms.values())):
        assert isinstance(found.thing, _Piece)
        said = (
            f"'{found.thing.tensor.name}' ({found.thing.bytes:,} bytes) has no place, {found.region} lacks "
            f"{found.bytes:,} bytes beside {code_bytes:,} of code in the first"
        )
    return InputError(
        f"{program.name} does not fit into {given}: {said}",
        remedy="; ".join(
            filter(None, (quantize_remedy(program.constants), "ingot compress prunes and shares weights"))
        ),
    )
