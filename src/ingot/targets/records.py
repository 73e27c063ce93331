"""The targets, as data, and how to find one. Adding a target is adding one record to `TARGETS`.

In: a name (or nothing: `native`). Out: a `Target`. Called by the driver and by tests. Every flag was
tried with its compiler; without `-mprefer-vector-width=512` clang splits and spills 64-byte vectors,
and with it its vectorizer of straight code may never end (a small copy of bytes, transposed).
"""

from __future__ import annotations

import difflib
import functools
import platform
from pathlib import Path
from types import MappingProxyType

from ..errors import InputError
from .record import Target
from .routines import dot2_routines
from .spelling import (
    DSP,
    MVE,
    NEON,
    WASM,
    fma_scalar,
    fpv5_rounding,
    neon_dotprod,
    neon_i8mm,
    vfp_nearest,
    x86_scalar,
    x86_vector,
    x86_vnni,
)
from .userland import AN547

_V2 = ("cx16", "lahf_lm", "popcnt", "pni", "sse4_1", "sse4_2", "ssse3")
_V3 = (*_V2, "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave")
_V4 = (*_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
_VNNI_FLAGS = ("-mavx512vbmi", "-mavx512vnni")
# gcc's immintrin.h includes mm_malloc.h and so libc's stdlib.h, freestanding or not; its guard keeps it out.
_IMMINTRIN = """\
#ifndef _MM_MALLOC_H_INCLUDED
#define _MM_MALLOC_H_INCLUDED
#endif
#include <immintrin.h>
"""
_X86_64 = "x86_64-unknown-none-elf"
_MACHINE = platform.machine()
_X86_GCC = "gcc" if _MACHINE == "x86_64" else "x86_64-linux-gnu-gcc"
_SEMIHOSTED = ("-display", "none", "-monitor", "none", "-serial", "none", "-semihosting-config", "enable=on")
_AARCH64_SCALAR = fma_scalar(("fsqrt %s0, %s1", "w"), ("fsqrt %d0, %d1", "w"))

_RECORDS = (
    Target(
        "c99",
        "portable C for the machine Ingot runs on, one value at a time",
        triple=f"{_MACHINE}-unknown-none-elf",
        gcc=("gcc",),
        relocation="pic",
    ),
    Target(
        "x86-64",
        "any 64-bit x86: SSE2",
        triple=_X86_64,
        flags=("-march=x86-64",),
        gcc=(_X86_GCC, "-march=x86-64"),
        vector_bytes=16,
        header=_IMMINTRIN,
        features=("sse2",),
        runner=() if _MACHINE == "x86_64" else ("qemu-x86_64",),
        relocation="pic",
        operations=x86_vector(16, 1),
        scalar_operations=x86_scalar(1),
        instructions={("dot2", "int16"): 2},
    ),
    Target(
        "x86-64-v3",
        "x86 since 2013: AVX2 and FMA",
        triple=_X86_64,
        flags=("-march=x86-64-v3",),
        gcc=(_X86_GCC, "-march=x86-64-v3"),
        vector_bytes=32,
        header=_IMMINTRIN,
        caches=(32 << 10, 512 << 10, 32 << 20),
        features=_V3,
        runner=() if _MACHINE == "x86_64" else ("qemu-x86_64", "-cpu", "max"),
        relocation="pic",
        operations=x86_vector(32, 3),
        narrow_operations={16: x86_vector(16, 3)},
        scalar_operations=x86_scalar(3),
        instructions={("dot2", "int16"): 2},
    ),
    Target(
        "x86-64-v4",
        "x86 with AVX-512 F, BW, CD, DQ, VL",
        triple=_X86_64,
        flags=("-march=x86-64-v4", "-mprefer-vector-width=512", "-fno-slp-vectorize"),
        gcc=(_X86_GCC, "-march=x86-64-v4", "-mprefer-vector-width=512"),
        vector_bytes=64,
        registers=32,
        header=_IMMINTRIN,
        caches=(32 << 10, 1 << 20, 32 << 20),
        features=_V4,
        relocation="pic",
        operations=x86_vector(64, 4),
        narrow_operations={16: x86_vector(16, 4), 32: x86_vector(32, 4)},
        scalar_operations=x86_scalar(4),
        instructions={("dot2", "int16"): 2},
    ),
    Target(
        "x86-64-v4-vnni",
        "x86 with AVX-512 F, BW, CD, DQ, VL, VBMI and VNNI: Ice Lake, Zen 4",
        triple=_X86_64,
        flags=("-march=x86-64-v4", *_VNNI_FLAGS, "-mprefer-vector-width=512", "-fno-slp-vectorize"),
        gcc=(_X86_GCC, "-march=x86-64-v4", *_VNNI_FLAGS, "-mprefer-vector-width=512"),
        vector_bytes=64,
        registers=32,
        header=_IMMINTRIN,
        caches=(32 << 10, 1 << 20, 32 << 20),
        features=(*_V4, "avx512vbmi", "avx512_vnni"),
        relocation="pic",
        operations={**x86_vector(64, 4), **x86_vnni(64)},
        narrow_operations={n: {**x86_vector(n, 4), **x86_vnni(n)} for n in (16, 32)},
        scalar_operations=x86_scalar(4),
        instructions={("dot2", "int16"): 2},
    ),
    Target(
        "aarch64",
        "64-bit Arm Linux: NEON",
        triple="aarch64-linux-gnu",
        gcc=("aarch64-linux-gnu-gcc",),
        vector_bytes=16,
        registers=32,
        by_element=True,
        header="#include <arm_neon.h>\n",
        features=("asimd",),
        runner=() if _MACHINE == "aarch64" else ("qemu-aarch64",),
        relocation="pic",
        operations=NEON,
        scalar_operations=_AARCH64_SCALAR,
        instructions={("dot4", "uint8"): 10, ("dot4", "int8"): 6},
    ),
    Target(
        "aarch64-dotprod",
        "64-bit Arm Linux: NEON with dot products of bytes: Armv8.2-A, Cortex-A55, A76",
        triple="aarch64-linux-gnu",
        flags=("-march=armv8.2-a+dotprod",),
        gcc=("aarch64-linux-gnu-gcc", "-march=armv8.2-a+dotprod"),
        vector_bytes=16,
        registers=32,
        by_element=True,
        header="#include <arm_neon.h>\n",
        features=("asimd", "asimddp"),
        runner=() if _MACHINE == "aarch64" else ("qemu-aarch64", "-cpu", "max"),
        relocation="pic",
        operations={**NEON, **neon_dotprod()},
        scalar_operations=_AARCH64_SCALAR,
        instructions={("dot4", "uint8"): 4},
    ),
    Target(
        "aarch64-i8mm",
        "64-bit Arm Linux: NEON with dot products of mixed signs: Armv8.6-A, Neoverse V1, Cortex-A510",
        triple="aarch64-linux-gnu",
        flags=("-march=armv8.2-a+dotprod+i8mm",),
        gcc=("aarch64-linux-gnu-gcc", "-march=armv8.2-a+dotprod+i8mm"),
        vector_bytes=16,
        registers=32,
        by_element=True,
        header="#include <arm_neon.h>\n",
        features=("asimd", "asimddp", "i8mm"),
        runner=() if _MACHINE == "aarch64" else ("qemu-aarch64", "-cpu", "max"),
        relocation="pic",
        operations={**NEON, **neon_i8mm()},
        scalar_operations=_AARCH64_SCALAR,
    ),
    Target(
        "s390x",
        "IBM Z Linux, big-endian, one value at a time",
        triple="s390x-linux-gnu",
        gcc=("s390x-linux-gnu-gcc",),
        endian="big",
        runner=("qemu-s390x",),
        relocation="pic",
        scalar_operations=fma_scalar(("sqebr %0, %1", "f"), ("sqdbr %0, %1", "f")),
    ),
    Target(
        "armv7e-m",
        "Cortex-M4 with single-precision FPU, hard-float calls",
        triple="thumbv7em-none-eabihf",
        flags=("-mcpu=cortex-m4",),
        gcc=("arm-none-eabi-gcc", "-mthumb", "-mcpu=cortex-m4", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16"),
        pointer_bytes=4,
        registers=32,
        runtime=("-target", "thumb-freestanding-eabihf", "-mcpu=cortex_m4"),
        runner=("qemu-arm", "-cpu", "max"),  # its code is a subset of what Linux on Armv7-A runs
        narrow_operations={4: DSP},
        routines=dot2_routines(),
        scalar_operations={**fma_scalar(("vsqrt.f32 %0, %1", "t")), **vfp_nearest("vcvtr.s32.f32")},
    ),
    Target(
        "armv8.1m",
        "Cortex-M55 with vectors of bytes (Helium), hard-float calls, floats one at a time",
        triple="thumbv8.1m.main-none-eabihf",
        flags=("-mcpu=cortex-m55+nomve.fp",),
        gcc=("arm-none-eabi-gcc", "-mthumb", "-mcpu=cortex-m55+nomve.fp", "-mfloat-abi=hard"),
        pointer_bytes=4,
        registers=32,
        runtime=("-target", "thumb-freestanding-eabihf", "-mcpu=cortex_m55"),
        runner=("qemu-system-arm", "-M", "mps3-an547", *_SEMIHOSTED, "-kernel"),
        board=AN547,
        header="#include <arm_mve.h>\n",
        narrow_operations={4: DSP, 16: MVE},
        routines=dot2_routines(),
        scalar_operations={
            **fma_scalar(("vsqrt.f32 %0, %1", "t"), ("vsqrt.f64 %P0, %P1", "w")),
            **fpv5_rounding(),
            **vfp_nearest("vcvtn.s32.f32"),
        },
    ),
    Target(
        "riscv64",
        "64-bit RISC-V Linux (rv64gc), one value at a time",
        triple="riscv64-linux-gnu",
        flags=("-march=rv64gc", "-mabi=lp64d"),
        gcc=("riscv64-linux-gnu-gcc", "-march=rv64gc", "-mabi=lp64d"),
        registers=32,
        runner=("qemu-riscv64",),
        relocation="pic",
        scalar_operations=fma_scalar(("fsqrt.s %0, %1", "f"), ("fsqrt.d %0, %1", "f")),
    ),
    Target(
        "i386",
        "32-bit x86 with SSE2; realigns the stack, whatever its caller does",
        triple="i386-unknown-none-elf",
        flags=("-march=pentium4", "-mfpmath=sse", "-mstackrealign"),
        gcc=(_X86_GCC, "-m32", "-march=pentium4", "-mfpmath=sse", "-mstackrealign"),
        pointer_bytes=4,
        vector_bytes=16,
        registers=8,
        runtime=("-target", "x86-freestanding-none", "-mcpu=pentium4"),
        header=_IMMINTRIN,
        features=("sse2",),
        runner=() if _MACHINE == "x86_64" else ("qemu-i386",),
        operations=x86_vector(16, 1),
        scalar_operations=x86_scalar(1),
        instructions={("dot2", "int16"): 2},
    ),
    Target(
        "wasm32",
        "WebAssembly with simd128",
        triple="wasm32-unknown-unknown",
        flags=("-msimd128",),
        pointer_bytes=4,
        vector_bytes=16,
        header="#include <wasm_simd128.h>\n",
        runs=False,
        operations=WASM,
    ),
)

TARGETS = MappingProxyType({target.name: target for target in _RECORDS})


def find(name: str) -> Target:
    """The record of that name; "native" is the best record this machine can run."""
    if name == "native":
        return native()
    if name in TARGETS:
        return TARGETS[name]
    close = difflib.get_close_matches(name.lower(), TARGETS, n=1, cutoff=0.0)[0]
    names = ", ".join(("native", *TARGETS))
    raise InputError(f"unknown target '{name}'", remedy=f"did you mean '{close}'? The targets are {names}")


@functools.cache
def native() -> Target:
    """The best record whose instructions this processor lists: never above what is there."""
    present = cpu_features()
    x86 = ("x86-64-v4-vnni", "x86-64-v4", "x86-64-v3", "x86-64")
    order = {"x86_64": x86, "AMD64": ("x86-64",), "aarch64": ("aarch64-i8mm", "aarch64-dotprod", "aarch64")}
    usable = (name for name in order.get(_MACHINE, ()) if present.issuperset(TARGETS[name].features))
    return TARGETS[next(usable, "c99")]


@functools.cache
def cpu_features() -> frozenset[str]:
    """Flags of the first processor in /proc/cpuinfo (`flags` on x86, `Features` on Arm)."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []
    flags = (line.split(":", 1)[1] for line in lines if line.lower().startswith(("flags", "features")))
    return frozenset(next(flags, "").split())
