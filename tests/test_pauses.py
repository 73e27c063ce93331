"""Pauses: long kernels are cut, small networks are not, and results stay what they are."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import parser

import ingot
from benchmarks.net import Net
from ingot.bundle.bundle import Bundle
from ingot.driver import stages
from ingot.errors import InputError
from ingot.formula.expr import Array
from ingot.formula.index import interval
from ingot.formula.statements import For, Let, Pause, Statement, flatten
from ingot.loops.operations import Ranges, instructions
from ingot.loops.program import calls
from ingot.loops.program_passes.pauses import COPY_BYTES, LIMIT
from ingot.options import Options

FRAME = 512
COUNTER = """\
int pauses, last = -1;
int net_pause(void);
int net_pause(void) { return ++pauses == last; }
"""
GCC = ("-O2", "-ffp-contract=off", "-fno-strict-aliasing", "-mavx2", "-mfma", "-mbmi2", "-mf16c")
STOPPED = -6


def convolutions() -> onnx.ModelProto:
    net = Net("net", (1, 16, 40, 40))
    x = net.conv("x", 32, 3, pads=1, then="Relu")
    return net.model(y=net.then(net.conv(x, 16, 3, pads=1), "Sigmoid"))


def dense() -> onnx.ModelProto:
    net = Net("net", (1, 4096))
    return net.model(y=net.dense("x", 96))


def chain() -> onnx.ModelProto:
    """Many small kernels, which add up."""
    net, x = Net("net", (1, 64)), "x"
    for _ in range(120):
        x = net.then(net.dense(x, 64), "Softmax")
    return net.model(y=x)


def counted() -> onnx.ModelProto:
    """An extent that is data, in a long loop."""
    return parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 21]>
        net (float[40000] x) => (float[N] y) <int64[1] first = {0}> {
          on = Greater(x, x)
          off = Not(on)
          at = NonZero(off)
          flat = Squeeze(at, first)
          picked = Gather(x, flat)
          y = Exp(picked)
        }"""
    )


@pytest.mark.parametrize("make", [convolutions, dense, chain])
@pytest.mark.parametrize("target", ["c99", "x86-64", "x86-64-v3", "x86-64-v4"])
def test_no_stretch_without_a_pause_is_long(make: Callable[[], onnx.ModelProto], target: str) -> None:
    """Before pauses, somewhere it is."""
    plain, made = (
        stages(make(), Options(target=target, pauses=p, frame_bytes=FRAME)).program for p in (False, True)
    )
    assert sum(instructions(c.kernel.body, {}) for c in calls(plain.steps)) > 2 * LIMIT
    since = 0
    for c in calls(made.steps):
        stretches = stretched(c.kernel.body, {}, FRAME // 2)
        assert max(since + stretches[0], *stretches) < 2.5 * LIMIT
        since = 0 if c.pauses else stretches[-1] + (since if len(stretches) == 1 else 0)


def stretched(statements: tuple[Statement, ...], ranges: Ranges, room: int) -> list[int]:
    """Operations up to the first pause, between pauses, and behind the last.

    Not of loops around which registers live that leave no room: those are never cut.
    """
    found = [0]
    for s in statements:
        if isinstance(s, Let):
            room -= s.lanes * s.value.dtype.bytes
        if isinstance(s, Pause):
            found.append(0)
        elif isinstance(s, For) and any(isinstance(p, Pause) for p in flatten(s.body)):
            lo = interval(s.lo, ranges)[0]
            first, *rest = stretched(s.body, {**ranges, s.var: (lo, lo)}, room)  # the first turn is whole
            found[-1] += first
            found += [*rest[:-1], rest[-1] + first, rest[-1]]
        elif not isinstance(s, For) or room >= 0:
            found[-1] += instructions((s,), ranges)
    return found


@pytest.mark.parametrize("target", ["x86-64", "x86-64-v3"])
def test_a_small_network_has_no_pause(target: str) -> None:
    net = Net("net", (1, 64))
    made = stages(net.model(y=net.dense("x", 32)), Options(target=target, pauses=True)).program
    assert not any(c.pauses for c in calls(made.steps))
    assert not any(isinstance(s, Pause) for k in made.kernels for s in flatten(k.body))


def built(bundle: Bundle, folder: Path) -> ctypes.CDLL:
    """The bundle's C as a library, with a counter of its pauses: number `last` ends the run."""
    assert shutil.which("gcc"), "gcc is missing; tools/debian-packages.txt lists it"
    bundle.save(folder)
    (folder / "counter.c").write_text(COUNTER)
    sources = [str(p) for p in folder.glob("*.c")]
    command = ["gcc", "-shared", "-fPIC", *GCC, *sources, "-o", str(folder / "net.so")]
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(folder / "net.so"))


def arena_of(bundle: Bundle) -> Array:
    room = np.zeros(bundle.manifest["sizes"]["arena_bytes"] + 64, np.uint8)
    return room[-room.ctypes.data % 64 :]


def run(library: ctypes.CDLL, *arrays: Array) -> int:
    return int(library.net(*(a.ctypes.data_as(ctypes.c_void_p) for a in arrays)))


