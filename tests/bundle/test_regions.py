"""--memory and --flash: what lies in which region, what the linker makes of it, and what does not fit."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser
from typer.testing import CliRunner

import ingot
from ingot.bundle.binding import capacity
from ingot.bundle.harness import START, program
from ingot.cli import app
from ingot.errors import InputError
from ingot.memory.check import check
from ingot.memory.plan import plan
from ingot.targets.records import find
from ingot.targets.toolchain import compile_c, execute
from ingot.targets.userland import START as START_CODE
from tests.here import require_program
from tests.test_memory import Memory, Writer, across, tensor
from tests.test_memory import program as of_steps

TEXT = """<ir_version: 10, opset_import: ["" : 21]>
g (float[1,4,12,12] x, float[1,8] before) => (float[1,4,12,12] y, float[1,8] after) 
{ a = Conv <kernel_shape = [3,3], pads = [1,1,1,1]> (x, k)
  b = Softmax (a)
  c = Conv <kernel_shape = [3,3], pads = [1,1,1,1]> (b, l)
  d = Add (a, c)
  e = Softmax (d)
  y = Sub (e, c)
  flat = Flatten (b)
  small = MatMul (flat, w)
  after = Add (small, before) }"""


def model() -> onnx.ModelProto:
    made = parser.parse_model(TEXT)
    rng = np.random.default_rng(0)
    for name, shape in (("k", (4, 4, 3, 3)), ("l", (4, 4, 3, 3)), ("w", (576, 8))):
        values = rng.standard_normal(shape).astype(np.float32)
        made.graph.initializer.append(numpy_helper.from_array(values, name))
    return made


INPUTS = {
    "x": np.random.default_rng(1).standard_normal((1, 4, 12, 12)).astype(np.float32),
    "before": np.ones((1, 8), np.float32),
}
STATE = {"after": "before"}


def compiled(target: str, **regions: Any) -> ingot.Bundle:
    return ingot.compile(model(), target=target, name="net", state=STATE, **regions)


def runs(bundle: ingot.Bundle) -> list[np.ndarray]:
    """Two runs in a row: the second goes on from the first's state."""
    session = bundle.session()
    given = {t["name"]: INPUTS[t["name"]] for t in bundle.manifest["inputs"]}
    return [a for _ in range(2) for a in session.run(given).values()]


def same(a: list[np.ndarray], b: list[np.ndarray]) -> bool:
    return all(p.tobytes() == q.tobytes() for p, q in zip(a, b, strict=True))


@pytest.mark.parametrize("seed", range(40))
def test_random_programs_run_in_their_regions(seed: int) -> None:
    """Every tensor in one region, none over another, none beyond the region's room (`check`), same bytes."""
    writer = Writer(seed)
    p = writer.program()
    whole = plan(p).arena_bytes
    rooms = {f"r{i}": random.Random(seed + i).randrange(64, whole) for i in range(3)} | {"last": whole}
    made = plan(p, rooms)
    check(made)
    assert [(r.name, r.room) for r in made.regions] == list(rooms.items())
    assert all(sum(r.start <= at < r.end for r in made.regions) == 1 for at in made.offsets.values())
    inputs = writer.inputs(2, True)
    wanted, found = Memory(p, None, inputs), Memory(p, made, inputs)
    wanted.run(p.steps)
    found.run(p.steps)
    np.testing.assert_array_equal(found[p.outputs[0]], wanted[p.outputs[0]])


def test_what_is_touched_most_lies_in_the_first_region() -> None:
    x, cold, hot, y = tensor("x", 4), tensor("cold", 4), tensor("hot", 1), tensor("y", 4)
    p = of_steps([across(cold, x), across(hot, x), across(y, hot, cold)], [x], [y])
    made = plan(p, {"fast": 256, "slow": 256})  # either fits, not both: hot is read once per element of y
    where = {
        t.name: next(r.name for r in made.regions if r.start <= at < r.end) for t, at in made.offsets.items()
    }
    assert where == {"hot": "fast", "cold": "slow"}


