"""`ingot inspect`: texts, tables and pictures of models and bundles."""

from __future__ import annotations

import json
import random
import xml.etree.ElementTree as ElementTree
from itertools import pairwise
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from typer.testing import CliRunner, Result

from ingot.cli import app
from ingot.driver import REGION_STEPS, Stages, stages
from ingot.formula.expr import Tensor
from ingot.formula.types import BOOL, FLOAT32, INT64
from ingot.inspection.arena import arena_svg, step_names
from ingot.inspection.diagram import Box, Diagram, graph_diagram, program_diagram
from ingot.inspection.dot import dot_text
from ingot.inspection.layered import ACROSS, place
from ingot.inspection.picture import diagram_svg
from ingot.loops.program import Branch, Copy, Program, Repeat
from ingot.options import Options

DIGITS = Path(__file__).parent.parent / "examples" / "digits" / "digits.onnx"
SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = 'a"]; <b>&\x1b[31m\\'


def ingot(*arguments: str | Path) -> Result:
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exit_code == 0, result.output
    return result


@pytest.fixture(scope="module")
def digits() -> Stages:
    return stages(DIGITS, Options())


def test_every_stage_as_text_json_and_picture(tmp_path: Path) -> None:
    graph = ingot("inspect", DIGITS, "--svg", tmp_path / "g.svg", "--dot", tmp_path / "g.dot")
    assert graph.stdout.startswith("graph digits(image: float32[1, 1, 8, 8]) -> scores\n")
    assert "MaxPool" in (tmp_path / "g.svg").read_text() and "MaxPool" in (tmp_path / "g.dot").read_text()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["g.dot", "g.svg"]
    program = ingot("inspect", DIGITS, "--stage", "program").stdout
    assert "program digits" in program and "kernel conv1" in program
    texts = {s.name: ingot("inspect", DIGITS, "--stage", s.name).stdout for s in REGION_STEPS}
    assert all(text.startswith("region(image) -> scores\n") for text in texts.values())
    assert "group conv2\n" in texts["fold_stages"] and "group conv2 + relu2" in texts["fuse"]
    as_json = json.loads(ingot("inspect", DIGITS, "--stage", "fuse", "--json").stdout)
    assert as_json == {"stage": "fuse", "text": texts["fuse"].removesuffix("\n")}
    plan = json.loads(
        ingot("inspect", DIGITS, "--stage", "plan", "--svg", tmp_path / "p.svg", "--json").stdout
    )
    assert sum(k["macs"] for k in plan["kernels"]) == 134592
    assert plan["arena_bytes"] >= plan["arena_bound_bytes"] > 0
    assert "conv2 + relu2" in ingot("inspect", DIGITS, "--stage", "plan").stdout
    nodes = json.loads(ingot("inspect", DIGITS, "--json").stdout)["nodes"]
    assert [n["op"] for n in nodes[:3]] == ["Conv", "Relu", "Conv"]


