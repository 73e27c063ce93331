"""Several networks in one object: each computes what it does alone, with functions and an arena of all."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser
from typer.testing import CliRunner

import ingot
from ingot.bundle.several import Collection
from ingot.cli import app
from ingot.errors import InputError, UnsupportedError
from ingot.targets.records import find
from ingot.targets.toolchain import compile_c, execute, link_executable
from tests.bundle import build, models
from tests.fuzz.grow import Grown, grow
from tests.here import require_program, require_runs

TEN = 10
SHAPE = (1, 3, 12, 12)
SELFTESTS = """
#include "nets.h"
long ingot_write(int file, const void *from, long count);
static unsigned char arena[NETS_ARENA_SIZE] __attribute__((aligned(NETS_ARENA_ALIGN)));
static unsigned char room[{room}] __attribute__((aligned(64)));
int main(void) {{
    int status = 0;
    for (unsigned i = 0; i < sizeof arena; i++) arena[i] = 0xA5;
{calls}
    ingot_write(1, &status, sizeof status);
    return 0;
}}
"""


def net(name: str, seed: int, channels: int = 4) -> onnx.ModelProto:
    """A net of the same layers as the others, with weights of its own."""
    made = parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 21]>
        {name} (float[1,3,12,12] x) => (float[1,{channels}] y)
        {{ a = Conv <kernel_shape = [3,3], pads = [1,1,1,1]> (x, k)  b = Relu (a)
           c = MaxPool <kernel_shape = [2,2], strides = [2,2]> (b)
           d = Conv <kernel_shape = [1,1]> (c, l)  e = GlobalAveragePool (d)  y = Flatten (e) }}"""
    )
    rng = np.random.default_rng(seed)
    for weight, shape in (("k", (8, 3, 3, 3)), ("l", (channels, 8, 1, 1))):
        made.graph.initializer.append(
            numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), weight)
        )
    return made


def ten(**options: Any) -> Collection:
    return ingot.compile_several([net(f"net{n}", n) for n in range(TEN)], name="nets", **options)


def drawn() -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.random.default_rng(5).standard_normal(SHAPE).astype(np.float32)


def functions(collection: Collection) -> list[str]:
    """The kernels of the file of C."""
    text = collection.files[f"{collection.name}.c"].decode()
    return re.findall(rf"^static .*\b({collection.name}_\w+)\(", text, re.M)


def grown(first: int) -> list[Grown]:
    """Random models that are not refused, named apart."""
    found: list[Grown] = []
    for seed in range(first, first + 3 * TEN):
        made = grow(seed)
        made.model.graph.name = f"seed{seed}"
        with contextlib.suppress(UnsupportedError):
            ingot.inspect(made.model, stage="program", target="c99")
            found.append(made)
        if len(found) == TEN:
            break
    return found


@pytest.mark.parametrize(("target", "level"), [("c99", "speed"), ("x86-64-v3", "size")])
def test_ten_random_models_compute_what_each_does_alone(target: str, level: Any) -> None:
    made = grown(700)
    assert len(made) == TEN
    together = ingot.compile_several([g.model for g in made], name="nets", target=target, optimize=level)
    for g in made:
        alone = ingot.compile(g.model, target=target, optimize=level).run(g.feeds)
        found = together.bundles[g.model.graph.name].run(g.feeds)
        for name, wanted in alone.items():
            np.testing.assert_array_equal(found[name], wanted, err_msg=f"seed {g.seed}, {name}")


def test_ten_nets_of_equal_layers_share_their_functions_and_an_arena() -> None:
    alone, together = ingot.compile(net("net0", 0), target="c99"), ten(target="c99")
    assert len(set(functions(together))) == len({k["name"] for k in alone.manifest["kernels"]})
    sizes = together.bundles["net0"].manifest["sizes"]
    assert sizes["code_bytes"] < 3 * alone.manifest["sizes"]["code_bytes"]  # ten entries, kernels once
    arena = re.search(r"NETS_ARENA_SIZE (\d+)u", together.files["nets.h"].decode())
    assert arena is not None
    assert int(arena[1]) == alone.manifest["sizes"]["arena_bytes"]


def test_an_arena_serves_the_net_that_asks_for_most() -> None:
    models = [net("few", 1, 4), net("many", 2, 64)]
    together = ingot.compile_several(models, name="nets", target="c99")
    arenas = [b.manifest["sizes"]["arena_bytes"] for b in together.bundles.values()]
    assert f"NETS_ARENA_SIZE {max(arenas)}u" in together.files["nets.h"].decode()
    with pytest.raises(InputError, match="more than max_ram"):
        ingot.compile_several(models, name="nets", target="c99", max_ram=max(arenas) - 1)


