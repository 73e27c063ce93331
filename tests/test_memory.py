"""Memory plans: lives on the tree, overwriting, offsets, order, and the checker that proves them.

Hand-made and random programs run here in one array of bytes, by a few lines that know nothing of the planner
or of the loop evaluator, against the same program with memory of its own for every tensor.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import permutations
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import ingot
from ingot.errors import InternalError
from ingot.formula.expr import Array, Const, Expr, Lane, Load, Tensor, Var
from ingot.formula.statements import For, Let, Statement, Store
from ingot.formula.types import BOOL, FLOAT32, INT64, DType
from ingot.loops.program import Alias, Branch, Call, Copy, Kernel, Program, Repeat, Step
from ingot.loops.verify import verify_program
from ingot.memory.arena import height, place
from ingot.memory.check import check, check_overlaps, replay
from ingot.memory.inplace import overwritable
from ingot.memory.lifetimes import Span, lifetimes, profile
from ingot.memory.order import order
from ingot.memory.plan import ALIGN, Plan, plan
from ingot.memory.share import Buffer
from ingot.memory.tree import base_of, tree

N = 16  # elements of a tensor: one unit of 64 bytes


def tensor(name: str, units: int = 1, dtype: DType = FLOAT32) -> Tensor:
    return Tensor(name, dtype, (units * N,))


def scalar(name: str, dtype: DType) -> Tensor:
    return Tensor(name, dtype, ())


def loop(var: str, n: int, *body: Statement, step: int = 1) -> For:
    return For(var, Const(0), Const(n), step, body)


i = Var("i")


def across(y: Tensor, *operands: Tensor) -> Call:
    """y[i] = the sum of the operands' elements counted from their ends: nothing can be overwritten."""
    total: Expr = Const(1.0, FLOAT32)
    for x in operands:
        total = total + x[Const(x.count - 1) - i % x.count]
    kernel = Kernel(f"across_{y.name}", (*operands, y), (loop("i", y.count, Store(y[i], total)),))
    return Call(kernel, (*operands, y))


def along(y: Tensor, *operands: Tensor) -> Call:
    """y[i] = the sum of the operands' elements at i, plus 1."""
    total: Expr = Const(1.0, FLOAT32)
    for x in operands:
        total = total + x[i]
    kernel = Kernel(f"along_{y.name}", (*operands, y), (loop("i", y.count, Store(y[i], total)),))
    return Call(kernel, (*operands, y))


def program(steps: list[Step], inputs: list[Tensor], outputs: list[Tensor], **more: object) -> Program:
    return Program("p", tuple(inputs), tuple(outputs), (), tuple(steps), **more)  # type: ignore[arg-type]


def proved(p: Program) -> Plan:
    made = plan(p)
    check(made)
    return made


def spans(p: Program) -> dict[str, tuple[Span, ...]]:
    return {life.tensor.name: life.spans for life in lifetimes(p, tree(p))}


# -- lives


def test_a_chain_needs_two_neighbours() -> None:
    x, y = tensor("x"), tensor("y")
    parts = [tensor(f"t{k}", k + 1) for k in range(4)]
    steps: list[Step] = [across(b, a) for a, b in zip([x, *parts], [*parts, y], strict=True)]
    p = program(steps, [x], [y])
    assert spans(p) == {f"t{k}": ((k, k + 2),) for k in range(4)}
    assert proved(p).arena_bytes == 7 * ALIGN


def test_sides_of_a_branch_share_and_results_live_from_their_writes() -> None:
    x, c, y = tensor("x"), scalar("c", BOOL), tensor("y")
    a, b, r = tensor("a", 3), tensor("b", 3), tensor("r")
    sides = (across(a, x), across(r, a)), (across(b, x), across(r, b))
    p = program([Branch(c, *sides), across(y, r)], [x, c], [y])
    assert spans(p) == {"a": ((1, 3),), "r": ((2, 3), (4, 6)), "b": ((3, 5),)}
    made = proved(p)
    assert made.arena_bytes == made.bound_bytes == 4 * ALIGN


