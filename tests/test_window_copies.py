"""Windows whose results the caller reads: imports, rows and exports, beside onnxruntime."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from ingot.driver import stages
from ingot.formula.expr import Array
from ingot.loops.evaluate import run
from ingot.loops.program import program_text
from ingot.loops.verify import require_proved
from ingot.options import Options
from ingot.targets.records import find
from ingot.targets.toolchain import obstacle
from tests.corpus.cases import onnxruntime_outputs
from tests.fuzz.levels import compiled
from tests.here import require_runs
from tests.ops.rows import check, floats
from tests.probes.levels import agree_from_loops

TARGETS = ("c99", "x86-64", "x86-64-v3", "x86-64-v4", "aarch64")
SHIPPED = [t for t in ("x86-64-v3", "x86-64-v4") if not obstacle(find(t))]
WEIGHTS = {
    "factor": (),
    "one": (1, 6, 3, 3),
    "three": (3, 6, 5, 5),
    "many": (19, 6, 3, 3),
    "own": (6, 1, 5, 3),
    "short": (40, 1, 5, 5),
    "turned": (6, 1, 4, 4),
    "turned1": (6, 1, 4, 4),
    "turned3": (6, 3, 3, 3),
    "points": (6, 1, 3, 3),
    "planes": (6, 1, 3, 3),
    "tall": (6, 1, 9, 3),
    "point": (6, 3, 2, 2),
}
SAME, POOL = "pads = [1, 1, 1, 1]", "kernel_shape = [4, 3], pads = [3, 1, 0, 2]"
CASES = {
    "scaled as the run says": f"s = ReduceMax <keepdims = 0> (x) a = Conv <{SAME}> (x, one) y = Mul (a, s)",
    "scaled by a number": f"a = Conv <{SAME}> (x, one) y = Mul (a, factor)",
    "one channel": f"y = Conv <{SAME}> (x, one)",
    "three channels": "a = Conv <pads = [2, 2, 2, 2]> (x, three) y = Sigmoid (a)",
    "many channels": f"a = Conv <{SAME}> (x, many) y = Relu (a)",
    "many channels, no pads": "y = Conv (x, many)",
    "half as many rows": f"y = Conv <{SAME}, strides = [2, 2]> (x, one)",
    "strided along columns only": f"y = Conv <{SAME}, strides = [2, 1]> (x, one)",
    "dilated": "y = Conv <pads = [2, 2, 2, 2], dilations = [2, 2]> (x, one)",
    "depthwise": "a = Conv <pads = [0, 2, 4, 0], group = 6> (x, own) y = Relu (a)",
    "depthwise, no pads": "y = Conv <group = 6> (x, own)",
    "depthwise, strided, of four columns": "y = Conv <pads = [2, 1, 2, 2], strides = [2, 2], group = 6> "
    "(x, turned)",
    "depthwise, strided": "y = Conv <pads = [2, 1, 2, 1], strides = [2, 2], group = 6> (x, own)",
    "maximum": f"y = MaxPool <{POOL}> (x)",
    "maximum of many": "y = MaxPool <kernel_shape = [9, 13], pads = [4, 6, 4, 6]> (x)",
    "maximum to the ceiling": "y = MaxPool <kernel_shape = [3, 3], strides = [2, 2], ceil_mode = 1> (x)",
    "average": f"y = AveragePool <{POOL}> (x)",
    "average that counts pads": f"y = AveragePool <{POOL}, count_include_pad = 1> (x)",
    "average, no pads": "y = AveragePool <kernel_shape = [3, 5]> (x)",
    "average of many": "y = AveragePool <kernel_shape = [5, 7], pads = [2, 3, 2, 3]> (x)",
    "average, apart": "y = AveragePool <kernel_shape = [3, 3], pads = [2, 0, 2, 2], dilations = [2, 2]> (x)",
    "average to the ceiling": "a = AveragePool <kernel_shape = [3, 3], strides = [2, 2], ceil_mode = 1> (x) "
    "y = Relu (a)",
    "average, strided": "y = AveragePool <kernel_shape = [3, 3], strides = [2, 2]> (x)",
    "transposed": "y = ConvTranspose <strides = [2, 2]> (x, turned)",
    "transposed to three": "y = ConvTranspose <strides = [3, 3], pads = [1, 0, 0, 2]> (x, turned3)",
    "transposed point by point": "a = ConvTranspose <strides = [2, 2]> (x, point) y = Tanh (a)",
    "transposed, each channel by itself": "y = ConvTranspose <strides = [3, 3], group = 6> (x, points)",
    "transposed, each channel by itself, over each other": "a = ConvTranspose <strides = [2, 2], group = 6> "
    "(x, turned1) y = Relu (a)",
    "transposed in groups": "y = ConvTranspose <strides = [2, 2], pads = [1, 1, 0, 1], group = 3> "
    "(x, turned1)",
    "transposed with holes": "y = ConvTranspose <strides = [4, 4]> (x, turned3)",
    "behind a convolution": f"a = Conv <{SAME}> (x, many) y = MaxPool <kernel_shape = [3, 3]> (a)",
    "two windows, one source": f"a = MaxPool <kernel_shape = [3, 3], {SAME}> (x) "
    f"b = AveragePool <kernel_shape = [3, 3], {SAME}, count_include_pad = 1> (x) "
    "y = Concat <axis = 1> (a, b)",
    "read and given out": f"y = Conv <{SAME}> (x, many) z = MaxPool <kernel_shape = [3, 3]> (y)",
    "an output that windows read": f"y = MaxPool <kernel_shape = [3, 3], {SAME}> (x) "
    f"z = AveragePool <kernel_shape = [3, 3], {SAME}> (y)",
}
SHAPES = ((1, 6, 13, 21), (2, 6, 9, 34), (1, 6, 17, 5))


def net(text: str, shape: tuple[int, ...]) -> onnx.ModelProto:
    sizes = ", ".join(map(str, shape))
    outputs = "float[] y, float[] z" if " z = " in text else "float[] y"
    proto = onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["" : 21]>\nagraph (float[{sizes}] x) => ({outputs}) {{ {text} }}'
    )
    for i, (name, weights) in enumerate(WEIGHTS.items()):
        if name in text:
            proto.graph.initializer.append(onnx.numpy_helper.from_array(floats(*weights, seed=i), name))
    for output in proto.graph.output:
        output.type.tensor_type.ClearField("shape")
    return proto


def wanted_of(proto: onnx.ModelProto, feed: dict[str, Array]) -> list[Array]:
    return [np.asarray(a) for a in onnxruntime_outputs(proto, feed)]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: "x".join(map(str, s)))
@pytest.mark.parametrize("text", CASES.values(), ids=CASES.keys())
def test_the_same_elements(text: str, shape: tuple[int, ...]) -> None:
    proto, feed = net(text, shape), {"x": floats(*shape, seed=9)}
    wanted = wanted_of(proto, feed)
    number = list(CASES.values()).index(text) + SHAPES.index(shape)
    for target in {TARGETS[number % len(TARGETS)], "x86-64-v4"}:
        program = stages(proto, Options(target=target)).program
        require_proved(program)
        check(run(program, feed), wanted, 1e-5, f"loops for {target}")
    for target in SHIPPED[number % 2 :: 2]:
        check(compiled(target)(proto, feed), wanted, 1e-5, f"C for {target}")


@pytest.mark.parametrize("columns", [7, 33])
def test_short_rows_of_depthwise_layers_go_along_channels(columns: int) -> None:
    proto = net("y = Conv <pads = [2, 2, 2, 2], group = 40> (x, short)", (1, 40, 9, columns))
    feed = {"x": floats(1, 40, 9, columns, seed=9)}
    program = stages(proto, Options(target="x86-64-v4")).program
    require_proved(program)
    check(run(program, feed), wanted_of(proto, feed), 1e-5, "loops")
    assert ("y_channels_last" in {t.name for k in program.kernels for t in k.parameters}) == (columns == 7)


@pytest.mark.parametrize("text", [CASES["one channel"], CASES["maximum"]])
def test_without_vectors_windows_keep_their_import(text: str) -> None:
    """Scalar loops gain from a halo, and from nothing else here."""
    program = stages(net(text, SHAPES[0]), Options(target="c99")).program
    assert program.kernels[0].name == "import_x" and len(program.kernels) == 2


@pytest.mark.parametrize(
    ("kernel", "columns", "is_parted"),
    [
        *((3, 40, True), (3, 41, True), (3, 24, False)),  # of short rows small windows pick their columns
        *((5, 40, True), (5, 24, True), (5, 12, False), (7, 27, None)),
    ],
)
def test_strided_depthwise_windows_read_parted_columns(
    kernel: int, columns: int, is_parted: bool | None
) -> None:
    """Where a row of the result fills a vector, also where the stride leaves a rest of the rows; windows of
    49 weights, where registers hold most of them.
    """
    side = kernel // 2
    proto = net(
        f"y = Conv <pads = [{side}, {side}, 1, {side}], strides = [2, 2], group = 6> (x)", (1, 6, 9, columns)
    )
    proto.graph.node[0].input.append("w")
    proto.graph.initializer.append(onnx.numpy_helper.from_array(floats(6, 1, kernel, kernel), "w"))
    feed = {"x": floats(1, 6, 9, columns, seed=9)}
    for target in ("x86-64-v4", "x86-64", "aarch64"):
        program = stages(proto, Options(target=target)).program
        require_proved(program)
        check(run(program, feed), wanted_of(proto, feed), 1e-5, f"loops for {target}")
        wanted = find(target).registers >= 32 if is_parted is None else is_parted
        assert any("_parted" in t.name for k in program.kernels for t in k.parameters) == wanted
    for target in SHIPPED:
        check(compiled(target)(proto, feed), wanted_of(proto, feed), 1e-5, f"C for {target}")


@pytest.mark.parametrize(("columns", "stride"), [(64, 2), (65, 2), (71, 3), (74, 4)])
def test_strided_windows_to_few_channels_read_parted_columns(columns: int, stride: int) -> None:
    """A copy whose rows end within a part is made in whole vectors all the same: its guard is cut off."""
    proto = net(f"y = Conv <pads = [1, 1, 0, 1], strides = [2, {stride}]> (x)", (1, 20, 9, columns))
    proto.graph.node[0].input.append("w")
    proto.graph.initializer.append(onnx.numpy_helper.from_array(floats(3, 20, 3, 3), "w"))
    feed = {"x": floats(1, 20, 9, columns, seed=9)}
    for target in ("x86-64-v4", "x86-64-v3", "aarch64"):
        program = stages(proto, Options(target=target)).program
        require_proved(program)
        check(run(program, feed), wanted_of(proto, feed), 1e-5, f"loops for {target}")
        copies = [k for k in program.kernels if any("_parted" in t.name for t in k.parameters)]
        assert "deinterleave" in copies[0].generators
    for target in SHIPPED:
        check(compiled(target)(proto, feed), wanted_of(proto, feed), 1e-5, f"C for {target}")


@pytest.mark.parametrize(("kernel", "pads", "stride"), [(3, "1, 1", 2), (9, "4, 3", 2), (7, "0, 5", 3)])
@pytest.mark.parametrize("length", [64, 75])
def test_strided_windows_of_signals_read_parted_columns(
    length: int, kernel: int, pads: str, stride: int
) -> None:
    """Where windows leave the signal, the copy has a halo."""
    proto = net(f"y = Conv <pads = [{pads}], strides = [{stride}]> (x)", (1, 2, length))
    proto.graph.node[0].input.append("w")
    proto.graph.initializer.append(onnx.numpy_helper.from_array(floats(24, 2, kernel), "w"))
    feed = {"x": floats(1, 2, length, seed=9)}
    for target in ("x86-64-v4", "x86-64-v3", "aarch64"):
        program = stages(proto, Options(target=target)).program
        require_proved(program)
        check(run(program, feed), wanted_of(proto, feed), 1e-5, f"loops for {target}")
        assert any("_parted" in t.name for k in program.kernels for t in k.parameters)
        assert "naive" not in program.kernels[-1].generators
    for target in SHIPPED:
        check(compiled(target)(proto, feed), wanted_of(proto, feed), 1e-5, f"C for {target}")


@pytest.mark.parametrize(
    ("attributes", "shape", "is_imported"),
    [
        ("strides = [1, 1]", (24, 20, 3, 3), True),
        ("strides = [1, 1]", (24, 20, 5, 1), True),
        ("strides = [1, 1]", (24, 20, 3, 2), False),
        ("strides = [1, 1]", (24, 20, 1, 1), False),
        ("strides = [1, 1]", (24, 8, 3, 3), False),
        ("strides = [2, 2]", (24, 20, 3, 3), True),
        ("strides = [3, 3]", (24, 20, 5, 5), False),
        ("strides = [2, 1]", (24, 20, 3, 3), False),
        ("dilations = [2, 1]", (24, 20, 3, 3), False),
    ],
)
def test_images_that_fast_convolutions_may_read_are_imported(
    attributes: str, shape: tuple[int, ...], is_imported: bool
) -> None:
    """Without pads too; other windows read the caller's image where it lies."""
    x = (1, shape[1], 19, 23)
    proto = net(f"y = Conv <{attributes}> (x)", x)
    proto.graph.node[0].input.append("w")
    proto.graph.initializer.append(onnx.numpy_helper.from_array(floats(*shape), "w"))
    feed = {"x": floats(*x, seed=9)}
    program = stages(proto, Options(target="x86-64-v3")).program
    require_proved(program)
    check(run(program, feed), wanted_of(proto, feed), 1e-4, "loops")
    assert (program.kernels[0].name == "import_x") == is_imported
    for slow in (Options(target="x86-64-v3", math="exact"), Options(target="x86-64-v3", optimize="size")):
        assert stages(proto, slow).program.kernels[0].name != "import_x"
    for target in SHIPPED:
        check(compiled(target)(proto, feed), wanted_of(proto, feed), 1e-4, f"C for {target}")


