"""`ingot asm`, and audits of bundles: what LLVM's assembler notes, beside the model's layers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from onnx import parser
from typer.testing import CliRunner, Result

from ingot import compile as compile_model
from ingot.bundle.schema import sealed, text_of
from ingot.cli import app
from ingot.driver import compile_with
from ingot.inspection.assembly import layers_of, listed, parsed, units
from ingot.inspection.objects import read
from ingot.options import Options
from ingot.packaging.kbuild import kbuild
from tests.models import SECONDS, limit

FOUNDING = """\
  bge 0, .LBB0_4
.LBB0_4:
  bge 0, .LBB0_5
  blr
"""
LISTING = """\
bge 0, .LBB0_4 # encoding: [0bAAAAAA00,A,0x80,0x40]
# fixup A - offset: 0, value: .LBB0_4, kind: fixup_ppc_brcond14
.LBB0_4:
bge 0, .LBB0_5 # encoding: [0bAAAAAA00,A,0x80,0x40]
# fixup A - offset: 0, value: .LBB0_5, kind: fixup_ppc_brcond14
blr # encoding: [0x20,0x00,0x80,0x4e]
"""
TARGETS = ["x86-64", "x86-64-v4", "i386", "aarch64", "armv7e-m", "riscv64", "s390x", "c99"]
SMALL = """<ir_version: 10, opset_import: ["" : 21]>
net (float[1,8] x) => (float[1,3] scores)
<float[8,3] w = {1,0,0, 0,1,0, 0,0,1, 1,1,1, 0,1,0, 2,0,1, 0,2,0, 1,0,2}> {
  [logits] logits = MatMul(x, w)
  [scores] scores = Softmax(logits)
}"""


def ingot(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(a) for a in arguments])


def squeezed(text: str) -> str:
    """Whitespace apart."""
    return "\n".join(" ".join(line.split()) for line in text.strip().splitlines())


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "net.onnxtxt"
    path.write_text(SMALL)
    return path


def test_the_founding_listing(tmp_path: Path) -> None:
    path = tmp_path / "ppc-br-test.s"
    path.write_text(FOUNDING)
    result = ingot("asm", path, "--triple", "powerpc64le-unknown-unknown", "--show-encoding")
    assert result.exit_code == 0, result.stderr
    assert squeezed(result.stdout) == squeezed(LISTING)
    plain = ingot("asm", path, "--triple", "powerpc64le-unknown-unknown").stdout
    assert squeezed(plain) == squeezed(FOUNDING)


def test_errors_of_the_assembler_name_the_line(tmp_path: Path) -> None:
    path = tmp_path / "bad.s"
    path.write_text("nop\nnonsense %rax\n")
    result = ingot("asm", path, "--triple", "x86_64")
    assert result.exit_code == 2 and "unit.s:2" in result.stderr and "nonsense" in result.stderr


@pytest.mark.parametrize("word", ["a", " ", "# encoding: [", ", kind: "])
def test_long_lines_take_time_as_long_as_they_are(word: str) -> None:
    rows = ["\tret  # encoding: [0xc3]", f"# {word * 300_000}", f"# {word * 300_000}]"]
    with limit(SECONDS):
        lines = list(parsed("\n".join(rows)))
    assert [line.encoding for line in lines[:2]] == ["[0xc3]", ""] and lines[0].text == "\tret"


@pytest.mark.parametrize("target", TARGETS)
def test_every_kernel_stands_beside_its_layers(target: str, model: Path) -> None:
    result = ingot("asm", model, "--target", target, "--show-encoding")
    assert result.exit_code == 0, result.stderr
    heads = [line for line in result.stdout.splitlines() if "net.c: " in line]
    assert any("net.c: net_logits: logits" in h for h in heads), heads
    assert any("net.c: net_scores: scores" in h for h in heads), heads
    assert any(h.endswith("net.c: net") for h in heads), heads
    assert "encoding: [" in result.stdout and "fixup A - offset:" in result.stdout


def test_one_function_and_json(model: Path) -> None:
    result = ingot("asm", model, "--target", "x86-64", "--function", "net_logits", "--json")
    (found,) = json.loads(result.stdout)
    assert (found["name"], found["layers"], found["file"]) == ("net_logits", "logits", "net.c")
    assert found["lines"][-1] and any(line["encoding"] == "[0xc3]" for line in found["lines"])
    missing = ingot("asm", model, "--target", "x86-64", "--function", "nothere")
    assert missing.exit_code == 2 and "there are net" in missing.stderr


def test_layers_of_shared_kernels_and_of_tasks() -> None:
    source = """/* a very long name
           of two lines; 8 MACs
   x float32 8 */
