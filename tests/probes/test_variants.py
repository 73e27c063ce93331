"""SSE2, AVX2 and AVX-512 variants and their dispatcher in one object."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import ingot
from ingot.binary.objects import undefined_symbols, writable_bytes
from ingot.bundle.run import ProcessRunner
from ingot.emit.dispatch import CPUID, condition
from ingot.targets.records import TARGETS
from tests.here import require_program

DIGITS = Path(__file__).parents[2] / "examples" / "digits"
LEVELS = ("x86-64", "x86-64-v3", "x86-64-v4")


def test_one_object_for_every_processor() -> None:
    with np.load(DIGITS / "test_images.npz") as tests:
        images, scores = tests["images"][:8].astype(np.float32), tests["scores"][:8]
    bundle = ingot.compile(DIGITS / "digits.onnx", name="digits", target="+".join(LEVELS))
    assert bundle.manifest["variants"] == list(LEVELS)
    assert undefined_symbols(bundle.files["digits.o"]) == []
    assert writable_bytes(bundle.files["digits.o"]) == 0
    found = np.concatenate([bundle.run({"image": image[None]})["scores"] for image in images])
    np.testing.assert_allclose(found, scores, atol=1e-5)


def test_the_entry_tests_the_strongest_first() -> None:
    text = (
        ingot.compile(DIGITS / "digits.onnx", name="digits", target="+".join(LEVELS))
        .files["digits.c"]
        .decode()
    )
    calls = [text.index(f"return digits_x86_64{suffix}(") for suffix in ("_v4", "_v3", "")]
    assert calls == sorted(calls)


@pytest.mark.parametrize("name", [name for name, t in TARGETS.items() if t.triple.startswith("x86_64")])
def test_every_feature_has_a_test(name: str) -> None:
    assert all(f in CPUID for f in TARGETS[name].features)
    assert condition(TARGETS[name])


def test_conventions_without_variants_say_so() -> None:
    with pytest.raises(ingot.InputError, match="several targets"):
        ingot.compile(DIGITS / "digits.onnx", target="x86-64+x86-64-v3", api="argument")


@pytest.mark.parametrize("processor", ["qemu64", "max"])
def test_a_processor_without_avx_gets_the_fallback(processor: str) -> None:
    """Under an emulated processor with SSE2 only, a wrong choice is an illegal instruction."""
    require_program("qemu-x86_64")
    bundle = ingot.compile(DIGITS / "digits.onnx", name="digits", target="+".join(LEVELS))
    emulated = replace(TARGETS["x86-64"], runner=("qemu-x86_64", "-cpu", processor))
    with np.load(DIGITS / "test_images.npz") as tests:
        image, scores = tests["images"][:1].astype(np.float32), tests["scores"][:1]
    found = ProcessRunner("digits", bundle.files, bundle.manifest, emulated).call({"image": image})[1]
    np.testing.assert_allclose(found["scores"], scores, atol=1e-5)
