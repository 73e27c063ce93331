"""The files of a bundle: which are written, what is in them, saving and loading, building and linking."""

from __future__ import annotations

import ctypes
import hashlib
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import ingot
from ingot.bundle.run import aligned
from ingot.emit.main import NEEDED
from ingot.targets.records import native
from ingot.targets.toolchain import COMMON
from tests.here import require_runs
from tests.test_priority import net

from .build import STRICT, compile_c, link, run, write
from .models import bundle, image, made, random, recurrent, scores, small
from .test_conventions import DIRECT, numbers

APIS = ("direct", "static", "dynamic", "argument")
EVERYTHING = ("c", "obj", "lib", "shared", "weights-bin", "weights-txt", "main")
FILES = {
    "c": {"net.c", "net.h", "net_weights.c"},
    "obj": {"net.h", "net.o"},
    "lib": {"net.h", "libnet.a"},
    "shared": {"net.h", "libnet.so"},
    "weights-bin": {"net.weights.bin"},
    "weights-txt": {"net.weights.txt"},
    "main": {"net.h", "net.c", "net_weights.c", "net_main.c", "Makefile"},
}


@pytest.mark.parametrize("kind", EVERYTHING)
def test_only_what_was_asked_for_is_written(kind: str) -> None:
    found = bundle(target="c99", emit=(kind,))
    assert set(found.files) == {*FILES[kind], "net.json"}
    np.testing.assert_allclose(found.run({"image": image()})["scores"], scores(), atol=1e-6)


def test_manifest_says_what_the_files_are() -> None:
    found = bundle(emit=EVERYTHING)
    manifest = json.loads(found.files["net.json"])
    assert manifest == found.manifest and manifest["schema"] == 1
    assert manifest["files"].keys() == found.files.keys() - {"net.json"}
    for name, digest in manifest["files"].items():
        assert hashlib.sha256(found.files[name]).hexdigest() == digest
    assert manifest["inputs"] == [
        {"name": "image", "symbol": "image", "dtype": "float32", "shape": [1, 1, 6, 6]}
    ]
    assert manifest["symbols"] == ["net"] and manifest["state"] == []
    assert manifest["options"]["api"] == "direct" and manifest["target"] == native().name
    assert manifest["sizes"]["weights_bytes"] == len(found.files["net.weights.bin"])
    # dense: 108 x 5; the convolution reads 4 corners of 2 x 2, 16 edges of 2 x 3 and 16 of 3 x 3, 3 channels
    assert sum(k["macs"] for k in manifest["kernels"]) >= 540 + 3 * (4 * 4 + 16 * 6 + 16 * 9)


def test_weights_as_text_are_the_weights_as_bytes() -> None:
    found = bundle().files
    words = found["net.weights.txt"].decode().replace("\n", "").rstrip(",").split(",")
    assert bytes(int(w, 16) for w in words) == found["net.weights.bin"]


@pytest.mark.parametrize("origin", ["net.o", "net_weights.c"])
def test_object_and_text_hold_the_bytes_of_the_weights_file(origin: str, tmp_path: Path) -> None:
    write(tmp_path, bundle(target="c99").files)
    main = """
#include <stdio.h>
extern const unsigned char net_weights_data[];
int main(void) { return fwrite(net_weights_data, 1, SIZE, stdout) != SIZE; }
"""
    size = len(bundle(target="c99").files["net.weights.bin"])
    write(tmp_path, {"main.c": main})
    held = origin if origin.endswith(".o") else compile_c("gcc", tmp_path, origin)
    objects = [compile_c("gcc", tmp_path, "main.c", f"-DSIZE={size}"), held]
    run(["sh", "-c", f"{link(tmp_path, objects)} > out"], tmp_path)
    assert (tmp_path / "out").read_bytes() == bundle(target="c99").files["net.weights.bin"]


@pytest.mark.parametrize("api", APIS)
def test_golden_program_builds_and_passes(api: str, tmp_path: Path) -> None:
    bundle(api=api, emit=EVERYTHING).save(tmp_path)
    assert run(["make", "-s", "run"], tmp_path).endswith("OK\n")


