"""What a bundle may take of a device's memory: streams are searched that keep it within the RAM, and what
takes more is refused by the names of what takes most.

In: the limits of the options, and how a program is made with so much room, or a unit and the sizes of its
manifest. Out: a plan that fits, or the smallest one; nothing, or an InputError. Called by the driver, and by
`write`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from ingot.emit.unit import Unit
from ingot.errors import InputError
from ingot.formula.expr import Tensor
from ingot.memory.plan import NoRoomError, Plan, quantize_remedy
from ingot.memory.tree import ALIGN, padded
from ingot.options import Options

NAMED = 3
TRIES = 8  # programs that are made in search of one that fits


def within_ram(placed: Callable[[int | None], Plan], options: Options) -> Plan:
    """The first plan within `max_ram` and the regions of `memory`: of whole tensors, else of streams that
    leave them ever less room.

    `placed` makes one whose tensors take about so many bytes at a time; kernels add scratch of their own. If
    none is within `max_ram`, the smallest, for `require_room` to refuse. Raises NoRoomError if none fits the
    regions.
    """
    whole = _tried(placed, None)
    rooms = [*filter(None, (options.max_ram, sum(options.memory.values()) if options.memory else None))]
    if not rooms or not (options.fuse and options.generators):
        return _fitting([whole])
    found, room = [whole], min(rooms) - _beside(whole, options)
    while (over := _over_by(found[-1], options)) > 0 and room > 0 and len(found) <= TRIES:
        room -= max(over, ALIGN) if len(found) > 1 else 0
        found.append(_tried(placed, room))
    best = _fitting(found)
    return best if best is whole else replace(best, whole_bytes=whole.arena_bytes)


def _tried(placed: Callable[[int | None], Plan], room: int | None) -> Plan | NoRoomError:
    """A plan, or what it lacks of the regions."""
    try:
        return placed(room)
    except NoRoomError as lacks:
        return lacks


def _over_by(found: Plan | NoRoomError, options: Options) -> int:
    """How many bytes are too many."""
    ram = 0 if options.max_ram is None else found.arena_bytes + _beside(found, options) - options.max_ram
    return max(ram, found.lacking_bytes if isinstance(found, NoRoomError) else 0)


def _fitting(found: Sequence[Plan | NoRoomError]) -> Plan:
    """The smallest of the plans; if there is none, the error of what lacks least."""
    plans = [p for p in found if isinstance(p, Plan)]
    if not plans:
        raise min((e for e in found if isinstance(e, NoRoomError)), key=lambda e: e.lacking_bytes)
    return min(plans, key=lambda p: p.arena_bytes)


def _beside(found: Plan | NoRoomError, options: Options) -> int:
    """What the caller has to keep beside the arena: the state, and Glow's mutable memory."""
    program = found.program
    state = sum(max(t.count, 1) * t.type.bytes for t in program.members)
    edge = (*program.inputs, *program.outputs) if options.api in ("static", "dynamic") else ()
    return state + sum(padded(t.bytes) for t in edge)


def require_room(unit: Unit, options: Options, sizes: Mapping[str, int]) -> None:
    """InputError where RAM (arena, state, Glow's mutable memory) or flash (code, constants) are exceeded."""
    ram = sizes["arena_bytes"] + sizes["state_bytes"] + sizes["mutable_bytes"] + sizes["static_bytes"]
    if options.max_ram is not None and ram > options.max_ram:
        step, live = _peak(unit)
        raise InputError(
            f"{_over(unit, ram, 'RAM', options.max_ram)}; step {step} keeps {_largest(live)}",
            remedy=quantize_remedy(live),
        )
    flash = sizes["flash_bytes"] + (sizes["weights_bytes"] if unit.external else 0)
    if options.max_flash is not None and flash > options.max_flash:
        kept = {t: t.bytes for t in unit.program.constants}
        over = _over(unit, flash, "flash", options.max_flash)
        ways = (quantize_remedy(kept), "ingot compress prunes and shares weights")
        raise InputError(
            f"{over}: code and constants, of these {_largest(kept)}", remedy="; ".join(filter(None, ways))
        )


def _over(unit: Unit, bytes_: int, what: str, limit: int) -> str:
    return (
        f"{unit.name} takes {bytes_:,} bytes of {what} on {unit.target.name}, {bytes_ - limit:,} more than "
        f"--max-{what.lower()} {limit:,}"
    )


def _peak(unit: Unit) -> tuple[int, dict[Tensor, int]]:
    """The step at which most bytes of the arena are live, and what they hold."""
    lifetimes = unit.plan.lifetimes
    steps = {start for life in lifetimes for start, _ in life.spans}
    live = {
        step: {life.tensor: life.bytes for life in lifetimes if any(a <= step < b for a, b in life.spans)}
        for step in sorted(steps)
    }
    most = max(live, key=lambda step: sum(live[step].values()), default=0)
    return most, live.get(most, {})


def _largest(sizes: Mapping[Tensor, int]) -> str:
    """The tensors that take most, by name."""
    ordered: Iterable[tuple[Tensor, int]] = sorted(sizes.items(), key=lambda row: -row[1])
    named = [f"'{t.name}' ({n:,} bytes)" for t, n in ordered]
    more = len(named) - NAMED
    return ", ".join(named[:NAMED]) + (f" and {more} more" if more > 0 else "") if named else "nothing"
