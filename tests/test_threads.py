"""`--threads`: the loops are those of one thread, and the examples' pools run them without a race."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import onnx
import pytest

import ingot
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


def built(folder: Path, flags: list[str]) -> Path:
    """The example's program around the model of the probe."""
    assert shutil.which("gcc"), "gcc is missing; tools/debian-packages.txt lists it"
    ingot.compile(model(), name="net", target="x86-64", threads=True, emit=("obj",)).save(folder)
    sources = [EXAMPLE / name for name in ("main.c", "pthreads.c", "openmp.c")]
    command = ["gcc", *STRICT, *flags, f"-I{EXAMPLE}", f"-I{folder}", *map(str, sources), "net.o", "-lm"]
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


def test_the_pool_has_no_race(tmp_path: Path) -> None:
    program = built(tmp_path, ["-fsanitize=thread", "-g", "-Wno-unknown-pragmas"])
    done = subprocess.run([program, "3", "5"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr[:2000]


def test_one_thread_computes_with_the_same_statements() -> None:
    """What --threads changes are the heads of loops and functions, and the entry; nothing inside a loop."""
    plain, threaded = (
        ingot.compile(model(), name="net", threads=t, emit=("c",)).files["net.c"].decode().split("\n")
        for t in (False, True)
    )
    assert not any("parallel_for" in line or "task" in line for line in plain)
    stripped = {line.strip() for line in threaded}
    gone = [line.strip() for line in plain if line.strip() not in stripped]
    heads = ("for (", "static ", "int net(", "net_", "*", "const float", "float *", "(", "float (")
    assert all(line.startswith(heads) for line in gone), gone
    again = ingot.compile(model(), name="net", emit=("c",)).files["net.c"].decode().split("\n")
    assert again == plain


def test_no_loop_variable_meets_the_tasks_own_names() -> None:
    made = onnx.parser.parse_model(POOLED)
    made.graph.initializer.append(onnx.helper.make_tensor("w", 1, [2048, 2, 1, 1], [0.1] * 4096))
    bundle = ingot.compile(made, name="net", target="x86-64-v4", threads=True, emit=("c",))
    tasks = bundle.files["net.c"].decode().split("_task0(void *context, int task) {")[1:]
    assert any("const int c = " in task.partition("}")[0] for task in tasks)
