"""Random programs over sequences: positions that are constants or inputs, ragged elements, loops, branches.

A seed makes a program and its inputs; `check` compares every level with onnxruntime or the reference
evaluator. `python -m tests.probes.test_sequence_programs FIRST LAST` tries more seeds than the test does.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from onnx import GraphProto, ModelProto, TensorProto, helper, numpy_helper

from tests.probes.test_sequences import check

Array = np.ndarray[Any, Any]
SEEDS = range(10)
MOST = 6  # elements of a sequence that is given


@dataclass
class Program:
    """A program while it grows. `tensors` and `sequences` hold what the names are when it runs."""

    rng: np.random.Generator
    nodes: list[Any] = field(default_factory=list)
    inputs: list[Any] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)
    feed: dict[str, Any] = field(default_factory=dict)
    capacity: dict[str, tuple[int, ...]] = field(default_factory=dict)
    tensors: dict[str, Array] = field(default_factory=dict)
    sequences: dict[str, list[Array]] = field(default_factory=dict)
    count: int = 0

    def name(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def pick(self, names: Any) -> str:
        return str(self.rng.choice(sorted(names)))

    def array(self) -> Array:
        shape = [int(n) for n in self.rng.integers(0 if self.rng.random() < 0.1 else 1, 4, 2)]
        return self.rng.standard_normal(shape).astype(np.float32)

    def node(self, op: str, inputs: list[str], **attributes: Any) -> str:
        out = self.name(op.lower())
        self.nodes.append(helper.make_node(op, inputs, [out], **attributes))
        return out

    def number(self, value: int) -> str:
        """A position: a constant, or an input."""
        name = self.name("k")
        array = np.array(value, np.int64)
        if self.rng.random() < 0.5:
            self.constants.append(numpy_helper.from_array(array, name))
        else:
            self.inputs.append(helper.make_tensor_value_info(name, TensorProto.INT64, []))
            self.feed[name] = array
        return name

    def position(self, length: int, more: int = 0) -> tuple[str, int]:
        k = int(self.rng.integers(0, length + more))
        return self.number(k - length if k < length and self.rng.random() < 0.4 else k), k

    # -- steps

    def given_tensor(self) -> None:
        name, array = self.name("x"), self.array()
        self.inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, array.shape))
        self.feed[name] = self.tensors[name] = array

    def given_sequence(self) -> None:
        name = self.name("s")
        items = [self.array() for _ in range(int(self.rng.integers(0, MOST)))]
        self.inputs.append(helper.make_tensor_sequence_value_info(name, TensorProto.FLOAT, [None, None]))
        self.feed[name] = self.sequences[name] = items
        self.capacity[name] = (MOST, 4, 4)

    def construct(self) -> None:
        names = [self.pick(self.tensors) for _ in range(int(self.rng.integers(1, 4)))]
        self.sequences[self.node("SequenceConstruct", names)] = [self.tensors[n] for n in names]

    def insert(self) -> None:
        s, x = self.pick(self.sequences), self.pick(self.tensors)
        items, inputs, at = self.sequences[s], [s, x], len(self.sequences[s])
        if self.rng.random() < 0.7:
            name, at = self.position(len(items), 1)
            inputs.append(name)
        made = self.node("SequenceInsert", inputs)
        self.sequences[made] = [*items[:at], self.tensors[x], *items[at:]]

    def erase(self) -> None:
        s = self.pick(n for n, items in self.sequences.items() if items)
        items = self.sequences[s]
        name, at = self.position(len(items))
        self.sequences[self.node("SequenceErase", [s, name])] = [*items[:at], *items[at + 1 :]]

    def at(self) -> None:
        s = self.pick(n for n, items in self.sequences.items() if items)
        name, at = self.position(len(self.sequences[s]))
        self.tensors[self.node("SequenceAt", [s, name])] = self.sequences[s][at]

    def map(self) -> None:
        op = self.pick(["Relu", "Neg", "Tanh"])
        s = self.pick(self.sequences)
        body = self.body(f"e{self.count}", f"f{self.count}", op)
        made = self.node("SequenceMap", [s], body=body)
        self.sequences[made] = [self.applied(op, x) for x in self.sequences[s]]

    def body(self, name: str, out: str, op: str) -> GraphProto:
        infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [None, None]) for n in (name, out)]
        return helper.make_graph([helper.make_node(op, [name], [out])], "body", infos[:1], infos[1:])

    def applied(self, op: str, x: Array) -> Array:
        functions: dict[str, Any] = {"Relu": lambda a: np.maximum(a, 0), "Neg": np.negative, "Tanh": np.tanh}
        return np.asarray(functions[op](x))

    def branch(self) -> None:
        a, b, taken = self.pick(self.sequences), self.pick(self.sequences), bool(self.rng.random() < 0.5)
        name = self.name("c")
        self.inputs.append(helper.make_tensor_value_info(name, TensorProto.BOOL, []))
        self.feed[name] = np.array(taken)
        sides = {}
        for which, s in (("then_branch", a), ("else_branch", b)):
            out = self.name("side")
            info = helper.make_tensor_sequence_value_info(out, TensorProto.FLOAT, None)
            sides[which] = helper.make_graph([helper.make_node("Identity", [s], [out])], which, [], [info])
        self.sequences[self.node("If", [name], **sides)] = self.sequences[a if taken else b]

    def run(self, steps: int) -> None:
        self.given_tensor()
        self.given_tensor()
        self.given_sequence()
        kinds = ["construct", "insert", "insert", "erase", "at", "map", "branch", "given_sequence"]
        for _ in range(steps):
            kind = str(self.rng.choice(kinds))
            if kind in ("erase", "at") and not any(self.sequences.values()):
                continue
            getattr(self, kind)()

    def model(self) -> ModelProto:
        """The program, all that it made and nobody reads being given out."""
        read = {n for node in self.nodes for n in node.input}
        made = [o for node in self.nodes for o in node.output if o not in read]
        outputs = [
            helper.make_tensor_value_info(n, TensorProto.FLOAT, [None, None])
            if n in self.tensors
            else helper.make_tensor_sequence_value_info(n, TensorProto.FLOAT, None)
            for n in made
        ]
        graph = helper.make_graph(self.nodes, "g", self.inputs, outputs, self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def program(seed: int) -> Program:
    made = Program(np.random.default_rng([20261121, seed]))
    while not made.nodes:
        made.run(8)
    return made


@pytest.mark.parametrize("seed", SEEDS)
def test_program(seed: int) -> None:
    made = program(seed)
    check(made.model(), {"capacity": made.capacity}, [made.feed])


if __name__ == "__main__":
    for number in range(int(sys.argv[1]), int(sys.argv[2])):
        print(number, flush=True)
        test_program(number)