@pytest.mark.parametrize("strides", [2, 3])
def test_phases_read_their_filters_term_by_term(strides: int) -> None:
    """Of a transposed convolution's weights [in, out, taps], the terms of a result are the outermost axis."""
    proto = net(f"y = ConvTranspose <strides = [{strides}, {strides}]> (x, w)", (1, 24, 17, 16))
    proto.graph.initializer.append(onnx.numpy_helper.from_array(floats(24, 20, strides, strides), "w"))
    feed = {"x": floats(1, 24, 17, 16, seed=9)}
    program = stages(proto, Options(target="x86-64-v3")).program
    require_proved(program)
    check(run(program, feed), wanted_of(proto, feed), 1e-5, "loops")
    filters = [t for k in program.kernels for t in k.parameters if t.name.startswith("w")]
    assert len(filters) == strides**2
    assert all(t.shape == (20, 24) for t in filters)
    for target in SHIPPED:
        check(compiled(target)(proto, feed), wanted_of(proto, feed), 1e-5, f"C for {target}")


@pytest.mark.parametrize("first", ["Tanh (x)", f"AveragePool <kernel_shape = [3, 3], {SAME}> (x)"])
@pytest.mark.parametrize(("second", "kernel"), [("strides = [2, 2], group = 24", 7), ("strides = [2, 2]", 3)])
def test_outputs_that_windows_read_are_imported(first: str, second: str, kernel: int) -> None:
    """As inputs are: an output that no window along channels makes is in the order of the caller."""
    x, side = (1, 24, 9, 10), kernel // 2
    text = f"y = {first} z = Conv <pads = [{side}, {side}, {side}, {side}], {second}> (y)"
    proto, feed = net(text, x), {"x": floats(*x, seed=9)}
    proto.graph.node[1].input.append("w")
    weights = floats(24, 1 if "group" in second else 24, kernel, kernel)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    for target in ("x86-64-v3", "aarch64", "c99"):
        program = stages(proto, Options(target=target)).program
        require_proved(program)
        check(run(program, feed), wanted_of(proto, feed), 1e-4, f"loops for {target}")
        layer = next(k for k in program.kernels if "Conv" in k.name)
        assert any("_padded" in t.name for t in layer.parameters)
        assert "naive" not in layer.generators or target == "c99"
    for target in SHIPPED:
        check(compiled(target)(proto, feed), wanted_of(proto, feed), 1e-4, f"C for {target}")


