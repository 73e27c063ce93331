"""A bundle's C under gcc's sanitizers, called with one set of inputs after the other.

In: a bundle, and the bytes of its inputs per call. Out: the status of each. AssertionError with the report
where a sanitizer objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import ingot
from ingot.bundle.binding import capacity

from .bundle.build import compile_c, link, run, write

Array = np.ndarray[Any, Any]
FLAGS = ("-O0", "-g1", "-fsanitize=address,undefined,float-cast-overflow", "-fno-sanitize-recover=all")
MAIN = """
#include <stdio.h>
#include <stdlib.h>
#include "{name}.h"
static const size_t sizes[] = {{{sizes}}};
int main(void) {{
    for (;;) {{
        void *p[{count}], *const arena = aligned_alloc(64, {arena});
        int status;
        for (int i = 0; i < {count}; i++) p[i] = malloc(sizes[i]);
        for (int i = 0; i < {inputs}; i++)
            if (fread(p[i], 1, sizes[i], stdin) != sizes[i]) return 0;
        for (int i = 0; i < {arena}; i++) ((unsigned char *)arena)[i] = 0xFF;
        status = {name}({pointers}, arena);
        fwrite(&status, sizeof status, 1, stdout);
        for (int i = 0; i < {count}; i++) free(p[i]);
        free(arena);
    }}
}}
"""


def statuses(bundle: ingot.Bundle, feeds: Sequence[Sequence[Array]], folder: Path) -> list[int]:
    """What the entry returns for each feed, its arrays in the order of the bundle's inputs."""
    inputs, sizes = bundle.manifest["inputs"], capacity(bundle.manifest)
    main = MAIN.format(
        name=bundle.name,
        sizes=", ".join(map(str, sizes)),
        count=len(sizes),
        inputs=len(inputs),
        arena=max(bundle.manifest["sizes"]["arena_bytes"], 64),
        pointers=", ".join(f"p[{i}]" for i in range(len(sizes))),
    )
    write(folder, {**bundle.files, "main.c": main})
    sources = [*(f for f in bundle.files if f.endswith(".c")), "main.c"]
    objects = [compile_c("gcc", folder, f, "-ffp-contract=off", *FLAGS) for f in sources]
    program = link(folder, objects, FLAGS[2])
    (folder / "in").write_bytes(b"".join(np.ascontiguousarray(a).tobytes() for f in feeds for a in f))
    run(["sh", "-c", f"ASAN_OPTIONS=detect_leaks=0 {program} < in > out"], folder)
    found: list[int] = np.frombuffer((folder / "out").read_bytes(), np.int32).tolist()
    return found
