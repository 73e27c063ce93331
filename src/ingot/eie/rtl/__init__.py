"""The accelerator as hardware: the array of PEs in Amaranth, its Verilog, and what other tools say of it.

`element` and `scan` describe the hardware, `array` joins them under a host's interface, `host` says what a
host writes there, `verilog` prints, `simulate` runs it under Verilator, `compare` holds it to the simulator,
`synthesize` counts its cells with Yosys. Amaranth is the extra `rtl`; it is imported where hardware is
described and nowhere else.
"""
