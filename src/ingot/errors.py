"""Every exception Ingot raises on purpose, one tree; the command line turns `exit_code` into its status.

    IngotError                 something a caller can act on
      InputError          2    bad model or bad arguments
        UnsupportedError  2    valid, but Ingot has no definition, generator or spelling for it
        ModelError        2    the model file contradicts itself or its format
        ShapeError        2    shapes or types of one node do not fit each other
      ToolchainError      3    a compiler, linker or emulator is missing or failed
      MismatchError       1    the compiled code and its reference disagree
      InternalError      70    a verifier or an evaluator caught Ingot's own mistake: please report it

A message of InputError names node, op and shapes where there are any, and says what would help (`remedy`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar


class IngotError(Exception):
    """The base class of all errors that Ingot raises on purpose; any other exception is a bug in Ingot."""

    exit_code: ClassVar[int] = 1


class InputError(IngotError):
    """Bad model or bad arguments.

    >>> print(InputError("weights have 3 axes", node="conv1", op="Conv", shapes=[(1, 3, 8, 8), (4, 3, 3)],
    ...                  remedy="give them as [M, C/group, kH, kW]"))
    node 'conv1' (Conv), shapes 1x3x8x8, 4x3x3: weights have 3 axes; give them as [M, C/group, kH, kW]
    """

    exit_code: ClassVar[int] = 2

    def __init__(
        self,
        message: str,
        *,
        node: str = "",
        op: str = "",
        shapes: list[tuple[int | str, ...]] | None = None,
        remedy: str = "",
    ) -> None:
        self.message, self.node, self.op, self.shapes, self.remedy = message, node, op, shapes or [], remedy
        super().__init__(self._text())

    def reword(self, words: Callable[[str], str]) -> None:
        """Put message and remedy in other words."""
        self.message, self.remedy = words(self.message), words(self.remedy)
        self.args = (self._text(),)

    def _text(self) -> str:
        who = f"node '{self.node}'" + (f" ({self.op})" if self.op else "") if self.node else self.op
        dims = ", ".join("x".join(map(str, shape)) or "scalar" for shape in self.shapes)
        where = ", ".join(part for part in (who, f"shapes {dims}" if dims else "") if part)
        text = f"{where}: {self.message}" if where else self.message
        return f"{text}; {self.remedy}" if self.remedy else text


class UnsupportedError(InputError):
    """A valid request that Ingot does not support; nothing is ever skipped silently."""


class ModelError(InputError):
    """The model contradicts itself or its format."""


class ShapeError(InputError):
    """Shapes or element types of one node do not fit each other."""


class ToolchainError(IngotError):
    """A compiler, linker, archiver or emulator is missing or failed."""

    exit_code: ClassVar[int] = 3


class MismatchError(IngotError):
    """Compiled code and reference disagree beyond the tolerance."""

    exit_code: ClassVar[int] = 1


class InternalError(IngotError):
    """Ingot contradicts itself: raised by the verifiers of the levels, never by a bad model.

    The exit code is EX_SOFTWARE of sysexits.h, so that scripts tell our bugs from theirs.
    """

    exit_code: ClassVar[int] = 70
