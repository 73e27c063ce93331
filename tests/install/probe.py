"""What an installed Ingot must do, run by the Python that has it: nothing of this tree is imported.

    PYTHON probe.py formats FOLDER      # compile and run the models of `models.py`
    PYTHON probe.py EXTRA FOLDER        # what `pip install "ingot[EXTRA]"` promises
    PYTHON probe.py without FOLDER      # without the extras: one error that names each

FOLDER is what `models.write_models` filled, with digits.onnx beside. The status is 0 if all is as it must be.
"""

from __future__ import annotations

import subprocess
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

FRAMEWORKS = {
    *("tensorflow", "keras", "tf_keras", "torch", "jax", "caffe2", "tflite_runtime", "ai_edge_litert"),
    *("tf2onnx", "onnxruntime"),
}
CAFFE2 = ("x,float,[1,4]",)
COMMANDS = {
    "verify": ("verify", "digits.onnx"),
    "image": ("run", "digits.onnx", "--image", "picture.png"),
    "keras": ("compile", "net.keras", "-o", "from-keras"),
    "tflite": ("verify", "net.tflite"),
    "report": ("report", "digits.onnx", "-o", "report.html", "--no-time"),
}


def ingot(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the installed command line in the folder."""
    command = [sys.executable, "-m", "ingot", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


class Decoys:
    """Every framework seems to be installed; `imported` are those that somebody imports."""

    def __init__(self) -> None:
        self.imported: set[str] = set()

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """What the import system asks: it looks for modules, and whether there are any."""
        return ModuleSpec(name, self) if name.partition(".")[0] in FRAMEWORKS else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        self.imported.add(module.__name__)


def formats(folder: Path) -> None:
    """Every format compiles and runs in this process; all frameworks seem to be there, none is imported."""
    decoys = Decoys()
    sys.meta_path.insert(0, decoys)  # type: ignore[arg-type]
    import numpy as np

    import ingot

    assert not Path(ingot.__file__).is_relative_to(Path(__file__).parent.parent.parent / "src"), (
        ingot.__file__
    )
    x = np.array([[1, -2, 3, -4]], np.float32)
    names = ["net.tflite", "net.pb", "saved", "caffe2"]
    if "h5py" in sys.modules or _has("h5py"):
        names += ["net.keras", "net.h5"]
    for name in names:
        options = {"model_inputs": CAFFE2} if name == "caffe2" else {}
        bundle = ingot.compile(folder / name, name="net", **options)
        (given,) = bundle.manifest["inputs"]
        (y,) = bundle.run({given["name"]: x}).values()
        assert y.shape == (1, 3) and np.isfinite(y).all(), name
    digits = ingot.compile(folder / "digits.onnx")
    (scores,) = digits.run({"image": np.zeros((1, 1, 8, 8), np.float32)}).values()
    assert abs(float(scores.sum()) - 1) < 1e-5
    assert not decoys.imported, f"frameworks were imported: {sorted(decoys.imported)}"
    print("compiled and ran", *names, "digits.onnx")


def _has(module: str) -> bool:
    from importlib.util import find_spec

    return find_spec(module) is not None


def extra(name: str, folder: Path) -> None:
    """The command that an extra is for succeeds."""
    done = ingot(folder, *COMMANDS[name])
    assert done.returncode == 0, done.stdout + done.stderr
    if name in ("verify", "tflite"):
        assert "onnxruntime" in done.stdout + done.stderr or "litert" in done.stdout + done.stderr, (
            done.stdout
        )


def without(folder: Path) -> None:
    """Each command says in one line, without a traceback, which extra it needs; verify goes on with less."""
    for name, command in COMMANDS.items():
        done = ingot(folder, *command)
        assert "Traceback" not in done.stderr, done.stderr
        named = "verify" if name == "tflite" else name
        assert f"ingot[{named}]" in done.stderr or f"ingot[{name}]" in done.stderr, (
            name,
            done.stdout,
            done.stderr,
        )


def main() -> None:
    """Do what the first argument names, in the folder that the second one names."""
    what, folder = sys.argv[1], Path(sys.argv[2]).resolve()
    match what:
        case "formats":
            formats(folder)
        case "without":
            without(folder)
        case _:
            extra(what, folder)


if __name__ == "__main__":
    main()
