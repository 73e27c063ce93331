"""Golden vectors: seeded random inputs, and what the bundle answers to them.

The answer is the shipped object's own where this machine can run it, else the loop evaluator's, which
computes the same to the bit. Called by `write` for `--emit main`.
"""

from __future__ import annotations

import zlib

import numpy as np

from ingot.bundle.binding import blank, outputs_of, shape
from ingot.bundle.bundle import Bundle
from ingot.bundle.containers import packed, random_values
from ingot.emit.main import Golden
from ingot.emit.unit import Unit
from ingot.errors import ToolchainError
from ingot.formula.evaluate import IndexOutOfRange
from ingot.formula.expr import Array, static
from ingot.formula.packing import pack
from ingot.formula.strings import random_texts
from ingot.formula.types import DType, dtype_named, dtype_of
from ingot.loops.evaluate import run
from ingot.loops.program import Program

SEED = 1
OUT_OF_RANGE = "an error, for these indices are out of range"


def golden_run(unit: Unit, bundle: Bundle) -> Golden:
    """Inputs at the extents' upper bounds, and their outputs."""
    inputs, extents = golden_inputs(bundle)
    results, status, source = _answer(unit, bundle, inputs, extents)
    given = tuple(map(as_passed, inputs.values()))
    return Golden(given, results, tuple(extents.values()), status, SEED, source)


def golden_inputs(bundle: Bundle) -> tuple[dict[str, Array], dict[str, int]]:
    """Random inputs at the extents' upper bounds, by name, and these extents by their symbols."""
    extents = {p["symbol"]: int(p["hi"]) for p in bundle.manifest["params"]}
    inputs = {
        t["name"]: random_input(t["name"], dtype_named(t["dtype"]), shape(t, extents))
        for t in bundle.manifest["inputs"]
    }
    made = packed(bundle.manifest, random_values(bundle.manifest, inputs))
    return {name: made[name] for name in inputs}, extents


def as_passed(array: Array) -> Array:
    """The array as C has it: below 8 bits, packed."""
    return pack(array) if dtype_of(array).is_packed else array


def _answer(
    unit: Unit, bundle: Bundle, inputs: dict[str, Array], extents: dict[str, int]
) -> tuple[tuple[Array, ...], int, str]:
    """The outputs and the state after a run from its start, the status, and who says so."""
    empty = (*outputs_of(bundle.manifest, extents, {}).values(), *blank(bundle.manifest).values())
    try:
        status, outputs, state = bundle.runner.step(inputs, None)
        if status:
            return empty, status, OUT_OF_RANGE
        return (*outputs.values(), *state.values()), 0, "the object's own when it was compiled"
    except ToolchainError:
        pass
    try:
        extents = {p.name: p.hi for p in unit.program.params}
        found = run(unit.program, {**inputs, **starts(unit.program)}, extents)
        for to, array in zip(empty, found, strict=True):
            given = as_passed(array).reshape(-1)
            to.reshape(-1)[: given.size] = given
        return empty, 0, "computed when it was compiled, without the object"
    except IndexOutOfRange:
        return empty, -3, OUT_OF_RANGE


def starts(program: Program) -> dict[str, Array]:
    """The state before the first run."""
    return {
        k.member.name: np.zeros([static(n) for n in k.member.shape], k.member.type.numpy)
        if k.initial is None
        else k.initial
        for k in program.states
    }


def random_input(name: str, dtype: DType, size: tuple[int, ...]) -> Array:
    """Short decimals between -2 and 2; 0 and 1 for integers of 32 and 64 bits, which are often indices;
    words and numbers for strings.
    """
    rng = np.random.default_rng([SEED, zlib.crc32(name.encode())])
    if dtype.is_text:
        return random_texts(rng, dtype, size)
    if dtype.is_float:
        return (rng.integers(-64, 65, size) / 32).astype(dtype.numpy)
    if dtype.bits < 32 and dtype.name != "bool":
        low, high, drawn = int(dtype.lowest), int(dtype.highest), dtype.compute.numpy
        return rng.integers(low, high, size, drawn, endpoint=True).astype(dtype.numpy)
    return rng.integers(0, 2, size).astype(dtype.numpy)
