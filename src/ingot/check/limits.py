"""What this machine can do at most, measured: multiply-adds per second, and bytes read per second by size.

In: a target whose programs run here. Out: `Limits`, which say how long a kernel takes at least. Called by
`bench` and `profile`. A few lines of C are made from the target's own vectors and multiply-add, so that a
bundle for SSE2 is held against what SSE2 can do. Measured once in about a second, then kept in a file.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ingot.bundle.run import aligned, load_library
from ingot.check.machine import cache_folder, fingerprint, machine, pinned
from ingot.errors import InputError
from ingot.files import conform, parse_json, read_text, write_file
from ingot.targets.process import zig_version
from ingot.targets.record import Target
from ingot.targets.toolchain import compile_c, exported, link_shared

SCHEMA = 1
KIB, MIB = 1 << 10, 1 << 20
SIZES = (16 * KIB, *(n * KIB for n in (64, 256, 512, 768)), *(n * MIB for n in (1, 2, 4, 8, 16, 24, 32, 128)))
BYTES_A_SAMPLE = 4 * MIB
STEPS = 1 << 14  # of each accumulator in one sample
SAMPLES = 40
BUSY = 1.0  # programs that want a processor; with more of them the limits are measured again
SPARE, MOST = 2, 24  # registers for the two operands; accumulators

SOURCE = """\
{header}
typedef float value {vector};
typedef int (*clock_fn)(int, long *);
static double nanoseconds(clock_fn now) {{
    long t[2];
    now(1, t);
    return (double)t[0] * 1e9 + (double)t[1];
}}
/* nanoseconds of {steps} multiply-adds in each of {count} independent accumulators */
double limits_multiply(clock_fn now, float *to) {{
    const value a = {{0}}, b = a + 0.25f, half = a + 0.5f;
    value {declared};
    const double begin = nanoseconds(now);
    for (int i = 0; i < {steps}; i++) {{
        {multiplied}
    }}
    const double spent = nanoseconds(now) - begin;
    *(value *)to = {total};
    return spent;
}}
/* nanoseconds of reading `count` values `times` times; count is a multiple of 8 */
double limits_read(clock_fn now, float *to, const value *from, long count, int times) {{
    value s0 = {{0}}, s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0, s6 = s0, s7 = s0;
    const double begin = nanoseconds(now);
    for (int t = 0; t < times; t++)
        for (long i = 0; i < count; i += 8) {{
            s0 += from[i];
            s1 += from[i + 1];
            s2 += from[i + 2];
            s3 += from[i + 3];
            s4 += from[i + 4];
            s5 += from[i + 5];
            s6 += from[i + 6];
            s7 += from[i + 7];
        }}
    const double spent = nanoseconds(now) - begin;
    *(value *)to = s0 + s1 + s2 + s3 + s4 + s5 + s6 + s7;
    return spent;
}}
"""


@dataclass(frozen=True, slots=True)
class Limits:
    """`macs`: multiply-adds per second; `reads`: (size, bytes per second) of arrays read again and again.

    `load` is that of the machine when they were measured.
    """

    target: str
    machine: str
    macs: float
    reads: tuple[tuple[int, float], ...]
    load: float = 0.0

    def bandwidth(self, size: int) -> float:
        """Bytes per second from where an array of this size lives."""
        return next((speed for most, speed in self.reads if size <= most), self.reads[-1][1])

    def compute_seconds(self, kernel: Mapping[str, Any]) -> float:
        """The least time of a kernel's multiply-adds (an entry of a manifest's `kernels`)."""
        return float(kernel["macs"]) / self.macs

    def memory_seconds(self, kernel: Mapping[str, Any], weights_bytes: int) -> float:
        """The least time to touch a kernel's tensors once.

        Weights come from the level that holds all `weights_bytes` of the model, the rest was touched lately.
        """
        weights = int(kernel["weights_bytes"])
        rest = int(kernel["bytes"]) - weights
        return weights / self.bandwidth(weights_bytes) + rest / self.bandwidth(rest)

    def roofline_seconds(self, manifest: Mapping[str, Any]) -> float:
        """No program that multiplies and adds as the model says is faster than this.

        Every kernel that multiplies takes the longer of its two times; what does not multiply is free. A
        Winograd convolution does fewer multiplications than the model says, and may be faster.
        """
        weights = int(manifest["sizes"]["weights_bytes"])
        return sum(
            max(self.compute_seconds(k), self.memory_seconds(k, weights))
            for k in manifest["kernels"]
            if k["macs"]
        )


def limits(target: Target) -> Limits:
    """Of this machine, from the file if they were measured before, while little else was going on."""
    path = cache_folder() / f"limits-{_key(target)}.json"
    known = _read(path)
    if known is None or known.load > BUSY:
        known = _better(known, measure(target))
        _write(path, known)
    return known


def _better(known: Limits | None, found: Limits) -> Limits:
    """The best of both: what was reached once can be reached."""
    if known is None:
        return found
    before = dict(known.reads)
    reads = tuple((size, max(speed, before.get(size, 0.0))) for size, speed in found.reads)
    load, macs = min(known.load, found.load), max(known.macs, found.macs)
    return replace(found, macs=macs, reads=reads, load=load)


def _key(target: Target) -> str:
    words = (str(SCHEMA), fingerprint(), target.name, zig_version(), _source(target))
    return hashlib.sha256("\0".join(words).encode()).hexdigest()[:16]


def _read(path: Path) -> Limits | None:
    """None if there is no such file, or if it is not one of ours."""
    try:
        known = conform(parse_json(read_text(path), path), Limits, str(path))
    except InputError:
        return None
    return known if known.macs > 0 and known.reads and min(s for _, s in known.reads) > 0 else None


def _write(path: Path, known: Limits) -> None:
    """As well as it goes: a folder that cannot be written costs a second next time."""
    with suppress(InputError):
        write_file(path, (json.dumps(asdict(known)) + "\n").encode())


def measure(target: Target) -> Limits:
    """The best of many samples on one core."""
    made = compile_c(_source(target), target, name="limits.c", relocation="pic")
    library = load_library(link_shared([made], ["limits_multiply", "limits_read"]))
    multiply, read = (getattr(library, exported(f"limits_{n}")) for n in ("multiply", "read"))
    multiply.restype = read.restype = ctypes.c_double
    clock = ctypes.cast(ctypes.CDLL(None).clock_gettime, ctypes.c_void_p)
    data, out = aligned(max(SIZES)), aligned(64)
    data[:] = 0  # written: pages that were only read all share one
    to, origin = ctypes.c_void_p(out.ctypes.data), ctypes.c_void_p(data.ctypes.data)

    def seconds_of_reading(size: int) -> float:
        times = max(BYTES_A_SAMPLE // size, 1)
        samples = SAMPLES if times > 1 else max(4, SAMPLES * BYTES_A_SAMPLE // size)
        count = ctypes.c_long(size // max(target.vector_bytes, 4))
        ns = min(float(read(clock, to, origin, count, ctypes.c_int(times))) for _ in range(samples))
        return ns / times * 1e-9

    with pinned():
        seconds = min(multiply(clock, to) for _ in range(SAMPLES)) * 1e-9
        speeds = [size / seconds_of_reading(size) for size in SIZES]
    # what is larger is not faster: where it seems so, the smaller one was disturbed
    reads = tuple((size, max(speeds[i:])) for i, size in enumerate(SIZES))
    macs = STEPS * _accumulators(target) * target.lanes(4) / seconds
    return Limits(target.name, machine(), macs, reads, os.getloadavg()[0])


def _accumulators(target: Target) -> int:
    return min(target.registers - SPARE, MOST)


def _source(target: Target) -> str:
    """C for the target: vectors as wide as it has, its multiply-add if it has one."""
    spelled = target.spelling("madd", "float32") or "{a} * {b} + {c}"
    names = [f"c{i}" for i in range(_accumulators(target))]
    return SOURCE.format(
        header=target.header,
        vector=f"__attribute__((vector_size({target.vector_bytes})))" if target.vector_bytes else "",
        steps=STEPS,
        count=len(names),
        declared=", ".join(f"{n} = a + {i}.0f" for i, n in enumerate(names)),
        multiplied="\n        ".join(f"{n} = {spelled.format(a=n, b='half', c='b')};" for n in names),
        total=" + ".join(names),
    )
