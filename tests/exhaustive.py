"""All 2^32 arguments of the float32 functions of the math library: `make math-exhaustive`
writes docs/math.md.

Each function is compiled as bundles have it, in the forms for SSE2, AVX2 and AVX-512 that this machine runs,
and compared with the C library's float64 function, vectorised: 4 units of float64 at most, exact enough.
The work is cut into pieces that as many processes as there are processors take from a queue; what has been
found for the same C before is kept in build/.

    python -m tests.exhaustive [--workers N] [FUNCTION ...]
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.progress import Progress

from ingot.emit.source import helper_texts
from ingot.emit.vector import VectorPrinter
from ingot.formula.expr import Expr, Unary, Var
from ingot.formula.types import FLOAT32
from ingot.loops.math import UNARY
from ingot.targets.record import Target
from ingot.targets.records import cpu_features, find

KNOWN = Path(__file__).parent.parent / "build" / "math-exhaustive.json"
REPORT = Path(__file__).parent.parent / "docs" / "math.md"
LEVELS = ("x86-64", "x86-64-v3", "x86-64-v4")
PIECES = 64  # of the 2^32 arguments
EXACT = {"away", "ceil", "floor", "round", "sqrt", "trunc"}
NONPOSITIVE = {"exp_nonpositive", "exp_steady"}  # all arguments are made negative
REFERENCE = {
    "away": "round(x)",
    **dict.fromkeys(NONPOSITIVE, "exp(-fabs(x))"),
    "round": "rint(x)",
    "sigmoid": "1 / (1 + exp(-x))",
}  # others the C library names as we do

# Where a vectorised function would go element by element: outside its domain, or far out of range.
DOMAIN = {
    **dict.fromkeys(("acos", "asin", "atanh"), ("fabs(v) <= 1", "0.5")),
    **dict.fromkeys(("log", "log2"), ("v >= 0", "1.0")),
    "acosh": ("v >= 1", "2.0"),
    "log1p": ("v >= -1", "1.0"),
}
MOST_ULP = {"sigmoid": 3.1, "tanh": 6}
"""Units of the last place that a function may be wrong by, if more than two."""
SATURATED = {"cosh", "erf", "exp", "exp2", *NONPOSITIVE, "expm1", "sigmoid", "sinh", "tanh"}
COMPARE = r"""
#define _POSIX_C_SOURCE 199309L
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
enum { N = 8192 };
static float x[N], y[N], before[N];
static double wanted[N], error[N];
void reference(const float *x, double *y, int n);
%(declarations)s
static void (*const forms[])(const float *, float *, int) = { %(names)s };
union word { float f; uint32_t i; };
union wide { double f; uint64_t i; };

/* where one is infinite or NaN, or signs differ: nothing, one unit, or infinitely wrong */
static double special(float got, double want) {
    const union word g = { got }, w = { (float)want };
    if (want != want || got != got) return want != want && got != got ? 0 : INFINITY;
    const uint32_t apart = g.i > w.i ? g.i - w.i : w.i - g.i;
    return apart <= 1 ? apart : INFINITY;
}

/* the errors of a block in units of the last place, infinite where `special` has to look */
static void distances(void) {
    for (int i = 0; i < N; i++) {
        const union word g = { y[i] }, w = { (float)wanted[i] };
        const uint32_t e = w.i >> 23 & 255, other = g.i >> 23 & 255;
        union wide unit;
        unit.i = (uint64_t)(1173 - (e ? e : 1)) << 52;
        const int odd = (e == 255) | (other == 255) | (int)((w.i ^ g.i) >> 31);
        const int same = w.i == g.i || (wanted[i] != wanted[i] && y[i] != y[i]);
        error[i] = odd ? same ? 0 : INFINITY : fabs((double)y[i] - wanted[i]) * unit.f;
    }
}

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

/* nanoseconds for one element, the array in the nearest cache */
static double speed(void (*form)(const float *, float *, int)) {
    double best = 1;
    for (int i = 0; i < 2048; i++) x[i] = (float)(i - 1024) / 256;
    for (int r = 0; r < 2000; r++) {
        const double start = seconds();
        form(x, y, 2048);
        const double t = seconds() - start;
        best = t < best ? t : best;
    }
    return best / 2048 * 1e9;
}

