"""Where every tensor lives: the caller's memory, the weights, or an offset in the arena.

In: a Program. Out: a `Plan` with an offset for every tensor that needs arena bytes. Lifetimes are read off
the tree, results may overwrite operands, offsets are searched; `check` proves the outcome and shares no code
with any of that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from ingot.errors import InputError
from ingot.formula.expr import Tensor
from ingot.loops.program import Call, Kernel, Program, calls
from ingot.memory.arena import MANY, Offsets, height, place, place_sliding
from ingot.memory.lifetimes import Lifetime, lifetimes
from ingot.memory.regions import Lacking, Region, require_regions, spread_buffers
from ingot.memory.share import Buffer, Overwrite, Sharing, sharings, slid_bound, slidings
from ingot.memory.traffic import traffic
from ingot.memory.tree import ALIGN as ALIGN
from ingot.memory.tree import Node, padded, tree


@dataclass(frozen=True, eq=False)
class Plan:
    """Offsets into a program's arena, its size, the least any offsets could need (the peak of live bytes).

    Two tensors may be alive in the same bytes for one step only, and only where `overwrites` says so. Of an
    arena in several `regions` the offsets go on from one to the next; no tensor lies in two. `whole_bytes` is
    the size of the arena without streams, where streams were made to have a smaller one.
    """

    program: Program
    offsets: dict[Tensor, int]
    lifetimes: tuple[Lifetime, ...]
    overwrites: tuple[Overwrite, ...]
    arena_bytes: int
    bound_bytes: int
    regions: tuple[Region, ...] = ()
    whole_bytes: int | None = None

    def aliasing(self, kernel: Kernel) -> frozenset[Tensor]:
        """The kernel's parameters that some call binds to the same bytes."""
        return frozenset(self._aliasing.get(kernel, ()))

    @cached_property
    def _aliasing(self) -> dict[Kernel, set[Tensor]]:
        found: dict[Kernel, set[Tensor]] = {}
        for o in self.overwrites:
            if o.call is not None:
                found.setdefault(o.call[0], set()).update(o.call[1])
        for c in calls(self.program.steps):
            alike = self._alike(c)
            if alike:
                found.setdefault(c.kernel, set()).update(alike)
        return found

    def _alike(self, call: Call) -> set[Tensor]:
        """The kernel's parameters for which this call gives the same bytes more than once."""
        places = [
            (self.offsets.get(at.base, at.base), at.start) for at in map(self.program.place, call.arguments)
        ]
        times = Counter(places)
        return {p for p, at in zip(call.kernel.parameters, places, strict=True) if times[at] > 1}


class NoRoomError(InputError):
    """What has no place in the regions, and by how much; `arena_bytes`: the arena in one."""

    def __init__(self, message: str, remedy: str, program: Program, lacking_bytes: int) -> None:
        super().__init__(message, remedy=remedy)
        self.program, self.lacking_bytes = program, lacking_bytes
        self.arena_bytes = plan(program).arena_bytes


def plan(program: Program, rooms: Mapping[str, int] | None = None) -> Plan:
    """Offsets for everything that lives in the arena, or in regions of so many bytes, fastest first.

    Raises NoRoomError where the regions are too small."""
    nodes = tree(program)
    lives = lifetimes(program, nodes)
    if rooms:
        return _in_regions(program, lives, sharings(program, nodes, lives), rooms)
    best: tuple[Sharing, Offsets] | None = None
    for sharing in sharings(program, nodes, lives):
        found = place(sharing.buffers, sharing.bound_bytes)
        if best is None or height(found) < height(best[1]):
            best = sharing, found
        if height(found) <= sharing.bound_bytes:
            break
    assert best is not None
    sharing, placed = best
    found, bound, more = _slid(program, nodes, lives, sharing, placed)
    offsets = {t: at for buffer, at in found.items() for t in buffer.tensors}
    return Plan(program, offsets, lives, (*sharing.overwrites, *more), height(found), bound)


def _slid(
    program: Program, nodes: tuple[Node, ...], lives: tuple[Lifetime, ...], sharing: Sharing, placed: Offsets
) -> tuple[Offsets, int, tuple[Overwrite, ...]]:
    """Lower offsets where results may replace parts of operands, the least there could be, and which do."""
    may = slidings(program, nodes, lives, sharing)
    bound = slid_bound(sharing, may) if may else sharing.bound_bytes
    if bound >= height(placed) or len(sharing.buffers) > MANY:
        return placed, sharing.bound_bytes, ()
    found = place_sliding(sharing.buffers, {pair: s.slide for pair, s in may.items()}, bound)
    if height(found) >= height(placed):
        return placed, bound, ()
    used = (
        Overwrite(s.number, s.x, s.y, s.call, found[a] - found[b])
        for (a, b), s in may.items()
        if found[a] < found[b] + b.bytes and found[b] < found[a] + a.bytes
    )
    return found, bound, tuple(used)


