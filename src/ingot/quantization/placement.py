"""Which tensors are quantised, and which of them share a scale and a zero point.

In: a folded network and the nodes that stay float. Out: a `Placement`, which no range has been chosen for
yet. A tensor is quantised where a layer makes or reads it, and where elements of such a tensor only move.
It is not where it stays in registers, between a layer and the Relu or Clip behind it, or between two maps;
nor where maps and normalisations alone pass it on: their arithmetic is in floats either way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import onnx

from ingot.quantization.network import Network, attributes, is_own, label
from ingot.quantization.roles import (
    CLIPS,
    FIXED,
    MAPS,
    POOLS,
    PRODUCTS,
    RECURRENT,
    clip_limits,
    is_move,
    is_quantised,
    moved_operands,
)

ROW_STATISTICS = ("ReduceMean", "ReduceSum", "ReduceMax")


@dataclass(frozen=True, slots=True)
class Placement:
    """`groups` are the quantised tensors, together those that share parameters; `floats` labels nodes that
    compute in float, with the reason."""

    groups: tuple[tuple[str, ...], ...]
    floats: Mapping[str, str]

    @property
    def tensors(self) -> set[str]:
        """All quantised tensors."""
        return {name for group in self.groups for name in group}


def place(net: Network, kept: set[str], is_edge_float: bool = True) -> Placement:
    """Return what of a network is quantised, but for the nodes labelled in `kept`."""
    floats = _floats(net, kept)
    live = [n for n in net.nodes if label(n) not in floats and _carries(net, n)]
    search = _Search(net, live, is_edge_float)
    wanted = search.wanted()
    return Placement(search.groups(wanted), floats)


def _floats(net: Network, kept: set[str]) -> dict[str, str]:
    """The nodes with float results that stay float, and why."""
    found = {}
    for node in net.nodes:
        if label(node) in kept:
            found[label(node)] = "asked for"
        elif _carries(net, node) and not is_quantised(net, node):
            found[label(node)] = f"{node.op_type} has no quantised form"
    return found


def _carries(net: Network, node: onnx.NodeProto) -> bool:
    return any(net.is_float(name) for name in node.output if name)


class _Search:
    """Looks at the live nodes of a network, those that may be quantised."""

    def __init__(self, net: Network, live: list[onnx.NodeProto], is_edge_float: bool) -> None:
        self.net, self.live, self.is_edge_float = net, live, is_edge_float
        self.readers = net.readers()
        self.makers = {name: n for n in live for name in n.output if name}
        self.alive = {id(n) for n in live}
        self.clips = {n.output[0] for n in live if self.is_fused_clip(n)}

    def is_fused_clip(self, node: onnx.NodeProto) -> bool:
        """Whether a Relu or Clip is computed with the layer in front of it."""
        if node.op_type not in CLIPS or clip_limits(self.net, node) is None:
            return False
        maker = self.makers.get(node.input[0])
        is_product = maker is not None and maker.op_type in PRODUCTS and is_own(maker)
        return is_product and self.net.is_private(node.input[0], self.readers)

    def wanted(self) -> set[str]:
        """The tensors to quantise, moved ones last: until nothing changes."""
        found = {name for n in self.live if not is_move(n) for name in self.beside(n)}
        moves = [n for n in self.live if is_move(n)]
        while True:
            before = len(found)
            for node in moves:
                ends = self.ends(node)
                if any(name in found for name in ends):
                    found.update(ends)
            if len(found) == before:
                return found

    def beside(self, node: onnx.NodeProto) -> Iterable[str]:
        """The tensors that a node wants quantised: the operands of a layer, and what it makes."""
        made = [name for name in node.output[:1] if self.net.is_float(name)]
        found = self.operands(node)
        if node.op_type in PRODUCTS or node.output[0] in self.clips:
            found += made
        if not self.is_edge_float:
            edge = {*self.net.inputs, *self.net.outputs}
            found += [name for name in (*node.input, *made) if name in edge and self.net.is_float(name)]
        return (name for name in found if not self.stays_in_registers(name))

    def operands(self, node: onnx.NodeProto) -> list[str]:
        """The run-time operands that a node multiplies or adds as integers."""
        count = 2 if node.op_type in PRODUCTS else int(node.op_type in RECURRENT | POOLS)
        if _is_row_statistic(self.net, node):
            count = 0
        return [name for name in node.input[:count] if self.net.is_float(name)]

    def stays_in_registers(self, name: str) -> bool:
        """Whether a tensor lies between maps, or between a layer and its Relu, and is never stored."""
        maker, reading = self.makers.get(name), self.readers.get(name, [])
        if maker is None or not reading or any(id(n) not in self.alive for n in reading):
            return False
        if self.net.is_kept(name) or is_move(maker):
            return False
        if all(n.output[0] in self.clips for n in reading):
            return True
        if name in self.clips or not (is_map(maker) or _is_row_statistic(self.net, maker)):
            return False
        if any(
            _is_row_statistic(self.net, n) for n in (maker, *reading)
        ):  # a layer normalisation written out
            return all(is_map(n) or _is_row_statistic(self.net, n) for n in reading)
        return self.net.is_private(name, self.readers) and is_map(reading[0])

    def ends(self, node: onnx.NodeProto) -> list[str]:
        """The tensors of a move that share parameters."""
        made = [name for name in node.output if name and self.net.is_float(name)]
        return [*moved_operands(self.net, node), *made]

    def groups(self, wanted: set[str]) -> tuple[tuple[str, ...], ...]:
        """The tensors that share parameters, in the order in which they are made."""
        groups = {name: [name] for name in wanted}
        for node in (n for n in self.live if is_move(n)):
            first, *others = [name for name in self.ends(node) if name in wanted] or [""]
            for other in others:
                if groups[first] is not groups[other]:
                    groups[first] += groups[other]
                    groups.update(dict.fromkeys(groups[other], groups[first]))
        order = {name: i for i, name in enumerate((*self.net.inputs, *self.net.makers()))}
        found = {id(group): tuple(sorted(group, key=order.__getitem__)) for group in groups.values()}
        return tuple(sorted(found.values(), key=lambda group: order[group[0]]))


def is_map(node: onnx.NodeProto) -> bool:
    """Whether a node computes element by element."""
    return is_own(node) and node.op_type in MAPS


def _is_row_statistic(net: Network, node: onnx.NodeProto) -> bool:
    """Whether a node reduces the last axis alone and keeps it, as a layer normalisation written out does."""
    given = attributes(node)
    if not is_own(node) or node.op_type not in ROW_STATISTICS or not given.get("keepdims", 1):
        return False
    named = net.constants.get(node.input[1]) if len(node.input) > 1 else None
    axes = tuple(given.get("axes", ())) if named is None else tuple(named.tolist())
    return axes in ((-1,), (len(net.shapes.get(node.output[0], ())) - 1,))


def fixed_range(net: Network, placement: Placement, group: tuple[str, ...]) -> tuple[float, float] | None:
    """Return the range that tensors have whatever the data: what makes them says it, each the same."""
    makers = net.makers()
    found = {
        FIXED.get(maker.op_type) if is_own(maker) and label(maker) not in placement.floats else None
        for name in group
        if (maker := makers.get(name)) is not None and not is_move(maker)
    }
    if any(name not in makers for name in group):
        return None
    return found.pop() if len(found) == 1 else None
