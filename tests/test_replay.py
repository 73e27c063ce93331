"""Replays see a change that is there, say in which function it is, and see none that is not."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from rich.console import Console

from tests.replay.__main__ import Replay, Report, main, replayed
from tests.replay.compare import changes
from tests.replay.corpus import Model, models
from tests.replay.trees import HERE, Emitter, Store, Tree, tree_of

TARGETS = ("c99", "x86-64-v3")
BEFORE = """\
/* a */
static void a(void) {
    x = 1;
}

static inline int b(void) { return 1; }
static inline int c(void) { return 1; }
"""


def few() -> list[Model]:
    """Everything that the report may say of a model: nothing, and several functions."""
    return [m for m in models(0) if m.name in ("overhead", "lenet5")]


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    """A copy of the compiler that counts what its kernels compute in other words."""
    root = tmp_path_factory.mktemp("changed")
    shutil.copytree(HERE / "src", root / "src", ignore=shutil.ignore_patterns("__pycache__"))
    path = root / "src" / "ingot" / "emit" / "source.py"
    text = path.read_text()
    assert text.count(" MACs") == 1
    path.write_text(text.replace(" MACs", " multiply-adds"))
    return Tree(root)


def lines_of(base: Tree, head: Tree, store: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What the report says."""
    report = Report(Console(), 20)
    for found in replayed(Replay(base, head, Store(store)), few(), TARGETS, 2):
        report.add(found)
    report.end()
    return capsys.readouterr().out.splitlines()


def test_a_change_is_reported_where_it_is(
    changed: Tree, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = lines_of(changed, Tree(HERE), tmp_path, capsys)
    assert lines[-1] == "replay: 2 of 4 texts differ"
    head = next(line for line in lines if line.startswith("lenet5 [c99 x86-64-v3]: "))
    assert "lenet5_Conv_0 changed" in head and "lenet5_Gemm_11 changed" in head
    assert "MaxPool" not in head and not any(line.startswith("overhead") for line in lines)
    assert "    -/* Conv_0 + Relu_1; 117600 multiply-adds" in lines
    assert lines.count("    +/* Conv_0 + Relu_1; 117600 MACs") == 1  # for both targets


def test_equal_sources_are_identical(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert lines_of(Tree(HERE), Tree(HERE), tmp_path, capsys) == ["replay: identical (4 texts)"]


def test_what_was_emitted_is_remembered(
    changed: Tree, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = lines_of(changed, Tree(HERE), tmp_path, capsys)

    def refuse(self: Emitter) -> None:
        raise AssertionError("a process is started")

    monkeypatch.setattr(Emitter, "_start", refuse)
    assert lines_of(changed, Tree(HERE), tmp_path, capsys) == first


def test_sources_that_do_not_start_are_an_error(
    changed: Tree, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = Tree(tmp_path / "broken")
    shutil.copytree(changed.root, broken.root)
    (broken.root / "src" / "ingot" / "driver.py").write_text("import nothing_of_this_name\n")
    with pytest.raises(SystemExit, match="exit code 1"):
        lines_of(broken, Tree(HERE), tmp_path / "store", capsys)


def test_the_command_compares_with_a_commit(capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["HEAD", "--model", "overhead", "--target", "c99"])
    said = capsys.readouterr().out.splitlines()[-1]
    assert said == ("replay: 1 of 1 texts differ" if status else "replay: identical (1 texts)")


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["no-such-commit"], "no sources of 'no-such-commit'"),
        (["HEAD", "--target", "z80"], "unknown targets"),
        (["HEAD", "--model", "nobody"], "no model is called 'nobody'"),
    ],
)
def test_mistakes_are_named(arguments: list[str], message: str) -> None:
    with pytest.raises(SystemExit, match=message):
        main(arguments)


@pytest.mark.parametrize(
    "after, found",
    [
        (BEFORE, []),
        (BEFORE.replace("x = 1", "x = 2"), [("a", "changed")]),
        (BEFORE.replace("int b", "int d"), [("b", "gone"), ("d", "new")]),
        (BEFORE.replace("c(void) { return 1", "c(void) { return 2"), [("c", "changed")]),
    ],
)
def test_changes_are_those_of_functions(after: str, found: list[tuple[str, str]]) -> None:
    assert [(c.name, c.kind) for c in changes(BEFORE, after)] == found


def test_another_order_is_a_change() -> None:
    b, c = BEFORE.splitlines()[-2:]
    swapped = BEFORE.replace(f"{b}\n{c}", f"{c}\n{b}")
    assert [c.kind for c in changes(BEFORE, swapped)] == ["moved"]


def test_models_have_names_of_their_own() -> None:
    names = [m.name for m in models()]
    assert len(names) == len(set(names)) > 400
    with tree_of("HEAD") as tree:
        assert (tree.root / "src" / "ingot" / "driver.py").exists()