int main(int argc, char **argv) {
    const int count = sizeof forms / sizeof *forms;
    if (argc < 3) {
        for (int f = 0; f < count; f++) printf("%%.4f 0\n", speed(forms[f]));
        return 0;
    }
    double worst[8] = { 0 };
    union word at[8] = { { 0 } };
    const uint64_t end = strtoull(argv[2], 0, 10);
    for (uint64_t first = strtoull(argv[1], 0, 10); first < end; first += N) {
        for (int i = 0; i < N; i++) {
            union word w;
            w.i = (uint32_t)(first + i);
            x[i] = w.f;
        }
        reference(x, wanted, N);
        for (int f = 0; f < count; f++) {
            memcpy(before, y, sizeof y);
            forms[f](x, y, N);
            if (f && memcmp(before, y, sizeof y) == 0 && worst[f] >= worst[f - 1]) continue;
            distances();
            uint64_t largest = 0;
            for (int i = 0; i < N; i++) {
                const union wide e = { error[i] };
                largest = e.i > largest ? e.i : largest;
            }
            const union wide limit = { worst[f] };
            for (int i = 0; i < N && largest > limit.i; i++) {
                if (error[i] <= worst[f]) continue;
                const double d = error[i] < INFINITY ? error[i] : special(y[i], wanted[i]);
                if (d > worst[f]) worst[f] = d, at[f].f = x[i];
            }
        }
    }
    for (int f = 0; f < count; f++) printf("%%.4f %%u\n", worst[f], at[f].i);
    return 0;
}
"""
CLOCK = r"""
#include <stdio.h>
#include <time.h>
int main(void) {
    double best = 0;
    for (int r = 0; r < 50; r++) {
        struct timespec a, b;
        unsigned long x = 1;
        clock_gettime(CLOCK_MONOTONIC, &a);
        for (int i = 0; i < 1000000; i++) __asm__ volatile("add $1, %0" : "+r"(x));
        clock_gettime(CLOCK_MONOTONIC, &b);
        const double t = (b.tv_sec - a.tv_sec) * 1e9 + b.tv_nsec - a.tv_nsec;
        if (1e6 / t > best) best = 1e6 / t;
    }
    printf("%f", best);
    return 0;
}
"""
DOCUMENT = """\
# The math library

Bundles contain their own exp, tanh, sigmoid, erf and so on. Each is defined once in `loops/math/` and printed
as a scalar or a vector function, without tables in memory. There is only one branch: rare cases that take
long (angles beyond 2^18, in float64 2^40; quotients of fmod with as many digits as the type) are computed by
a separate function, which is called if any lane needs it. If the target has instructions for fused
multiply-adds and for scaling by a power of two, the functions use them. On AVX2 and
AVX-512, one register holds a table: of roots of two (exp, sigmoid) or, with 16 lanes, of coefficients (erf).

`make math-exhaustive` compares the float32 functions of one argument with the C library's float64 ones over
all 2^32 arguments, on the vectors of each level of x86, and writes this page. The error is in units in the
last place of the exact result, denormal results included. A difference in NaN, infinity or the sign of zero
would count as an infinite error; there is none. tanh is a single quotient of polynomials, which takes a third
of the operations of an exact form and is as accurate as that of other runtimes (onnxruntime 1.32: 5.4 ulp,
where the largest result is 1.0000002); it never exceeds 1. Cycles are per element of an array in the
first-level cache, at {ghz} GHz on {processor}. On this processor, some functions are a single
instruction.

{table}
pow and fmod take two arguments. `tests/test_math.py`, whose table has the limits, samples them and the
float64 functions over their whole range; for sin, cos and tan the samples include the numbers that come
closest to multiples of pi/2. fmod is exact. Compared with 220-bit arithmetic at 18,000 arguments each (random
bits, all magnitudes, neighbours of 1), no float64 function was off by more than 1.6 ulp, and pow by 1.1
(float32: 1.1). `tests/test_math_printed.py` compares the C of every target that runs, to the bit, with its
definition.

Large angles cost four to seven times as much as small ones. Large quotients of fmod cost up to 65 (float32)
and 250 (float64) times as much, because a loop divides by 23 (52) digits in each iteration.

## Conversions

Where ONNX leaves the result of a conversion open, bundles give the same result on every target, and do
nothing that C leaves undefined (`tests/test_casts.py`):

* A float is truncated to an integer. A value out of range becomes the nearest integer of the type, and NaN
  becomes 0. (In ONNX this is undefined; in onnxruntime it depends on the processor.) For types below 8 bits,
  the value is converted to int32, whose low bits are kept, as in onnx's reference.
