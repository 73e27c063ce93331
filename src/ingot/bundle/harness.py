"""The C around a shipped object that lets Python call it, whatever its calling convention.

`harness_call(p, n)` takes the inputs, outputs and members of the state as `p[0..]`, then weights, Glow's
mutable memory and the arena; `n` holds the run-time extents, then what is to be done with the state. `run.py`
links it into a library, or into a program that an emulator runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ingot.bundle.binding import tensors_of

Manifest = Mapping[str, Any]

GO_ON, START, ONLY_START = 0, 1, 2
"""What to do with the state: run with the one given, start anew and run, start anew and do no more."""

# Every name that stands where the bundle is called begins with harness_: bundles have any other name.
COMMON = """\
static void harness_copy(void *to, const void *from, long n) {{
    unsigned char *a = to;
    const unsigned char *b = from;
    while (n-- > 0) *a++ = *b++;
}}
{state}static void harness_put(void **harness_p) {{
    (void)harness_p;
    (void)harness_copy;
{put}}}
static void harness_get(void **harness_p) {{
    (void)harness_p;
{get}}}
static int harness_run(void **harness_p, const int *harness_n) {{
    void **harness_m = harness_p + {tensors};
    (void)harness_m;
    (void)harness_n;
    return {call};
}}
int harness_call(void **harness_p, const int *harness_n) {{
    int harness_status = 0;
{construct}    harness_put(harness_p);
{start}    if (harness_n[{params}] != {only_start}) harness_status = harness_run(harness_p, harness_n);
    harness_get(harness_p);
    return harness_status;
}}
"""
TIMER = """
typedef int (*harness_clock)(int, long *);
/* nanoseconds of `samples` samples of `inner` calls each, per call */
void harness_time(void **p, const int *n, harness_clock now, int clock, double *ns, int samples, int inner) {
    harness_put(p);
    for (int s = 0; s < samples; s++) {
        long t0[2], t1[2];
        now(clock, t0);
        for (int i = 0; i < inner; i++) (void)harness_run(p, n);
        now(clock, t1);
        ns[s] = ((double)(t1[0] - t0[0]) * 1e9 + (double)(t1[1] - t0[1])) / inner;
    }
}
"""
PROFILER = """
typedef int (*harness_clock)(int, long *);
static harness_clock harness_now;
static long harness_since, harness_spent[{accounts}];
static int harness_account;
static long harness_nanoseconds(void) {{
    long t[2] = {{0, 0}};
    if (harness_now) harness_now(1, t);
    return t[0] * 1000000000 + t[1];
}}
void {name}_profile(int account) {{
    const long now = harness_nanoseconds();
    harness_spent[harness_account] += now - harness_since;
    harness_account = account < 0 ? {accounts} - 1 : account;
    harness_since = harness_nanoseconds();
}}
static void harness_start(void) {{
    for (int i = 0; i < {accounts}; i++) harness_spent[i] = 0;
    {name}_profile(-1);
    harness_spent[harness_account] = 0;
}}
/* the least nanoseconds of each account in `runs` inferences, and of one in which nothing happens */
void harness_profile(void **p, const int *n, harness_clock now, long *ns, int runs) {{
    harness_now = now;
    harness_put(p);
    for (int i = 0; i <= {accounts}; i++) ns[i] = -1;
    for (int run = 0; run < runs; run++) {{
        harness_start();
        (void)harness_run(p, n);
        for (int i = 0; i < {accounts}; i++)
            if (ns[i] < 0 || harness_spent[i] < ns[i]) ns[i] = harness_spent[i];
        harness_start();
        {name}_profile(0);
        {name}_profile(-1);
        if (ns[{accounts}] < 0 || harness_spent[0] < ns[{accounts}]) ns[{accounts}] = harness_spent[0];
    }}
}}
"""
PROGRAM = """
long ingot_read(int, void *, long);
long ingot_write(int, const void *, long);
static unsigned char harness_memory[{total}] __attribute__((aligned(64)));
int main(void) {{
    static int n[{numbers}];
    void *p[] = {{{pointers}}};
    int status, i;
    for (i = 0; i < {total}; i++) harness_memory[i] = 0xFF; /* bundles must not rely on what they find */
    ingot_read(0, n, sizeof n);
    ingot_read(0, p[{weights}], {weights_bytes});
    for (i = 0; i < {tensors}; i++)
        if (i < {inputs} || i >= {states}) ingot_read(0, p[i], n[{params} + i]);
    status = harness_call(p, n);
    ingot_write(1, &status, sizeof status);
    for (i = {inputs}; i < {tensors}; i++) ingot_write(1, p[i], n[{params} + i]);
    return 0;
}}
"""


def harness(manifest: Manifest, sizes: Sequence[int]) -> str:
    """The functions common to both; `sizes` gives the bytes of each tensor."""
    name, inputs = manifest["name"], len(manifest["inputs"])
    edge = inputs + len(manifest["outputs"])
    put = get = ""
    for i, (t, size) in enumerate(zip(tensors_of(manifest), sizes, strict=True)):
        place = _place(manifest, t, i, i < inputs) if i < edge else f"harness_state(harness_p)->{t['symbol']}"
        if place and not inputs <= i < edge:
            put += f"    harness_copy({place}, harness_p[{i}], {size});\n"
        if place and i >= inputs:
            get += f"    harness_copy(harness_p[{i}], {place}, {size});\n"
    construct = f"    {name}_constructor();\n" if manifest["api"] == "argument" else ""
    text = COMMON.format(
        call=_call(manifest),
        tensors=len(sizes),
        params=len(manifest["params"]),
        only_start=ONLY_START,
        construct=construct,
        state=_state(manifest),
        start=_start(manifest),
        put=put,
        get=get,
    )
    return f'#include "{name}.h"\n{_pause(manifest)}{text}'


def _pause(manifest: Manifest) -> str:
    """What a bundle with pauses calls, which here never ends a run."""
    if not manifest["options"].get("pauses"):
        return ""
    declared = f"int {manifest['name']}_pause(void)"
    return f"{declared};\n{declared} {{ return 0; }}\n"


def _state(manifest: Manifest) -> str:
    """Where the state is: the harness's own, or where the convention keeps it."""
    name = manifest["name"]
    if not manifest["state"]:
        return ""
    kept, place = "", f"{name}_get_state()"
    match manifest["api"]:
        case "static" | "dynamic":
            mutable = len(tensors_of(manifest)) + 1
            place = f"(void *)((unsigned char *)harness_p[{mutable}] + {name.upper()}_STATE)"
        case "direct":
            kept, place = f"static struct {name}_state harness_kept;\n", "&harness_kept"
    head = f"static struct {name}_state *harness_state(void **harness_p)"
    return f"{kept}{head} {{\n    (void)harness_p;\n    return {place};\n}}\n"


