"""What the files of one bundle share: program, plan, the options that show in C, and the names given out.

Made by `bundle.write`; every module of `emit` reads it. Names of the file scope, of the macros and of the
weights struct are each handed out by a scope of their own, so that no name of a model can meet one of ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import zip_longest

from ingot.emit.digest import SelfTest
from ingot.emit.names import LONGEST, Scope, comment, is_identifier
from ingot.errors import InputError
from ingot.formula.expr import Param, Tensor, text
from ingot.graph.ir import Scale
from ingot.loops.alike import ENCODED, General, generals
from ingot.loops.operations import minor
from ingot.loops.priority import PRIORITIES, Priority
from ingot.loops.program import Kernel, Program, Step, calls, calls_routines
from ingot.loops.program_passes.parallel import is_parallel
from ingot.memory.plan import Plan
from ingot.memory.tree import padded
from ingot.options import Api
from ingot.targets.record import Target

ERRORS = {"ERR_NULL": -1, "ERR_ALIGN": -2, "ERR_INDEX": -3, "ERR_CAPACITY": -4, "ERR_WEIGHTS": -5}
STOPPED = {"ERR_STOPPED": -6}
"""Of bundles that pause."""
SYMBOLS = (
    *("config", "symbols", "weights", "weights_data", "direct", "instance", "run"),
    *(
        "constructor",
        "destructor",
        "get_address_for_argument",
        "get_address_for_result",
        "parallel_for",
        "serial",
        "profile",
        "pause",
    ),
    *("selftest", "state", "state_init", "state_reset", "get_state", "arena_size", "own_state"),
    *("assert_int_is_32_bits", "assert_float_is_32_bits", "assert_double_is_64_bits"),
)
"""Our own names of the file scope, each behind `NAME_`."""
MACROS = (
    *("H", "ABI", "MODEL_SHA256", "ARENA_SIZE", "ARENA_ALIGN", "STACK_MAX", "OK", *ERRORS, *STOPPED),
    *("WEIGHTS_SIZE", "WEIGHTS_ALIGN", "WEIGHTS_SECTION", "STRING_BYTES", "STATE"),
    *("SELFTEST_SIZE", "SELFTEST_LAYERS", "SELFTEST_NAMES"),
    *("CONSTANT_MEM_SIZE", "MUTABLE_MEM_SIZE", "ACTIVATIONS_MEM_SIZE", "MEM_ALIGN"),
)
"""Our own macros, each behind `NAME_` in capitals."""


@dataclass(frozen=True, slots=True)
class Arena:
    """RAM that the caller brings: the entry's parameter and local pointer for it, its macro behind `NAME_`,
    the first of the plan's addresses that lie in it; of a region its section, and the array of NAME_memory.c.
    """

    parameter: str
    local: str
    macro: str
    start: int
    bytes: int
    section: str = ""
    symbol: str = ""


@dataclass(frozen=True, slots=True)
class Part:
    """Constants that lie together: the struct of them and the object `NAME_data`, its macros, the local
    pointer to it; of a region of flash its name and section.
    """

    name: str
    macro: str
    local: str
    constants: tuple[Tensor, ...]
    section: str = ""
    region: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """Bundles that are one file of C and share functions: its name and theirs, the names of functions given
    out, what C has in the place of kernels that several call, and where each puts its tensors.
    """

    name: str
    networks: tuple[str, ...]
    scope: Scope
    generals: Mapping[Kernel, General]
    plans: tuple[Plan, ...]

    def function(self, kernel: Kernel) -> str:
        """The C name of a printed kernel."""
        return self.scope.name(kernel, f"{self.name}_{kernel.name}", "kernel")


def begins(names: Iterable[str]) -> tuple[str, ...]:
    """What the macros and constants of the headers of bundles so called begin with."""
    return tuple(f"{name.upper()}_" for name in names)


@dataclass
class Unit:
    """One bundle to be printed.

    `external`: the caller brings the weights; `is_threaded`: the caller may bring threads; `is_profiled`: the
    caller brings a clock; `pauses`: the caller is called now and then; `rename` gives inputs, outputs and
    states their C names; `scales`: what their integers stand for. A variant has the struct of its state from
    the bundle `variant_of`. `flash`: the regions' constants, in the program's order, and how large they are.
    `selftest`: what a run gave when the bundle was compiled. `priority`: what code may cost. `group`: the
    bundles that it is among.
    """

    program: Program
    plan: Plan
    target: Target
    name: str
    provenance: tuple[str, ...] = ()
    sha256: str = ""
    api: Api = "direct"
    external: bool = False
    is_threaded: bool = False
    is_profiled: bool = False
    pauses: bool = False
    rename: Mapping[str, str] = field(default_factory=dict)
    scales: Mapping[str, Scale] = field(default_factory=dict)
    variant_of: str = ""
    flash: Mapping[str, tuple[tuple[Tensor, ...], int]] = field(default_factory=dict)
    selftest: SelfTest | None = None
    priority: Priority = PRIORITIES["speed"]
    group: Group | None = None
    scope: Scope = field(default_factory=Scope)
    members: Scope = field(default_factory=Scope)
    macros: Scope = field(default_factory=Scope)
    kept: Scope = field(default_factory=Scope)
    constants: frozenset[Tensor] = frozenset()
    states: frozenset[Tensor] = frozenset()

    def __post_init__(self) -> None:
        """Name what the header shows before anything else, so that its names are the plainest."""
        self.constants = frozenset(self.program.constants)
        self.states = frozenset(self.program.members)
        own = {"state", "i", "a", "w"}
        self.members, self.kept = Scope(macros=self.capitals), Scope(own, self.capitals)
        self.scope = Scope(
            {self.name, *(f"{self.name}_{s}" for s in SYMBOLS), "arena", "weights", *own}, self.capitals
        )
        for a in self.arenas:
            self.scope.take((a.parameter, a.local, a.symbol))
        for p in self.parts:
            self.scope.take((p.name, f"{p.name}_data", p.local))
        self.scope.take(("parallel_for", "user", "task", "context"))
        self.scope.take(MACROS)  # `static` makes offset macros NAME_x of the arguments
        self._rename((*self.edge, *self.program.members))
        arguments = [*map(self.extent, self.program.params), *map(self.argument, self.mutable)]
        self.macros = Scope((*MACROS, *arguments))

    def _rename(self, edge: tuple[Tensor, ...]) -> None:
        """Give the names of the user's choice."""
        unknown = self.rename.keys() - {t.name for t in edge}
        if unknown:
            raise InputError(
                f"cannot rename {sorted(unknown)}", remedy=f"the model has {[t.name for t in edge]}"
            )
        for t in edge:
            wanted = self.rename.get(t.name)
            scopes = [self.scope, *([self.kept] if t in self.states else [])]
            if wanted is not None and not (is_identifier(wanted) and all(s.give(t, wanted) for s in scopes)):
                raise InputError(f"{t.name!r} cannot be called {wanted!r}: not a free C identifier")

    @property
    def owner(self) -> str:
        """The bundle that the public names belong to."""
        return self.variant_of or self.name

    @property
    def upper(self) -> str:
        return self.name.upper()

    @property
    def capitals(self) -> tuple[str, ...]:
        """What the macros and constants of all headers begin with that the file of C includes."""
        names = (self.owner,) if self.group is None else (self.group.name, *self.group.networks)
        return begins(names)

    @property
    def statuses(self) -> dict[str, int]:
        """What the entry may return but OK."""
        return ERRORS | (STOPPED if self.pauses else {})

    @property
    def errors(self) -> dict[str, str]:
        """The C constant of each error name."""
        return {e: f"{self.upper}_{e}" for e in self.statuses}

    @property
    def entry(self) -> str:
        """The function with the direct convention: public, or behind the other conventions."""
        return self.name if self.api == "direct" else f"{self.name}_direct"

    @property
    def arenas(self) -> tuple[Arena, ...]:
        """What the caller brings for the plan's addresses: one, or of several regions each that holds any."""
        if not self.plan.regions:
            return (Arena("arena", "a", "ARENA", 0, self.plan.arena_bytes),)
        return tuple(
            Arena(
                f"arena_{r.name}",
                f"a_{r.name}",
                f"ARENA_{r.name.upper()}",
                r.start,
                r.bytes,
                f".ingot.{r.name}",
                f"{self.name}_arena_{r.name}",
            )
            for r in self.plan.regions
            if r.bytes
        )

    def located(self, offset: int) -> tuple[str, int]:
        """The local pointer to the arena in which an offset of the plan lies, and how far from it."""
        arena = next(a for a in reversed(self.arenas) if a.start <= offset)
        return arena.local, offset - arena.start

    @property
    def own_state(self) -> str:
        """The struct that NAME_memory.c defines."""
        return f"{self.name}_own_state"

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The structs of constants: one of all, or one for each region of flash that holds any."""
        if not self.flash:
            part = Part(f"{self.name}_weights", f"{self.upper}_WEIGHTS", "w", self.program.constants)
            return (part,) if self.has_weights else ()
        return tuple(
            Part(
                f"{self.name}_weights_{name}",
                f"{self.upper}_WEIGHTS_{name.upper()}",
                f"w_{name}",
                constants,
                f".ingot.{name}",
                name,
            )
            for name, (constants, _) in self.flash.items()
            if constants
        )

    @cached_property
    def part_of(self) -> dict[Tensor, Part]:
        """The struct in which each constant is a member."""
        return {t: part for part in self.parts for t in part.constants}

    @property
    def has_tasks(self) -> bool:
        """Whether there is anything to hand to the caller's `parallel_for`."""
        return any(is_parallel(k) for k in self.program.kernels)

    @cached_property
    def numbers(self) -> dict[Step, int]:
        """The calls of kernels in their order."""
        return {call: i for i, call in enumerate(calls(self.program.steps))}

    @property
    def has_weights(self) -> bool:
        """Whether there is a weights struct: external ones always have their tag."""
        return self.external or bool(self.program.constants)

    def constant(self, t: Tensor) -> str:
        """The member of the weights struct that holds a constant."""
        return self.members.name(t, t.name, "c")

    def argument(self, t: Tensor) -> str:
        """The entry's parameter for an input or output."""
        return self.scope.name(t, t.name, "x")

    def member(self, t: Tensor) -> str:
        """The member of the state struct: the same in every variant of a bundle."""
        return self.kept.name(t, t.name, "s")

    def extent(self, p: Param) -> str:
        """The entry's parameter for a run-time extent."""
        return self.scope.name(p, p.name, "n")

    def count_macro(self, t: Tensor) -> str:
        """`LENET_IMAGE_COUNT`."""
        stem = self.argument(t).upper()[: LONGEST - len("_COUNT") - 4]
        return f"{self.upper}_{self.macros.name(t, f'{stem}_COUNT', 'x')}"

    def scale_macros(self, t: Tensor) -> tuple[str, str]:
        """`LENET_IMAGE_SCALE`, `LENET_IMAGE_ZERO_POINT`."""
        stem = self.argument(t).upper()[: LONGEST - len("_ZERO_POINT") - 4]
        parts = ("SCALE", "ZERO_POINT")
        scale, zero = (f"{self.upper}_{self.macros.name((t, p), f'{stem}_{p}', 'x')}" for p in parts)
        return scale, zero

    @cached_property
    def generals(self) -> dict[Kernel, General]:
        """What C has in the place of kernels that differ in numbers only."""
        if self.group is not None:
            return dict(self.group.generals)
        alike = self.priority.alike or self.target.shares
        if alike:
            return generals(self.program.kernels)
        hurried = (k for k in self.program.kernels if k not in self.unhurried and ENCODED in k.generators)
        return {**generals(hurried, differ="lengths"), **generals(self.unhurried)}

    @cached_property
    def unhurried(self) -> tuple[Kernel, ...]:
        """Kernels that need not be fast, on targets that have routines, where flash is short: those that call
        these, and those that take little of the program's time.
        """
        cheap = minor(self.program) if self.target.routines else ()
        return tuple(k for k in self.program.kernels if k in cheap or calls_routines(k))

    def printed(self, kernel: Kernel) -> Kernel:
        """The kernel whose function is called for one."""
        return self.generals[kernel].kernel if kernel in self.generals else kernel

    def served(self, kernel: Kernel) -> Iterable[Kernel]:
        """The kernels in whose place a printed one is called."""
        return next((g.given for g in self.generals.values() if g.kernel is kernel), (kernel,))

    def is_unhurried(self, kernel: Kernel) -> bool:
        """Whether a printed kernel need not be fast."""
        return calls_routines(kernel) or all(k in self.unhurried for k in self.served(kernel))

    def aliasing(self, kernel: Kernel) -> frozenset[Tensor]:
        """The parameters of a printed kernel that some call binds to the same bytes."""
        plans = (self.plan,) if self.group is None else self.group.plans
        return frozenset(
            p
            for k in self.served(kernel)
            for p, own in zip(kernel.parameters, k.parameters, strict=True)
            if any(own in plan.aliasing(k) for plan in plans)
        )

    def function(self, kernel: Kernel) -> str:
        """The C name of a kernel; the bundle's name in front keeps it apart from every library's."""
        printed = self.printed(kernel)
        if self.group is not None:
            return self.group.function(printed)
        return self.scope.name(printed, f"{self.name}_{printed.name}", "kernel")

    @property
    def edge(self) -> tuple[Tensor, ...]:
        return (*self.program.inputs, *self.program.outputs)

    @property
    def state_layout(self) -> dict[Tensor, int]:
        """The members of the state struct in its order, and the bytes before each.

        The order is that of alignment, greatest first: no compiler puts anything between them.
        """
        out, at = {}, 0
        for t in sorted(self.program.members, key=lambda t: -_alignment(t)):
            out[t] = at
            at += max(t.count, 1) * t.type.bytes
        return out

    @property
    def state_bytes(self) -> int:
        """The size of all members; the struct may end with a few bytes more."""
        return sum(max(t.count, 1) * t.type.bytes for t in self.program.members)

    @property
    def state_offset(self) -> int:
        """Where the state struct stands in Glow's mutable memory: behind inputs and outputs."""
        return sum(padded(t.bytes) for t in self.edge)

    @cached_property
    def mutable(self) -> dict[Tensor, int]:
        """Glow's mutable memory: the offset of every input, output and member of the state."""
        out, at = {}, 0
        for t in self.edge:
            out[t] = at
            at += padded(t.bytes)
        return {**out, **{t: at + k for t, k in self.state_layout.items()}}

    @property
    def mutable_bytes(self) -> int:
        return self.state_offset + (padded(self.state_bytes) if self.program.states else 0)