@pytest.mark.parametrize("make", [convolutions, dense, chain, counted])
@pytest.mark.parametrize("target", ["c99", "x86-64", "x86-64-v3"])
def test_results_stay_what_they_are(make: Callable[[], onnx.ModelProto], target: str, tmp_path: Path) -> None:
    model: Any = make()
    size: dict[str, Any] = {"capacity": {"": 40000}} if make is counted else {}
    plain = ingot.compile(model, name="net", target=target, **size)
    given = plain.manifest["inputs"][0]
    x = np.random.default_rng(0).standard_normal(given["shape"]).astype(np.float32)
    wanted = plain.session().run({given["name"]: x})["y"]
    pausing = ingot.compile(model, name="net", target=target, pauses=True, emit=("c",), **size)
    library, arena = built(pausing, tmp_path), arena_of(pausing)
    y, more = (
        np.zeros(wanted.size, np.float32),
        [np.zeros(1, np.int64)] * (len(plain.manifest["outputs"]) - 1),
    )
    assert run(library, x, y, *more, arena) == 0
    np.testing.assert_allclose(y, wanted.reshape(-1), rtol=1e-6, atol=1e-6)
    assert ctypes.c_int.in_dll(library, "pauses").value >= 2


def test_a_run_that_the_caller_ends_leaves_the_old_state(tmp_path: Path) -> None:
    """Wherever it ends; where nobody can end it the new state is made over the old one."""
    text = """<ir_version: 10, opset_import: ["" : 21]>
    net (float[1,96] x, float[1,96] before) => (float[1,96] y, float[1,96] after)
    <int64[2] up = {96, 1024}, int64[2] down = {1024, 96}, float[1] step = {0.001}> {
      spread = Expand(step, up)
      gather = Expand(step, down)
      seen = Add(x, before)
      wide = MatMul(seen, spread)
      after = MatMul(wide, gather)
      again = MatMul(after, spread)
      y = MatMul(again, gather)
    }"""
    model: Any = parser.parse_model(text)
    wanted: dict[str, Any] = {"name": "net", "target": "x86-64", "state": {"after": "before"}}
    plain = stages(model, Options(**wanted)).program
    assert plain.states[0].made in plain.aliases
    bundle = ingot.compile(model, **wanted, pauses=True, emit=("c",))
    library, arena = built(bundle, tmp_path), arena_of(bundle)
    x, y, state = np.ones((1, 96), np.float32), np.zeros((1, 96), np.float32), np.zeros(96, np.float32)
    pauses, last = (ctypes.c_int.in_dll(library, n) for n in ("pauses", "last"))
    assert run(library, x, y, state, arena) == 0
    count, old = pauses.value, state.copy()
    assert count >= 4 and old.all()
    for last.value in range(1, count + 1):
        pauses.value = 0
        assert run(library, x, y, state, arena) == STOPPED
        assert (state == old).all() and pauses.value == last.value
    last.value = -1
    assert run(library, x, y, state, arena) == 0
    assert (state != old).all()


BODIES = (
    "y = Identity(x)",
    """y = If(on)<then_branch = a () => (float[4] p) { p = Relu(x) },
                  else_branch = b () => (float[4] q) { q = Neg(x) }>""",
)


@pytest.mark.parametrize("body", BODIES)
def test_every_turn_of_a_loop_pauses(body: str, tmp_path: Path) -> None:
    """How many there are only the data say, and a turn may call nothing itself."""
    text = f"""<ir_version: 10, opset_import: ["" : 21]>
    net (int64 turns, float[4] start) => (float[4] end) {{
      end = Loop(turns, , start)<body = turn (int64 i, bool on, float[4] x) => (bool still, float[4] y) {{
        still = Identity(on)
        {body}
      }}>
    }}"""
    bundle = ingot.compile(parser.parse_model(text), name="net", target="x86-64", pauses=True, emit=("c",))
    library, arena = built(bundle, tmp_path), arena_of(bundle)
    ctypes.c_int.in_dll(library, "last").value = 1000
    turns, x, y = np.array(1 << 62, np.int64), np.ones(4, np.float32), np.zeros(4, np.float32)
    assert run(library, turns, x, y, arena) == STOPPED


def test_a_long_copy_is_cut(tmp_path: Path) -> None:
    """What a loop carries is copied before its first turn, between turns and behind the last."""
    size = 3 * LIMIT * COPY_BYTES // 4
    text = f"""<ir_version: 10, opset_import: ["" : 21]>
    net (int64 turns, float[{size}] start) => (float[{size}] end) {{
      end = Loop(turns, , start)<body = turn (int64 i, bool on, float[{size}] x)
                                      => (bool still, float[{size}] y) {{
        still = Identity(on)
        y = Identity(x)
      }}>
    }}"""
    bundle = ingot.compile(parser.parse_model(text), name="net", target="x86-64", pauses=True, emit=("c",))
    library, arena = built(bundle, tmp_path), arena_of(bundle)
    x, y = np.arange(size, dtype=np.float32), np.zeros(size, np.float32)
    pauses, last = (ctypes.c_int.in_dll(library, n) for n in ("pauses", "last"))
    assert run(library, np.array(1, np.int64), x, y, arena) == 0
    assert (x == y).all() and pauses.value >= 6
    pauses.value, last.value, y[:] = 0, pauses.value - 1, 0
    assert run(library, np.array(1, np.int64), x, y, arena) == STOPPED
    assert 0 < np.count_nonzero(y) < size - 1


def test_threads_do_not_pause() -> None:
    net = Net("net", (1, 64))
    with pytest.raises(InputError, match="has no threads"):
        ingot.compile(net.model(y=net.dense("x", 32)), threads=True, pauses=True)


@pytest.mark.parametrize("target", ["native", "aarch64"])
def test_python_runs_a_bundle_that_pauses(target: str) -> None:
    model = convolutions()
    plain, pausing = (ingot.compile(model, name="net", target=target, pauses=p) for p in (False, True))
    given = plain.manifest["inputs"][0]
    x = np.random.default_rng(0).standard_normal(given["shape"]).astype(np.float32)
    wanted, found = (bundle.run({given["name"]: x})["y"] for bundle in (plain, pausing))
    assert b"net_pause" in pausing.files["net.o"]
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)