def test_what_fits_the_first_region_lies_there_alone() -> None:
    split = compiled("c99", memory={"tcm": 1 << 16, "sram": 1 << 16})
    assert [r["arena_bytes"] for r in split.manifest["memory"]] == [
        compiled("c99").manifest["sizes"]["arena_bytes"],
        0,
    ]
    assert "void *arena_tcm)" in split.files["net.h"].decode() and b"> sram" not in split.files["net.ld"]


def test_two_regions_on_a_board_and_in_the_linkers_map(tmp_path: Path) -> None:
    """Neither holds the net alone; the map shows what lies where, and the bytes are those of one region."""
    require_program("arm-none-eabi-ld")
    plain = compiled("cortex-m7")
    need = plain.manifest["sizes"]["arena_bytes"]
    rooms = {"memory": {"tcm": 3584, "psram": need - 1024}, "flash": {"code": 20480, "qspi": 18944}}
    made = compiled("cortex-m7", **rooms)
    assert all(0 < r["arena_bytes"] < need for r in made.manifest["memory"])
    assert all(r["weights_bytes"] for r in made.manifest["flash"])
    assert same(runs(made), runs(plain)) and same(runs(compiled("c99", **rooms)), runs(compiled("c99")))

    script = """
    MEMORY { code : ORIGIN = 0, LENGTH = 512K  qspi : ORIGIN = 0x100000, LENGTH = 1M
             tcm : ORIGIN = 0x20000000, LENGTH = 3584  psram : ORIGIN = 0x60000000, LENGTH = 8M }
    ENTRY(_start)
    SECTIONS { .vectors : { KEEP(*(.vectors)) } > code  .text : { *(.text*) *(.rodata*) } > code
               .data : { *(.data*) } > psram  .bss : { *(.bss*) } > psram
               /DISCARD/ : { *(.ARM.exidx*) *(.comment) *(.note*) } }"""
    target = find("cortex-m7")
    around = program(made.manifest, capacity(made.manifest)).replace(
        "(unsigned char *)harness_m[2] + 0", "net_arena_tcm"
    )
    around = around.replace(
        f"(unsigned char *)harness_m[2] + {made.manifest['memory'][0]['arena_bytes']}", "net_arena_psram"
    ).replace("&harness_kept", "&net_own_state")
    header = {"net.h": made.files["net.h"]}
    objects = {
        "start.o": compile_c(START_CODE, target, name="start.c", flags=("-DBOARD",)),
        "main.o": compile_c({"main.c": around, **header}, target, name="main.c"),
        "memory.o": compile_c(
            {"net_memory.c": made.files["net_memory.c"], **header}, target, name="net_memory.c"
        ),
        "net.o": made.files["net.o"],
        "program.ld": script.encode(),
        "net.ld": made.files["net.ld"],
    }
    for name, data in objects.items():
        (tmp_path / name).write_bytes(data)
    words = ["arm-none-eabi-ld", "-T", "program.ld", "-T", "net.ld", "-Map", "map", "-o", "a.elf"]
    subprocess.run([*words, *(n for n in objects if n.endswith(".o"))], cwd=tmp_path, check=True)
    shown = (tmp_path / "map").read_text()
    for section, address in (
        (".tcm", "0x20000000"),
        (".psram", "0x6"),
        (".qspi", "0x00100000"),
        (".code", "0x0000"),
    ):
        assert f"\n.ingot{section}" in shown
        assert next(w for w in shown.partition(f"\n.ingot{section}")[2].split()).startswith(address)

    order = target.endian
    inputs = [INPUTS[t["name"]] for t in made.manifest["inputs"]]
    sizes = [n for n in capacity(made.manifest)]
    sent = b"".join(n.to_bytes(4, order) for n in (START, *sizes)) + inputs[0].tobytes() + bytes(sizes[-1])
    answer = execute((tmp_path / "a.elf").read_bytes(), target, sent)
    assert answer[:4] == bytes(4) and answer[4:].startswith(runs(plain)[0].tobytes())


