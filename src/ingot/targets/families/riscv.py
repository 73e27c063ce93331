"""RISC-V: one value at a time, or vectors of 16 bytes."""

from __future__ import annotations

from ..record import Target
from ..rvv import RVV
from ..spelling import fma_scalar

SQRT32, SQRT64 = ("fsqrt.s %0, %1", "f"), ("fsqrt.d %0, %1", "f")

TARGETS = (
    Target(
        "rv32imc",
        "32-bit RISC-V without FPU: floats by the compiler's library",
        triple="riscv32-none-elf",
        aliases=("riscv32", "esp32-c2", "esp32-c3", "esp32c3"),
        flags=("-march=rv32imc", "-mabi=ilp32"),
        gcc=("riscv32-unknown-elf-gcc", "-march=rv32imc", "-mabi=ilp32"),
        pointer_bytes=4,
        has_floats=False,
        registers=12,
        runtime=("-target", "riscv32-freestanding-none", "-mcpu=generic_rv32+m+c"),
        runner=("qemu-riscv32", "-cpu", "rv32,a=false,f=false,d=false"),
    ),
    Target(
        "rv32imac",
        "32-bit RISC-V without FPU, with atomics: floats by the compiler's library",
        triple="riscv32-none-elf",
        aliases=("esp32-c6", "esp32c6", "esp32-h2", "gd32vf103", "longan-nano", "ch32v203", "hifive1"),
        flags=("-march=rv32imac", "-mabi=ilp32"),
        gcc=("riscv32-unknown-elf-gcc", "-march=rv32imac", "-mabi=ilp32"),
        pointer_bytes=4,
        has_floats=False,
        registers=12,
        runtime=("-target", "riscv32-freestanding-none", "-mcpu=generic_rv32+m+a+c"),
        runner=("qemu-riscv32", "-cpu", "rv32,f=false,d=false"),
    ),
    Target(
        "rv32imafc",
        "32-bit RISC-V with single-precision FPU",
        triple="riscv32-none-elf",
        aliases=("rv32imfc", "esp32-p4", "esp32p4", "ch32v307", "bl602"),
        flags=("-march=rv32imafc", "-mabi=ilp32f"),
        gcc=("riscv32-unknown-elf-gcc", "-march=rv32imafc", "-mabi=ilp32f"),
        pointer_bytes=4,
        registers=32,
        runtime=("-target", "riscv32-freestanding-none", "-mcpu=generic_rv32+m+a+f+c"),
        runner=("qemu-riscv32", "-cpu", "rv32,d=false"),
        scalar_operations=fma_scalar(SQRT32),
    ),
    Target(
        "rv32gc",
        "32-bit RISC-V Linux with double-precision FPU",
        triple="riscv32-linux-gnu",
        aliases=("rv32imafdc",),
        flags=("-march=rv32gc", "-mabi=ilp32d"),
        gcc=("riscv32-linux-gnu-gcc", "-march=rv32gc", "-mabi=ilp32d"),
        pointer_bytes=4,
        registers=32,
        runtime=("-target", "riscv32-freestanding-none", "-mcpu=generic_rv32+m+a+f+d+c"),
        runner=("qemu-riscv32",),
        relocation="pic",
        scalar_operations=fma_scalar(SQRT32, SQRT64),
    ),
    Target(
        "riscv64",
        "64-bit RISC-V Linux (rv64gc), one value at a time",
        triple="riscv64-linux-gnu",
        aliases=(
            "rv64gc",
            "visionfive2",
            "hifive-unmatched",
            "sifive-u74",
            "milk-v",
            "th1520",
            "jh7110",
            "k210",
        ),
        flags=("-march=rv64gc", "-mabi=lp64d"),
        gcc=("riscv64-linux-gnu-gcc", "-march=rv64gc", "-mabi=lp64d"),
        registers=32,
        runner=("qemu-riscv64",),
        relocation="pic",
        scalar_operations=fma_scalar(SQRT32, SQRT64),
    ),
    Target(
        "riscv64-v",
        "64-bit RISC-V Linux with the vector extension (rv64gcv): RVA23, SpacemiT K1",
        triple="riscv64-linux-gnu",
        aliases=("rv64gcv", "rva23", "spacemit-k1", "banana-pi-f3", "sifive-x280", "k230"),
        flags=("-march=rv64gcv", "-mabi=lp64d"),
        vector_bytes=16,
        registers=32,
        runner=("qemu-riscv64", "-cpu", "rv64,v=true,vlen=128,vext_spec=v1.0"),
        relocation="pic",
        widens=True,  # QEMU 7.2 ends at the instruction that makes int16 of floats
        operations=RVV,
        scalar_operations=fma_scalar(SQRT32, SQRT64),
    ),
)
