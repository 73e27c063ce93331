"""What running a bundle takes of this machine's memory: more than INGOT_MEMORY_MIB is refused before it is
asked for, since a file's shapes may claim any amount.

In: a manifest, and what the caller needs beside the bundle. Out: nothing, or an InputError. Called by
`runner`, and by those who draw random inputs or run an oracle as well.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from ingot.bundle.binding import Manifest, capacity, data_dependent, tensors_of
from ingot.errors import InputError

VARIABLE, DEFAULT_MIB = "INGOT_MEMORY_MIB", 2048
MIB = 1 << 20
# a random float32 is drawn as a float64 first; a comparison holds both results, and float64 copies of them
DRAWN, COMPARED = 2, 5


def require_host_memory(
    manifest: Manifest, *, drawn: bool = False, compared: bool = False, beside: int = 0
) -> None:
    """Raise InputError where a run takes more bytes than INGOT_MEMORY_MIB allows (2048 unless it is set).

    `drawn`: the inputs are drawn here; `compared`: the outputs are compared with another's; `beside`: the
    bytes that the other one needs.
    """
    sizes, edge = manifest["sizes"], _certain(manifest, at_most=drawn)
    count = len(manifest["inputs"])
    needs = {
        "inputs": sum(edge[:count]) * (1 + DRAWN * drawn),
        "outputs and state": sum(edge[count:]) * (1 + COMPARED * compared),
        "arena": sizes["arena_bytes"] + sizes["mutable_bytes"],
        "the oracle's tensors": beside,
    }
    require_memory(f"running {manifest['name']}", needs)


def _certain(manifest: Manifest, at_most: bool) -> list[int]:
    """Bytes of every input, output and member of the state, those with dynamic extents `at_most`; of what
    only the data measures nothing is known, and memory that is not written costs nothing.
    """
    unknown = {t["name"] for t in tensors_of(manifest) if "room" in t and not at_most}
    unknown |= {t["name"] for t in data_dependent(manifest)}
    pairs = zip(tensors_of(manifest), capacity(manifest), strict=True)
    return [0 if t["name"] in unknown else size for t, size in pairs]


def require_memory(what: str, needs: Mapping[str, int]) -> None:
    """Raise InputError where the bytes that something needs, by what they are for, are more than allowed."""
    total, limit = sum(needs.values()), limit_bytes()
    if total > limit:
        raise InputError(
            f"{what} takes about {_mib(total)} of this machine's memory ({_listed(needs)}), and may take "
            f"{_mib(limit)}",
            remedy=f"set {VARIABLE}={-(-total // MIB)}, or --define smaller extents",
        )


def limit_bytes() -> int:
    """What INGOT_MEMORY_MIB says. Raises InputError where it is not a number."""
    word = os.environ.get(VARIABLE, str(DEFAULT_MIB))
    if not word.isdecimal() or len(word) > 15:
        raise InputError(f"{VARIABLE}={word}: write a number of MiB, as {DEFAULT_MIB}")
    return int(word) * MIB


def _listed(needs: Mapping[str, int]) -> str:
    """What takes a MiB or more, the most first."""
    most = sorted((n for n in needs if needs[n] >= MIB), key=lambda n: -needs[n])
    return ", ".join(f"{name} {_mib(needs[name])}" for name in most)


def _mib(size: int) -> str:
    return f"{-(-size // MIB):,} MiB"
