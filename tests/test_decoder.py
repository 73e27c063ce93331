"""Decoders that generate in C: the example's programs say what the network says in float64 without a cache,
and the benchmark's, of one file and without a library, what onnxruntime says.
"""

from __future__ import annotations

import importlib.util
import platform
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper

from benchmarks.decoder_alone import build, tokens
from benchmarks.decoder_model import BLOCK, Shape, interleaved, onnx_model, q4_0, states
from ingot.targets.records import find
from tests.here import require_program, require_runs

EXAMPLE = Path(__file__).parent.parent / "examples" / "decoder"
PROMPTS = [
    "three and nine is",
    "twenty less twenty is",
    "seven",
    "e",
    "zero and one is one.\ntwelve and eight is twenty.\nsixteen less eleven is",  # read in two chunks
    "\n",
]


def module(name: str) -> ModuleType:
    """A file of the example by its path: its directory is nobody's package."""
    spec = importlib.util.spec_from_file_location(f"decoder_example_{name}", EXAMPLE / f"{name}.py")
    assert spec and spec.loader
    made = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = made
    spec.loader.exec_module(made)
    return made


network, text = module("network"), module("text")


def make(build: Path, target: str) -> Path:
    command = ["make", "-s", "-C", str(EXAMPLE), f"BUILD={build}", f"PYTHON={sys.executable}", target]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and "warning" not in done.stderr, done.stdout + done.stderr
    return build / Path(target).name


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A program of the example by its name; all share a bundle."""
    require_program("make")
    build = tmp_path_factory.mktemp("decoder")
    return lambda name: make(build, str(build / name))


def said(program: Path, *prompt: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(program), *prompt], capture_output=True, text=True, timeout=60)


def weights() -> dict[str, np.ndarray]:
    """The matrices that the model's file holds, in 64-bit floats."""
    model = onnx.load(EXAMPLE / "sums.onnx")
    held = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    found = {"embedding": held["embedding"].astype(np.float64)}
    for name in (n.removesuffix(".codes") for n in held if n.endswith(".codes")):
        packed = held[f"{name}.codes"].astype(int)
        codes = np.stack([packed & 15, packed >> 4], -1).reshape(*packed.shape[:2], -1)
        scaled = (codes - 8) * held[f"{name}.scales"][..., None].astype(np.float64)
        found[name] = scaled.reshape(len(codes), -1).T
    return found


def foretold(w: dict[str, np.ndarray], prompt: str) -> str:
    """The prompt and what follows by the network, which reads all tokens anew for each."""
    v = text.vocabulary()
    tokens, written = v.encode(prompt), prompt.encode()
    while len(tokens) <= network.CONTEXT:
        logits = network.forward(w, np.array([tokens]))[0][0, -1]
        assert np.diff(np.sort(logits)[-2:]) > 1e-3  # no tie: rounding cannot decide
        tokens.append(int(logits.argmax()))
        written += v.spelt()[tokens[-1]]
        if written.endswith(b"\n"):
            break
    return written.decode()


@pytest.mark.parametrize("name", ["sums", "free"])
def test_programs_say_what_the_network_says(program: Callable[[str], Path], name: str) -> None:
    if name == "free" and platform.machine() not in ("x86_64", "aarch64"):
        pytest.skip("start.c has no system calls for this processor")
    built, w = program(name), weights()
    for prompt in PROMPTS:
        found = said(built, prompt)
        assert (found.returncode, found.stdout) == (0, foretold(w, prompt)), prompt


def test_sums_are_right(program: Callable[[str], Path]) -> None:
    for line in text.lines()[::40]:
        start = line.partition(" is")[0] + " is"
        assert said(program("sums"), start).stdout == line


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        (("Three",), "has a letter that the text has not"),
        (("x" * 300,), "too long"),
        (("x y " * 20,), "more than the context holds"),
        (("",), "no token"),
        ((), "usage"),
    ],
)
def test_bad_prompts_are_said(program: Callable[[str], Path], prompt: tuple[str, ...], message: str) -> None:
    found = said(program("sums"), *prompt)
    assert found.returncode == 1 and found.stdout == "" and message in found.stderr


def test_a_program_of_one_file_says_what_onnxruntime_says(tmp_path: Path) -> None:
    """The decoder of the benchmark with little but words: the assembler takes the weights."""
    target = find("x86-64-v3")
    require_runs(target)
    s = Shape(width=64, layers=2, heads=4, shared=2, inner=128, words=20000, context=32)
    program = build(s, target, tmp_path)
    assert (tmp_path / "decoder_weights.S").exists()
    symbols = subprocess.run(["nm", "-u", str(program)], capture_output=True, text=True, check=True)
    assert symbols.stdout == ""
    assert tokens(program, 16) == likeliest(s, 16)


def likeliest(s: Shape, count: int) -> list[int]:
    session = onnxruntime.InferenceSession(
        onnx_model(s).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    names = [o.name for o in session.get_outputs()]
    cache = np.zeros((1, s.shared, s.context, s.head), np.float32)
    kept, found = dict.fromkeys(states(s).values(), cache), [0]
    for used in range(count):
        given = {"token": np.array([found[-1:]]), "used": np.array([used], np.int32), **kept}
        made = dict(zip(names, session.run(None, given), strict=True))
        kept = {before: made[after] for after, before in states(s).items()}
        logits = made["logits"][0, 0]
        assert np.diff(np.sort(logits)[-2:]) > 1e-4  # no tie: rounding cannot decide
        found.append(int(logits.argmax()))
    return found[1:]


def test_gradients_are_those_of_the_logits() -> None:
    """Each matrix's gradient along a drawn direction, beside a difference."""
    rng = np.random.default_rng(1)
    w = {name: rng.standard_normal(s) / s[0] ** 0.5 for name, s in network.shapes(12).items()}
    tokens, d = rng.integers(0, 12, (2, 5)), rng.standard_normal((2, 5, 12))
    gradients = network.forward(w, tokens)[1](d)
    for name, each in w.items():
        step = 1e-5 * rng.standard_normal(each.shape)
        up, down = (network.forward({**w, name: each + s}, tokens)[0] for s in (step, -step))
        assert np.isclose(np.sum(d * (up - down)) / 2, np.sum(gradients[name] * step), rtol=1e-5), name


def test_llama_cpp_multiplies_by_the_same_weights() -> None:
    """Q4_0 as ggml reads it: weight j of a block is (q - 8) d, in the low half of byte j or the high half of
    byte j - 16; MatMulNBits has two neighbours in a byte.
    """
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 256, (6, 3, BLOCK // 2), dtype=np.uint8)
    scales = rng.uniform(0.5, 1, (6, 3)).astype(np.float16)
    ours = (np.stack([codes & 15, codes >> 4], -1).reshape(6, 3, BLOCK) - 8.0) * scales[..., None]
    raw = q4_0(codes, scales).reshape(6, 3, 2 + BLOCK // 2)
    halves = np.concatenate([raw[..., 2:] & 15, raw[..., 2:] >> 4], axis=-1)
    theirs = (halves - 8.0) * np.ascontiguousarray(raw[..., :2]).view(np.float16)
    np.testing.assert_array_equal(theirs, ours)


def test_rows_that_rotary_embeddings_turn_are_neighbours_in_llama_cpp() -> None:
    """Of a head of four rows, GroupQueryAttention turns 0 with 2 and 1 with 3."""
    rows = np.arange(8)[:, None]
    assert interleaved(rows, 2).ravel().tolist() == [0, 2, 1, 3, 4, 6, 5, 7]