@pytest.mark.parametrize(
    "text",
    [
        f"y = Conv <{SAME}, group = 6> (x, points)",
        "y = MaxPool <kernel_shape = [3, 3], strides = [2, 2]> (x)",
        f"y = Conv <{SAME}> (x, many)",
    ],
)
def test_images_of_a_batch_that_the_run_knows_are_exported(text: str) -> None:
    proto = net(text, SHAPES[0])
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "N"
    for target in ("x86-64-v3", "aarch64"):
        program = stages(proto, Options(target=target, define={"N": (1, 4)})).program
        require_proved(program)
        assert program.kernels[-1].name == "export_y"
        assert all("naive" not in k.generators for k in program.kernels)
        for n in (1, 3):
            feed = {"x": floats(n, *SHAPES[0][1:], seed=9)}
            check(run(program, feed, {"N": n}), wanted_of(proto, feed), 1e-4, f"{n} of loops for {target}")


PLANES = {
    "depthwise": ("y = Conv <pads = [4, 1, 4, 1], group = 6> (x, tall)", {"x_channels_first_rows"}),
    "maximum": (
        "y = MaxPool <kernel_shape = [19, 9], pads = [9, 4, 9, 4]> (x)",
        {"x_channels_first_rows", "y_rows_rows"},
    ),
}


