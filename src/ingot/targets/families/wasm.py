"""WebAssembly."""

from __future__ import annotations

from pathlib import Path

from ..record import Target
from ..spelling import WASM

RUNNER = ("node", str(Path(__file__).with_name("run_wasm.mjs")))

TARGETS = (
    Target(
        "wasm32",
        "WebAssembly 1.0, one value at a time",
        triple="wasm32-unknown-unknown",
        aliases=("wasm32-mvp",),
        flags=("-mcpu=mvp",),
        format="wasm",
        pointer_bytes=4,
        runner=RUNNER,
    ),
    Target(
        "wasm32-simd128",
        "WebAssembly 2.0 with simd128: Node, all browsers since 2023",
        triple="wasm32-unknown-unknown",
        aliases=("wasm", "webassembly", "wasm-simd", "browser", "node", "nodejs"),
        flags=("-msimd128",),
        format="wasm",
        pointer_bytes=4,
        vector_bytes=16,
        header="#include <wasm_simd128.h>\n",
        runner=RUNNER,
        operations=WASM,
    ),
)