def test_what_only_one_side_reads_is_free_on_the_other() -> None:
    x, c, y = tensor("x"), scalar("c", BOOL), tensor("y")
    early, big = tensor("early", 2), tensor("big", 2)
    first, second = (across(big, x), across(y, big)), (across(y, early),)
    p = program([across(early, x), Branch(c, first, second)], [x, c], [y])
    assert spans(p) == {"early": ((0, 2), (4, 5)), "big": ((2, 4),)}
    assert proved(p).arena_bytes == 2 * ALIGN


def turns(name: str) -> Tensor:
    return scalar(name, INT64)


def test_what_a_loop_carries_is_dead_between_its_last_read_and_its_next_write() -> None:
    x, n, y = tensor("x"), turns("n"), tensor("y")
    carried, inner, late = tensor("carried"), tensor("inner", 2), tensor("late")
    body = (across(inner, carried), across(late, inner), Copy(late, carried))
    steps: list[Step] = [Copy(x, carried), Repeat(turns("turn"), n, None, body), Copy(carried, y)]
    p = program(steps, [x, n], [y])
    lives = spans(p)
    assert lives["carried"] == ((0, 3), (4, 6)) and lives["inner"] == ((2, 4),) and lives["late"] == ((3, 5),)
    assert lives["turn"] == ((1, 5),)
    made = proved(p)
    assert (
        made.arena_bytes == made.bound_bytes == 4 * ALIGN
    )  # the counter, inner, and late in carried's place


def test_what_is_collected_over_turns_lives_through_the_loop() -> None:
    x, n, y, turn = tensor("x"), turns("n"), tensor("y"), turns("turn")
    stacked, other = tensor("stacked", 2), tensor("other")
    part = Kernel("part", (x, stacked), (Store(stacked[Const(3)], x[Const(0)]),))
    body = (across(other, x), Call(part, (other, stacked)))
    p = program([across(tensor("before"), x), Repeat(turn, n, None, body), across(y, stacked)], [x, n], [y])
    assert spans(p)["stacked"] == ((1, 5),)
    proved(p)


def test_nested_loops() -> None:
    x, n, y = tensor("x"), turns("n"), tensor("y")
    outer, inner, local, constant = (tensor(k) for k in ("outer", "inner", "local", "constant"))
    innermost = (across(local, inner, constant), across(inner, local))
    body = (across(inner, outer), Repeat(turns("j"), n, None, innermost), Copy(inner, outer))
    steps: list[Step] = [
        across(constant, x),
        Copy(x, outer),
        Repeat(turns("i"), n, None, body),
        across(y, outer),
    ]
    p = program(steps, [x, n], [y])
    lives = spans(p)
    assert lives["constant"] == ((0, 8),)  # read in every turn of both loops
    assert lives["local"] == ((5, 7),) and lives["inner"] == ((3, 8),)
    assert lives["outer"] == ((1, 4), (7, 9))
    proved(p)


def test_scratch_of_one_call_is_apart_from_all_its_operands() -> None:
    x, y, scratch = tensor("x"), tensor("y"), tensor("scratch", 4)
    body = (loop("i", N, Store(scratch[i], x[i])), loop("i", N, Store(y[i], scratch[Const(N - 1) - i])))
    calls = [Call(Kernel("k", (x, y, scratch), body), args) for args in ((x, y, scratch),)]
    assert spans(program([*calls], [x], [y])) == {"scratch": ((0, 1),)}
    proved(program([*calls], [x], [y]))


def test_views_are_their_base() -> None:
    x, y, a, view = tensor("x"), tensor("y"), tensor("a"), tensor("view")
    p = program([across(a, x), across(tensor("b"), x), across(y, view)], [x], [y], aliases={view: Alias(a)})
    assert spans(p)["a"] == ((0, 3),)
    assert set(proved(p).offsets) == {a, p.steps[1].writes[0]}  # type: ignore[union-attr]