@pytest.mark.parametrize("case", PLANES)
def test_what_stays_within_a_channel_goes_channel_by_channel(case: str) -> None:
    """A copy with a halo and the passes of a pooling are one kernel; what lies between is some channels."""
    text, between = PLANES[case]
    proto, feed = net(text, (1, 6, 56, 60)), {"x": floats(1, 6, 56, 60, seed=9)}
    program = stages(proto, Options(target="x86-64-v4")).program
    (kernel,) = program.kernels
    assert {t.name: t.shape[1] for t in kernel.scratch} == dict.fromkeys(between, 1)
    assert kernel.name == proto.graph.node[0].op_type
    check(run(program, feed), wanted_of(proto, feed), 1e-5, "loops")


IN_PLACE = {
    "depthwise": "y = Conv <pads = [1, 1, 1, 1], group = 6> (x, planes)",
    "depthwise, more on the right": "y = Conv <pads = [0, 1, 2, 3], group = 6> (x, own)",
    "one channel": "y = Conv <pads = [1, 1, 1, 1]> (x, one)",
    "three channels of five columns": "y = Conv <pads = [2, 2, 2, 2]> (x, three)",
    "maximum": "y = MaxPool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x)",
    "average": "y = AveragePool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x)",
}


@pytest.mark.parametrize("columns", [5, 14, 37])
@pytest.mark.parametrize("case", IN_PLACE)
def test_windows_that_leave_rows_read_them_where_they_lie(case: str, columns: int) -> None:
    """Nothing is copied to have a border: vectors at the ends of rows are put together in registers."""
    proto, feed = net(IN_PLACE[case], (1, 6, 9, columns)), {"x": floats(1, 6, 9, columns, seed=columns)}
    for name in TARGETS:
        program = stages(proto, Options(target=name)).program
        require_proved(program)
        check(run(program, feed), wanted_of(proto, feed), 1e-4, name)
        if name == "x86-64-v4":
            assert not any(t.name.startswith("x_") for k in program.kernels for t in k.scratch)
    for target in SHIPPED:
        check(compiled(target)(proto, feed), wanted_of(proto, feed), 1e-4, f"C for {target}")


