"""Functions in assembly for maps that end or begin with bytes, several elements at a time.

    add_bytes(x, y, to, count, ...)     round(((x - zero) * scale + (y - zero) * scale) / scale) + zero
    to_bytes(x, to, count, apart, ...)  round(x / scale) + zero of floats, bytes as far apart as is said
    from_bytes(x, to, count, ...)       (x - zero) * scale

In: what a machine does. Out: the C of functions, by name; see `routines.py`. Numbers are in registers of
floats, as the procedure call standard has them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from ingot.targets.routines import KINDS, routine

SCALES = (1e-15, 1e15)
FAR = 1024.0  # quotients beyond it are limited, whatever the zero point


@dataclass(frozen=True, slots=True)
class Maps:
    """The assembly of each routine, for bytes of a type, and where a compiler takes it."""

    where: str
    add_bytes: Callable[[str], Iterator[str]]
    to_bytes: Callable[[str], Iterator[str]]
    from_bytes: Callable[[str], Iterator[str]]


def map_routines(maps: Maps) -> Mapping[str, str]:
    """The routines by name."""
    written = {"add_bytes": _sums, "to_bytes": _bytes, "from_bytes": _floats}
    return {f"{name}_{kind}": write(maps, kind) for name, write in written.items() for kind in KINDS}


def _where(maps: Maps) -> str:
    return f"{maps.where} && defined(__ARM_PCS_VFP)"


def _sums(maps: Maps, kind: str) -> str:
    zero, lowest = ("zero", "") if kind == "uint8" else ("zero + 128", " - 128")
    made = f"(int)nearest_byte((x_part + y_part) / scale, {zero}){lowest}"
    return routine(
        f"add_bytes_{kind}",
        f"const {kind}_t *x, const {kind}_t *y, {kind}_t *to, int count, int x_zero, int y_zero, int zero,"
        " float x_scale, float y_scale, float scale, float per",
        maps.add_bytes(kind),
        f"""\
    (void)per;
    for (int i = 0; i < count; i++) {{
        const float x_part = (float)(x[i] - x_zero) * x_scale, y_part = (float)(y[i] - y_zero) * y_scale;
        to[i] = ({kind}_t)({made});
    }}
""",
        "Bytes of two tensors, added as the numbers they stand for; per: 1 / scale.",
        _where(maps),
    )


def _bytes(maps: Maps, kind: str) -> str:
    return routine(
        f"to_bytes_{kind}",
        f"const float *x, {kind}_t *to, int count, int apart, int zero, float scale, float per, float far",
        maps.to_bytes(kind),
        f"""\
    (void)per, (void)far;
    for (int i = 0; i < count; i++) {{
        const float found = x[i] / scale;
{_limits(kind)}
        to[i * apart] = ({kind}_t)limited;
    }}
""",
        "Floats as bytes; per: 1 / scale, far: what is limited and so is all beyond it.",
        _where(maps),
    )


def _floats(maps: Maps, kind: str) -> str:
    return routine(
        f"from_bytes_{kind}",
        f"const {kind}_t *x, float *to, int count, int zero, float scale",
        maps.from_bytes(kind),
        "    for (int i = 0; i < count; i++) to[i] = (float)(x[i] - zero) * scale;\n",
        "Bytes as the numbers that they stand for.",
        _where(maps),
    )


def _limits(kind: str) -> str:
    """`limited`: the nearest integer of `found`, moved by `zero`, as a byte."""
    low, high = (0, 255) if kind == "uint8" else (-128, 127)
    return f"""\
        const float near = found > {FAR}f ? {FAR}f : found > -{FAR}f ? found : -{FAR}f;
        const int made = (int)(near + 12582912.0f - 12582912.0f) + zero;
        const int limited = made < {low} ? {low} : made > {high} ? {high} : made;"""
