"""Two workers: loops handed to the caller's `parallel_for` give what one thread gives, without a race."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from onnx import helper, numpy_helper

import ingot

WORKERS = """
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include "net.h"
struct share { void (*task)(void *, int); void *context; int first, n, calls; };
static void *work(void *p) {
    struct share *s = p;
    for (int i = s->first; i < s->n; i += 2) { s->task(s->context, i); s->calls++; }
    return 0;
}
static int handed_over;
static void parallel_for(void *user, int n, void (*task)(void *, int), void *context) {
    struct share shares[2] = {{task, context, 0, n, 0}, {task, context, 1, n, 0}};
    pthread_t other;
    pthread_create(&other, 0, work, &shares[1]);
    work(&shares[0]);
    pthread_join(other, 0);
    if (shares[1].calls) ++*(int *)user;
}
static unsigned char arena[NET_ARENA_SIZE] __attribute__((aligned(64)));
int main(void) {
    static float x[NET_X_COUNT], one[NET_Y_COUNT], two[NET_Y_COUNT];
    if (fread(x, sizeof x, 1, stdin) != 1) return 1;
    for (int run = 0; run < 2; run++) {
        memset(arena, 0xFF, sizeof arena);
        if (net(x, one, 0, 0, arena)) return 2;
        memset(arena, 0xFF, sizeof arena);
        if (net(x, two, parallel_for, &handed_over, arena)) return 3;
        if (memcmp(one, two, sizeof one)) return 4;
    }
    fwrite(two, sizeof two, 1, stdout);
    return handed_over < 4;
}
"""


def model() -> object:
    """Two convolutions and a depthwise one, big enough to be shared out."""
    rng = np.random.default_rng(7)
    weights = {
        "w1": rng.standard_normal((24, 5, 3, 3)),
        "w2": rng.standard_normal((24, 1, 3, 3)),
        "w3": rng.standard_normal((33, 24, 1, 1)),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "w2"], ["c"], pads=[1, 1, 1, 1], group=24),
        helper.make_node("Conv", ["c", "w3"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", 1, [1, 5, 31, 29])],
        [helper.make_tensor_value_info("y", 1, [1, 33, 31, 29])],
        [numpy_helper.from_array(w.astype(np.float32), name) for name, w in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)


@pytest.mark.parametrize("flags", [[], ["-fsanitize=thread"]], ids=["plain", "thread sanitizer"])
def test_two_workers(tmp_path: Path, flags: list[str]) -> None:
    assert shutil.which("gcc"), "gcc is missing; tools/debian-packages.txt lists it"
    bundle = ingot.compile(model(), name="net", target="x86-64", threads=True, emit=("c", "obj"))
    bundle.save(tmp_path)
    (tmp_path / "main.c").write_text(WORKERS)
    command = ["gcc", "-std=gnu99", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread", *flags]
    sources = ["main.c", "net.c", "net_weights.c"]
    subprocess.run([*command, *sources, "-o", "main"], cwd=tmp_path, check=True)
    x = np.random.default_rng(8).standard_normal((1, 5, 31, 29)).astype(np.float32)
    run = subprocess.run([tmp_path / "main"], input=x.tobytes(), capture_output=True)
    assert run.returncode == 0, f"exit {run.returncode}: {run.stderr.decode()[:2000]}"
    found = np.frombuffer(run.stdout, np.float32).reshape(1, 33, 31, 29)
    np.testing.assert_array_equal(found, bundle.run({"x": x})["y"])
    plain = ingot.compile(model(), name="net", target="x86-64").run({"x": x})["y"]
    np.testing.assert_array_equal(found, plain)
