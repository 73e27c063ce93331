"""x86: 32 and 64 bits. Without `-mprefer-vector-width=512` clang splits and spills 64-byte vectors, and with
it its vectorizer of straight code may never end (a small copy of bytes, transposed).
"""

from __future__ import annotations

from ..record import Target
from ..spelling import x86_avx_vnni, x86_scalar, x86_vector, x86_vnni
from .portable import MACHINE

V2 = ("cx16", "lahf_lm", "popcnt", "pni", "sse4_1", "sse4_2", "ssse3")
V3 = (*V2, "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave")
V4 = (*V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
VNNI_FLAGS = ("-mavx512vbmi", "-mavx512vnni")
# gcc's immintrin.h includes mm_malloc.h and so libc's stdlib.h, freestanding or not; its guard keeps it out.
IMMINTRIN = """\
#ifndef _MM_MALLOC_H_INCLUDED
#define _MM_MALLOC_H_INCLUDED
#endif
#include <immintrin.h>
"""
X86_64 = "x86_64-unknown-none-elf"
X86_GCC = "gcc" if MACHINE == "x86_64" else "x86_64-linux-gnu-gcc"

TARGETS = (
    Target(
        "x86-64",
        "any 64-bit x86: SSE2",
        triple=X86_64,
        aliases=("x86_64", "amd64", "x86-64-v1", "sse2"),
        flags=("-march=x86-64",),
        gcc=(X86_GCC, "-march=x86-64"),
        vector_bytes=16,
        header=IMMINTRIN,
        features=("sse2",),
        runner=() if MACHINE == "x86_64" else ("qemu-x86_64",),
        relocation="pic",
        operations=x86_vector(16, 1),
        scalar_operations=x86_scalar(1),
        instructions={("dot2", "int16"): 2},
    ),
    Target(
        "x86-64-general",
        "64-bit x86 by its general registers, as in kernels: floats by the compiler's library",
        triple=X86_64,
        flags=("-march=x86-64", "-mgeneral-regs-only"),
        has_floats=False,
        registers=12,
        runtime=("-target", "x86_64-freestanding-none", "-mcpu=x86_64+soft_float-sse-sse2-mmx-x87"),
        runner=("qemu-x86_64",),  # as a program: it passes floats otherwise than libraries do
        relocation="pic",
    ),
    Target(
        "x86-64-v2",
        "x86 since 2009: SSE4.2",
        triple=X86_64,
        aliases=("nehalem", "goldmont", "sse4.2"),
        flags=("-march=x86-64-v2",),
        gcc=(X86_GCC, "-march=x86-64-v2"),
        vector_bytes=16,
        header=IMMINTRIN,
        features=("sse2", *V2),
        runner=() if MACHINE == "x86_64" else ("qemu-x86_64", "-cpu", "max"),
        relocation="pic",
        operations=x86_vector(16, 2),
        scalar_operations=x86_scalar(2),
        instructions={("dot2", "int16"): 2},
    ),
    Target(
        "x86-64-v3",
        "x86 since 2013: AVX2 and FMA",
        triple=X86_64,
        aliases=("haswell", "skylake", "zen", "zen2", "zen3", "avx2"),
        flags=("-march=x86-64-v3",),
        gcc=(X86_GCC, "-march=x86-64-v3"),
        vector_bytes=32,
        header=IMMINTRIN,
        caches=(32 << 10, 512 << 10, 32 << 20),
        features=V3,
        runner=() if MACHINE == "x86_64" else ("qemu-x86_64", "-cpu", "max"),
        relocation="pic",
        operations=x86_vector(32, 3),
        narrow_operations={16: x86_vector(16, 3)},
        scalar_operations=x86_scalar(3),
        instructions={("dot2", "int16"): 2},
    ),
    Target(
        "x86-64-v3-vnni",
        "x86 with AVX2, FMA and AVX-VNNI: Alder Lake, Zen 5",
        triple=X86_64,
        aliases=("avx-vnni", "alderlake", "raptorlake", "meteorlake", "intel-n100"),
        flags=("-march=x86-64-v3", "-mavxvnni"),
        gcc=(X86_GCC, "-march=x86-64-v3", "-mavxvnni"),
        vector_bytes=32,
        header=IMMINTRIN,
        caches=(32 << 10, 512 << 10, 32 << 20),
        features=(*V3, "avx_vnni"),
        relocation="pic",
        operations={**x86_vector(32, 3), **x86_avx_vnni(32)},
        narrow_operations={16: {**x86_vector(16, 3), **x86_avx_vnni(16)}},
        scalar_operations=x86_scalar(3),
    ),
    Target(
        "x86-64-v4",
        "x86 with AVX-512 F, BW, CD, DQ, VL",
        triple=X86_64,
        aliases=("skylake-avx512", "avx512"),
        flags=("-march=x86-64-v4", "-mprefer-vector-width=512", "-fno-slp-vectorize"),
        gcc=(X86_GCC, "-march=x86-64-v4", "-mprefer-vector-width=512"),
        vector_bytes=64,
        registers=32,
        header=IMMINTRIN,
        caches=(32 << 10, 1 << 20, 32 << 20),
        features=V4,
        relocation="pic",
        operations=x86_vector(64, 4),
        narrow_operations={16: x86_vector(16, 4), 32: x86_vector(32, 4)},
        scalar_operations=x86_scalar(4),
        instructions={("dot2", "int16"): 2},
    ),
    Target(
        "x86-64-v4-vnni",
        "x86 with AVX-512 F, BW, CD, DQ, VL, VBMI and VNNI: Ice Lake, Zen 4",
        triple=X86_64,
        aliases=("icelake", "sapphirerapids", "zen4", "zen5", "avx512-vnni"),
        flags=("-march=x86-64-v4", *VNNI_FLAGS, "-mprefer-vector-width=512", "-fno-slp-vectorize"),
        gcc=(X86_GCC, "-march=x86-64-v4", *VNNI_FLAGS, "-mprefer-vector-width=512"),
        vector_bytes=64,
        registers=32,
        header=IMMINTRIN,
        caches=(32 << 10, 1 << 20, 32 << 20),
        features=(*V4, "avx512vbmi", "avx512_vnni"),
        relocation="pic",
        operations={**x86_vector(64, 4), **x86_vnni(64)},
        narrow_operations={n: {**x86_vector(n, 4), **x86_vnni(n)} for n in (16, 32)},
        scalar_operations=x86_scalar(4),
    ),
    Target(
        "i386",
        "32-bit x86 with SSE2; realigns the stack, whatever its caller does",
        triple="i386-unknown-none-elf",
        aliases=("x86", "i486", "i586", "i686", "pentium4", "ia32"),
        flags=("-march=pentium4", "-mfpmath=sse", "-mstackrealign"),
        gcc=(X86_GCC, "-m32", "-march=pentium4", "-mfpmath=sse", "-mstackrealign"),
        pointer_bytes=4,
        vector_bytes=16,
        registers=8,
        runtime=("-target", "x86-freestanding-none", "-mcpu=pentium4"),
        header=IMMINTRIN,
        features=("sse2",),
        runner=() if MACHINE == "x86_64" else ("qemu-i386",),
        operations=x86_vector(16, 1),
        scalar_operations=x86_scalar(1),
        instructions={("dot2", "int16"): 2},
    ),
)

NATIVE = ("x86-64-v4-vnni", "x86-64-v4", "x86-64-v3-vnni", "x86-64-v3", "x86-64-v2", "x86-64")
"""What a processor is asked for, best first."""
