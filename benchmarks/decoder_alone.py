"""The decoder of `benchmarks.decoder` as a program of Linux: no C library, no file to read.

In: a shape, a target. Out: a program of one C file, which includes the bundle's; the assembler takes the
weights from theirs. It starts at `_start` of `examples/decoder/start.c`, writes the likeliest tokens by
system calls, and takes how many as its argument.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import ingot
from benchmarks.decoder_model import Shape, onnx_model, states
from ingot.targets.record import Target

START = Path(__file__).parent.parent / "examples" / "decoder"
FREE = ("-std=gnu11", "-O2", "-ffreestanding", "-fno-builtin", "-fno-stack-protector", "-static", "-nostdlib")

PROGRAM = """\
#include "decoder.c"
#include "start.c"

static unsigned char arena[DECODER_ARENA_SIZE] __attribute__((aligned(DECODER_ARENA_ALIGN)));
static struct decoder_state state;
static float logits[DECODER_LOGITS_COUNT];

static void put_number(put_text *put, int64_t number) {
    char digits[24] = " ";
    int at = 22;
    do digits[at--] = (char)('0' + number % 10);
    while ((number /= 10) > 0);
    put(digits + at + 1);
    put(" ");
}

const char *generate(const char *prompt, put_text *put) {
    int count = 0;
    for (; *prompt; prompt++) count = 10 * count + (*prompt - '0');
    decoder_state_init(&state);
    int64_t token = 0;
    for (int32_t used = 0; used < count; used++) {
        if (decoder(&token, &used, logits, &state, arena) != DECODER_OK) return "more than the cache holds";
        token = 0;
        for (int i = 1; i < (int)DECODER_LOGITS_COUNT; i++)
            if (logits[i] > logits[token]) token = i;
        put_number(put, token);
    }
    return 0;
}
"""


def build(s: Shape, target: Target, folder: Path) -> Path:
    """The program in a folder, with the bundle that it is made of."""
    bundle = ingot.compile(onnx_model(s), name="decoder", target=target.name, emit=("c",), state=states(s))
    bundle.save(folder)
    (folder / "alone.c").write_text(PROGRAM)
    weights = next(n for n in bundle.files if n.startswith("decoder_weights."))
    paths = ("-I", str(folder), "-I", str(START))
    sources = (str(folder / "alone.c"), str(folder / weights))
    command = (*target.gcc, *FREE, *paths, *sources, "-o", str(folder / "alone"))
    subprocess.run(command, check=True, timeout=600)
    return folder / "alone"


def tokens(program: Path, count: int) -> list[int]:
    """What the program writes."""
    found = subprocess.run(
        [str(program), str(count)], check=True, capture_output=True, text=True, timeout=600
    )
    return [int(word) for word in found.stdout.split()]
