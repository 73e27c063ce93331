"""The arena over time, drawn: what lies where, from when to when.

In: a Program and its Plan. Out: the text of an SVG file. Time runs to the right in steps of the program,
addresses upwards; lines mark the size of the arena, the bound no plan can go below, and the bytes alive.
"""

from __future__ import annotations

from collections.abc import Callable

from ingot.drawing.svg import CHARACTER, Canvas, clean
from ingot.loops.program import Branch, Call, Copy, Program, Repeat, Step, steps_of
from ingot.memory.lifetimes import Lifetime
from ingot.memory.plan import Plan

LEFT, TOP, HEIGHT, RIGHT = 90.0, 50.0, 460.0, 30.0
MOST_LABELS = 120
GOLDEN_ANGLE = 137.5  # neighbours get hues far apart


def step_names(program: Program) -> list[str]:
    """What happens at each step number, counted over the tree as the plan counts."""
    names: list[str] = []

    def visit(steps: tuple[Step, ...]) -> None:
        for step in steps:
            names.append(_label(step))
            visit(steps_of(step))

    visit(program.steps)
    return names


def _label(step: Step) -> str:
    match step:
        case Call(kernel):
            return kernel.name
        case Copy(_, to):
            return f"copy {to.name}"
        case Branch(condition):
            return f"if {condition.name}"
        case Repeat(counter):
            return f"repeat {counter.name}"


def arena_svg(program: Program, plan: Plan) -> str:
    """One rectangle per tensor."""
    names = step_names(program)
    steps = max(len(names), *(s.end for s in plan.lifetimes), 1)
    column = min(max(900 / steps, 14.0), 120.0)
    labels = [clean(n, 28) for n in names] if len(names) <= MOST_LABELS else []
    below = 30 + max((len(n) for n in labels), default=0) * CHARACTER * 0.72
    canvas = Canvas(LEFT + steps * column + RIGHT + 170, TOP + HEIGHT + below)
    scale = HEIGHT / max(plan.arena_bytes, 1)

    def y(address: float) -> float:
        return TOP + HEIGHT - address * scale

    title = f"{clean(program.name)}: arena {plan.arena_bytes:,} B, liveness bound {plan.bound_bytes:,} B"
    canvas.text(LEFT, TOP - 26, title, font_weight="bold", font_size="14")
    for i, life in enumerate(plan.lifetimes):
        for span in life.spans:
            _rectangle(canvas, life, plan.offsets[life.tensor], span, (column, y, (i * GOLDEN_ANGLE) % 360))
    _axes(canvas, plan, labels, steps, column, y(0))
    right = LEFT + steps * column
    live = [bytes_alive(plan, t) for t in range(steps)]
    stairs = [(LEFT + (t + d) * column, y(n)) for t, n in enumerate(live) for d in (0, 1)]
    canvas.line(stairs, "#333333", width=1.4, dash="2,2")
    apart = y(plan.bound_bytes) - y(plan.arena_bytes) >= 14
    for bytes_, colour, dash, what, lift in (
        (plan.arena_bytes, "#c02020", "", "arena", -2.0 if apart else -8.0),
        (plan.bound_bytes, "#2050c0", "6,4", "bound", 4.0 if apart else 8.0),
    ):
        canvas.line([(LEFT, y(bytes_)), (right, y(bytes_))], colour, width=1.8, dash=dash)
        canvas.text(right + 6, y(bytes_) + lift, f"{what} {bytes_:,} B", fill=colour)
    canvas.text(right + 6, y(live[-1] if live else 0) + 4, "bytes alive", font_size="11")
    return canvas.svg()


def _rectangle(
    canvas: Canvas,
    life: Lifetime,
    at: int,
    span: tuple[int, int],
    place: tuple[float, Callable[[float], float], float],
) -> None:
    """One span of a tensor's life."""
    column, y, hue = place
    x, width = LEFT + span[0] * column, (span[1] - span[0]) * column
    top, height = y(at + life.bytes), y(at) - y(at + life.bytes)
    tip = f"{life.tensor.name}: {life.bytes:,} B at {at:,}, steps {span[0]} to {span[1] - 1}"
    canvas.rect(x, top, width, height, f"hsl({hue:.0f},60%,82%)", tip, kind="tensor")
    _name(canvas, life.tensor.name, life.bytes, (x, top, width, height))


def bytes_alive(plan: Plan, step: int) -> int:
    """Bytes of the arena whose content matters at a step; what overwrites its operand counts once."""
    taken = sorted(
        (plan.offsets[life.tensor], plan.offsets[life.tensor] + life.bytes)
        for life in plan.lifetimes
        if any(lo <= step < hi for lo, hi in life.spans)
    )
    total = end = 0
    for lo, hi in taken:
        total, end = total + max(0, hi - max(lo, end)), max(end, hi)
    return total


def _name(canvas: Canvas, name: str, size: int, box: tuple[float, float, float, float]) -> None:
    """The tensor's name inside its rectangle, as far as it has room."""
    x, y, width, height = box
    room = int((width - 6) / (CHARACTER * 0.9))
    if height >= 12 and room >= 3:
        canvas.text(x + 3, y + 11, clean(name, room), font_size="10", kind="inside")
    if height >= 26 and room >= len(f"{size:,} B"):
        canvas.text(x + 3, y + 23, f"{size:,} B", font_size="10", fill="#444444", kind="inside")


def _axes(canvas: Canvas, plan: Plan, labels: list[str], steps: int, column: float, floor: float) -> None:
    for i in range(5):
        address = plan.arena_bytes * i / 4
        at = floor - HEIGHT * i / 4
        canvas.text(LEFT - 6, at + 4, f"{address:,.0f}", anchor="end", font_size="10")
        canvas.line([(LEFT - 4, at), (LEFT, at)], "#333333")
    canvas.line([(LEFT, floor - HEIGHT), (LEFT, floor), (LEFT + steps * column, floor)], "#333333")
    for t, label in enumerate(labels):
        canvas.text(LEFT + (t + 0.5) * column, floor + 12, label, anchor="end", turn=-50, font_size="10")