def _in_regions(
    program: Program, lives: tuple[Lifetime, ...], ways: tuple[Sharing, ...], rooms: Mapping[str, int]
) -> Plan:
    """The first way of sharing bytes that fits, the state in the first region that leaves the rest room."""
    require_regions(rooms, "--memory")
    state = padded(sum(max(t.count, 1) * t.type.bytes for t in program.members)) if program.states else 0
    touched, nearest = traffic(program), None
    for sharing in ways:
        heat = {b: sum(touched[t] for t in b.tensors) / b.bytes for b in sharing.buffers}
        for home in rooms:
            if (left := {name: room - state * (name == home) for name, room in rooms.items()})[home] < 0:
                continue
            found = spread_buffers(sharing.buffers, heat, left)
            if not isinstance(found, Lacking):
                return _placed(program, lives, sharing, found, rooms, {home: state})
            nearest = found if nearest is None or found.bytes < nearest.bytes else nearest
            if not state:
                break
    raise _no_room(program, nearest, state, rooms)


def _placed(
    program: Program,
    lives: tuple[Lifetime, ...],
    sharing: Sharing,
    found: Mapping[str, Offsets],
    rooms: Mapping[str, int],
    state: Mapping[str, int],
) -> Plan:
    """The plan of buffers in their regions: the regions' addresses follow each other."""
    regions: list[Region] = []
    offsets: dict[Tensor, int] = {}
    for name, placed in found.items():
        start = regions[-1].end if regions else 0
        regions.append(Region(name, rooms[name], start, height(placed), state.get(name, 0)))
        offsets |= {t: start + at for buffer, at in placed.items() for t in buffer.tensors}
    total = regions[-1].end
    return Plan(program, offsets, lives, sharing.overwrites, total, sharing.bound_bytes, tuple(regions))


def _no_room(program: Program, lacking: Lacking | None, state: int, rooms: Mapping[str, int]) -> NoRoomError:
    """What did not fit, by name, and by how much."""
    given = ", ".join(f"{name} of {room:,} bytes" for name, room in rooms.items())
    if lacking is None:
        name, size, held = "the state", state, program.members
        region = max(rooms, key=lambda r: rooms[r])
        more = size - rooms[region]
    else:
        assert isinstance(lacking.thing, Buffer)
        held = lacking.thing.tensors
        name, size = f"'{held[0].name}'", lacking.thing.bytes
        region, more = lacking.region, lacking.bytes
    return NoRoomError(
        f"{program.name} does not fit into {given}: {name} ({size:,} bytes) has no place, "
        f"{region} lacks {more:,} bytes",
        quantize_remedy(held),
        program,
        more,
    )


def quantize_remedy(tensors: Iterable[Tensor]) -> str:
    """What makes tensors smaller, if most of their bytes are floats (quantised networks have few)."""
    sizes = [(t.bytes, t.type.is_float) for t in tensors]
    floats = sum(size for size, is_float in sizes if is_float)
    is_large = floats * 2 > sum(size for size, _ in sizes)
    return "ingot quantize makes floats bytes, a quarter of them" if is_large else ""


def bound_bytes(program: Program) -> int:
    """The least arena any plan of this program could have."""
    nodes = tree(program)
    return min(s.bound_bytes for s in sharings(program, nodes, lifetimes(program, nodes)))


def plan_text(plan: Plan) -> str:
    """One line a tensor: offset, bytes, the steps it lives in, name."""
    head = f"arena {plan.arena_bytes} bytes, at least {plan.bound_bytes}"
    rows = [
        f"{plan.offsets[life.tensor]:8d} {life.bytes:8d} "
        f"{' '.join(f'{start}..{end}' for start, end in life.spans)} {life.tensor.name}"
        for life in plan.lifetimes
    ]
    over = [f"at step {o.number} {o.y.name} is written over {o.x.name}" for o in plan.overwrites]
    regions = [f"region {r.name}: {r.start}..{r.end} of {r.room} bytes" for r in plan.regions]
    return "\n".join([head, *regions, *rows, *over])
