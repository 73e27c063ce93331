"""The hardware as Verilog. In: a `Machine`; out: files by name. `ingot eie rtl` writes them."""

from __future__ import annotations

from importlib.resources import files

from ingot.eie.machine import Machine
from ingot.eie.rtl.sizes import Sizes
from ingot.errors import InputError

MOST_DATA_BITS = 64
TESTBENCH, SRAM = "testbench.cpp", "eie_sram.v"


def verilog(machine: Machine) -> dict[str, str]:
    """`eie_element.v`, `eie_detector.v`, `eie_array.v`, `eie_sram.v`, and the testbench for Verilator.

    Raises InputError where Amaranth is missing, or for a machine that cannot be built.
    """
    _require_buildable(machine)
    try:
        from amaranth.back.verilog import convert
    except ImportError:
        raise InputError("Verilog is written with Amaranth", remedy="install ingot[rtl]") from None
    from ingot.eie.rtl.array import DETECTOR, ELEMENT, Array
    from ingot.eie.rtl.element import Element
    from ingot.eie.rtl.scan import Detector

    sizes = Sizes(machine)
    modules = {
        ELEMENT: Element(sizes),
        DETECTOR: Detector(sizes.bits, sizes.lane_bits),
        "eie_array": Array(sizes),
    }
    texts = {
        f"{n}.v": convert(c, name=n, emit_src=False, strip_internal_attrs=True) for n, c in modules.items()
    }
    ready = {n: files("ingot.eie.rtl").joinpath(n).read_text(encoding="utf-8") for n in (SRAM, TESTBENCH)}
    return {**texts, **ready}


def _require_buildable(machine: Machine) -> None:
    if machine.line & (machine.line - 1) or machine.sram_width > MOST_DATA_BITS:
        raise InputError(
            f"an SRAM read of {machine.sram_width} bits cannot be built",
            remedy=f"choose a power of two of entries in at most {MOST_DATA_BITS} bits",
        )
    if machine.pes < 2:
        raise InputError("an array has at least two PEs")
