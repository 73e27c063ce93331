"""Quantisation from end to end: a float model and a profile in, a QDQ model and what was decided out.

Called by the driver, with models that hold everything and have no functions of their own.
"""

from __future__ import annotations

from dataclasses import dataclass

import onnx

from ingot.errors import InputError
from ingot.options import Define
from ingot.quantize.account import Row, account
from ingot.quantize.correct import with_biases
from ingot.quantize.fold import fold
from ingot.quantize.network import Network, closed, label, opened
from ingot.quantize.placement import Placement, place
from ingot.quantize.plan import Plan, planned
from ingot.quantize.profile import Profile
from ingot.quantize.roles import matched
from ingot.quantize.scheme import Scheme
from ingot.quantize.write import write

NAMED = 8  # layers that a message lists


@dataclass(frozen=True, slots=True, eq=False)
class Quantized:
    """The model, the decisions in it, and what became of each layer."""

    model: onnx.ModelProto
    plan: Plan
    rows: tuple[Row, ...]


def quantize(model: onnx.ModelProto, profile: Profile, scheme: Scheme, define: Define) -> Quantized:
    """Return a model quantised as the scheme says; `model` stays as it is.

    Raises InputError for a model that cannot be read, patterns that fit no node and a profile without a
    tensor's range; with `assert_all` where a layer stays float.
    """
    is_wide = scheme.precision == "int16x8" or bool(scheme.wide) or scheme.bias_precision == "int16"
    net = fold(opened(model, define, is_wide))
    if scheme.bias_correction:
        with_biases(net)
    kept = matched(net.nodes, scheme.keep_float, "--keep-float")
    wide = matched(net.nodes, scheme.wide, "--keep-float")
    placement = place(net, kept, scheme.edge == "float")
    if scheme.assert_all:
        _require_all(net, placement)
    plan = planned(net, placement, profile, scheme, wide)
    rows = account(net, plan)
    return Quantized(closed(write(net, plan, scheme.edge == "float")), plan, rows)


def _require_all(net: Network, placement: Placement) -> None:
    """Raise InputError that names layers which compute in float."""
    kinds = {label(n): n.op_type for n in net.nodes}
    named = [f"{name} ({kinds[name]}): {why}" for name, why in placement.floats.items()]
    if named:
        more = f", and {len(named) - NAMED} more" if len(named) > NAMED else ""
        raise InputError(
            f"--assert-all-quantized: {len(named)} nodes stay float: {'; '.join(named[:NAMED])}{more}"
        )
