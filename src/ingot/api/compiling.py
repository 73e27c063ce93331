"""`ingot.compile` and `ingot.load`: models become bundles, and directories do again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from ingot.api.subjects import Model, Module, opened, options_of
from ingot.bundle.bundle import Bundle, load
from ingot.bundle.several import Collection
from ingot.driver import compile_several as compiled_together
from ingot.driver import compile_with
from ingot.errors import InputError
from ingot.frontends.canonical import traced
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
    """Compile a model (a path, bytes, an `onnx.ModelProto`, or a module of PyTorch's) to a bundle.

    A module is traced with `example_inputs` (a tensor, a tuple of them, or a dict by names) by
    torch.onnx.export, which takes `dynamic_shapes` too: sizes that `define` may then speak of. `package`
    adds what the users of an ecosystem build it with; `prebuilt` ships objects of a kernel module. The
    options are the fields of `ingot.Options`. Raises InputError for a model that cannot be compiled,
    ToolchainError where a compiler fails.
    """
    wanted = options_of("compile", options)
    if prebuilt and package != "kbuild":
        raise InputError("--prebuilt says how a kernel module is made", remedy="add --package kbuild")
    source = traced(opened(cast("Model", model)), example_inputs, dynamic_shapes)
    if package is None:
        return compile_with(source, wanted)
    from ingot.packaging.kbuild import kbuild
    from ingot.packaging.project import project

    if package == "kbuild":
        return kbuild(source, wanted, compile_with, prebuilt)
    return project(source, wanted, compile_with, package)


def compile_several(models: Sequence[Model], **options: Unpack[OptionFields]) -> Collection:
    """Compile several models to one bundle: functions that they have in common are there once.

    Each is called by its file's name, the bundle by `name`; one arena, as large as the largest asks for,
    serves all of them. The options are those of `compile`, for all models alike. Raises what `compile` does,
    and InputError for models of one name.
    """
    wanted = options_of("compile_several", options)
    return compiled_together([opened(model) for model in models], wanted)
