"""`--threads`: the loops are those of one thread, and the examples' pools run them without a race."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

import ingot
from benchmarks.net import Net
from ingot.driver import stages
from ingot.formula.expr import Const, Tensor, Var
from ingot.formula.statements import For, Store
from ingot.formula.types import FLOAT32
from ingot.loops.program import Call, Kernel, Program, calls
from ingot.loops.program_passes.parallel import PARTS, parallelize, tasks
from ingot.options import Options
from tests.probes.test_parallel import model

EXAMPLE = Path(__file__).parent.parent / "examples" / "threads"
STRICT = ["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread"]
POOLED = """
<ir_version: 10, opset_import: ["" : 17]>
pooled (float[1, 2, 7, 7] x) => (float[1, 2048, 1, 1] y) {
    a = Conv (x, w)
    y = GlobalAveragePool (a)
}
"""


def winograd() -> onnx.ModelProto:
    """Two convolutions whose loops share scratch: one of several blocks of tiles, one of a single block."""
    net = Net("net", (1, 32, 45, 43))
    x = net.conv(net.conv("x", 48, 3, then="Relu"), 64, 3, 4, then="Relu")
    return net.model(y=net.conv(x, 96, 3, then="Relu"))


def built(folder: Path, flags: list[str], made: object = None) -> Path:
    """The example's program around a model, that of the probe if none is given."""
    assert shutil.which("gcc"), "gcc is missing; tools/debian-packages.txt lists it"
    bundle = ingot.compile(made or model(), name="net", target="x86-64", threads=True, emit=("c", "obj"))
    bundle.save(folder)
    sources = [EXAMPLE / name for name in ("main.c", "pthreads.c", "openmp.c")]
    sanitized = any("sanitize" in flag for flag in flags)
    code = ["net.c", "net_weights.c"] if sanitized else ["net.o"]
    command = ["gcc", *STRICT, *flags, f"-I{EXAMPLE}", f"-I{folder}", *map(str, sources), *code]
    subprocess.run([*command, "-o", "threads"], cwd=folder, check=True)
    return folder / "threads"


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_the_examples_run(tmp_path: Path, threads: int) -> None:
    done = subprocess.run(
        [built(tmp_path, ["-fopenmp"]), str(threads), "20"], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["one", "pthreads", "OpenMP"]
    assert not any("OTHER" in line for line in lines)


@pytest.mark.parametrize("made", [model, winograd])
def test_there_is_no_race(tmp_path: Path, made: Callable[[], object]) -> None:
    flags = ["-fsanitize=thread", "-std=gnu11", "-fno-strict-aliasing", "-Wno-unknown-pragmas"]
    program = built(tmp_path, flags, made())
    done = subprocess.run([program, "3", "3"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr[:2000]


def statements(c: str) -> set[str]:
    """The statements of C, however their lines are broken; heads of loops left out."""
    bodies = re.sub(r"\bfor \([^{]*\{", "{", c)
    return {s for s in (" ".join(part.split()) for part in re.split("(?<=[;{}])", bodies)) if s.endswith(";")}


def test_one_thread_computes_with_the_same_statements() -> None:
    """What --threads changes are the heads of loops and functions, and the entry; nothing inside a loop."""
    plain, threaded = (
        ingot.compile(model(), name="net", threads=t, math="exact", emit=("c",)).files["net.c"].decode()
        for t in (False, True)
    )
    assert "parallel_for" not in plain and "task" not in plain
    gone = {s for s in statements(plain) - statements(threaded) if not s.startswith("net_")}
    assert not gone
    again = ingot.compile(model(), name="net", math="exact", emit=("c",)).files["net.c"].decode()
    assert again == plain


def test_scratch_is_had_once_for_every_part() -> None:
    """Loops that only scratch kept apart are cut into parts; without threads nothing of it shows."""
    plain, threaded = (stages(winograd(), Options(name="net", threads=t)).program for t in (False, True))
    cut = [s for k in threaded.kernels for s in k.body if isinstance(s, For) and s.var.endswith("_part")]
    assert len(cut) >= 3 and all(s.parallel and tasks(s) <= PARTS for s in cut)
    assert not any(s.var.endswith("_part") for k in plain.kernels for s in k.body if isinstance(s, For))
    for call in calls(threaded.steps):
        assert [t.shape for t in call.arguments] == [t.shape for t in call.kernel.parameters]
    x = {"x": np.random.default_rng(5).standard_normal((1, 32, 45, 43)).astype(np.float32)}
    one, many = (ingot.compile(winograd(), name="net", threads=t).run(x)["y"] for t in (False, True))
    np.testing.assert_array_equal(one, many)


def test_what_one_turn_hands_to_the_next_is_not_shared_out() -> None:
    """A loop that reads its scratch before it writes it needs the turn before."""
    kept, x, y = (Tensor(n, FLOAT32, (64, 64)) for n in ("kept", "x", "y"))
    i, j = Var("i"), Var("j")
    carried = Store(y[i, j], kept[0, j] + x[i, j]), Store(kept[0, j], x[i, j])
    for order, is_parallel in ((carried, False), (carried[::-1], True)):
        body = (For("i", Const(0), Const(64), 1, (For("j", Const(0), Const(64), 1, order),)),)
        kernel = Kernel("k", (x, kept, y), body, scratch=frozenset({kept}))
        program = Program("p", (x,), (y,), (), (Call(kernel, kernel.parameters),))
        (call,) = calls(parallelize(program).steps)
        (loop,) = call.kernel.body
        assert isinstance(loop, For) and loop.parallel == is_parallel
        assert call.arguments[1].shape == ((PARTS, 64, 64) if is_parallel else (64, 64))


def test_no_loop_variable_meets_the_tasks_own_names() -> None:
    made = onnx.parser.parse_model(POOLED)
    made.graph.initializer.append(onnx.helper.make_tensor("w", 1, [2048, 2, 1, 1], [0.1] * 4096))
    bundle = ingot.compile(made, name="net", target="x86-64-v4", threads=True, emit=("c",))
    tasks = bundle.files["net.c"].decode().split("_task0(void *context, int task) {")[1:]
    assert any("const int c = " in task.partition("}")[0] for task in tasks)