* An integer that is too large for a narrower type keeps its low bits, as ONNX says, and so does the result of
  integer arithmetic. Integer division and remainder by zero give 0. The smallest integer divided by -1 is
  itself, with remainder 0.
* Floats are rounded once, half to even; a value that is too large becomes infinite. An 8-bit float saturates
  at its largest number unless `saturate` is 0.

## What bundles do where ONNX, or its implementations, disagree

Bundles behave the same on every target (`tests/test_special_values.py`). Rows in `tests/ops/` compare each
behaviour with the oracles that share it.

* **NaN** propagates: Max, Min, ReduceMax, ReduceMin, Relu and Clip (also with a bound that is NaN) give NaN
  if they read one, as sums do. A maximum that hid a NaN would hide the fault that caused it. (onnxruntime
  ignores NaN in ReduceMax and in the bounds of Clip.)
* **NaN in MaxPool and GlobalMaxPool** is ignored: the result is the largest number of the window, or minus
  infinity if it has none. In MaxPool, onnx's reference does the same where windows move by one element, and
  keeps a NaN that comes first in others; onnxruntime keeps one that comes last. Ignoring NaN takes one
  instruction per element, propagating it three.
* **NaN in sorting** is greater than every number, and all NaNs are equal. TopK puts NaNs first among the
  largest and last among the smallest, as both oracles do, and Unique counts them as one value. ArgMax and
  ArgMin return the first NaN (or the last, if that is asked for), which matches ReduceMax and ReduceMin.
  Equal elements keep the order of their indices, also with `sorted=0`. Whether the maximum of 0 and -0 is 0
  or -0 is not specified.
* **The sign of a sum that is zero** is not specified either. Vector code begins a sum with its first product
  instead of 0, which saves an addition. Therefore a convolution of zeros with a negative weight gives -0,
  whereas both oracles give 0. The difference is visible only if something divides by the result.
* **Infinities in a convolution** by Winograd's algorithm turn up to a tile of neighbouring results into NaN,
  because the transforms subtract infinities from each other. `--math exact` does not use this algorithm.
* **Sigmoids and tanhs that are multiplied and added**, as in an LSTM or a GRU, share one division unless
  `--math exact` is given. Their exp is limited to e^20, so the smallest value of a sigmoid is 2e-9 instead of
  0, and a closed gate is not fully closed. If a model takes the square root of such a value, the result is
  4e-5 instead of 0.
* **RNN, GRU and LSTM over a sequence of length 0** give Y = 0. No step changes the state, so Y_h =
  initial_h and Y_c = initial_c. ONNX specifies "the last output value", which does not exist here.
  TensorFlow also keeps the state; onnxruntime clears it, and onnx's reference does not read lengths at all.
  If the state were cleared, a state that is kept between calls (docs/state.md) would be lost in a call
  without steps.
* **DynamicQuantizeLinear of zeros**, or of a range too small for 255 steps, has the scale 1 and the zero
  point 0, as in onnxruntime for zeros; onnx's reference gives 1/255, and the formula gives 0 and NaN. An
  infinity makes the scale infinite and the zero point 0 (255 if an infinity is negative), as in onnxruntime
  and onnx's reference; finite elements become the zero point, infinite ones 0. A NaN makes the scale NaN, the
  zero point 255 and all bytes 0, as in the reference; onnxruntime ignores it.
* **Resize with scales** gives floor(extent * scale) elements, and computes their coordinates from the given
  scale, not from the ratio of the extents. With align_corners, the last element is at extent * scale, which
  may be a fraction. This is ONNX's definition since opset 19, and onnx's reference follows it; onnxruntime
  rounds down, as all implementations do before opset 19. If sizes are given, there is no difference.
* **Resize of half_pixel_symmetric** is computed as (x + 1/2 - after / 2) / scale + before / 2 - 1/2. This is
  the definition of Resize-19 with a single division, so that a coordinate halfway between two elements stays
  exact (6 elements by 1.6, 7 by 0.6). Some of these are wrong in onnxruntime, which divides more often, and
  in onnx's reference, where a scale of 1.6 is 1.60000002. In Ingot, no case of up to 13 elements differs from
  exact arithmetic.
* **Resize of integers** rounds interpolated values half to even and saturates, as onnx's reference does.
  Linear interpolation without antialiasing truncates instead, as in onnxruntime. onnxruntime also rounds
  antialiased values, but after every axis.
