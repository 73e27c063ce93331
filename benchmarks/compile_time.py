"""How compile time grows with a model: seconds at n, 2n, 4n ... of models of one form each.

    python -m benchmarks.compile_time                     every form, a table of seconds and ratios
    python -m benchmarks.compile_time chain --sizes 5000,10000,20000 --profile

Ratios say what seconds on a busy machine do not: where twice the model takes more than 2.2 times as long, an
algorithm is not linear. A row shows Ingot's seconds, the C compiler's, and the ratio of their sums. Times are
of the process, not of the wall.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import resource
import time
from collections.abc import Callable, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import ingot

Form = Callable[[int], onnx.ModelProto]
SIZES = (500, 1000, 2000)
X = ("x", [4])


def model(
    nodes: Sequence[onnx.NodeProto],
    outputs: Sequence[str],
    inputs: Sequence[tuple[str, list[int]]] = (X,),
    constants: Sequence[onnx.TensorProto] = (),
) -> onnx.ModelProto:
    """A model of floats, its outputs of any shape."""
    given = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs]
    made = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs]
    graph = helper.make_graph(list(nodes), "net", given, made, list(constants))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def node(op: str, inputs: Sequence[str], *outputs: str, **attributes: object) -> onnx.NodeProto:
    return helper.make_node(op, list(inputs), list(outputs), **attributes)


def constant(name: str, *values: float) -> onnx.TensorProto:
    return numpy_helper.from_array(np.array(values, np.float32), name)


def chain(n: int, ops: Sequence[str] = ("Relu", "Neg", "Abs")) -> onnx.ModelProto:
    """Maps one after the other: all could be one expression."""
    nodes = [node(ops[i % len(ops)], [f"v{i}" if i else "x"], f"v{i + 1}") for i in range(n)]
    return model(nodes, [f"v{n}"])


def adds(n: int) -> onnx.ModelProto:
    """A chain of sums with a constant each."""
    nodes = [node("Add", [f"v{i}" if i else "x", f"c{i}"], f"v{i + 1}") for i in range(n)]
    return model(nodes, [f"v{n}"], constants=[constant(f"c{i}", *range(i, i + 4)) for i in range(n)])


def diamonds(n: int) -> onnx.ModelProto:
    """Every value is read twice, by two maps that are added."""
    nodes = []
    for i in range(n // 3):
        x = f"v{i}" if i else "x"
        nodes += [
            node("Relu", [x], f"a{i}"),
            node("Neg", [x], f"b{i}"),
            node("Add", [f"a{i}", f"b{i}"], f"v{i + 1}"),
        ]
    return model(nodes, [f"v{n // 3}"])


def squares(n: int) -> onnx.ModelProto:
    """v = v * v: as an expression without sharing it doubles with each node."""
    nodes = [node("Mul", [f"v{i}" if i else "x"] * 2, f"v{i + 1}") for i in range(n)]
    return model(nodes, [f"v{n}"])


def fan(n: int) -> onnx.ModelProto:
    """One value that n nodes read, added up by pairs."""
    nodes = [node("Add", ["x", f"c{i}"], f"w0_{i}") for i in range(n)]
    level, width = 0, n
    while width > 1:
        pairs = [
            node("Add", [f"w{level}_{2 * i}", f"w{level}_{2 * i + 1}"], f"w{level + 1}_{i}")
            for i in range(width // 2)
        ]
        if width % 2:
            pairs.append(node("Identity", [f"w{level}_{width - 1}"], f"w{level + 1}_{width // 2}"))
        nodes, level, width = [*nodes, *pairs], level + 1, (width + 1) // 2
    return model(nodes, [f"w{level}_0"], constants=[constant(f"c{i}", *range(i, i + 4)) for i in range(n)])


def outputs(n: int) -> onnx.ModelProto:
    nodes = [node("Add", ["x", f"c{i}"], f"y{i}") for i in range(n)]
    return model(nodes, [f"y{i}" for i in range(n)], constants=[constant(f"c{i}", i) for i in range(n)])


def inputs(n: int) -> onnx.ModelProto:
    nodes = [node("Add", ["x0" if i == 1 else f"v{i - 1}", f"x{i}"], f"v{i}") for i in range(1, n)]
    return model(nodes, [f"v{n - 1}"], inputs=[(f"x{i}", [4]) for i in range(n)])


def initializers(n: int) -> onnx.ModelProto:
    """n constants that one Concat reads behind another, one by a hundred."""
    nodes = [
        node("Concat", [f"c{i + j}" for j in range(100) if i + j < n], f"p{i}", axis=0)
        for i in range(0, n, 100)
    ]
    nodes += [
        node("Concat", [f"p{i}" for i in range(0, n, 100)], "all", axis=0),
        node("Add", ["all", "x"], "y"),
    ]
    return model(nodes, ["y"], inputs=[("x", [1])], constants=[constant(f"c{i}", i) for i in range(n)])


def products(n: int) -> onnx.ModelProto:
    """A chain of matrix products: every node is a kernel of its own call."""
    nodes = [node("MatMul", [f"v{i}" if i else "x", "w"], f"v{i + 1}") for i in range(n)]
    weight = numpy_helper.from_array(np.eye(4, dtype=np.float32) * 0.5, "w")
    return model(nodes, [f"v{n}"], inputs=[("x", [4, 4])], constants=[weight])


def convolutions(n: int) -> onnx.ModelProto:
    """A chain of convolutions with weights of their own, and activations."""
    nodes, weights = [], []
    for i in range(n // 2):
        nodes += [
            node("Conv", [f"v{i}" if i else "x", f"w{i}"], f"h{i}", pads=[1, 1, 1, 1]),
            node("Relu", [f"h{i}"], f"v{i + 1}"),
        ]
        weights.append(numpy_helper.from_array(np.full((2, 2, 3, 3), 0.1 + i / n, np.float32), f"w{i}"))
    return model(nodes, [f"v{n // 2}"], inputs=[("x", [1, 2, 5, 5])], constants=weights)


def reshapes(n: int) -> onnx.ModelProto:
    """Views and transposes, one after the other."""
    nodes = []
    for i in range(n):
        x, y = f"v{i}" if i else "x", f"v{i + 1}"
        nodes.append(node("Transpose", [x], y, perm=[1, 0]) if i % 2 else node("Reshape", [x, "s"], y))
    shape = numpy_helper.from_array(np.array([4, -1]), "s")
    return model(nodes, [f"v{n}"], inputs=[("x", [4, 4])], constants=[shape])


def slices(n: int) -> onnx.ModelProto:
    """Split into n parts, all put together in the opposite order."""
    nodes = [
        node("Split", ["x"], *(f"p{i}" for i in range(n)), axis=0),
        node("Concat", [f"p{i}" for i in reversed(range(n))], "y", axis=0),
    ]
    return model(nodes, ["y"], inputs=[("x", [n])])


def splits(n: int) -> onnx.ModelProto:
    """Split into n parts, each an output."""
    return model(
        [node("Split", ["x"], *(f"p{i}" for i in range(n)), axis=0)],
        [f"p{i}" for i in range(n)],
        inputs=[("x", [n])],
    )


def many(op: str) -> Form:
    def form(n: int) -> onnx.ModelProto:
        return model(
            [node(op, [f"x{i}" for i in range(n)], "y")], ["y"], inputs=[(f"x{i}", [4]) for i in range(n)]
        )

    form.__doc__ = f"{op} of n inputs."
    return form


def concat(n: int) -> onnx.ModelProto:
    """Concat of one tensor n times."""
    return model([node("Concat", ["x"] * n, "y", axis=0)], ["y"])


def concats(n: int) -> onnx.ModelProto:
    """Concat of n maps."""
    nodes = [node("Add", ["x", f"c{i}"], f"p{i}") for i in range(n)]
    nodes.append(node("Concat", [f"p{i}" for i in range(n)], "y", axis=0))
    return model(nodes, ["y"], constants=[constant(f"c{i}", i) for i in range(n)])


def einsum(n: int) -> onnx.ModelProto:
    terms = ",".join("a" for _ in range(n))
    return model(
        [node("Einsum", [f"x{i}" for i in range(n)], "y", equation=f"{terms}->a")],
        ["y"],
        inputs=[(f"x{i}", [4]) for i in range(n)],
    )


def captured(n: int) -> onnx.ModelProto:
    """An If whose branches read n values from outside."""

    def side(op: str) -> onnx.GraphProto:
        nodes = [node(op, [f"{op}{i - 1}" if i else "x", f"p{i}"], f"{op}{i}") for i in range(n)]
        return helper.make_graph(
            nodes, op, [], [helper.make_tensor_value_info(f"{op}{n - 1}", TensorProto.FLOAT, [4])]
        )

    nodes = [node("Add", ["x", f"c{i}"], f"p{i}") for i in range(n)]
    nodes += [node("ReduceSum", ["x"], "s", keepdims=0), node("Greater", ["s", "zero"], "b")]
    nodes.append(node("If", ["b"], "y", then_branch=side("Add"), else_branch=side("Mul")))
    zero = numpy_helper.from_array(np.float32(0), "zero")
    return model(nodes, ["y"], constants=[zero, *(constant(f"c{i}", i) for i in range(n))])


def looped(n: int) -> onnx.ModelProto:
    """A Loop whose body reads n values from outside."""
    nodes = [node("Add", ["x", f"c{i}"], f"p{i}") for i in range(n)]
    inner = [node("Add", [f"b{i - 1}" if i else "v", f"p{i}"], f"b{i}") for i in range(n)]
    inner.append(node("Identity", ["go"], "on"))
    infos = [
        helper.make_tensor_value_info(*a)
        for a in (("i", TensorProto.INT64, []), ("go", TensorProto.BOOL, []), ("v", TensorProto.FLOAT, [4]))
    ]
    outs = [
        helper.make_tensor_value_info(*a)
        for a in (("on", TensorProto.BOOL, []), (f"b{n - 1}", TensorProto.FLOAT, [4]))
    ]
    nodes.append(node("Loop", ["trips", "", "x"], "y", body=helper.make_graph(inner, "body", infos, outs)))
    trips = numpy_helper.from_array(np.int64(3), "trips")
    return model(nodes, ["y"], constants=[trips, *(constant(f"c{i}", i) for i in range(n))])


def nested(n: int) -> onnx.ModelProto:
    """An If in an If, n / 50 deep."""
    depth = max(n // 50, 1)

    def graph(d: int) -> onnx.GraphProto:
        nodes = [node("Neg", ["x" if d == depth else f"r{d + 1}"], f"r{d}")]
        out = f"r{d}"
        if d:
            other = helper.make_graph(
                [node("Abs", [f"r{d}"], f"e{d}")],
                f"o{d}",
                [],
                [helper.make_tensor_value_info(f"e{d}", TensorProto.FLOAT, [4])],
            )
            nodes.append(node("If", ["b"], f"q{d}", then_branch=graph(d - 1), else_branch=other))
            out = f"q{d}"
        return helper.make_graph(
            nodes, f"g{d}", [], [helper.make_tensor_value_info(out, TensorProto.FLOAT, [4])]
        )

    main = graph(depth)
    nodes = [node("ReduceSum", ["x"], "s", keepdims=0), node("Greater", ["s", "zero"], "b"), *main.node]
    return model(nodes, [main.output[0].name], constants=[numpy_helper.from_array(np.float32(0), "zero")])


def shapes(n: int) -> onnx.ModelProto:
    """Arithmetic on constants, all of it folded."""
    nodes = [node("Add", [f"c{i}", "one"], f"c{i + 1}") for i in range(n)]
    return model(
        [*nodes, node("Add", ["x", f"c{n}"], "y")], ["y"], constants=[constant("c0", 1), constant("one", 1)]
    )


def softmaxes(n: int) -> onnx.ModelProto:
    """Reductions and maps, alternating."""
    nodes = [
        node(
            "Softmax" if i % 2 else "Exp",
            [f"v{i}" if i else "x"],
            f"v{i + 1}",
            **({"axis": -1} if i % 2 else {}),
        )
        for i in range(n)
    ]
    return model(nodes, [f"v{n}"], inputs=[("x", [2, 8])])


def lstms(n: int) -> onnx.ModelProto:
    nodes = []
    for i in range(n // 20):
        x = f"s{i}" if i else "x"
        nodes += [
            node("LSTM", [x, "w", "r"], f"o{i}", hidden_size=4),
            node("Squeeze", [f"o{i}", "one"], f"s{i + 1}"),
        ]
    w = [numpy_helper.from_array(np.full((1, 16, 4), 0.1, np.float32), k) for k in "wr"]
    return model(
        nodes,
        [f"s{n // 20}"],
        inputs=[("x", [3, 1, 4])],
        constants=[*w, numpy_helper.from_array(np.array([1]), "one")],
    )


def views(n: int) -> onnx.ModelProto:
    """Views of views, each of them read by a map too."""
    nodes = []
    for i in range(n // 2):
        x = f"v{i}" if i else "x"
        nodes += [node("Reshape", [x, f"s{i % 2}"], f"v{i + 1}"), node("Neg", [f"v{i + 1}"], f"y{i}")]
    shapes = [numpy_helper.from_array(np.array(s), f"s{i}") for i, s in enumerate(([2, 2], [4]))]
    return model(nodes, [f"y{i}" for i in range(n // 2)], constants=shapes)


def branches(n: int) -> onnx.ModelProto:
    """One If after the other."""

    def side(op: str, i: int) -> onnx.GraphProto:
        made = helper.make_tensor_value_info(f"{op}{i}", TensorProto.FLOAT, [4])
        return helper.make_graph([node(op, [f"v{i}" if i else "x"], f"{op}{i}")], op, [], [made])

    nodes = [node("ReduceSum", ["x"], "s", keepdims=0), node("Greater", ["s", "zero"], "b")]
    for i in range(n // 2):
        nodes.append(node("If", ["b"], f"v{i + 1}", then_branch=side("Neg", i), else_branch=side("Abs", i)))
    return model(nodes, [f"v{n // 2}"], constants=[numpy_helper.from_array(np.float32(0), "zero")])


def rows(n: int) -> onnx.ModelProto:
    """Products of one row, whose gates are split and multiplied."""
    nodes = []
    for i in range(n // 3):
        nodes += [
            node("MatMul", [f"v{i}" if i else "x", "w"], f"z{i}"),
            node("Split", [f"z{i}"], f"a{i}", f"b{i}", axis=1),
            node("Mul", [f"a{i}", f"b{i}"], f"v{i + 1}"),
        ]
    weight = numpy_helper.from_array(np.full((4, 8), 0.5, np.float32), "w")
    return model(nodes, [f"v{n // 3}"], inputs=[("x", [1, 4])], constants=[weight])


def elements(n: int) -> onnx.ModelProto:
    """A constant of n elements, folded and added."""
    weight = numpy_helper.from_array(np.arange(n, dtype=np.float32), "c")
    return model([node("Abs", ["c"], "d"), node("Add", ["x", "d"], "y")], ["y"], [("x", [n])], [weight])


def trees(n: int) -> onnx.ModelProto:
    """A TreeEnsembleRegressor of n nodes in trees of seven."""
    count = max(n // 7, 1)
    ids = [k for _ in range(count) for k in range(7)]
    attributes = {
        "nodes_treeids": [t for t in range(count) for _ in range(7)],
        "nodes_nodeids": ids,
        "nodes_featureids": [k % 4 for k in ids],
        "nodes_values": [float(k % 5) for k in range(len(ids))],
        "nodes_modes": ["BRANCH_LEQ" if k < 3 else "LEAF" for k in ids],
        "nodes_truenodeids": [2 * k + 1 if k < 3 else 0 for k in ids],
        "nodes_falsenodeids": [2 * k + 2 if k < 3 else 0 for k in ids],
        "target_treeids": [t for t in range(count) for _ in range(4)],
        "target_nodeids": [3, 4, 5, 6] * count,
        "target_ids": [0] * (4 * count),
        "target_weights": [0.5] * (4 * count),
    }
    forest = node("TreeEnsembleRegressor", ["x"], "y", domain="ai.onnx.ml", n_targets=1, **attributes)
    made = model([forest], ["y"], inputs=[("x", [1, 4])])
    made.opset_import.append(helper.make_opsetid("ai.onnx.ml", 3))
    return made


def ngrams(n: int) -> onnx.ModelProto:
    """A TfIdfVectorizer whose pool has n entries."""
    attributes = {
        "mode": "TF",
        "min_gram_length": 1,
        "max_gram_length": 1,
        "max_skip_count": 0,
        "ngram_counts": [0],
        "ngram_indexes": list(range(n)),
        "pool_int64s": [(7 * i) % (8 * n) for i in range(n)],
    }
    made = model([node("TfIdfVectorizer", ["t"], "y", **attributes)], ["y"], inputs=[])
    made.graph.input.append(helper.make_tensor_value_info("t", TensorProto.INT64, [16]))
    return made


FORMS: dict[str, Form] = {
    "chain": chain,
    "adds": adds,
    "diamonds": diamonds,
    "squares": squares,
    "fan": fan,
    "outputs": outputs,
    "inputs": inputs,
    "initializers": initializers,
    "products": products,
    "convolutions": convolutions,
    "reshapes": reshapes,
    "slices": slices,
    "splits": splits,
    "concat": concat,
    "concats": concats,
    "Sum": many("Sum"),
    "Max": many("Max"),
    "Mean": many("Mean"),
    "Min": many("Min"),
    "einsum": einsum,
    "captured": captured,
    "looped": looped,
    "nested": nested,
    "shapes": shapes,
    "softmaxes": softmaxes,
    "lstms": lstms,
    "views": views,
    "branches": branches,
    "rows": rows,
    "elements": elements,
    "trees": trees,
    "ngrams": ngrams,
}


def seconds(form: Form, n: int) -> tuple[float, float]:
    """Of Ingot, and of the C compiler."""
    proto = form(n)
    begin, before = time.process_time(), resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    ingot.compile(proto, name="net", target="x86-64-v3", emit=("obj",))
    return time.process_time() - begin, resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


def times(after: float, before: float) -> str:
    return f" ({after / before:.1f}x)" if before > 0.05 else ""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("forms", nargs="*", help=", ".join(FORMS))
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--profile", action="store_true", help="where the time of the largest size goes")
    wanted = parser.parse_args()
    sizes = [int(n) for n in wanted.sizes.split(",")]
    seconds(chain, 10)  # imports, caches
    for name in wanted.forms or FORMS:
        before = 0.0, 0.0
        line = f"{name:14}"
        for n in sizes:
            profile = cProfile.Profile()
            if wanted.profile and n == sizes[-1]:
                profile.enable()
            try:
                spent = seconds(FORMS[name], n)
            except BaseException as error:
                line += f" {n}: {type(error).__name__} {str(error)[:60]!r}"
                if isinstance(error, KeyboardInterrupt):
                    raise
                continue
            finally:
                profile.disable()
            own, compiler = (f"{after:.2f}{times(after, b)}" for after, b in zip(spent, before, strict=True))
            line += f" {n}: {own} + {compiler} s{times(sum(spent), sum(before))};"
            before = spent
            if wanted.profile and n == sizes[-1]:
                pstats.Stats(profile).sort_stats("cumtime").print_stats(45)
        print(line, flush=True)


if __name__ == "__main__":
    main()
