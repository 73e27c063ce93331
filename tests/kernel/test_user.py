"""The module's C in user space, under the sanitizers and on poisoned memory: nothing uninitialised is told.

Every check runs twice, with the stack and the heap filled with different bytes, and must say the same.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import parser

from ingot.bundle.bundle import Bundle
from ingot.driver import compile_with
from ingot.formula.expr import Array
from ingot.formula.packing import pack
from ingot.formula.types import dtype_named
from ingot.options import Options
from ingot.packaging.kbuild import kbuild
from ingot.packaging.kbuild.layout import Layout, Member, layout
from ingot.packaging.kbuild.variants import VARIANTS, Variant

from .machine import run
from .mixed import KEPT, LINE_LEAK, STATE, elements, golden, mixed, shown

HERE = Path(__file__).parent / "user"
TARGETS = ("x86-64", "x86-64-v3")
SANITIZED = (
    "-O1",
    "-g",
    "-std=gnu11",
    "-D__KERNEL__",
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
)
WARNED = ("-Wall", "-Wextra", "-Wno-unused-parameter", "-Wno-sign-compare", "-Wno-missing-field-initializers")
STACKS = {"pattern": "165", "zero": "0"}
"""What fills the stack, and the byte that fills the heap."""
LONG = {"kept": "((struct kept_inputs *)in)->in_turns[0] = 3"}
FAIR = {"mixed": "((struct mixed_inputs *)in)->in_first[0] = random_byte() % 3"}
"""Statements: inputs of a long run, and what makes inputs of any bytes less hopeless."""


LEAKS = {
    "memory that nobody has written": ("kvzalloc(INGOT_MEMORY", "kvmalloc(INGOT_MEMORY"),
    "a network that nobody has written": ("kzalloc(sizeof(*n)", "kmalloc(sizeof(*n)"),
    "a line that nobody has written": LINE_LEAK,
    "what a run that failed has left": ("n->has_run = !status;", "n->has_run = true;"),
    "more than the outputs": ("copy_to_user(to, n->output, count)", "copy_to_user(to, n->output, count + 1)"),
}
"""Mistakes, each of which the checks below must see: text of the module, and what stands there instead."""


@dataclass(frozen=True)
class Built:
    """A module's harness, once for each filling of the stack."""

    bundle: Bundle
    folder: Path
    words: tuple[str, ...]
    programs: Mapping[str, Path]

    def spoiled(self, old: str, new: str) -> Built:
        """The harness of the module with a mistake in it."""
        text = (self.folder / f"{self.bundle.name}_module.c").read_text()
        assert text.count(old) == 1
        (self.folder / "spoiled_module.c").write_text(text.replace(old, new))
        return replace(self, programs=linked(self.folder, "spoiled", self.words))

    def run(self, stack: str, *words: str, features: bool = False) -> str:
        """What it says. A sanitizer's finding and a check that fails are failures."""
        env = {**os.environ, "POISON": STACKS[stack], **({"FEATURES": "1"} if features else {})}
        command = [str(self.programs[stack]), *words]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300, errors="replace")
        assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-6000:]}"
        return done.stdout


def built(model: onnx.ModelProto, name: str, folder: Path, **options: Any) -> Built:
    assert shutil.which("gcc"), "gcc is missing; tools/debian-packages.txt lists it"
    bundle = kbuild(model, Options(name=name, target="+".join(TARGETS), **options), compile_with)
    here = bundle.save(folder / name)
    for header in set(re.findall(r"#include <((?:linux|asm)/.*)>", (here / f"{name}_module.c").read_text())):
        (here / header).parent.mkdir(parents=True, exist_ok=True)
        (here / header).write_text('#include "kernel.h"\n')
    (here / "linux" / "types.h").write_text('#include "kernel.h"\n')
    include = ["-I", str(here), "-I", str(HERE)]
    objects = [
        code for t in TARGETS for code in _objects(here, f"{name}_{VARIANTS[t].symbol}", VARIANTS[t], include)
    ]
    defined = [f"-DCLOSE={name}_network_close", f"-DAGREES={name}_network_agrees"]
    defined += [f"-DLONG={LONG.get(name, '(void)0')}", f"-DFAIR={FAIR.get(name, '(void)0')}"]
    sources = [str(HERE / "harness.c"), str(here / f"{name}_check.c"), *map(str, objects)]
    words = (*include, *defined, *sources)
    return Built(bundle, here, words, linked(here, name, words))