* **auto_pad SAME with gaps between the windows** (an extent of 31, a window of 1, a stride of 4): ONNX's
  formula gives a negative padding. A pooling then drops elements, half of them at the front, rounded towards
  0 (one less for SAME_LOWER). onnxruntime does the same if it accepts such a model, and so does onnx's
  reference for MaxPool if the half is a whole number. A convolution pads nothing: its first window begins
  at the first element, as in onnx's reference and in TensorFlow, where the rule SAME comes from; onnxruntime
  drops elements in some cases.
* **auto_pad SAME of a dilated pooling** gives ceil(extent / stride) elements, with the padding that the
  dilated window needs, as ONNX defines it. onnxruntime pads as if the window were not dilated, which gives
  fewer elements or others; onnx's reference mostly follows the definition for MaxPool, and has a third result
  for the other poolings.
* **A pooling window wider than its input**, padding included, gives no elements if ONNX's
  formula, (extent + pads - window) / stride + 1, is 0, as in both oracles. If the formula is negative, or 0
  only because it is rounded down, Ingot refuses the model. (In this case, onnxruntime rounds towards 0 and
  has a window that is partly outside; onnx's reference has none.) Ingot and onnxruntime refuse such
  convolutions.
* **Integers to a negative power** are truncated: 1 and -1 keep their magnitude, and all others, 0
  included, give 0.
"""


@dataclass(frozen=True)
class Result:
    """What one form of a function is worth: the largest error, the bits of the argument, ns per element."""

    worst: float
    at: int
    nanoseconds: float = 0.0


def levels() -> tuple[Target, ...]:
    return tuple(t for t in map(find, LEVELS) if cpu_features().issuperset(t.features))


def form(op: str, target: Target) -> str:
    """C of a loop over an array that calls the function, or the instruction, on full vectors."""
    lanes = target.lanes(4)
    printer = VectorPrinter(target, lambda t: t.name, registers={"v": (lanes, FLOAT32)})
    v: Expr = Var("v", type=FLOAT32)
    argument = -Unary("abs", v) if op in NONPOSITIVE else v
    value, vector = printer.vector(Unary(op, argument), lanes), f"f32x{lanes}"
    printer.vector_type(FLOAT32, lanes)
    loop = (
        f"void {_name(target)}(const float *x, float *y, int n) {{",
        f"    for (int i = 0; i < n; i += {lanes}) {{",
        f"        const {vector} v = *(const {vector} *)(x + i);",
        f"        *({vector} *)(y + i) = {value};\n    }}\n}}\n",
    )
    return "\n".join(["#include <stdint.h>", target.header, *helper_texts(printer.used, target), *loop])


def _name(target: Target) -> str:
    return f"form_{target.name.replace('-', '_')}"


def sources(op: str) -> dict[str, tuple[str, tuple[str, ...]]]:
    """The C files that compare all forms of a function over a range of arguments; gcc's flags for each."""
    names = list(map(_name, levels()))
    declarations = "\n".join(f"void {n}(const float *x, float *y, int n);" for n in names)
    values = {"declarations": declarations, "names": ", ".join(names)}
    name = "exp" if op == "sigmoid" or op in NONPOSITIVE else op
    simd = "" if op in EXACT else f'__attribute__((simd("notinbranch"))) double {name}(double);'
    inside, safe = DOMAIN.get(op, ("1", "v"))
    x = "v > 200 ? 200 : v < -200 ? -200 : v" if op in SATURATED else f"{inside} ? v : {safe}"
    value = f"const double f = {REFERENCE.get(op, f'{op}(x)')}; y[i] = {inside} ? f : NAN;"
    loop = f"for (int i = 0; i < n; i++) {{ const double v = at[i], x = {x}; {value} }}"
    return {
        "main": (COMPARE % values, ("-O3", "-march=native", "-fno-trapping-math")),
        "reference": (
            f"#include <math.h>\n{simd}\nvoid reference(const float *at, double *y, int n) {{ {loop} }}\n",
            ("-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math"),
        ),
        **{t.name: (form(op, t), ("-O2", "-ffp-contract=off", "-w", *(t.gcc or ())[1:])) for t in levels()},
    }


def build(op: str, folder: Path) -> Path:
    """The program of those files."""
    objects = []
    for name, (text, flags) in sources(op).items():
        (folder / f"{op}_{name}.c").write_text(text)
        objects.append(f"{op}_{name}.o")
        subprocess.run(["gcc", *flags, "-c", f"{op}_{name}.c", "-o", objects[-1]], cwd=folder, check=True)
    subprocess.run(["gcc", *objects, "-lmvec", "-lm", "-o", op], cwd=folder, check=True)
    return folder / op


def run(program: Path, *arguments: int) -> list[Result]:
    out = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, check=True)
    return [Result(float(line.split()[0]), int(line.split()[1])) for line in out.stdout.splitlines()]