@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize(
    ("pool", "shape"),
    [
        ("MaxPool <kernel_shape = [9, 9], pads = [4, 4, 4, 4]>", (1, 3, 13, 13)),
        ("MaxPool <kernel_shape = [7, 5], strides = [2, 2], pads = [3, 2, 3, 2]>", (1, 3, 21, 30)),
        ("AveragePool <kernel_shape = [9, 3], pads = [4, 1, 4, 1]>", (1, 3, 40, 19)),
        ("MaxPool <kernel_shape = [6, 6], pads = [1, 0, 4, 5]>", (2, 3, 9, 17)),
    ],
)
def test_pooling_is_clipped_at_the_ends_of_columns(pool: str, shape: tuple[int, ...], target: str) -> None:
    """Outputs at an end are one tile, each with its taps; NaN is no maximum wherever it stands."""
    require_runs(target)
    proto = net(f"y = {pool} (x)", shape)
    x = floats(*shape, seed=9)
    if "Max" in pool:
        x[0, 0, ::3, ::4] = np.nan
    feed = {"x": x}
    program = stages(proto, Options(target=target)).program
    require_proved(program)
    assert not any("channels_first" in t.name for k in program.kernels for t in (*k.parameters, *k.scratch))
    wanted = wanted_of(proto, {"x": np.nan_to_num(x, nan=-np.inf)})
    agree_from_loops(program, feed, wanted, 1e-5, target)


