"""The header of several networks in one object: theirs, and the memory that serves all of them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ingot.emit.header import header
from ingot.emit.unit import Unit, provenance
from ingot.errors import InputError
from ingot.memory.plan import ALIGN


def group_header(name: str, units: Sequence[Unit]) -> str:
    """The text of NAME.h."""
    upper = name.upper()
    arena = max(unit.plan.arena_bytes for unit in units)
    includes = "\n".join(f'#include "{unit.name}.h"' for unit in units)
    return f"""\
{provenance(*units)}

#ifndef {upper}_H
#define {upper}_H

{includes}

/* One arena serves all of them, as long as no two run at the same time: of this size it is as large as the
 * largest asks for. None finds anything in it that another left. */
#define {upper}_ARENA_SIZE {arena}u
#define {upper}_ARENA_ALIGN {ALIGN}u

#endif /* {upper}_H */
"""


def require_apart(units: Sequence[Unit]) -> None:
    """InputError where two headers give something the same name: `net_x` of a tensor y, `net` of one x_y."""
    owners: dict[str, str] = {}
    for unit in units:
        for macro in re.findall(rf"^#define ({unit.upper}_\w+)", header(unit, 0), re.M):
            first = owners.setdefault(macro, unit.name)
            if first != unit.name:
                raise InputError(
                    f"{first} and {unit.name} both define {macro}",
                    remedy="rename one of the files: networks are called by their files' names",
                )
