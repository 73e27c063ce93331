"""`ingot.compile` and `ingot.load`: models become bundles, and directories do again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ingot.api.subjects import Model, Module, opened, options_of
from ingot.bundle.bundle import Bundle, load
from ingot.bundle.several import Collection
from ingot.driver import compile_several as compiled_together
from ingot.driver import compile_with
from ingot.errors import InputError
from ingot.options import OptionFields, Package

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["compile", "compile_several", "load"]


def compile(
    model: Model | Module,
    example_inputs: object = None,
    *,
    dynamic_shapes: object = None,
    package: Package | None = None,
    prebuilt: bool = False,
    **options: Unpack[OptionFields],
) -> Bundle:
    """Compile a model to a bundle: a path, bytes, an `onnx.ModelProto`, or an object of a framework.

    torch.onnx.export traces a PyTorch module with `example_inputs` (a tensor, a tuple of tensors, or a dict
    by names), and with `dynamic_shapes`, whose sizes `define` may set. A Keras model is read as it saves
    itself. A fitted scikit-learn model is converted by skl2onnx, with `example_inputs` (`X[:1]`) if its
    features are not all float32. `package` makes a package for an
    ecosystem; `prebuilt` ships the objects of a kernel module. The options are the fields of `ingot.Options`.
    Raises InputError for a model that cannot be compiled, and ToolchainError if a compiler fails.
    """
    wanted = options_of("compile", options)
    if prebuilt and package != "kbuild":
        raise InputError("--prebuilt says how a kernel module is made", remedy="add --package kbuild")
    source = opened(model, example_inputs, dynamic_shapes)
    if package is None:
        return compile_with(source, wanted)
    from ingot.packaging.kbuild import kbuild
    from ingot.packaging.project import project

    if package == "kbuild":
        return kbuild(source, wanted, compile_with, prebuilt)
    return project(source, wanted, compile_with, package)


def compile_several(models: Sequence[Model], **options: Unpack[OptionFields]) -> Collection:
    """Compile several models to one bundle, in which they share equal functions.

    The function of each network has the name of its file, and the bundle is called `name`. One arena, as
    large as the largest network needs, serves all of them. The options are those of `compile`, and apply to
    all models. Raises the errors of `compile`, and InputError for models with equal names.
    """
    wanted = options_of("compile_several", options)
    return compiled_together([opened(model) for model in models], wanted)