def linked(here: Path, module: str, words: tuple[str, ...]) -> dict[str, Path]:
    """The harness of a module's file, once for each filling of the stack."""
    programs = {stack: here / f"{module}_{stack}" for stack in STACKS}
    for stack, program in programs.items():
        filled = [f"-ftrivial-auto-var-init={stack}", *WARNED, "-Werror"]
        named = f'-DMODULE="{module}_module.c"'
        run("gcc", *SANITIZED, *filled, named, *words, "-o", str(program))
    return programs


def _objects(here: Path, name: str, variant: Variant, include: list[str]) -> list[Path]:
    """The network itself, as one variant has it: its code and its weights."""
    flags = (*SANITIZED, "-fno-strict-aliasing", "-ffp-contract=off", *variant.flags)
    sources = [f for f in here.glob(f"{name}*.[cS]") if re.fullmatch(f"{name}(_weights)?", f.stem)]
    for source in sources:
        run("gcc", *flags, *include, f"-Wa,-I{here}", "-c", str(source), "-o", f"{source}.o")
    return [Path(f"{source}.o") for source in sources]


@pytest.fixture(scope="module")
def of_all_types(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return built(mixed(), "mixed", tmp_path_factory.mktemp("user"))


@pytest.fixture(scope="module")
def with_state(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return built(parser.parse_model(KEPT), "kept", tmp_path_factory.mktemp("user"), state=STATE)


def says_the_same(of: Built, *words: str) -> str:
    """What it says whatever lies in memory, on every variant that this machine can run."""
    for features in {False, _has_avx2()}:
        first, second = (of.run(stack, *words, features=features) for stack in STACKS)
        assert first == second
    return first


def _has_avx2() -> bool:
    return "avx2" in Path("/proc/cpuinfo").read_text() and "fma" in Path("/proc/cpuinfo").read_text()


def test_mixed_types_under_the_sanitizers(of_all_types: Built) -> None:
    """Wrong sizes, faulty pages, no memory, signals, 300 inputs of any bytes: no access is wrong."""
    said = says_the_same(of_all_types, "check", "7")
    assert "selftest: 0 of 3 runs differ, status 0" in said and said.endswith("all is well\n")
    refused = re.search(r"refused (\d+), ended 0", said)
    assert refused and 100 < int(refused[1]) < 250  # an index out of range, or strings that are too long


@pytest.mark.parametrize("leak", LEAKS)
def test_a_leak_is_seen(leak: str, of_all_types: Built) -> None:
    """The checks are no better than what they find."""
    spoiled = of_all_types.spoiled(*LEAKS[leak])
    with pytest.raises(AssertionError):
        says_the_same(spoiled, "check", "7")


def test_a_killed_process_leaves_the_state_as_it_was(with_state: Built) -> None:
    said = says_the_same(with_state, "check", "7")
    assert "selftest: 0 of 10 runs differ, status 0" in said and said.endswith("all is well\n")
    sections = re.search(r"sections (\d+)", said)
    assert sections and int(sections[1]) >= 4  # three turns, a pause behind each
    ended = re.search(r"refused 0, ended (\d+)", said)
    assert ended and int(ended[1]) > 100  # as many turns as eight bytes can ask for


EDGES = (
    0.0,
    -0.0,
    0.1,
    -0.1,
    0.7,
    -1e-7,
    1.5,
    -123.456,
    19999.99,
    20000.5,
    -65504.0,
    3e9,
    -1e14,
    9.99e14,
    1e15,
)
SPECIAL = (1.234567e15, -2.555555e20, 3.311111e38, np.inf, -np.inf, np.nan)


def values(of: Layout, run: int) -> list[bytes]:
    """Bytes for every output: edge cases of floats, random bits for the others."""
    rng = np.random.default_rng(run)
    parts = []
    for m in of.members:
        if m.dtype.is_float and m.dtype.bits >= 32:
            chosen = (EDGES + SPECIAL + ((1.765432e308, -5e-324) if m.dtype.bits == 64 else ()))[run::3]
            row = np.resize(rng.permutation(np.array(chosen)), m.count).astype(m.dtype.numpy)
            parts.append(row.tobytes())
        elif m.dtype.is_text:
            letters = b'ab "\\\n\x7f\xc3\xa9~'
            words = [bytes(rng.choice(list(letters), rng.integers(0, 65)).tolist()) for _ in range(m.count)]
            parts.append(np.array(words, m.dtype.numpy).tobytes())
        else:
            parts.append(_random_bits(m, rng))
    return parts


def _random_bits(m: Member, rng: np.random.Generator) -> bytes:
    if m.dtype.kind == "b":
        return bytes(rng.integers(0, 2, m.count, dtype=np.uint8))
    return rng.bytes(m.bytes)


def test_every_type_is_printed_rightly(of_all_types: Built, tmp_path: Path) -> None:
    """Each line beside what numpy's numbers say; strings that are too long for a line end in three dots."""
    outputs = layout(of_all_types.bundle.manifest["outputs"], "out")
    runs = [values(outputs, number) for number in range(40)]
    file = tmp_path / "outputs"
    file.write_bytes(b"".join(map(outputs.packed, runs)))
    found = says_the_same(of_all_types, "tell", str(file)).splitlines()
    wanted = []
    for parts in runs:
        for m, part in zip(outputs.members, parts, strict=True):
            line = shown(dtype_named(m.tensor["dtype"]), elements(m.tensor, part))
            line = line if len(line) <= 396 else f"{line[:396]}..."
            wanted.append(f"mixed: run 0, {m.tensor['symbol']}:{line}")
    assert found == wanted


def others(m: Member, made: Array) -> Iterator[tuple[bytes, int]]:
    """An output with one other element, wherever that stands, and whether that is still the golden vector."""
    for i in range(made.size):
        row = made.copy()
        if m.dtype.is_text:
            row[i] = b"another"
            ended = b"".join(bytes(w).ljust(m.dtype.bytes - 1, b"\0") + b"!" for w in made)
            yield ended, 1  # what stands behind the first zero means nothing
        elif m.dtype.kind == "b":
            row[i] = not row[i]
        elif m.dtype.is_float and m.dtype.bits >= 16:
            for number in (np.nan, np.inf, -np.inf, float(made[i]) + 0.1):
                row[i] = number
                yield row.tobytes(), 0
            row[i] = float(made[i]) + (0 if m.dtype.bits == 16 else 1e-6)
            yield row.tobytes(), 1
            continue
        else:
            row[i] = 1 if row[i] != 1 else 2 if m.dtype.is_float else 0
        yield (pack(row) if m.dtype.is_packed else row).tobytes(), 0


def test_golden_vectors_that_differ_are_noticed_in_every_type(of_all_types: Built, tmp_path: Path) -> None:
    """A NaN too, wherever it stands; bytes between the tensors mean nothing."""
    outputs = layout(of_all_types.bundle.manifest["outputs"], "out")
    right = golden(0)
    parts = [
        (pack(a) if m.dtype.is_packed else a).tobytes() for m, a in zip(outputs.members, right, strict=True)
    ]
    between = bytearray(b"\xee" * outputs.size)
    for m, part in zip(outputs.members, parts, strict=True):
        between[m.offset : m.offset + m.bytes] = part
    files, wanted = [outputs.packed(parts), bytes(between)], [1, 1]
    for i, (m, made) in enumerate(zip(outputs.members, right, strict=True)):
        for part, agrees in others(m, made):
            files.append(outputs.packed([*parts[:i], part, *parts[i + 1 :]]))
            wanted.append(agrees)
    file = tmp_path / "outputs"
    file.write_bytes(b"".join(files))
    assert [int(w) for w in says_the_same(of_all_types, "agree", str(file)).split()] == wanted
