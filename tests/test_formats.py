"""Objects that are no ELF files: Windows' COFF, macOS' Mach-O and WebAssembly are read and audited alike."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from onnx import parser

import ingot
from ingot.audit.audit import audit
from ingot.audit.policy import POLICIES, broken, judge
from ingot.binary.note import note_of, with_note
from ingot.binary.objects import defined_symbols, sections, undefined_symbols, writable_bytes
from ingot.bundle.bundle import load
from ingot.emit import weights
from ingot.errors import InputError
from ingot.targets.records import find
from ingot.targets.toolchain import compile_c, link_wasm

TARGETS = ("windows-x86-64", "windows-aarch64", "macos-x86-64", "macos-aarch64", "wasm32")
MODEL = """
<ir_version: 10, opset_import: ["" : 21]>
g (float[1,8] x) => (float[1,8] y) <float[8] k = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0}> { y = Mul (x, k) }
"""
CODE = """
int far(int);
static int kept = 7;
int count;
const int table[4] = {1, 2, 3, 4};
__attribute__((__noinline__)) static int own(int a) { volatile char x[200]; x[a & 127] = 1; return x[5]; }
int near(int a) { return own(a) + table[a & 3] + kept++ + count++; }
int asks(int a) { return far(a) + 1; }
"""


@pytest.mark.parametrize("target", TARGETS)
def test_a_bundle_keeps_the_rules_and_is_read_back(target: str, tmp_path: Path) -> None:
    bundle = ingot.compile(parser.parse_model(MODEL), target=target, name="net")
    code = bundle.files["net.o"]
    assert undefined_symbols(code) == [] and writable_bytes(code) == 0 and "net" in defined_symbols(code)
    assert broken(judge(audit(code, None, find(target)), POLICIES["bundle"])) == []
    assert json.loads(note_of(code) or "")["target"] == target
    assert load(bundle.save(tmp_path / "net")).manifest["sizes"] == bundle.manifest["sizes"]


@pytest.mark.parametrize("target", TARGETS)
def test_what_an_object_asks_for_and_changes_is_seen(target: str) -> None:
    code = compile_c(CODE, find(target))
    found, part = audit(code, None, find(target)), sections(code)
    assert undefined_symbols(code) == ["far"] and defined_symbols(code) == ["asks", "count", "near", "table"]
    assert part.text > 40 and part.rodata >= 16 and part.data + part.bss >= 8
    reasons = " ".join(broken(judge(found, POLICIES["bundle"])))
    assert "'far' is undefined" in reasons and "holds" in reasons
    if found.is_decoded:
        near, asks = (next(f for f in found.functions if f.name == name) for name in ("near", "asks"))
        assert near.stack is not None and near.deepest and 200 <= near.deepest <= 400
        assert asks.deepest is None and any(r.symbol == "far" for f in found.fixups for r in f.relocations)


@pytest.mark.parametrize("target", TARGETS)
def test_a_cut_file_is_one_error(target: str) -> None:
    code = with_note(compile_c(CODE, find(target)), "what it is")
    assert note_of(code) == "what it is"
    for end in range(0, len(code), 29):
        try:
            audit(code[:end])
        except InputError as error:
            assert "\n" not in str(error)


@pytest.mark.parametrize("target", ("windows-x86-64", "macos-aarch64", "wasm32", "sparc"))
def test_weights_may_be_a_file_of_their_own(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "MOST_TEXT", 0)
    bundle = ingot.compile(parser.parse_model(MODEL), target=target, name="net")
    known = find(target)
    files = {n: data for n, data in bundle.files.items() if n.endswith((".S", ".bin"))}
    made = compile_c(files, known, name="net_weights.S")
    assert defined_symbols(made) == ["net_weights_data"] and sections(made).rodata >= 64


def test_a_module_has_no_imports() -> None:
    made = link_wasm(
        [compile_c("int twice(int a); int twice(int a) { return 2 * a; }", find("wasm32"))], ["twice"]
    )
    assert undefined_symbols(made) == [] and defined_symbols(made) == ["__heap_base", "memory", "twice"]


def test_kinds_of_files_that_a_format_has() -> None:
    model = parser.parse_model(MODEL)
    for target, kind in (("windows-x86-64", "shared"), ("wasm32", "main"), ("macos-aarch64", "main")):
        with pytest.raises(InputError, match=f"no {kind} is made for {target}"):
            ingot.compile(model, target=target, emit=(kind,))
    with pytest.raises(InputError, match="several targets in one bundle"):
        ingot.compile(model, target="windows-x86-64+windows-x86-64-v3")
