"""A bundle's runs in a row: what one leaves, the next one finds. Made by `Bundle.session`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ingot.bundle.binding import Manifest, State, checked, opened, presented, shape, trim
from ingot.bundle.containers import packed, unpacked
from ingot.bundle.run import NOTHING, Runner, check
from ingot.errors import InputError
from ingot.formula.expr import Array


class Session:
    """The state of one caller, beside the bundle that all callers share.

    >>> session = bundle.session()                      # doctest: +SKIP
    >>> first = session.run({"x": chunk})               # doctest: +SKIP
    >>> saved = session.copy()                          # doctest: +SKIP
    """

    def __init__(self, runner: Runner, manifest: Manifest, state: State | None = None) -> None:
        self._runner, self._manifest, self._state = runner, manifest, state

    def run(self, inputs: Mapping[str, Any], out: Mapping[str, Array] = NOTHING) -> dict[str, Any]:
        """One inference; InputError as of `Bundle.run`, and the state is then as it was before."""
        if out and (self._manifest.get("ports") or {}).get("outputs"):
            raise InputError("out: some outputs of the model are no tensors", remedy="leave out=... away")
        given = packed(self._manifest, inputs)
        status, outputs, state = self._runner.step(given, self._state, out)
        check(self._manifest, status)
        self._state = state
        return {**unpacked(self._manifest, presented(trim(self._manifest, given, outputs))), **out}

    @property
    def state(self) -> State:
        """Copies of the state's members, by the model's names."""
        if self._state is None:
            self._state = self._runner.start()
        members = self._manifest["state"]
        return presented({t["name"]: opened(t, self._state[t["name"]].copy(), shape(t, {})) for t in members})

    @state.setter
    def state(self, arrays: Mapping[str, Array]) -> None:
        """Another content of all members. InputError where names, types or shapes are not the state's."""
        members = self._manifest["state"]
        unknown = arrays.keys() - {t["name"] for t in members}
        if unknown:
            raise InputError(f"unknown states {sorted(unknown)}; it has {[t['name'] for t in members]}")
        self._state = {t["name"]: checked(t, arrays, {}).copy() for t in members}

    def reset(self) -> None:
        """Back to the start."""
        self._state = None

    def copy(self) -> Session:
        """A session that goes on from here by itself."""
        return Session(self._runner, self._manifest, self._state)
