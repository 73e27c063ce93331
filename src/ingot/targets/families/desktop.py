"""Objects for Windows (COFF) and macOS (Mach-O). Windows wants frames beyond a page to be probed, by a
function of the compiler's library: frames are kept smaller instead.
"""

from __future__ import annotations

from ..record import Target
from ..spelling import NEON, neon_dotprod, x86_scalar, x86_vector
from .arm_a import AARCH64_SCALAR
from .x86 import IMMINTRIN

NO_PROBE = "-mno-stack-arg-probe"
PAGE = 4096

TARGETS = (
    Target(
        "windows-x86-64",
        "64-bit Windows on any x86: SSE2",
        triple="x86_64-w64-windows-gnu",
        aliases=("windows", "win64", "x86_64-windows"),
        flags=("-march=x86-64", NO_PROBE),
        gcc=("x86_64-w64-mingw32-gcc", "-march=x86-64"),
        format="coff",
        joins=False,
        vector_bytes=16,
        header=IMMINTRIN,
        frame_bytes=PAGE,
        runner=("wine",),
        operations=x86_vector(16, 1),
        scalar_operations=x86_scalar(1),
        instructions={("dot2", "int16"): 2},
    ),
    Target(
        "windows-x86-64-v3",
        "64-bit Windows on x86 since 2013: AVX2 and FMA",
        triple="x86_64-w64-windows-gnu",
        aliases=("win64-avx2",),
        flags=("-march=x86-64-v3", NO_PROBE),
        gcc=("x86_64-w64-mingw32-gcc", "-march=x86-64-v3"),
        format="coff",
        joins=False,
        vector_bytes=32,
        header=IMMINTRIN,
        caches=(32 << 10, 512 << 10, 32 << 20),
        frame_bytes=PAGE,
        runner=("wine",),
        operations=x86_vector(32, 3),
        narrow_operations={16: x86_vector(16, 3)},
        scalar_operations=x86_scalar(3),
        instructions={("dot2", "int16"): 2},
    ),
    Target(
        "windows-aarch64",
        "Windows on Arm: NEON",
        triple="aarch64-w64-windows-gnu",
        aliases=("windows-arm64", "win-arm64"),
        flags=(NO_PROBE,),
        frame_bytes=PAGE,
        format="coff",
        joins=False,
        vector_bytes=16,
        registers=32,
        by_element=True,
        header="#include <arm_neon.h>\n",
        runs=False,
        operations=NEON,
        scalar_operations=AARCH64_SCALAR,
        instructions={("dot4", "uint8"): 10, ("dot4", "int8"): 6},
    ),
    Target(
        "macos-x86-64",
        "macOS on Intel since 2013: AVX2 and FMA",
        triple="x86_64-apple-macos11",
        aliases=("macos-intel",),
        flags=("-march=x86-64-v3",),
        format="macho",
        joins=False,
        vector_bytes=32,
        header=IMMINTRIN,
        caches=(32 << 10, 256 << 10, 8 << 20),
        runs=False,
        relocation="pic",
        operations=x86_vector(32, 3),
        narrow_operations={16: x86_vector(16, 3)},
        scalar_operations=x86_scalar(3),
        instructions={("dot2", "int16"): 2},
    ),
    Target(
        "macos-aarch64",
        "macOS, iOS on Apple's processors: NEON with dot products of bytes",
        triple="arm64-apple-macos11",
        aliases=("macos", "macos-arm64", "apple-m1", "apple-m2", "apple-m3", "apple-silicon"),
        flags=("-mcpu=apple-m1",),
        format="macho",
        joins=False,
        vector_bytes=16,
        registers=32,
        by_element=True,
        header="#include <arm_neon.h>\n",
        caches=(64 << 10, 4 << 20, 8 << 20),
        runs=False,
        relocation="pic",
        operations={**NEON, **neon_dotprod()},
        scalar_operations=AARCH64_SCALAR,
        instructions={("dot4", "uint8"): 4},
    ),
)
