"""Elements below 8 bits: packed at the boundary of a bundle and in its constants, one a byte in between.

    x: int4[3, 5]                  x: 8 bytes; unpacked[i, j] = 4 bits of them, which every formula reads
    y = Transpose(x)       ->      y' = Transpose(unpacked); y: 8 bytes of the bits of y'

Needs formulas. `pack_boundary` stands first, for everything below sees the bytes; `pack_constants` last of
what rewrites formulas: nothing that looks at the elements of a constant comes after it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from ingot.formula.compute import Compute, Stage
from ingot.formula.expr import Expr, Load, Packed, Tensor, Var, cast, transform
from ingot.formula.extents import extent
from ingot.formula.index import product, simplify
from ingot.formula.packing import element_bits, flat_index, pack, packed_byte, packed_extent
from ingot.formula.types import UINT8
from ingot.loops.region import Group, Region, replace_computes
from ingot.ops.narrow import bits_of, of_bits

Constants = dict[Tensor, Tensor]


def pack_boundary(region: Region) -> Region:
    """The region whose inputs and outputs below 8 bits are bytes."""
    first, last = list[Group](), list[Group]()
    inputs, outputs = list(region.inputs), list(region.outputs)
    for i, t in enumerate(inputs):
        if t.type.is_packed:
            inputs[i] = _bytes_of(t)
            first.append(Group((f"unpack_{t.name}",), (_unpacked(t, inputs[i]),)))
    for i, t in enumerate(outputs):
        if t.type.is_packed:
            outputs[i] = _bytes_of(t)
            last += _packed(t, outputs[i])
    return Region(tuple(inputs), tuple(outputs), [*first, *region.items, *last])


def _bytes_of(t: Tensor) -> Tensor:
    n = extent(simplify(packed_extent(product(t.shape), t.type)))
    return Tensor(t.name, UINT8, (n,), packed=Packed(t.type, t.shape))


def _axes(t: Tensor) -> tuple[Var, ...]:
    return tuple(Var(f"i{k}", n) for k, n in enumerate(t.shape))


def _unpacked(t: Tensor, data: Tensor) -> Stage:
    axes = _axes(t)
    return Compute(t, axes, of_bits(element_bits(data, flat_index(axes, t.shape), t.type.bits), t.type))


def _packed(t: Tensor, data: Tensor) -> tuple[Group, ...]:
    """The bits of each element in a byte, then these together."""
    axes, name = _axes(t), f"pack_{t.name}"
    bits = Tensor(f"{t.name}_bits", UINT8, (extent(simplify(product(t.shape))),))
    apart = Compute(bits, axes, bits_of(t[axes]), None, (flat_index(axes, t.shape),))
    j = Var("j", data.shape[0])
    return (Group((name,), (apart, Compute(data, (j,), packed_byte(bits, j, t.type.bits)))),)


def pack_constants(region: Region) -> Region:
    """Stages read constants below 8 bits out of packed bytes; in place."""
    made: Constants = {}
    return replace_computes(region, lambda c: _reading(c, made))


def _reading(stage: Compute, made: Constants) -> Compute:
    swapped = partial(_expression, made=made)
    if all(swapped(e) is e for e in stage.expressions):
        return stage
    r = stage.reduction and stage.reduction.over(swapped)
    return replace(stage, value=swapped(stage.value), reduction=r, at=tuple(map(swapped, stage.at)))


def _expression(e: Expr, made: Constants) -> Expr:
    """The expression with packed reads; the same object where there are none."""
    found = False

    def swap(node: Expr) -> Expr | None:
        nonlocal found
        if not isinstance(node, Load) or node.tensor.value is None or not node.tensor.type.is_packed:
            return None
        if node.outside is not None or not node.tensor.value.size:
            return None
        t, found = node.tensor, True
        if t not in made:
            data = pack(node.tensor.value)
            made[t] = Tensor(t.name, UINT8, data.shape, data, packed=Packed(t.type, t.shape))
        index = tuple(_expression(i, made) for i in node.index)
        bits = element_bits(made[t], flat_index(index, t.shape), t.type.bits)
        return cast(of_bits(bits, t.type), t.type.compute)

    changed = transform(e, swap)
    return changed if found else e
