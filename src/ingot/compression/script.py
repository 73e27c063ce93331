"""A user's training script. In: a Python file; out: its functions, checked.

    train(model, steps)  trains the network in place for that many optimiser steps
    evaluate(model)      how good it is: a number, the larger the better
    model()              optional: the network, a torch.nn.Module with the weights that the ONNX file has
    prepare(model)       optional: called once, before anything changes

Called by `finetune`.
"""

from __future__ import annotations

import importlib.util
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ingot.errors import IngotError, InputError
from ingot.files import read_text

NEEDED, OPTIONAL = ("train", "evaluate"), ("model", "prepare")


@dataclass(frozen=True, slots=True)
class Script:
    """The functions of a script. What they raise becomes an InputError that names script and function."""

    path: Path
    functions: dict[str, Callable[..., Any]]

    @property
    def has_model(self) -> bool:
        """Whether the script makes the network itself."""
        return "model" in self.functions

    def model(self) -> Any:
        """The network. Raises InputError if it is no torch.nn.Module."""
        import torch

        made = self._call("model")
        if not isinstance(made, torch.nn.Module):
            raise InputError(f"{self.path}: model() returns {type(made).__name__}, not a torch.nn.Module")
        return made

    def prepare(self, model: Any) -> None:
        """Let the script look at the network before anything changes, if it wants to."""
        if "prepare" in self.functions:
            self._call("prepare", model)

    def train(self, model: Any, steps: int) -> None:
        """Train in place."""
        model.train()
        self._call("train", model, steps)

    def evaluate(self, model: Any) -> float:
        """How good the network is. Raises InputError if the answer is no number."""
        import torch

        model.eval()
        with torch.no_grad():
            found = self._call("evaluate", model)
        try:
            score = float(found)
        except (TypeError, ValueError):
            score = math.nan
        if math.isnan(score):
            raise InputError(f"{self.path}: evaluate() returns {found!r}, not a number")
        return score

    def _call(self, name: str, *arguments: Any) -> Any:
        try:
            return self.functions[name](*arguments)
        except IngotError:
            raise
        except Exception as error:
            raise InputError(f"{self.path}: {name}() raised {type(error).__name__}: {error}") from error


def load_script(path: Path) -> Script:
    """Run the file and take its functions. Raises InputError for what is missing, PyTorch included."""
    read_text(path)  # the loader would wait for a pipe
    if importlib.util.find_spec("torch") is None:
        raise InputError(
            "the script of --finetune or --script needs PyTorch",
            remedy="install Ingot's extra: pip install 'ingot[train]'",
        )
    spec = importlib.util.spec_from_file_location("ingot_training_script", path)
    if spec is None or spec.loader is None:
        raise InputError(f"cannot read {str(path)!r}: --finetune takes a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    sys.path.insert(0, str(path.resolve().parent))
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise InputError(f"{path}: {type(error).__name__}: {error}") from error
    finally:
        sys.path.pop(0)
    found = {n: getattr(module, n) for n in (*NEEDED, *OPTIONAL) if callable(getattr(module, n, None))}
    if missing := [f"{name}()" for name in NEEDED if name not in found]:
        raise InputError(f"{path}: has no {', '.join(missing)}", remedy="see docs/compression.md")
    return Script(path, found)