@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize(
    ("pool", "shape"),
    [
        ("MaxPool <kernel_shape = [9], pads = [4, 4]>", (1, 3, 13)),
        ("MaxPool <kernel_shape = [23], strides = [2], pads = [20, 9]>", (1, 3, 70)),
        ("AveragePool <kernel_shape = [13], pads = [6, 6]>", (2, 3, 300)),
        ("AveragePool <kernel_shape = [5], strides = [2], pads = [1, 2]>", (1, 3, 19)),
        ("AveragePool <kernel_shape = [9, 11], pads = [2, 5, 4, 5], count_include_pad = 1>", (1, 3, 21, 30)),
        ("MaxPool <kernel_shape = [7, 8], strides = [3, 2], ceil_mode = 1>", (1, 3, 21, 40)),
    ],
)
def test_pooling_along_rows_doubles_windows(pool: str, shape: tuple[int, ...], target: str) -> None:
    """Nothing has a halo for it: what lies outside is put beside rows in registers."""
    require_runs(target)
    proto = net(f"y = {pool} (x)", shape)
    x = floats(*shape, seed=9)
    if "Max" in pool:
        x[0, 0, ..., ::4] = np.nan
    program = stages(proto, Options(target=target)).program
    require_proved(program)
    assert any("doubled_rows" in k.generators for k in program.kernels)
    assert not any(t.shape[-1] > shape[-1] for k in program.kernels for t in k.scratch)
    wanted = wanted_of(proto, {"x": np.nan_to_num(x, nan=-np.inf)})
    agree_from_loops(program, {"x": x}, wanted, 1e-5, target)


def test_averages_multiply_by_shares_unless_they_must_be_exact() -> None:
    proto = net("y = AveragePool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x)", (1, 6, 9, 37))
    for math, divides in (("standard", False), ("exact", True)):
        program = stages(proto, Options(target="x86-64-v4", math=math)).program
        assert (" / " in program_text(program)) == divides


@pytest.mark.parametrize(
    ("kernel", "pads"),
    [((2, 3), "3, 1, 0, 1"), ((2, 3), "2, 1, 2, 1"), ((3, 1), "0, 0, 4, 0"), ((1, 2), "1, 2, 1, 2")],
)
def test_windows_may_lie_outside_altogether(kernel: tuple[int, int], pads: str) -> None:
    """They have no taps at all, and their results are zeros."""
    proto = net(f"y = Conv <pads = [{pads}], group = 6> (x)", (1, 6, 9, 40))
    proto.graph.node[0].input.append("w")
    proto.graph.initializer.append(onnx.numpy_helper.from_array(floats(6, 1, *kernel), "w"))
    feed = {"x": floats(1, 6, 9, 40, seed=9)}
    for target in ("x86-64-v3", "x86-64-v4"):
        program = stages(proto, Options(target=target)).program
        require_proved(program)
        check(run(program, feed), wanted_of(proto, feed), 1e-5, f"loops for {target}")
    for target in SHIPPED:
        check(compiled(target)(proto, feed), wanted_of(proto, feed), 1e-5, f"C for {target}")


def test_rows_shorter_than_those_of_their_result_have_a_halo() -> None:
    text = "y = Conv <pads = [1, 6, 1, 6], group = 6> (x, planes)"
    proto, feed = net(text, (1, 6, 9, 4)), {"x": floats(1, 6, 9, 4, seed=9)}
    for name in TARGETS:
        program = stages(proto, Options(target=name)).program
        require_proved(program)
        check(run(program, feed), wanted_of(proto, feed), 1e-4, name)


def test_long_windows_along_rows_have_a_halo() -> None:
    """Written out for each vector at an end of a row, their taps would be thousands of lines."""
    weights = onnx.numpy_helper.from_array(floats(6, 1, 201, seed=3), "long")
    proto = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 21]> g (float[1,6,640] x) => (float[1,6,640] y)
        { y = Conv <pads = [100, 100], group = 6> (x, long) }"""
    )
    proto.graph.initializer.append(weights)
    feed = {"x": floats(1, 6, 640, seed=9)}
    program = stages(proto, Options(target="x86-64-v4")).program
    assert any(t.name.startswith("x_") for k in program.kernels for t in (*k.scratch, *k.parameters))
    assert len(program_text(program)) < 30_000
    check(run(program, feed), wanted_of(proto, feed), 1e-4, "loops")


def test_products_of_heads_stay_whole() -> None:
    """Attention's products go through blocks of matrices, not head by head with what follows them."""
    proto = net("s = MatMul (x, k) y = Transpose <perm = [0, 2, 1, 3]> (s)", (1, 12, 64, 64))
    proto.graph.initializer.append(onnx.numpy_helper.from_array(floats(1, 12, 64, 64, seed=1), "k"))
    program = stages(proto, Options(target="x86-64-v4")).program
    assert not any(t.name.endswith("_rows") for k in program.kernels for t in k.scratch)
