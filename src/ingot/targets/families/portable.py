"""Portable C, for the machine Ingot runs on."""

from __future__ import annotations

import platform

from ..record import Target

MACHINE = platform.machine()

TARGETS = (
    Target(
        "c99",
        "portable C for the machine Ingot runs on, one value at a time",
        triple=f"{MACHINE}-unknown-none-elf",
        aliases=("generic", "portable"),
        is_portable=True,
        gcc=("gcc",),
        relocation="pic",
    ),
)