static void n_k_task0(void *c, int i) {
}
static __attribute__((__noinline__)) void n_k(const float x[8]) {
}
static inline int helper(int x) { return x; }
"""
    assert layers_of(source, {"kernels": []}) == dict.fromkeys(
        ["n_k_task0", "n_k"], "a very long name of two lines"
    )
    calls = [{"name": "n_k", "nodes": ["conv1", "relu1"]}, {"name": "n_k", "nodes": ["conv2"]}]
    assert layers_of(source, {"kernels": calls})["n_k"] == "conv1 + relu1, conv2"


def test_variants_are_units_of_their_own() -> None:
    bundle = compile_model(parser.parse_model(SMALL), name="net", target="x86-64+x86-64-v3")
    parts = {u.file: {f.name for f in listed(u)} for u in units(bundle)}
    assert parts.keys() == {"net.c", "net_x86_64.c", "net_x86_64_v3.c"}
    assert "net_x86_64_v3_logits" in parts["net_x86_64_v3.c"] and "net" in parts["net.c"]


@pytest.mark.parametrize("target", TARGETS)
def test_a_bundle_is_audited_with_the_fixups_of_its_c(target: str, model: Path, tmp_path: Path) -> None:
    compile_with(model, Options(target=target)).save(tmp_path)
    (found,) = read(tmp_path, None, None, ())
    assert found.notes == () and found.audit.declared == target
    noted = [f for f in found.audit.fixups if f.kind]
    bare = [f for f in found.audit.fixups if f.instruction and not f.kind]
    assert noted and not bare
    assert all(f.relocations or f.patched for f in noted)
    assert not any(f.outside for f in found.audit.functions)
    result = ingot("audit", tmp_path, "--policy", "bundle")
    assert result.exit_code == 0, result.stderr


def test_each_variant_is_held_against_its_own_target(model: Path, tmp_path: Path) -> None:
    compile_with(model, Options(target="x86-64+x86-64-v4")).save(tmp_path)
    (found,) = read(tmp_path, None, None, ())
    assert not any(f.outside for f in found.audit.functions)
    used = {f.name: f.features for f in found.audit.functions}
    assert "fma" in used["net_x86_64_v4_logits"] and "fma" not in used["net_x86_64_logits"]
    assert ingot("audit", tmp_path, "--target", "x86-64").exit_code == 1


def test_an_edited_c_file_is_noticed(model: Path, tmp_path: Path) -> None:
    compile_with(model, Options(target="x86-64")).save(tmp_path)
    source = tmp_path / "net.c"
    source.write_text(source.read_text().replace("return NET_OK;", "return 7;"))
    result = ingot("audit", tmp_path)
    assert result.exit_code == 0
    assert "the C gives other code here for net: their fixups are those of the object alone" in result.stderr


def test_a_c_file_that_is_none(model: Path, tmp_path: Path) -> None:
    compile_with(model, Options(target="x86-64")).save(tmp_path)
    (tmp_path / "net.c").write_bytes(b"\x7fELF" + bytes(60))
    result = ingot("asm", tmp_path)
    assert result.exit_code == 2 and result.stderr.count("\n") == 1
    assert "net.c: not what was written" in result.stderr


def test_a_bundle_without_its_header(model: Path, tmp_path: Path) -> None:
    compile_with(model, Options(target="x86-64")).save(tmp_path)
    (tmp_path / "net.h").unlink()
    for command, code in (("asm", 2), ("audit", 0)):  # which looks at the object alone, and says so
        result = ingot(command, tmp_path)
        assert result.exit_code == code and "net.h: not what was written" in result.stderr
    manifest = json.loads((tmp_path / "net.json").read_text())
    del manifest["files"]["net.h"]
    (tmp_path / "net.json").write_text(text_of(sealed(manifest)))
    assert "net.h: not what was written" in ingot("asm", tmp_path).stderr


def test_a_bundle_without_its_c(model: Path, tmp_path: Path) -> None:
    compile_with(model, Options(target="x86-64", emit=("obj",))).save(tmp_path)
    assert "holds no C" in ingot("audit", tmp_path).stderr
    assert ingot("asm", tmp_path).exit_code == 2
    compile_with(model, Options(target="x86-64", emit=("c",))).save(tmp_path / "c")
    assert "holds no object" in ingot("audit", tmp_path / "c").stderr


def test_flags_in_a_foreign_manifest_are_not_all_believed(model: Path, tmp_path: Path) -> None:
    """`-fplugin` would run what it names."""
    compile_with(model, Options(target="x86-64", cflags=("-O1",))).save(tmp_path)
    path = tmp_path / "net.json"
    manifest = json.loads(path.read_text())
    manifest["options"]["cflags"] = ["-O1", "-fplugin=/tmp/evil.so", "-Xclang", "-load", "@file"]
    path.write_text(text_of(sealed(manifest)))
    result = ingot("audit", tmp_path)
    assert result.exit_code == 0 and result.stderr == ""


@pytest.mark.parametrize(
    "change",
    [
        {"options": None},
        {"options": {"cflags": 7, "relocation": "-fplugin=x"}},
        {"kernels": {"a": 1}},
        {"kernels": [1, {"nodes": 3}]},
        {"variants": 5},
        {"variants": ["../../etc"]},
        {"target": ["x"]},
    ],
)
def test_a_manifest_that_nobody_wrote_is_no_traceback(
    change: dict[str, object], model: Path, tmp_path: Path
) -> None:
    compile_with(model, Options(target="x86-64")).save(tmp_path)
    path = tmp_path / "net.json"
    path.write_text(text_of(sealed({**json.loads(path.read_text()), **change})))
    for command in ("asm", "audit"):
        result = ingot(command, tmp_path)
        assert result.exit_code == 2 and result.stderr.count("\n") == 1, result.stderr


def test_a_kernel_module_is_audited_object_by_object(tmp_path: Path) -> None:
    options = Options(name="net", target="x86-64+x86-64-v3")
    kbuild(parser.parse_model(SMALL), options, compile_with, prebuilt=True).save(tmp_path)
    found = read(tmp_path, None, None, ())
    assert [s.name for s in found] == ["net_x86_64.o_shipped", "net_x86_64_v3.o_shipped"]
    result = ingot("audit", tmp_path, "--policy", "kernel")
    assert result.exit_code == 0, result.stderr
    kbuild(parser.parse_model(SMALL), options, compile_with).save(tmp_path / "c")
    assert "make -C" in ingot("audit", tmp_path / "c").stderr
    assert "net_x86_64_v3_logits" in ingot("asm", tmp_path / "c").stdout