def fingerprint(op: str) -> str:
    """Of what is compiled: results of the same C are kept."""
    return hashlib.sha256(repr(sources(op)).encode()).hexdigest()


def read_known() -> dict[str, Any]:
    """(fingerprint, results) by function, from earlier runs."""
    known: dict[str, Any] = json.loads(KNOWN.read_text()) if KNOWN.exists() else {}
    return known


def recorded(found: dict[str, list[Result]]) -> dict[str, list[Result]]:
    """What earlier runs found of other functions, the C being the same still."""
    known = {op: k for op, k in read_known().items() if op not in found and k[0] == fingerprint(op)}
    return {op: [Result(*r) for r in results] for op, (_, results) in known.items()}


def measure(ops: list[str], workers: int) -> dict[str, list[Result]]:
    """For each function what its forms are worth, in the order of `levels`; what has not changed is known."""
    found: dict[str, list[Result]] = {}
    known = read_known()
    size = (1 << 32) // PIECES
    with tempfile.TemporaryDirectory() as folder, Progress() as progress, ThreadPoolExecutor(workers) as pool:
        task = progress.add_task("all 2^32 arguments", total=len(ops) * PIECES)
        for op in ops:
            progress.update(task, description=op)
            if op in known and known[op][0] == fingerprint(op):
                found[op] = [Result(*r) for r in known[op][1]]
                progress.advance(task, PIECES)
                continue
            program = build(op, Path(folder))
            times = run(program)
            pieces = [pool.submit(run, program, i * size, (i + 1) * size) for i in range(PIECES)]
            best = [Result(0.0, 0, t.worst) for t in times]
            for piece in as_completed(pieces):
                pairs = zip(best, piece.result(), strict=True)
                best = [b if b.worst >= p.worst else Result(p.worst, p.at, b.nanoseconds) for b, p in pairs]
                progress.advance(task)
            found[op] = best
            known[op] = fingerprint(op), [(r.worst, r.at, r.nanoseconds) for r in best]
            KNOWN.parent.mkdir(exist_ok=True)
            KNOWN.write_text(json.dumps(known))
            progress.console.print(f"{op}: {', '.join(f'{r.worst:.2f} ulp at {r.at:#010x}' for r in best)}")
    return found


def rows(found: dict[str, list[Result]], ghz: float) -> Iterator[str]:
    names = [t.name for t in levels()]
    yield "| function | " + " | ".join(f"{n}: max ulp | cycles" for n in names) + " |"
    yield "|---|" + "---:|---:|" * len(names)
    for op, results in found.items():
        cells = (f"{r.worst:.2f} | {r.nanoseconds * ghz:.2f}" for r in results)
        yield f"| {op} | {' | '.join(cells)} |"


def report(found: dict[str, list[Result]], ghz: float) -> str:
    """The page; functions that no run has covered are named."""
    table = "\n".join(rows(dict(sorted(found.items())), ghz))
    missing = ", ".join(sorted(UNARY.keys() - found.keys()))
    left = f"\nNot in the table: `{missing}`. `tests/test_math.py` tests it on samples.\n" if missing else ""
    return DOCUMENT.format(table=table + "\n" + left, ghz=f"{ghz:.2f}", processor=processor())


def processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")


def clock() -> float:
    """GHz of a core at work: a chain of additions takes a cycle each."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "clock.c").write_text(CLOCK)
        subprocess.run(["gcc", "-O2", "clock.c", "-o", "clock"], cwd=folder, check=True)
        return float(subprocess.run([Path(folder, "clock")], capture_output=True, check=True).stdout)


def main() -> int:
    """How many functions are worse than they may be."""
    parser = argparse.ArgumentParser()
    parser.add_argument("functions", nargs="*")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    found = measure(given.functions or sorted(UNARY), given.workers)
    REPORT.write_text(report(found | recorded(found), clock()))
    return sum(any(r.worst > MOST_ULP.get(op, 2) for r in results) for op, results in found.items())


if __name__ == "__main__":
    sys.exit(main() > 0)