def part(name: str, whole: Tensor, rows: int) -> Tensor:
    """Some rows of a matrix."""
    return Tensor(name, FLOAT32, (rows, N), pitch=(whole.count // N, N))


def fill(y: Tensor, x: Tensor) -> Call:
    """y[r, i] = x[i]"""
    body = loop("r", int(y.count // N), loop("i", N, Store(y[Var("r"), i], x[i])))
    return Call(Kernel(f"fill_{y.name}", (x, y), (body,)), (x, y))


def parts() -> tuple[Program, Tensor]:
    """A whole of four rows, made by two steps with another tensor's life between them, then read."""
    x, y, between, other = tensor("x"), tensor("y"), tensor("between", 4), tensor("other")
    whole = Tensor("whole", FLOAT32, (4, N))
    first, second = part("first", whole, 1), part("second", whole, 3)
    body = loop("i", N, Store(y[i], whole[Const(3), i] + other[i]))
    last = Call(Kernel("last", (whole, other, y), (body,)), (whole, other, y))
    steps: list[Step] = [fill(first, x), across(between, x), across(other, between), fill(second, x), last]
    aliases = {first: Alias(whole), second: Alias(whole, N)}
    return program(steps, [x], [y], aliases=aliases), whole


def test_a_whole_lives_from_its_first_part_on() -> None:
    p, _ = parts()
    verify_program(p)
    assert spans(p)["whole"] == ((0, 5),)
    assert proved(p).arena_bytes == 9 * ALIGN


def test_the_replay_sees_a_part_that_is_overwritten() -> None:
    p, whole = parts()
    made = plan(p)
    between = next(t for t in made.offsets if t.name == "between")
    spoiled = replace(made, offsets={**made.offsets, between: made.offsets[whole]})
    with pytest.raises(InternalError, match="whole"):
        check_overlaps(spoiled)
    with pytest.raises(InternalError, match="is read where other content lies"):
        replay(spoiled_reader(spoiled))


def spoiled_reader(made: Plan) -> Plan:
    """The same plan of a program that reads the first part after what stood on it."""
    p = made.program
    first = next(t for t in p.aliases if t.name == "first")
    y = tensor("y2")
    body = loop("i", N, Store(y[i], first[Const(0), i]))
    step = Call(Kernel("reader", (first, y), (body,)), (first, y))
    steps = (*p.steps[:2], step, *p.steps[2:])
    return replace(made, program=replace(p, steps=steps, outputs=(*p.outputs, y)))


def test_a_whole_with_a_missing_part_is_not_written() -> None:
    p, _ = parts()
    with pytest.raises(InternalError, match="whole is read before it is written"):
        verify_program(replace(p, steps=(*p.steps[:3], p.steps[4])))


# -- overwriting


def pairs(kernel: Kernel) -> list[tuple[str, str]]:
    return sorted((x.name, y.name) for x, y in overwritable(kernel))


def grid(name: str, *shape: int) -> Tensor:
    return Tensor(name, FLOAT32, shape)


def kernel(y: Tensor, *body: Statement, reads: tuple[Tensor, ...] = ()) -> Kernel:
    return Kernel("k", (*reads, y), body)


def test_elementwise_kernels_may_overwrite_each_operand_read_in_place() -> None:
    a, b, y = tensor("a"), tensor("b"), tensor("y")
    assert pairs(along(y, a, b).kernel) == [("a", "y"), ("b", "y")]
    assert pairs(across(y, a, b).kernel) == []
    mixed = kernel(y, loop("i", N, Store(y[i], a[i] + b[Const(0)])), reads=(a, b))
    assert pairs(mixed) == [("a", "y")]


def test_vectors_and_a_rest_are_counted() -> None:
    x, y = grid("x", 3, 20), grid("y", 3, 20)
    j = Var("j")

    def stores(hi: int, first: int = 16) -> tuple[Statement, ...]:
        vectors = For("j", Const(0), Const(hi), 8, (Store(y[i, j], Load(x, (i, j), None, 8), 8),))
        rest = For("j", Const(first), Const(20), 1, (Store(y[i, j], x[i, j]),))
        return (loop("i", 3, vectors, rest),)

    assert pairs(kernel(y, *stores(16), reads=(x,))) == [("x", "y")]
    assert pairs(kernel(y, *stores(16, 15), reads=(x,))) == []  # element 15 is stored twice


def test_one_vector_is_all_there_is() -> None:
    x, y, wide, out = grid("x", 4), grid("y", 4), grid("wide", 3, 4), grid("out", 3, 4)
    zero = Const(0)
    assert pairs(kernel(y, Store(y[zero], Load(x, (zero,), None, 4), 4), reads=(x,))) == [("x", "y")]
    row = Store(out[i, zero], Load(wide, (i, zero), None, 4), 4)
    assert pairs(kernel(out, loop("i", 3, row), reads=(wide,))) == [("wide", "out")]


def test_epilogues_may_overwrite_what_they_add() -> None:
    x, s, y = grid("x", N), grid("s", 2, N), grid("y", 2, N)
    j, acc = Var("j"), Var("acc", None, FLOAT32)
    reduce = loop("k", N, Let("t", x[Var("k")]))
    body = loop("i", 2, loop("j", N, Let("acc", Const(0.0, FLOAT32)), reduce, Store(y[i, j], acc + s[i, j])))
    assert pairs(kernel(y, body, reads=(x, s))) == [("s", "y")]
    assert pairs(kernel(y, loop("k", 2, body), reads=(x, s))) == []  # everything is stored twice


@pytest.mark.parametrize("reason", ["lane", "type", "shape", "stored", "let", "shifted"])
def test_what_is_not_provably_in_place_is_left_alone(reason: str) -> None:
    x, y = tensor("x"), tensor("y")
    value: Expr = x[i]
    before: tuple[Statement, ...] = ()
    if reason == "lane":
        value = Lane(Load(x, (i // 8 * 8,), None, 8), 0)
    elif reason == "type":
        y = tensor("y", dtype=INT64)
    elif reason == "shape":
        x = tensor("x", 2)
        value = x[i]
    elif reason == "stored":
        before = (Store(x[i], Const(0.0, FLOAT32)),)
    elif reason == "let":
        before, value = (Let("v", x[i]),), Var("v", None, FLOAT32)
    elif reason == "shifted":
        value = x[i // 2]
    assert pairs(kernel(y, loop("i", N, *before, Store(y[i], value)), reads=(x,))) == []


def test_a_result_takes_the_place_of_a_dead_operand_where_the_peak_asks_for_it() -> None:
    x, y = tensor("x"), tensor("y")
    a, b, c, d = (tensor(k, n) for k, n in (("a", 4), ("b", 4), ("c", 1), ("d", 1)))
    p = program([across(a, x), along(b, a), across(c, b), along(d, c), across(y, d)], [x], [y])
    made = proved(p)
    assert made.arena_bytes == made.bound_bytes == 5 * ALIGN
    assert made.offsets[a] == made.offsets[b]
    assert [(o.x.name, o.y.name) for o in made.overwrites] == [("a", "b")]  # d keeps its restrict
    assert {t.name for t in made.aliasing(p.kernels[1])} == {"a", "b"} and not made.aliasing(p.kernels[3])


def test_an_operand_that_is_read_again_is_kept() -> None:
    x, y, a, b = tensor("x"), tensor("y"), tensor("a"), tensor("b")
    p = program([across(a, x), along(b, a), across(y, a, b)], [x], [y])
    made = proved(p)
    assert made.offsets[a] != made.offsets[b] and not made.overwrites


def test_copies_of_what_dies_cost_nothing() -> None:
    x, y, a, b = tensor("x"), tensor("y"), tensor("a"), tensor("b")
    made = proved(program([across(a, x), Copy(a, b), across(y, b)], [x], [y]))
    assert made.arena_bytes == ALIGN


def test_a_result_nobody_reads_does_not_replace_an_operand_that_lives() -> None:
    x, y, a, dead = tensor("x"), tensor("y"), tensor("a"), tensor("dead")
    for write in (Copy(a, dead), along(dead, a)):
        made = proved(program([across(a, x), write, across(y, a)], [x], [y]))
        assert made.offsets[a] != made.offsets[dead]


# -- the checker


def sees(prove: Callable[[Plan], None], wrong: Plan) -> bool:
    try:
        prove(wrong)
    except InternalError as e:
        return str(e).startswith("memory plan: ")
    return False


def planted(made: Plan, moved: Tensor, at: int) -> Plan:
    return replace(made, offsets={**made.offsets, moved: at})


def test_the_checker_sees_planted_errors() -> None:
    x, y = tensor("x"), tensor("y")
    a, b, c = tensor("a", 2), tensor("b", 2), tensor("c", 2)
    p = program([across(a, x), across(b, a), across(c, a, b), across(y, c)], [x], [y])
    made = proved(p)
    for moved in (a, b, c):
        for at in range(0, made.arena_bytes - ALIGN, ALIGN):
            wrong = planted(made, moved, at)
            fine = at == made.offsets[moved]
            assert sees(check_overlaps, wrong) != fine and sees(replay, wrong) != fine
    with pytest.raises(InternalError, match="misplaced"):
        check_overlaps(planted(made, a, 8))
    with pytest.raises(InternalError, match="leaves the arena"):
        check_overlaps(planted(made, c, made.arena_bytes))


def test_the_replay_does_not_believe_the_lives() -> None:
    x, n, y = tensor("x"), turns("n"), tensor("y")
    kept, inner = tensor("kept"), tensor("inner")
    turn = turns("turn")
    p = program(
        [across(kept, x), Repeat(turn, n, None, (across(y, kept), across(inner, x), across(y, inner)))],
        [x, n],
        [y],
    )
    made = proved(p)
    lives = tuple(replace(v, spans=((0, 3),)) if v.tensor is kept else v for v in made.lifetimes)
    wrong = replace(planted(made, inner, made.offsets[kept]), lifetimes=lives)
    check_overlaps(wrong)  # as drawn, kept is dead when inner is written; but the loop goes round
    with pytest.raises(InternalError, match="kept is read where other content lies"):
        replay(wrong)


def test_an_overwrite_that_is_not_in_the_plan_is_an_error() -> None:
    x, y, a, b = tensor("x"), tensor("y"), tensor("a", 2), tensor("b", 2)
    p = program([across(a, x), along(b, a), across(y, b)], [x], [y])
    made = proved(p)
    assert made.overwrites
    wrong = replace(made, overwrites=())
    assert sees(check_overlaps, wrong) and sees(replay, wrong)


# -- offsets


def intervals(rng: random.Random, count: int, split: bool) -> tuple[Buffer, ...]:
    out = []
    for k in range(count):
        edges = sorted(rng.sample(range(2 * count), 4 if split else 2))
        found = tuple((edges[e], edges[e + 1]) for e in range(0, len(edges), 2))
        out.append(Buffer((tensor(str(k)),), found, ALIGN * rng.choice([1, 1, 2, 3, 5, 8, 13, 40])))
    return tuple(out)


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_offsets_of_random_intervals_are_near_the_bound(seed: int, split: bool) -> None:
    rng = random.Random(seed)
    buffers = intervals(rng, rng.choice([5, 20, 60]), split)
    bound = max(profile((b.spans, b.bytes) for b in buffers).values())
    placed = place(buffers, bound)
    for n, a in enumerate(buffers):
        for b in buffers[:n]:
            apart = placed[a] + a.bytes <= placed[b] or placed[b] + b.bytes <= placed[a]
            assert apart or not any(p < s and r < q for p, q in a.spans for r, s in b.spans)
    print(f"seed {seed}: {height(placed)} of {bound}")
    assert bound <= height(placed) <= bound * (1.3 if split else 1.05)
    assert place(buffers, bound) == placed


def test_twenty_thousand_buffers_take_seconds() -> None:
    x, y = tensor("x"), tensor("y")
    parts = [tensor(f"t{k}", 1 + k % 7) for k in range(20_000)]
    p = program([across(b, a) for a, b in zip([x, *parts], [*parts, y], strict=True)], [x], [y])
    begin = time.process_time()
    made = proved(p)
    assert time.process_time() - begin < 60  # a quadratic step would take many minutes
    assert made.arena_bytes == made.bound_bytes


# -- random programs in one array of bytes


class Memory:
    """Runs a program's steps; with a plan everything of the arena lies in one array."""

    def __init__(self, p: Program, made: Plan | None, inputs: dict[Tensor, Array]) -> None:
        self.p, self.made = p, made
        self.arena = np.full(made.arena_bytes if made else 0, 0xFF, np.uint8)
        self.own: dict[Tensor, Array] = {t: a.copy() for t, a in inputs.items()}

    def __getitem__(self, t: Tensor) -> Array:
        base = base_of(self.p, t)
        if self.made is not None and base in self.made.offsets:
            at = self.made.offsets[base]
            elements: Array = self.arena[at : at + t.bytes].view(t.type.numpy)
            return elements
        if base not in self.own:
            self.own[base] = np.full(t.bytes, 0xFF, np.uint8).view(t.type.numpy)
        own: Array = self.own[base]
        return own

    def run(self, steps: tuple[Step, ...]) -> None:
        for step in steps:
            match step:
                case Call():
                    self.call(step)
                case Copy(source, to):
                    self[to][...] = self[source].copy()
                case Branch(condition, then, other):
                    self.run(then if self[condition][0] else other)
                case Repeat(counter, trips, _, body):
                    self[counter][0] = 0
                    while self[counter][0] < self[trips][0]:  # type: ignore[index]
                        self.run(body)
                        self[counter][0] += 1

    def call(self, call: Call) -> None:
        *operands, y = call.arguments
        if call.kernel.name.startswith("across"):
            self[y][...] = np.nan  # whatever lies here is lost before the first operand is read
        total = np.full(y.count, 1.0, np.float32)
        for x in operands:
            a = self[x] if call.kernel.name.startswith("along") else self[x][::-1]
            total = total + np.resize(a, y.count)
        self[y][...] = total


class Writer:
    """Makes random trees of steps in which everything read was written on every path."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.count = 0
        self.x, self.n, self.c = tensor("x", 2), turns("n"), scalar("c", BOOL)

    def fresh(self, units: int | None = None) -> Tensor:
        self.count += 1
        return tensor(f"t{self.count}", units or self.rng.choice([1, 2, 2, 2, 5]))

    def block(self, known: list[Tensor], length: int, depth: int) -> list[Step]:
        steps: list[Step] = []
        for _ in range(length):
            kind = self.rng.random()
            if depth and kind < 0.12:
                steps += self.repeat(known, depth)
            elif depth and kind < 0.24:
                steps.append(self.branch(known, depth))
            elif kind < 0.34:
                x = self.rng.choice(known)
                y = self.fresh(x.count // N)
                steps.append(Copy(x, y))
                known.append(y)
            else:
                steps.append(self.call(known))
        return steps

    def call(self, known: list[Tensor]) -> Call:
        operands = list(dict.fromkeys(self.rng.choices(known[-6:], k=self.rng.choice([1, 2]))))
        y = self.fresh(operands[0].count // N if self.rng.random() < 0.7 else None)
        known.append(y)
        same = all(x.count == y.count for x in operands)
        return (along if same and self.rng.random() < 0.6 else across)(y, *operands)

    def branch(self, known: list[Tensor], depth: int) -> Branch:
        r = self.fresh()
        sides = []
        for _ in range(2):
            inner = list(known)
            steps = self.block(inner, self.rng.randrange(4), depth - 1)
            sides.append((*steps, across(r, inner[-1])))
        known.append(r)
        return Branch(self.c, *sides)

    def repeat(self, known: list[Tensor], depth: int) -> list[Step]:
        carried = self.fresh()
        self.count += 1
        inner = [*known, carried]
        body = [*self.block(inner, self.rng.randrange(1, 5), depth - 1), across(carried, inner[-1])]
        start = across(carried, self.rng.choice(known))
        known.append(carried)
        return [start, Repeat(turns(f"turn{self.count}"), self.n, None, tuple(body))]

    def program(self) -> Program:
        known = [self.x]
        steps = self.block(known, 12, 2)
        y = tensor("y")
        return program([*steps, across(y, *known[-3:])], [self.x, self.n, self.c], [y])

    def inputs(self, trips: int, condition: bool) -> dict[Tensor, Array]:
        x = np.array([self.rng.randrange(100) for _ in range(self.x.count)], np.float32)
        return {self.x: x, self.n: np.array([trips]), self.c: np.array([condition])}


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("seed", range(100))
def test_random_programs_run_in_their_arena(seed: int, ordered: bool) -> None:
    writer = Writer(seed)
    p = writer.program()
    placed = order(p) if ordered else p
    made = proved(placed)
    assert made.arena_bytes <= 1.3 * made.bound_bytes and made.bound_bytes <= plan(p).bound_bytes
    for trips, condition in ((2, True), (3, False), (1, True), (0, False)):
        inputs = writer.inputs(trips, condition)
        wanted, found = Memory(p, None, inputs), Memory(placed, made, inputs)
        wanted.run(p.steps)
        for _ in range(2):
            found.run(placed.steps)
            (y,) = p.outputs
            np.testing.assert_array_equal(found[y], wanted[y])


# -- order


def branches(count: int) -> Program:
    """Heads that grow and shrink again, as they stand: all grow first."""
    x, y = tensor("x"), tensor("y")
    grown, small = [tensor(f"g{k}", 8) for k in range(count)], [tensor(f"s{k}") for k in range(count)]
    steps: list[Step] = [across(g, x) for g in grown]
    steps += [across(s, g) for s, g in zip(small, grown, strict=True)]
    return program([*steps, across(y, *small)], [x], [y])


@pytest.mark.parametrize("count", [2, 5, 12, 60])
def test_heads_that_shrink_are_finished_one_by_one(count: int) -> None:
    p = branches(count)
    assert proved(p).bound_bytes == (8 * count + 1) * ALIGN
    better = order(p)
    assert proved(better).bound_bytes == (8 + count) * ALIGN
    assert {id(s) for s in better.steps} == {id(s) for s in p.steps}
    assert order(p).steps == better.steps


def test_an_order_that_cannot_be_better_is_left_alone() -> None:
    x, y = tensor("x"), tensor("y")
    a, b, c = tensor("a"), tensor("b"), tensor("c")
    p = program([across(a, x), across(b, x), across(c, a, b), across(y, c)], [x], [y])
    assert order(p) is p


def test_steps_inside_branches_and_loops_are_ordered_too() -> None:
    x, n, y, c = tensor("x"), turns("n"), tensor("y"), scalar("c", BOOL)
    inner = branches(4)
    body = inner.steps
    twice = (Repeat(turns("i"), n, None, (Branch(c, body, ()),)), across(y, *inner.inputs))
    p = program([*twice], [*inner.inputs, x, n, c], [y, *inner.outputs])
    better = order(p)
    assert isinstance(better.steps[0], Repeat) and isinstance(better.steps[0].body[0], Branch)
    assert proved(better).bound_bytes == (8 + 4 + 1) * ALIGN < proved(p).bound_bytes


def lowest(p: Program) -> int:
    """The bound of the best order, by trying them all."""
    best = plan(p).bound_bytes
    for steps in permutations(p.steps):
        known = set(p.inputs)
        for step in steps:
            assert isinstance(step, Call)
            if not set(step.reads) <= known:
                break
            known.update(step.writes)
        else:
            best = min(best, plan(replace(p, steps=steps)).bound_bytes)
    return best


@pytest.mark.parametrize("seed", range(12))
def test_small_programs_get_the_best_order(seed: int) -> None:
    writer = Writer(seed)
    known = [writer.x]
    steps: list[Step] = []
    for _ in range(6):
        y = writer.fresh()
        operands = list(dict.fromkeys(writer.rng.choices(known, k=2)))
        same = all(x.count == y.count for x in operands)
        steps.append((along if same else across)(y, *operands))
        known.append(y)
    y = tensor("y")
    p = program([*steps, across(y, *known[-2:])], [writer.x], [y])
    assert proved(order(p)).bound_bytes == lowest(p)


# -- models, compiled


class Net:
    """Random images through convolutions, maps, pools and sums that branch and meet."""

    def __init__(self, seed: int, size: int = 12) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.known = {"x": (3, size)}  # channels and size of each image, the first dimension being 1

    def add(self, op: str, operands: list[str], shape: tuple[int, int], **attributes: Any) -> str:
        name = f"{op.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, operands, [name], **attributes))
        self.known[name] = shape
        return name

    def conv(self, x: str, channels: int, kernel: int, stride: int = 1) -> str:
        before, size = self.known[x]
        w = self.rng.standard_normal((channels, before, kernel, kernel)).astype(np.float32) / (
            kernel * before
        )
        self.constants.append(numpy_helper.from_array(w, f"w{len(self.nodes)}"))
        pads = [kernel // 2] * 4
        made = (channels, (size + 2 * (kernel // 2) - kernel) // stride + 1)
        return self.add("Conv", [x, self.constants[-1].name], made, pads=pads, strides=[stride, stride])

    def step(self) -> None:
        names = list(self.known)[-5:]
        x = names[self.rng.integers(len(names))]
        peers = [n for n in self.known if n != x and self.known[n] == self.known[x]]
        kind = self.rng.integers(6)
        if kind == 0 and peers:
            self.add("Add", [x, peers[self.rng.integers(len(peers))]], self.known[x])
        elif kind == 1:
            self.add("Relu", [x], self.known[x])
        elif kind == 2:
            self.add("MaxPool", [x], self.known[x], kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        elif kind == 3 and peers:
            self.add("Mul", [x, peers[0]], self.known[x])
        else:
            channels = (3, 4, 8)[self.rng.integers(3)]
            self.conv(x, channels, (1, 3)[self.rng.integers(2)])

    def model(self, outputs: list[str]) -> onnx.ModelProto:
        def info(name: str) -> onnx.ValueInfoProto:
            channels, size = self.known[name]
            return helper.make_tensor_value_info(name, 1, [1, channels, size, size])

        graph = helper.make_graph(self.nodes, "net", [info("x")], list(map(info, outputs)), self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def residual(blocks: int) -> onnx.ModelProto:
    """A small residual network: three widths, a skip around every pair of convolutions."""
    net = Net(7, 32)
    x = net.add("Relu", [net.conv("x", 16, 3)], (16, 32))
    for channels in [16, 32, 64][:blocks]:
        stride = 1 if channels == net.known[x][0] else 2
        skip = x if stride == 1 else net.conv(x, channels, 1, 2)
        inner = net.conv(x, channels, 3, stride)
        inner = net.conv(net.add("Relu", [inner], net.known[inner]), channels, 3)
        x = net.add("Relu", [net.add("Add", [inner, skip], net.known[inner])], net.known[inner])
    return net.model([x])


def wide(count: int) -> onnx.ModelProto:
    """Branches that all start from the input, grow, shrink, and are summed in the end."""
    net = Net(8)
    grown = [net.conv("x", 32, 3) for _ in range(count)]
    shrunk = [net.conv(net.add("Sigmoid", [g], net.known[g]), 4, 1) for g in grown]
    total = shrunk[0]
    for s in shrunk[1:]:
        total = net.add("Add", [total, s], (4, 12))
    return net.model([total])


def random_net(seed: int) -> onnx.ModelProto:
    net = Net(seed)
    for _ in range(14):
        net.step()
    unread = set(net.known) - {name for node in net.nodes for name in node.input}
    return net.model(sorted(unread))


MODELS: dict[str, onnx.ModelProto] = {f"random{seed}": random_net(seed) for seed in range(6)}
MODELS |= {"residual": residual(3), "wide": wide(6)}


@pytest.mark.parametrize("name", MODELS)
def test_compiled_models_agree_twice_in_a_row(name: str) -> None:
    proto, fuse = MODELS[name], name not in ("random1", "random3", "random5")
    bundle = ingot.compile(proto, fuse=fuse)
    sizes = bundle.manifest["sizes"]
    print(f"{name}: arena {sizes['arena_bytes']}, bound {sizes['arena_bound_bytes']}")
    assert sizes["arena_bytes"] == sizes["arena_bound_bytes"]
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    size = proto.graph.input[0].type.tensor_type.shape.dim[2].dim_value
    for seed in range(2):  # the arena is full of 0xFF at first, of the first run's content then
        x = np.random.default_rng(seed).standard_normal((1, 3, size, size)).astype(np.float32)
        found = bundle.run({"x": x})
        for output, wanted in zip(session.get_outputs(), session.run(None, {"x": x}), strict=True):
            np.testing.assert_allclose(found[output.name], wanted, atol=1e-4 * np.abs(wanted).max())


def test_kernels_that_overwrite_an_operand_have_no_restrict_on_it() -> None:
    net = Net(1)
    a = net.conv("x", 16, 3)
    b = net.add("Sigmoid", [a], net.known[a])
    source = ingot.compile(net.model([net.conv(b, 2, 1)]), fuse=False).files["net.c"].decode()
    (sigmoid,) = re.findall(
        r"^static __attribute__\(\(__noinline__\)\) void \w*[sS]igmoid\w*\([^{]*", source, re.M
    )
    assert "restrict" not in sigmoid and "restrict" in source