@pytest.mark.parametrize(
    ("api", "name"),
    [
        *(("direct", n) for n in ("run", "arena", "in_image", "check_scores")),
        *(("static", n) for n in ("run", "mutableWeight", "want_scores")),
        *(("dynamic", n) for n in ("activations", "allocate", "find", "weights", "out_scores")),
    ],
)
def test_golden_program_of_a_bundle_called_as_something_in_it(api: str, name: str, tmp_path: Path) -> None:
    files = bundle(name, api=api, emit=("c", "main")).files
    write(tmp_path, files)
    flags = ("-std=c99", *STRICT, "-fno-strict-aliasing", "-march=native")
    objects = [compile_c("gcc", tmp_path, n, *flags) for n in files if n.endswith(".c")]
    assert run([link(tmp_path, objects)], tmp_path).endswith("OK\n")


def test_a_makefile_without_an_object_compiles_as_we_do() -> None:
    """What the C is right under, and what its rounding was verified under."""
    flags = bundle(emit=("c", "main")).files["Makefile"].decode()
    assert "-fno-strict-aliasing -ffp-contract=off" in flags and set(NEEDED) <= set(COMMON)


@pytest.mark.parametrize(
    ("target", "api"),
    [
        *((t, "direct") for t in ("cortex-m0", "cortex-m4", "cortex-m55")),
        *(("cortex-m4", a) for a in APIS[1:]),
    ],
)
def test_golden_program_on_a_board(target: str, api: str, tmp_path: Path) -> None:
    """`make run` links for the emulated board and runs there; no library of C is needed."""
    require_runs(target)
    if shutil.which("arm-none-eabi-gcc") is None:
        pytest.skip("arm-none-eabi-gcc is not installed")
    kind = "obj" if api == "direct" else "c"
    found = bundle(target=target, api=api, emit=(kind, "main"))
    found.save(tmp_path)
    assert run(["make", "-s", "run"], tmp_path).endswith("\nscores: 0 of 5 values wrong\nOK\n")
    text = (tmp_path / "net_main.c").read_text()
    wrong = text.replace("want_scores[5] = {\n    ", "want_scores[5] = {\n    7.0f + ")
    (tmp_path / "net_main.c").write_text(wrong)
    assert "FAILED" in run(["make", "run"], tmp_path, status=2)


@pytest.mark.parametrize("target", ["native", "cortex-m4"])
def test_golden_program_prints_what_kernels_take(target: str, tmp_path: Path) -> None:
    """On a Cortex-M by its cycle counter, which QEMU does not have: there by SysTick."""
    require_runs(target)
    if target != "native" and shutil.which("arm-none-eabi-gcc") is None:
        pytest.skip("arm-none-eabi-gcc is not installed")
    found = ingot.compile(net("ds_cnn_int8"), target=target, name="net", emit=("obj", "main"), profile=True)
    found.save(tmp_path)
    lines = run(["make", "-s", "run"], tmp_path).splitlines()
    ticks = "clock()" if target == "native" else "SysTick"
    names = [k["name"] for k in found.manifest["kernels"]]
    shown = lines[-len(names) - 2 : -1]
    assert [line.split(":")[0] for line in shown] == [*names, "copies between kernels"]
    assert all(re.fullmatch(rf"[^:]+: \d+ ticks of {re.escape(ticks)}", line) for line in shown)
    assert target == "native" or any(": 0 " not in line for line in shown)
    assert "0xE0001004" in found.files["net_main.c"].decode()  # DWT_CYCCNT


def test_golden_program_notices_a_wrong_answer(tmp_path: Path) -> None:
    found = bundle(emit=EVERYTHING)
    text = found.files["net_main.c"].decode()
    at = text.index("want_scores[5] = {") + len("want_scores[5] = {\n    ")
    found.save(tmp_path)
    write(tmp_path, {"net_main.c": text[:at] + "7.0f + " + text[at:]})
    run(["make", "-s", "run"], tmp_path, status=2)


@pytest.mark.parametrize("api", APIS)
def test_golden_program_is_strict_c(api: str, tmp_path: Path) -> None:
    write(tmp_path, bundle(api=api, emit=EVERYTHING).files)
    for kind in ("gcc", "clang"):
        compile_c(kind, tmp_path, "net_main.c", "-std=c99", *STRICT)