def _start(manifest: Manifest) -> str:
    """What puts the state at its start if the caller has none."""
    if not manifest["state"]:
        return ""
    number, name = len(manifest["params"]), manifest["name"]
    return f"    if (harness_n[{number}] != {GO_ON}) {name}_state_init(harness_state(harness_p));\n"


def profiler(manifest: Manifest) -> str:
    """What a bundle compiled with `profile` reports to, and what reads it."""
    return PROFILER.format(name=manifest["name"], accounts=len(manifest["kernels"]) + 1)


def _place(manifest: Manifest, tensor: Mapping[str, Any], index: int, is_input: bool) -> str:
    """Where a convention keeps a tensor; empty where the caller's own memory is used."""
    match manifest["api"]:
        case "static" | "dynamic":
            memory = len(tensors_of(manifest)) + 1
            return f"(unsigned char *)harness_p[{memory}] + {tensor['offset']}"
        case "argument":
            number = index if is_input else index - len(manifest["inputs"])
            return f"{manifest['name']}_get_address_for_{'argument' if is_input else 'result'}({number})"
    return ""


def _call(manifest: Manifest) -> str:
    name = manifest["name"]
    match manifest["api"]:
        case "static" | "dynamic":
            return f"{name}(harness_m[0], harness_m[1], harness_m[2])"
        case "argument":
            return f"{name}_run()"
    arguments = ["harness_m[0]"] if manifest["weights"] == "external" else []
    arguments += [f"harness_n[{i}]" for i in range(len(manifest["params"]))]
    arguments += [f"harness_p[{i}]" for i in range(len(manifest["inputs"]) + len(manifest["outputs"]))]
    arguments += ["harness_state(harness_p)"] if manifest["state"] else []
    arguments += ["0", "0"] if manifest["threaded"] else []  # one task after the other
    return f"{name}({', '.join([*arguments, *_arenas(manifest)])})"


def _arenas(manifest: Manifest) -> Iterator[str]:
    """The arena, or its regions behind each other."""
    at, regions = 0, manifest.get("memory", ())
    for region in regions:
        if region["arena_bytes"]:
            yield f"(unsigned char *)harness_m[2] + {at}"
        at += region["arena_bytes"]
    if not regions:
        yield "harness_m[2]"


def program(manifest: Manifest, bytes_of: Sequence[int]) -> str:
    """A program that reads numbers, weights and inputs from standard input and writes status and outputs."""
    sizes = list(_memories(manifest, bytes_of))
    offsets = [sum(sizes[:i]) for i in range(len(sizes))]
    tensors, edge = len(sizes) - 3, len(manifest["inputs"]) + len(manifest["outputs"])
    body = PROGRAM.format(
        total=sum(sizes),
        numbers=len(manifest["params"]) + 1 + tensors,
        pointers=", ".join(f"harness_memory + {at}" for at in offsets),
        weights=tensors,
        weights_bytes=manifest["sizes"]["weights_bytes"] if manifest["weights"] == "external" else 0,
        inputs=len(manifest["inputs"]),
        tensors=tensors,
        states=edge,
        params=len(manifest["params"]) + 1,
    )
    return harness(manifest, bytes_of) + body


def _memories(manifest: Manifest, bytes_of: Sequence[int]) -> Iterator[int]:
    """Bytes of every entry of `p`, each a multiple of 64 and never 0."""
    sizes = manifest["sizes"]
    for size in (*bytes_of, sizes["weights_bytes"], sizes["mutable_bytes"], sizes["arena_bytes"]):
        yield -(-max(size, 1) // 64) * 64