@pytest.mark.parametrize("target", ["c99", "armv7e-m", "wasm32-simd128", "s390x"])
@pytest.mark.parametrize("level", ["speed", "size"])
def test_all_run_in_one_program_on_an_arena_that_others_left(target: str, level: Any) -> None:
    require_runs(target)
    models = [net("few", 1), net("more", 2), net("many", 3, 16)]
    together = ingot.compile_several(models, name="nets", target=target, optimize=level, selftest=True)
    names = [*together.bundles, *together.bundles]  # each twice, the second time behind another
    room = " + ".join(f"{n.upper()}_SELFTEST_SIZE" for n in together.bundles)
    calls = "\n".join(f"    if (!status) status = {n}_selftest(arena, room);" for n in names)
    headers = {n: data for n, data in together.files.items() if n.endswith(".h")}
    record = find(target)
    text = SELFTESTS.format(room=room, calls=calls)
    around = compile_c({"main.c": text, **headers}, record, name="main.c", relocation="static")
    answer = execute(link_executable([together.files["nets.o"], around], record), record)
    assert int.from_bytes(answer, record.endian, signed=True) == 0


CALLS = """
long ingot_write(int file, const void *from, long count);
{includes}
static float x[432], y[4];
{arenas}
int main(void) {{
    int status = {calls};
    ingot_write(1, &status, sizeof status);
    return status;
}}
"""


def linked(arenas: dict[str, str], objects: list[bytes], headers: dict[str, bytes], where: Path) -> list[int]:
    """Bytes of text, data and bss of a program for a Cortex-M4 that runs each net on its arena."""
    record = find("cortex-m4")
    sizes = {arena: "NETS" if arena == "arena" else net.upper() for net, arena in arenas.items()}
    text = CALLS.format(
        includes="\n".join(f'#include "{header}"' for header in headers),
        arenas="\n".join(
            f"static unsigned char {arena}[{of}_ARENA_SIZE] __attribute__((aligned(64)));"
            for arena, of in sizes.items()
        ),
        calls=" | ".join(f"{net}(x, y, {arena})" for net, arena in arenas.items()),
    )
    around = compile_c({"main.c": text, **headers}, record, name="main.c")
    program = link_executable([*objects, around], record)
    assert execute(program, record) == bytes(4)
    (where / "program").write_bytes(program)
    size = subprocess.run(["arm-none-eabi-size", "program"], cwd=where, capture_output=True, check=True)
    return [int(n) for n in size.stdout.split(b"\n")[1].split()[:3]]


def test_a_program_of_ten_nets_has_their_functions_and_an_arena_once(tmp_path: Path) -> None:
    """The linker's sizes: beside ten objects, it saves nine times the kernels and nine arenas."""
    require_runs("cortex-m4")
    require_program("arm-none-eabi-size")
    names = [f"net{n}" for n in range(TEN)]
    together = ten(target="cortex-m4")
    header = {n: data for n, data in together.files.items() if n.endswith(".h")}
    shared = linked(dict.fromkeys(names, "arena"), [together.files["nets.o"]], header, tmp_path)
    alone = [ingot.compile(net(n, i), target="cortex-m4", name=n) for i, n in enumerate(names)]
    headers = {f"{n}.h": b.files[f"{n}.h"] for n, b in zip(names, alone, strict=True)}
    apart = linked({n: f"arena_{n}" for n in names}, [b.object for b in alone], headers, tmp_path)
    code, arena = (alone[0].manifest["sizes"][key] for key in ("code_bytes", "arena_bytes"))
    assert apart[0] - shared[0] > 8 * code
    assert apart[2] - shared[2] >= 9 * arena


@pytest.mark.parametrize(
    "options", [{"api": "static"}, {"api": "dynamic"}, {"weights": "external"}, {"threads": True}], ids=str
)
def test_conventions(options: dict[str, Any]) -> None:
    together = ten(target="x86-64-v3", **options)
    for seed in (0, TEN - 1):
        alone = ingot.compile(net("net", seed), target="x86-64-v3").run({"x": drawn()})
        found = together.bundles[f"net{seed}"].run({"x": drawn()})
        np.testing.assert_array_equal(found["y"], alone["y"])