def test_static_library_and_shared_library(tmp_path: Path) -> None:
    write(tmp_path, {**bundle(emit=EVERYTHING).files, "program.c": DIRECT})
    main = compile_c("gcc", tmp_path, "program.c", "-std=c99", *STRICT)
    for flags in (["-L.", "-l:libnet.a"], ["-L.", "-l:libnet.so", "-Wl,-rpath,."]):
        found = numbers(run([link(tmp_path, [main], *flags)], tmp_path))
        np.testing.assert_allclose(found, np.tile(scores()[0], 2), atol=1e-6)


def test_shared_library_from_python(tmp_path: Path) -> None:
    """The public symbols are visible under their own names, and only those."""
    found = bundle(emit=EVERYTHING)
    write(tmp_path, found.files)
    library = ctypes.CDLL(str(tmp_path / "libnet.so"))
    x, y, arena = image(), np.zeros(5, np.float32), aligned(found.manifest["sizes"]["arena_bytes"])
    for _ in range(2):
        status = library.net(*(ctypes.c_void_p(a.ctypes.data) for a in (x, y, arena)))
        assert status == 0
        np.testing.assert_allclose(y, scores()[0], atol=1e-6)
    with pytest.raises(AttributeError):
        _ = library.net_weights_data


def test_large_constants_are_included_by_the_assembler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Above 4 MB the constants are no C; here the limit is lower."""
    monkeypatch.setattr("ingot.emit.weights.MOST_TEXT", 1024)
    found = ingot.compile(small(), name="net", target="c99", emit=("c", "obj", "main"))
    assert {"net_weights.S", "net.weights.bin"} <= found.files.keys() and "net_weights.c" not in found.files
    np.testing.assert_allclose(found.run({"image": image()})["scores"], scores(), atol=1e-6)
    write(tmp_path, found.files)
    assert run(["make", "-s", "run"], tmp_path).endswith("OK\n")
    section = '-DNET_WEIGHTS_SECTION=".flash.weights"'
    run(["gcc", section, "-c", "net_weights.S", "-o", "w.o"], tmp_path)
    assert ".flash.weights" in run(["objdump", "-h", "w.o"], tmp_path)
    (tmp_path / "elsewhere").mkdir()
    run(["gcc", "-I..", "-c", "../net_weights.S", "-o", "w.o"], tmp_path / "elsewhere")
    assert "Assemble with -I DIR, where DIR holds net.weights.bin" in (tmp_path / "net_weights.S").read_text()


def test_weights_section_can_be_chosen(tmp_path: Path) -> None:
    write(tmp_path, bundle(target="c99").files)
    run(["gcc", '-DNET_WEIGHTS_SECTION=".flash.weights"', "-c", "net_weights.c", "-o", "w.o"], tmp_path)
    assert ".flash.weights" in run(["objdump", "-h", "w.o"], tmp_path)


@pytest.mark.parametrize("kind", ["c", "lib", "shared", "weights-txt", "main"])
def test_variants_write_only_what_was_asked_for(kind: str, tmp_path: Path) -> None:
    """One object for three processors; its C is in a file for each and one that chooses."""
    found = bundle(target="x86-64+x86-64-v3", emit=(kind,))
    stems = ("net", "net_x86_64", "net_x86_64_v3")
    expected = {
        "c": {f"{s}{end}" for s in stems for end in (".c", ".h")} | {f"{s}_weights.c" for s in stems[1:]},
        "lib": {"net.h", "libnet.a"},
        "shared": {"net.h", "libnet.so"},
        "weights-txt": {f"{s}.weights.txt" for s in stems[1:]},
        "main": {"net.h", "net.o", "net_main.c", "Makefile"},
    }
    assert set(found.files) == {*expected[kind], "net.json"} and all(found.files.values())
    if kind == "main":
        write(tmp_path, found.files)
        assert run(["make", "-s", "run"], tmp_path).endswith("OK\n")


# ---- saving and loading


def test_saved_bundles_run_when_loaded(tmp_path: Path) -> None:
    for name in ("one", "two"):
        bundle(name).save(tmp_path)
    loaded = ingot.load(tmp_path / "two.json")
    assert loaded.manifest == bundle("two").manifest and loaded.files == bundle("two").files
    np.testing.assert_allclose(loaded.run({"image": image()})["scores"], scores(), atol=1e-6)
    with pytest.raises(ingot.InputError, match="holds 2 bundles"):
        ingot.load(tmp_path)


def test_bad_directories_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ingot.InputError, match="holds no bundle"):
        ingot.load(tmp_path)
    write(tmp_path, {"a.json": "{", "b.json": "{}", "file": ""})
    with pytest.raises(ingot.InputError, match="holds no bundle"):
        ingot.load(tmp_path)
    with pytest.raises(ingot.InputError, match="not a directory"):
        bundle().save(tmp_path / "file")
    folder = bundle().save(tmp_path / "net")
    (folder / "net.o").write_bytes(b"\x7fELF")
    with pytest.raises(ingot.InputError, match="not the file that was written"):
        ingot.load(folder)
    (folder / "net.o").unlink()
    with pytest.raises(ingot.InputError, match=r"has no net\.o"):
        ingot.load(folder).run({"image": image()})


# ---- options


def test_conventions_refuse_what_they_have_no_place_for() -> None:
    for options, words in (
        ({"api": "argument", "weights": "external"}, "no argument for weights"),
        ({"api": "static", "weights": "embedded"}, "from the caller"),
        ({"emit": ("c", "exe")}, r"emit= is .*'exe'.*choose from 'c', 'obj'"),
        ({"api": "glow"}, r"api= is .glow.: choose from"),
    ):
        with pytest.raises(ingot.InputError, match=words):
            ingot.compile(small(), name="net", target="c99", **options)


@pytest.mark.parametrize("relocation", ["static", "pic"])
def test_relocation_models(relocation: str, tmp_path: Path) -> None:
    """Both run from Python and in the golden program; what is not position-independent gets a process."""
    found = bundle(target="c99", relocation=relocation, emit=EVERYTHING)
    np.testing.assert_allclose(found.run({"image": image()})["scores"], scores(), atol=1e-6)
    write(tmp_path, found.files)
    assert run(["make", "-s", "run"], tmp_path).endswith("OK\n")


@pytest.mark.parametrize("api", ["direct", "static", "argument"])
@pytest.mark.parametrize("target", ["aarch64", "s390x"])
def test_objects_for_other_processors_run_under_their_emulator(target: str, api: str) -> None:
    require_runs(target)
    found = bundle(target=target, api=api)
    np.testing.assert_allclose(found.run({"image": image()})["scores"], scores(), atol=1e-6)


def test_external_weights_from_python() -> None:
    found = bundle(weights="external")
    np.testing.assert_allclose(found.run({"image": image()})["scores"], scores(), atol=1e-6)
    assert "weights" in found.files["net.h"].decode()
    assert len(found.files["net.o"]) < len(bundle().files["net.o"])


def test_a_net_without_constants_has_no_weights(tmp_path: Path) -> None:
    from onnx import helper

    model = made([helper.make_node("Tanh", ["x"], ["y"])], {"x": (3,)}, {"y": (3,)}, {})
    for api in APIS:
        found = ingot.compile(model, name="net", api=api, emit=EVERYTHING)
        x = random(3)
        np.testing.assert_allclose(found.run({"x": x})["y"], np.tanh(x), atol=1e-6)
        folder = tmp_path / api
        found.save(folder)
        assert run(["make", "-s", "run"], folder).endswith("OK\n")
        assert ("net.weights.bin" in found.files) == (api in ("static", "dynamic"))


def test_state_is_the_callers(tmp_path: Path) -> None:
    """The same object, two sequences interleaved: nothing of one is seen by the other."""
    found = ingot.compile(recurrent(), name="net", emit=("obj",))
    x = (0.1 * np.arange(9, dtype=np.float32))[None]
    first = second = np.zeros((1, 32), np.float32)
    for _ in range(3):
        first = found.run({"x": x, "state_in": first})["state_out"]
        second = found.run({"x": x, "state_in": second})["state_out"]
        np.testing.assert_array_equal(first, second)
