"""`ingot report`: structure, figures that are the manifest's and the plan's, and hostile names."""

from __future__ import annotations

import base64
import json
import re
import zlib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import onnx
import pytest

from ingot.api.reporting import _changed
from ingot.check.rounding import layer_errors
from ingot.driver import built, compile_with
from ingot.errors import InputError
from ingot.inspection.account import account, paired
from ingot.inspection.arena import bytes_alive
from ingot.inspection.report_page import Subject, report_page
from ingot.options import Options
from tests.test_cli import ingot

DIGITS = Path(__file__).parent.parent / "examples" / "digits" / "digits.onnx"
HOSTILE = "</script><img src=x onerror=alert(1)>\x1b[31m\"'"


class Page(HTMLParser):
    """The tags of a page with their attributes, and its scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.data: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.data.append(data)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any]]:
    path = tmp_path_factory.mktemp("report") / "report.html"
    options = ["--no-time", "--json", "--against", "math=exact"]
    found = ingot("report", DIGITS, "-o", path, *options, "--target", "c99")
    assert found.exit_code == 0, found.output
    return path.read_text(), json.loads(found.stdout)


def test_the_figures_are_those_of_manifest_and_plan(page: tuple[str, dict[str, Any]]) -> None:
    text, told = page
    (stages,), bundle = built(DIGITS, Options(target="c99"))
    manifest = bundle.manifest
    for row, kernel in zip(told["layers"], manifest["kernels"], strict=True):
        for key in ("nodes", "macs", "bytes", "weights_bytes", "scalar_share", "generators", "notes"):
            assert row[key] == kernel[key]
        assert row["generators"] and row["alive_bytes"] <= stages.plan.arena_bytes
    assert max(bytes_alive(stages.plan, t) for t in range(20)) == manifest["sizes"]["arena_bound_bytes"]
    for key in ("flash_bytes", "arena_bytes", "arena_bound_bytes", "weights_bytes"):
        assert f"{manifest['sizes'][key]:,}" in text
    whole = account(bundle, (stages.program, stages.plan))
    assert whole.macs == 134592 and f"{whole.macs:,}" in text
    code = sum(x.code_bytes or 0 for x in whole.layers)
    assert 0 < code <= manifest["sizes"]["code_bytes"]
    assert all(p.ours is p.other for p in paired(whole, whole))


def test_a_layer_shows_its_operators_and_their_tensors(page: tuple[str, dict[str, Any]]) -> None:
    text, _ = page
    layer = text[text.index('<article id="layer-1"') :]
    layer = re.sub(r"<[^>]*>", " ", layer[: layer.index("</article>")])
    for part in (
        "Conv  conv1",
        "kernel_shape=[3, 3], pads=[1, 1, 1, 1]",
        "image: float32[1, 1, 8, 8]",
        "conv1.weight: float32[8, 1, 3, 3] constant, -",
        "Elements of  conv1.weight",
        "Relu  relu1",
        "relu1: float32[1, 8, 8, 8]",
    ):
        assert part in layer
    parcels = json.loads(text.split('id="parcels">')[1].split("</script>")[0])
    elements = zlib.decompress(base64.b64decode(parcels["elements 0"])).decode()
    weights = onnx.numpy_helper.to_array(onnx.load(DIGITS).graph.initializer[0]).reshape(-1)
    assert elements.startswith("[") and float(elements[1:].split()[0]) == pytest.approx(weights[0], rel=1e-6)
    words = [dict(attrs).get("data-words") or "" for tag, attrs in Page(text).tags if tag == "tr"]
    assert any("Conv" in w and "conv1.weight" in w for w in words)
    ends = text[text.index('<table class="ends">') :]
    assert ends.index("image") < ends.index("1x1x8x8") < ends.index("scores") < ends.index("1x10")


def test_the_page_needs_nothing_from_elsewhere(page: tuple[str, dict[str, Any]]) -> None:
    found = Page(page[0])
    assert not [t for t, a in found.tags if t in ("link", "img", "iframe") or "src" in a or "href" in a]
    assert "http" not in re.sub(r'xmlns="[^"]*"', "", page[0]) and len(page[0]) < 200_000
    layers = [a for t, a in found.tags if t == "article"]
    linked = {a["data-layer"] for _, a in found.tags if a.get("class") == "box" and "data-layer" in a}
    assert len(linked) >= len(layers) - 2 and linked <= {
        str(n) for n in range(len(layers))
    }  # imports have no node
    assert "Beside math=exact" in page[0] and "Memory over time" in page[0]


def test_names_of_a_model_are_inert() -> None:
    nodes = [onnx.helper.make_node("Relu", ["x"], ["y"], name=HOSTILE)]
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        nodes,
        HOSTILE,
        [value("x", onnx.TensorProto.FLOAT, [1, 8])],
        [value("y", onnx.TensorProto.FLOAT, [1, 8])],
    )
    proto = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)])
    (stages,), bundle = built(proto, Options(target="c99"))
    ours = account(bundle, (stages.program, stages.plan))
    text = report_page(
        Subject(
            HOSTILE,
            ours,
            stages.graph,
            (stages.program, stages.plan),
            {HOSTILE: HOSTILE},
            (),
            ours,
            HOSTILE,
            (HOSTILE,),
            ((HOSTILE, HOSTILE),),
        )
    )
    found = Page(text)
    assert [t for t, _ in found.tags].count("script") == 2 and "img" not in {t for t, _ in found.tags}
    assert not [a for _, a in found.tags if "onerror" in a] and "\x1b" not in text
    assert any("onerror=alert(1)" in d for d in found.data)


def test_errors_of_layers_are_roundings() -> None:
    bundle = compile_with(DIGITS, Options())
    found = list(layer_errors(DIGITS, Options(), compile_with, bundle.manifest))
    assert {e.node for e in found} >= {"conv1", "relu1", "conv3", "dense", "softmax"}
    assert all(0 <= e.own <= 1e-5 and 0 <= e.total <= 1e-5 for e in found) and any(e.total for e in found)


def test_a_bundle_says_what_it_cannot_show(tmp_path: Path) -> None:
    compiled = ingot("compile", DIGITS, "-o", tmp_path / "net", "--target", "c99")
    assert compiled.exit_code == 0
    found = ingot("report", tmp_path / "net", "-o", tmp_path / "r.html", "--against", tmp_path / "net")
    text = (tmp_path / "r.html").read_text()
    assert found.exit_code == 0 and "no times: a bundle cannot time its kernels" in found.stderr
    assert "has no graph and no memory plan" in text and "contract" not in text.split("<article")[0]
    asked = ingot("report", tmp_path / "net", "-o", tmp_path / "q.html", "--error")
    assert asked.exit_code == 2 and not (tmp_path / "q.html").exists()


def test_options_beside_are_read_strictly() -> None:
    assert _changed("math=exact,fuse=no") == {"math": "exact", "fuse": False}
    with pytest.raises(InputError, match="colour=red"):
        _changed("colour=red")