@pytest.mark.parametrize("kind", build.COMPILERS)
def test_strict_compilers_take_the_file(kind: str, tmp_path: Path) -> None:
    build.write(tmp_path, ten(target="c99").files)
    build.compile_c(kind, tmp_path, "nets.c", "-std=c99", *build.STRICT)


def test_equal_models_give_equal_bytes() -> None:
    assert ten(target="c99").files == ten(target="c99").files


def test_states_are_each_network_s_own() -> None:
    made = {n: models.recurrent() for n in ("left", "right")}
    for name, model in made.items():
        model.graph.name = name
    state = {"state_out": "state_in"}
    together = ingot.compile_several(list(made.values()), name="nets", target="c99", state=state)
    alone = ingot.compile(made["left"], target="c99", state=state)
    feeds = [{"x": models.random(*t["shape"]).astype(np.float32)} for t in alone.manifest["inputs"]]
    steps = [alone.session(), *(b.session() for b in together.bundles.values())]
    for _ in range(3):
        wanted, *found = [step.run(feeds[0]) for step in steps]
        for answer in found:
            for name, values in wanted.items():
                np.testing.assert_array_equal(answer[name], values)


def test_saved_and_loaded(tmp_path: Path) -> None:
    together = ten(target="c99")
    together.save(tmp_path)
    together.save(tmp_path)  # what it wrote itself it replaces
    loaded = ingot.load(tmp_path / "net3.json")
    np.testing.assert_array_equal(
        loaded.run({"x": drawn()})["y"], together.bundles["net3"].run({"x": drawn()})["y"]
    )
    other = ingot.compile_several([net("net3", 30), net("net4", 31)], name="nets", target="c99")
    (tmp_path / "nets.o").write_bytes(other.files["nets.o"])
    with pytest.raises(InputError, match=r"nets\.o"):
        ingot.load(tmp_path / "net3.json")


@pytest.mark.parametrize(
    ("names", "options", "words"),
    [
        (("one", "One"), {}, "need different names"),
        (("one", "nets"), {}, "need different names"),
        (("one", "one_state"), {}, "need different names"),
        (("one", "two"), {"api": "argument"}, "argument"),
        (("one", "two"), {"emit": ["main"]}, "main"),
        (("one", "two"), {"target": "x86-64-v3+x86-64"}, "one target"),
        (("one", "two"), {"rename": {"x": "image"}}, "one target"),
        (("one", "two"), {"memory": {"sram": 65536}, "target": "cortex-m4"}, "memory"),
    ],
)
def test_what_a_collection_has_not(names: tuple[str, ...], options: dict[str, Any], words: str) -> None:
    made = [net(name, n) for n, name in enumerate(names)]
    with pytest.raises(InputError, match=words):
        ingot.compile_several(made, name="nets", **{"target": "c99", **options})


def test_files_called_alike_are_refused_before_any_is_read() -> None:
    with pytest.raises(InputError, match="3000 models of one bundle are called 's'") as error:
        ingot.compile_several(["s.onnx"] * 3000, name="nets")
    assert len(str(error.value)) < 300


def test_no_models_are_an_error() -> None:
    with pytest.raises(InputError, match="no model"):
        ingot.compile_several([], name="nets")


def test_macros_of_two_headers_are_kept_apart() -> None:
    wide, small = net("net", 1), net("net_x", 2)
    wide.graph.output[0].name = wide.graph.node[-1].output[0] = "x_y"
    with pytest.raises(InputError, match="NET_X_Y_COUNT"):
        ingot.compile_several([wide, small], name="nets", target="c99")


def test_the_command(tmp_path: Path) -> None:
    for n in range(3):
        (tmp_path / f"net{n}.onnx").write_bytes(net("any", n).SerializeToString())
    first, *others = [str(tmp_path / f"net{n}.onnx") for n in range(3)]
    more = [word for other in others for word in ("--with", other)]
    made = ["compile", first, *more, "--name", "nets", "--target", "c99", "-o", str(tmp_path / "out")]
    done = CliRunner().invoke(app, [*made, "--json"])
    assert done.exit_code == 0, done.output
    assert set(json.loads(done.stdout)["manifests"]) == {"net0", "net1", "net2"}
    assert {"nets.c", "nets.h", "nets.o", "net0.h"} <= {p.name for p in (tmp_path / "out").iterdir()}
    refused = CliRunner().invoke(app, [*made, "--package", "cmake"])
    assert refused.exit_code != 0
    assert "--with" in refused.output