def test_the_header_says_ram_and_flash_by_region() -> None:
    made = compiled("cortex-m4", memory={"tcm": 3584, "sram": 8192}, flash={"flash": 1 << 20})
    text = made.files["net.h"].decode()
    golden = Path(__file__).parent.parent / "golden" / "regions.h"
    shown = "\n".join(line for line in text.splitlines() if not line.startswith((" *", "#define NET_MODEL")))
    assert shown + "\n" == golden.read_text()


def test_what_does_not_fit_is_named() -> None:
    with pytest.raises(
        InputError,
        match=r"tcm of 64 bytes, sram of 2,000 bytes: '\w+' \(3,136 bytes\) has no place, sram lacks 1,136 ",
    ):
        compiled("cortex-m4", memory={"tcm": 64, "sram": 2000})
    with pytest.raises(InputError, match=r"'w' \(18,432 bytes\) has no place, qspi lacks 8,192 bytes"):
        compiled("cortex-m4", flash={"flash": 25600, "qspi": 10240})
    with pytest.raises(InputError, match=r"the code \([0-9,]+ bytes\) has no place in flash"):
        compiled("cortex-m4", flash={"flash": 4096, "qspi": 1 << 20})


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("tcm:0", "'tcm' has 0 bytes"),
        ("tcm:-1", "write a number of bytes"),
        ("tcm:1e30", "write a number of bytes"),
        ("tcm:" + "9" * 5000, "write a number of bytes"),
        ("tcm:999999999M", "'tcm' has"),
        ("tcm:64Q", "write a number of bytes"),
        ("tcm", "write a number of bytes"),
        (":64K", "'' cannot name a section"),
        ("64K,1M", "64K,1M: write regions with their names, as in tcm:64K,sram:256K"),
        ("a=8K,b=1M", "a=8K,b=1M: write regions with their names, as in tcm:64K,sram:256K"),
        ("a b:64K", "'a b' cannot name a section"),
        ('x"):64K', "cannot name a section"),
        ("1x:64K", "cannot name a section"),
        ("tcm:64K,tcm:1M", "two regions are called 'tcm'"),
        ("tcm:64K,TCM:1M", "two regions are called 'tcm'"),
        ("", "write a number of bytes"),
    ],
)
def test_hostile_sizes(word: str, said: str, tmp_path: Path) -> None:
    onnx.save(model(), tmp_path / "net.onnx")
    words = ["compile", str(tmp_path / "net.onnx"), "-o", str(tmp_path / "b"), "--target", "cortex-m4"]
    for flag in ("--memory", "--flash"):
        result = CliRunner().invoke(app, [*words, flag, word])
        assert result.exit_code == 2 and said in " ".join(result.output.split()).replace("│ ", ""), (
            result.output
        )


def test_sizes_on_the_command_line(tmp_path: Path) -> None:
    onnx.save(model(), tmp_path / "net.onnx")
    words = ["compile", str(tmp_path / "net.onnx"), "-o", str(tmp_path / "b"), "--target", "cortex-m4"]
    result = CliRunner().invoke(app, [*words, "--memory", "tcm:4K, sram:8K", "--flash", "1M"])
    assert result.exit_code == 0 and "RAM in tcm" in result.output and "flash in flash" in result.output


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"memory": {"m": 1 << 20}, "api": "static"}, "memory: api='static' has one memory"),
        ({"flash": {"m": 1 << 20}, "weights": "external"}, "flash: the weights are the caller's"),
        ({"memory": {"m": 1 << 20}, "target": "wasm32"}, "memory: wasm32 has no linker"),
        ({"memory": {"m": 1 << 20}, "target": "x86-64+x86-64-v3"}, "leave out memory="),
        ({"memory": {"m": 1 << 20}, "flash": {"M": 1 << 20}}, "'m' is a region of memory= and of flash="),
        ({"memory": {"m": 1.5}}, "expected an integer, got a number"),
    ],
)
def test_what_has_no_regions(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as caught:
        ingot.compile(model(), name="net", state=STATE, **{"target": "c99", **options})
    assert said in str(caught.value)