def _alignment(t: Tensor) -> int:
    """What C asks for a type of so many bytes."""
    return t.type.bytes if t.type.bytes in (2, 4, 8) else 1


def describe(t: Tensor, comma: str = ",") -> str:
    """float32, 1x1x28x28; of a part of something larger: float32, 1x28x28x8 in 1x28x28x32; of bytes that hold
    smaller elements: int4, 3x5 packed in 8 bytes
    """
    if t.packed is not None:
        size = text(t.shape[0])
        shape = "x".join(map(text, t.packed.shape)) or "scalar"
        return comment(f"{t.packed.type}{comma} {shape} packed in {size} byte{'' if size == '1' else 's'}")
    within = "" if t.pitch is None else f" in {'x'.join(map(str, t.pitch))}"
    shape = "x".join(text(n).replace("$", "") for n in t.shape)
    return comment(f"{t.type}{comma} {shape or 'scalar'}{within}")


def provenance(*units: Unit) -> str:
    """The comment on top of every file; of several bundles, what each says and the others do not."""
    lines = zip_longest(*(unit.provenance for unit in units))
    told = dict.fromkeys(row for line in lines for row in line if row is not None)
    rows = ["SPDX-License-Identifier: 0BSD", "", *told]
    return "/*\n" + "\n".join(f" * {comment(r)}".rstrip() for r in rows) + "\n */"