def test_every_element_of_the_constants(tmp_path: Path) -> None:
    """All of them, under the model's names; a type that numpy lacks as its bits."""
    assert ingot("inspect", DIGITS, "--constants", tmp_path / "c.npz").exit_code == 0
    with np.load(tmp_path / "c.npz") as found:
        for tensor in onnx.load(DIGITS).graph.initializer:
            np.testing.assert_array_equal(found[tensor.name], onnx.numpy_helper.to_array(tensor))
    text = (
        '<ir_version: 10, opset_import: ["" : 21]> g (bfloat16[2] x) => (bfloat16[2] y) { y = Add(x, file) }'
    )
    model, half = onnx.parser.parse_model(text), np.array([1, 0.5], np.float32).astype(ml_dtypes.bfloat16)
    model.graph.initializer.append(onnx.numpy_helper.from_array(half, "file"))
    onnx.save(model, tmp_path / "h.onnx")
    assert ingot("inspect", tmp_path / "h.onnx", "--constants", tmp_path / "h.npz").exit_code == 0
    with np.load(tmp_path / "h.npz") as found:
        np.testing.assert_array_equal(found["file"], [0x3F80, 0x3F00])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("fusion",), "choose from graph, pack_boundary, fold_stages"),
        (("fuse", "--svg", "x.svg"), "no picture"),
        (("plan", "--constants", "x.npz"), "only the stage graph"),
    ],
)
def test_a_stage_that_cannot_be_shown(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    result = CliRunner().invoke(app, ["inspect", str(DIGITS), "--stage", *arguments])
    assert result.exit_code == 2 and said in result.stderr and not (tmp_path / "x.svg").exists()


def test_the_documentation_lists_the_steps_as_they_are() -> None:
    text = (Path(__file__).parents[1] / "docs" / "architecture.md").read_text()
    rows = [f"| `{s.name}` | {s.when.__doc__} | {s.why} |" for s in REGION_STEPS]
    assert "\n\n| step | when | why there |\n|---|---|---|\n" + "\n".join(rows) + "\n\n" in text


def test_a_bundle_is_shown_with_its_object(tmp_path: Path) -> None:
    ingot("compile", DIGITS, "-o", tmp_path / "out")
    facts = json.loads(ingot("inspect", tmp_path / "out", "--json").stdout)["object"]
    assert not facts["undefined"] and not facts["writable"] and facts["text"] > 1000
    assert facts["frames"]["digits"][1] >= facts["frames"]["digits"][0] > 0
    assert facts["deepest"][0] == "digits"
    shown = ingot("inspect", tmp_path / "out").stdout
    assert all(title in shown for title in ("Inputs", "Kernels", "Sections", "Symbols", "Stack"))
    refused = CliRunner().invoke(app, ["inspect", str(tmp_path / "out"), "--stage", "plan"])
    assert refused.exit_code == 2 and "no stages" in refused.stderr


def test_the_arena_is_drawn_to_scale(digits: Stages) -> None:
    """Every tensor is a rectangle of its bytes and steps; rectangles never overlap."""
    tree = ElementTree.fromstring(arena_svg(digits.program, digits.plan))
    boxes = [
        tuple(float(r.attrib[k]) for k in ("x", "y", "width", "height"))
        for r in tree.iter(f"{SVG}rect")
        if r.find(f"{SVG}title") is not None
    ]
    assert len(boxes) == len(digits.plan.lifetimes)
    spans = digits.plan.lifetimes
    scales = [b[2] * b[3] / (s.bytes * (s.end - s.start)) for b, s in zip(boxes, spans, strict=True)]
    assert scales == pytest.approx([scales[0]] * len(scales), rel=0.1)
    for i, (x, y, w, h) in enumerate(boxes):
        for u, v, a, b in boxes[i + 1 :]:
            assert x + w <= u + 0.2 or u + a <= x + 0.2 or y + h <= v + 0.2 or v + b <= y + 0.2
    texts = " ".join(t.text or "" for t in tree.iter(f"{SVG}text"))
    assert f"arena {digits.plan.arena_bytes:,} B" in texts and f"bound {digits.plan.bound_bytes:,} B" in texts


def test_diagrams_follow_the_data(digits: Stages) -> None:
    graph, program = graph_diagram(digits.graph), program_diagram(digits.program)
    assert len(graph.boxes) == len(digits.graph.nodes) + 2 and len(graph.arrows) == len(graph.boxes) - 1
    assert len(program.boxes) == len(digits.program.steps) + 2
    assert [program.boxes[i].title for i in (0, -1)] == ["image", "scores"]
    assert all(a < b for d in (graph, program) for a, b in d.arrows)
    assert {b for _, b in program.arrows} == set(range(1, len(program.boxes)))


def test_control_flow_is_drawn_and_counted_as_the_plan_counts() -> None:
    x, y, z = (Tensor(name, FLOAT32, (4,)) for name in "xyz")
    condition, i = Tensor("c", BOOL, (1,)), Tensor("i", INT64, (1,))
    branch = Branch(condition, (Copy(x, y),), (Copy(z, y),))
    program = Program("p", (x, z, condition), (y,), (), (branch, Repeat(i, None, condition, (Copy(y, z),))))
    assert step_names(program) == ["if c", "copy y", "copy y", "repeat i", "copy z"]
    diagram = program_diagram(program)
    titles = [b.title for b in diagram.boxes]
    assert titles == ["x", "z", "c", "if c", "copy", "copy", "repeat i", "copy", "y"]
    assert {(0, 4), (1, 5), (2, 3), (2, 6), (5, 7)} <= set(diagram.arrows)


@pytest.mark.parametrize("count", [0, 1, 2, 60, 400])
def test_boxes_do_not_overlap_and_arrows_run_down(count: int) -> None:
    rng = random.Random(count)
    sizes = [(rng.uniform(20, 200), rng.uniform(20, 90)) for _ in range(count)]
    arrows = sorted({(rng.randrange(max(0, b - 9), b), b) for b in range(1, count) for _ in range(2)})
    placed = place(sizes, arrows)
    for (a, b), route in zip(arrows, placed.routes, strict=True):
        assert route[0] == (placed.centres[a][0], placed.centres[a][1] + sizes[a][1] / 2)
        assert route[-1] == (placed.centres[b][0], placed.centres[b][1] - sizes[b][1] / 2)
        assert all(p[1] <= q[1] for p, q in pairwise(route))
    rows: dict[float, list[tuple[float, float]]] = {}
    for (x, y), (w, _) in zip(placed.centres, sizes, strict=True):
        assert x - w / 2 >= 0 and x + w / 2 <= placed.width and 0 <= y <= placed.height
        rows.setdefault(y, []).append((x - w / 2, x + w / 2))
    for row in rows.values():
        row.sort()
        assert all(q[0] - p[1] >= ACROSS - 1e-6 for p, q in pairwise(row))


def test_a_chain_is_straight_and_a_shortcut_passes_by() -> None:
    placed = place([(50.0, 20.0)] * 4, [(0, 1), (1, 2), (2, 3), (0, 3)])
    xs = [x for x, _ in placed.centres]
    assert xs[1] == pytest.approx(xs[2], abs=1)
    shortcut = placed.routes[3]
    assert len(shortcut) == 6 and abs(shortcut[2][0] - xs[1]) > 25


def test_hostile_names_stay_text() -> None:
    diagram = Diagram(HOSTILE)
    first = diagram.add(Box(HOSTILE, (HOSTILE * 1000,)), iter(()))
    diagram.add(Box("end", (), "edge"), iter((first, first)))
    assert diagram.arrows == [(0, 1)]
    svg = diagram_svg(diagram)
    texts = [t.text for t in ElementTree.fromstring(svg).iter(f"{SVG}text")]
    assert texts[0] == 'a"]; <b>&?[31m\\' and "\x1b" not in svg and len(svg) < 5000
    dot = dot_text(diagram)
    assert r'label="a\"]; <b>&?[31m\\\n' in dot and dot.count("\n") == 6


def test_a_picture_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    target = tmp_path / "file" / "g.svg"
    refused = CliRunner().invoke(app, ["inspect", str(DIGITS), "--svg", str(target)])
    assert refused.exit_code == 2 and f"cannot write {target}" in refused.stderr


NAMES = (b"SomeOp", b"in_put", b"resultz", b"axis_0", b"node_1", b"netnet")


@pytest.mark.parametrize("name", NAMES)
def test_names_that_are_not_utf8_are_shown(name: bytes, tmp_path: Path) -> None:
    info, FLOAT = onnx.helper.make_tensor_value_info, onnx.TensorProto.FLOAT
    call = onnx.helper.make_node("SomeOp", ["in_put", "missing"], ["resultz"], "node_1")
    x, y = info("in_put", FLOAT, ["axis_0", 2]), info("resultz", FLOAT, None)
    graph = onnx.helper.make_graph([call], "netnet", [x], [y])
    data = onnx.helper.make_model(graph).SerializeToString()
    path = tmp_path / "m.onnx"
    path.write_bytes(data.replace(name, b"\xff" + name[1:]))
    assert "\\xff" + name[1:].decode() in ingot("inspect", path).stdout
