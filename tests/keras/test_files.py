"""Files of Keras as they are found: both versions, shared layers, states, and files that are broken."""

from __future__ import annotations

import io
import json
import pickle
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import onnxruntime
import pytest

import ingot
from ingot.errors import InputError, UnsupportedError
from ingot.frontends.keras import Call, Spec, import_keras, register
from ingot.frontends.keras.table import CUSTOM
from ingot.frontends.orders import Tensor
from tests.keras.files import archive, functional, hdf5, layer, sequential

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(7)


def floats(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def run(path: Path, *given: Array, **options: Any) -> list[Array]:
    model = import_keras(path, **options)
    names = [v.name for v in model.graph.input]
    session = onnxruntime.InferenceSession(model.SerializeToString())
    found: list[Array] = session.run(None, dict(zip(names, given, strict=True)))
    return found


def dense(name: str, rows: int, columns: int) -> tuple[str, list[tuple[str, Array]]]:
    return name, [(f"{name}/kernel:0", floats(rows, columns)), (f"{name}/bias:0", floats(columns))]


# ---- Keras 2


def test_sequential_without_an_input_layer(tmp_path: Path) -> None:
    config = sequential(
        layer("Dense", "d", batch_input_shape=[None, 4], units=3, activation="relu"),
        layer("LeakyReLU", "l", alpha=0.1),
        layer("ThresholdedReLU", "t", theta=0.2),
    )
    lists = dict([dense("d", 4, 3), ("l", []), ("t", [])])
    path, x = hdf5(tmp_path / "a.h5", config, lists), floats(1, 4)
    (w, b) = (a for _, a in lists["d"])
    y = np.maximum(x @ w + b, 0)
    assert [v.name for v in import_keras(path).graph.input] == ["d_input"]
    np.testing.assert_allclose(run(path, x)[0], np.where(y > 0.2, y, 0), atol=1e-5)


def test_layer_scale_of_convnext(tmp_path: Path) -> None:
    """It is no layer of Keras' own, but of keras.applications."""
    config = sequential(layer("LayerScale", "s", batch_input_shape=[None, 2, 3], init_values=1e-6))
    gamma, x = floats(3), floats(1, 2, 3)
    path = hdf5(tmp_path / "a.h5", config, {"s": [("s/gamma:0", gamma)]})
    np.testing.assert_allclose(run(path, x)[0], x * gamma, rtol=1e-6)


def test_list_of_layers_of_the_first_versions(tmp_path: Path) -> None:
    config = {
        "class_name": "Sequential",
        "config": [layer("Dense", "d", batch_input_shape=[None, 4], units=3)],
    }
    assert run(hdf5(tmp_path / "a.h5", config, dict([dense("d", 4, 3)]), "2.1.6"), floats(1, 4))[0].shape == (
        1,
        3,
    )


def test_a_shared_layer_and_functions_between_layers(tmp_path: Path) -> None:
    """y = d(x) * 2 + d(d(x))[:, 1:3] padded by a concatenation, as tf.keras writes operators."""
    config = functional(
        ["x"],
        ["sum"],
        layer("InputLayer", "x", batch_input_shape=[None, 4], dtype="float32"),
        {
            **layer("Dense", "d", units=4),
            "name": "d",
            "inbound_nodes": [[["x", 0, 0, {}]], [["d", 0, 0, {}]]],
        },
        {
            **layer("TFOpLambda", "twice", function="math.multiply"),
            "name": "twice",
            "inbound_nodes": [["d", 0, 0, {"y": 2.0, "name": None}]],
        },
        {
            **layer("TFOpLambda", "concat", function="concat"),
            "name": "concat",
            "inbound_nodes": [[["d", 1, 0, {"axis": 1}], ["x", 0, 0, {"axis": 1}]]],
        },
        {
            **layer("SlicingOpLambda", "part", function="__operators__.getitem"),
            "name": "part",
            "inbound_nodes": [
                [
                    "concat",
                    0,
                    0,
                    {
                        "slice_spec": [
                            {"start": None, "stop": None, "step": None},
                            {"start": 2, "stop": 6, "step": None},
                        ]
                    },
                ]
            ],
        },
        {
            **layer("TFOpLambda", "sum", function="__operators__.add"),
            "name": "sum",
            "inbound_nodes": [["twice", 0, 0, {"y": ["part", 0, 0], "name": None}]],
        },
    )
    lists = dict([dense("d", 4, 4)])
    path = hdf5(
        tmp_path / "a.h5", config, {**lists, **{n: [] for n in ("x", "twice", "concat", "part", "sum")}}
    )
    x, (w, b) = floats(1, 4), [a for _, a in lists["d"]]
    once = x @ w + b
    wanted = 2 * once + np.concatenate([once @ w + b, x], 1)[:, 2:6]
    np.testing.assert_allclose(run(path, x)[0], wanted, atol=1e-4)


def test_hard_sigmoid_is_another_in_keras_3(tmp_path: Path) -> None:
    config = sequential(layer("Activation", "a", batch_input_shape=[None, 5], activation="hard_sigmoid"))
    x = np.linspace(-4, 4, 5, dtype=np.float32)[None]
    old = run(hdf5(tmp_path / "a.h5", config, {"a": []}, "2.9.0"), x)[0]
    new = run(hdf5(tmp_path / "a.h5", config, {"a": []}, "3.1.0"), x)[0]
    np.testing.assert_allclose(old, np.clip(0.2 * x + 0.5, 0, 1), atol=1e-6)
    np.testing.assert_allclose(new, np.clip(x / 6 + 0.5, 0, 1), atol=1e-6)


def test_archives_of_2_12_name_their_layers_otherwise(tmp_path: Path) -> None:
    config = sequential(layer("InputLayer", "i", batch_input_shape=[None, 4]), layer("Dense", "d", units=3))
    w, b, x = floats(4, 3), floats(3), floats(1, 4)
    prefix = "_layer_checkpoint_dependencies/dense/vars"
    path = archive(tmp_path / "a.keras", config, {f"{prefix}/0": w, f"{prefix}/1": b}, "2.12.0")
    np.testing.assert_allclose(run(path, x)[0], x @ w + b, atol=1e-5)


def test_channels_first(tmp_path: Path) -> None:
    first = {"data_format": "channels_first"}
    config = sequential(
        layer("Conv2D", "c", batch_input_shape=[None, 2, 6, 5], filters=3, kernel_size=[3, 2], **first),
        layer("MaxPooling2D", "p", pool_size=[2, 2], **first),
        layer("Flatten", "f", **first),
    )
    last = json.loads(
        json.dumps(config).replace("channels_first", "channels_last").replace("2, 6, 5]", "6, 5, 2]")
    )
    lists = {"c": [("k", floats(3, 2, 2, 3)), ("b", floats(3))], "p": [], "f": []}
    x = floats(1, 2, 6, 5)
    found = run(hdf5(tmp_path / "a.h5", config, lists), x)[0]
    np.testing.assert_allclose(
        found, run(hdf5(tmp_path / "b.h5", last, lists), x.transpose(0, 2, 3, 1))[0], atol=1e-5
    )


# ---- the edge


def test_open_extents_are_asked_for(tmp_path: Path) -> None:
    config = sequential(layer("Activation", "a", batch_input_shape=[None, None, 3], activation="tanh"))
    path = hdf5(tmp_path / "a.h5", config, {"a": []})
    with pytest.raises(
        InputError, match=r"a_input' of shape \?x\?x3 has open extents.*--inputs a_input:1x8x3"
    ):
        import_keras(path)
    assert run(path, floats(2, 5, 3), inputs=["a_input:2x5x3"])[0].shape == (2, 5, 3)
    with pytest.raises(InputError, match="declared as"):
        import_keras(path, ["a_input:1x5x4"])
    with pytest.raises(InputError, match="no such input"):
        import_keras(path, ["b:1x5x3", "a_input:1x5x3"])


def test_a_model_is_cut_at_a_layer(tmp_path: Path) -> None:
    config = sequential(
        layer("Dense", "d", batch_input_shape=[None, 4], units=3), layer("Dense", "e", units=2)
    )
    path = hdf5(tmp_path / "a.h5", config, dict([dense("d", 4, 3), dense("e", 3, 2)]))
    assert run(path, floats(1, 4), outputs=["d"])[0].shape == (1, 3)
    with pytest.raises(InputError, match="no layer has this name"):
        import_keras(path, (), ["f"])


def test_stateful_layers_hand_on_their_states(tmp_path: Path) -> None:
    config = sequential(
        layer("GRU", "g", batch_input_shape=[1, 3, 2], units=4, stateful=True, activation="tanh",
              recurrent_activation="sigmoid", reset_after=True)
    )  # fmt: skip
    lists = {"g": [("k", floats(2, 12)), ("r", floats(4, 12)), ("b", floats(2, 12))]}
    whole = json.loads(json.dumps(config).replace("[1, 3, 2]", "[1, 6, 2]").replace("true", "false"))
    whole["config"]["layers"][0]["config"]["reset_after"] = True
    x = floats(1, 6, 2)
    bundle = ingot.compile(str(hdf5(tmp_path / "a.h5", config, lists)), target="c99")
    session = bundle.session()
    session.run({"g_input": x[:, :3]})
    found = session.run({"g_input": x[:, 3:]})["g"]
    np.testing.assert_allclose(found, run(hdf5(tmp_path / "b.h5", whole, lists), x)[0], atol=1e-5)


# ---- layers of one's own


def test_a_registered_layer(tmp_path: Path) -> None:
    custom = {
        "module": "mine",
        "class_name": "Scale",
        "registered_name": "Mine>Scale",
        "config": {"name": "s", "dtype": "float32"},
        "build_config": {"input_shape": [None, 3]},
    }
    path = archive(tmp_path / "a.keras", sequential(custom), {"layers/scale/vars/0": floats(3)})
    with pytest.raises(UnsupportedError, match=r"class of your own; .*register\('Mine>Scale'\)"):
        import_keras(path)

    @register("Mine>Scale", weights=lambda layer, settings: Spec(("factor",)))
    def scale(c: Call) -> Tensor:
        return Tensor(c.b.one("Mul", c.plain(c.x), c.weight("factor", [c.x.shape[-1]])))

    try:
        assert run(path, np.ones((1, 3), np.float32))[0].shape == (1, 3)
    finally:
        del CUSTOM["Mine>Scale"]


@pytest.mark.parametrize(
    "kind, config, reason",
    [
        (
            "Lambda",
            {"function": {"class_name": "__lambda__", "config": {"code": "4wE="}}},
            "bytecode, which is never run",
        ),
        ("StringLookup", {}, "StringLookup is not supported"),
        ("Nonsense", {}, r"is not supported; .*register\('Nonsense'\)"),
        ("Activation", {"activation": "of_mine"}, "the activation 'of_mine' is not known"),
        ("Resizing", {"height": 3, "width": 3, "antialias": True}, "three|antialias|four axes"),
        ("Dense", {"units": 0}, "'units' is '0', not above 0"),
        ("Dense", {"units": "many"}, "'units' is 'many', not an integer"),
        ("Dense", {}, "says no 'units'"),
        ("Reshape", {"target_shape": [5]}, r"a shape of \[5\]"),
        ("Softmax", {"axis": 7}, r"softmax along \[7\]"),
        ("Rescaling", {"scale": "x"}, "not numbers"),
        ("Dense", {"units": 3, "dtype": "complex64"}, "not a type of Keras'"),
        (
            "RNN",
            {"cell": {"class_name": "Odd", "config": {"name": "o", "trainable": True}}},
            "only the cells of",
        ),
        ("Permute", {"dims": [2, 1]}, "is no order"),
    ],
)
def test_what_is_not_supported_is_named(kind: str, config: Any, reason: str, tmp_path: Path) -> None:
    made = sequential(layer(kind, "a", batch_input_shape=[None, 4], **config))
    with pytest.raises(InputError, match=reason):
        import_keras(
            hdf5(tmp_path / "a.h5", made, dict([dense("a", 4, 3)]) if kind == "Dense" else {"a": []})
        )


# ---- broken and hostile files

SMALL = sequential(layer("Dense", "d", batch_input_shape=[None, 4], units=3))
WEIGHTS = {"layers/dense/vars/0": floats(4, 3), "layers/dense/vars/1": floats(3)}


def circle(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file.attrs["model_config"] = json.dumps(SMALL)
        group = file.create_group("model_weights/d")
        group["d"] = group
        group.attrs["weight_names"] = [b"d/d/d/d/kernel", b"d/d"]


def soft(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file.attrs["model_config"] = json.dumps(SMALL)
        file["model_weights"] = h5py.SoftLink("/model_weights")


def outside(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file.attrs["model_config"] = json.dumps(SMALL)
        group = file.create_group("model_weights/d")
        group.attrs["weight_names"] = [b"kernel", b"bias"]
        group["kernel"] = h5py.ExternalLink("/etc/passwd", "/")
        group["bias"] = floats(3)


def elsewhere(path: Path) -> None:
    """Elements in a file of the system's."""
    with h5py.File(path, "w") as file:
        file.attrs["model_config"] = json.dumps(SMALL)
        group = file.create_group("model_weights/d")
        group.attrs["weight_names"] = [b"kernel", b"bias"]
        group.create_dataset("kernel", (4, 3), "f4", external=[("/etc/passwd", 0, 48)])
        group["bias"] = floats(3)


def endless(path: Path) -> None:
    """More elements than there are bytes in the world, none of them written."""
    with h5py.File(path, "w") as file:
        file.attrs["model_config"] = json.dumps(SMALL)
        group = file.create_group("model_weights/d")
        group.attrs["weight_names"] = [b"kernel", b"bias"]
        group.create_dataset("kernel", (1 << 40, 1 << 20), "f4", chunks=(1, 1024))
        group["bias"] = floats(3)


def left_out(path: Path) -> None:
    """A gigabyte of elements, of which the file holds a kilobyte."""
    endless(path)
    with h5py.File(path, "a") as file:
        del file["model_weights/d/kernel"]
        file.create_dataset("model_weights/d/kernel", (1 << 28,), "f4", chunks=(1 << 8,))[0] = 1


def weights_only(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file.attrs["layer_names"] = [b"d"]
        file.create_group("d")


def other_hdf5(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file["data"] = floats(3)


def odd_shape(path: Path) -> None:
    hdf5(path, SMALL, {"d": [("kernel", floats(3, 4)), ("bias", floats(3))]})


def too_few(path: Path) -> None:
    hdf5(path, SMALL, {"d": [("kernel", floats(4, 3))]})


def text_weights(path: Path) -> None:
    hdf5(path, SMALL, {"d": [("kernel", np.array([b"a"])), ("bias", floats(3))]})


def no_json(path: Path) -> None:
    hdf5(path, SMALL, dict([dense("d", 4, 3)]))
    with h5py.File(path, "a") as file:
        file.attrs["model_config"] = json.dumps(SMALL)[:-9]


def cut(path: Path) -> None:
    hdf5(path, SMALL, dict([dense("d", 4, 3)]))
    path.write_bytes(path.read_bytes()[:1500])


def bomb(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("metadata.json", "{}")
        made.writestr("config.json", json.dumps(SMALL))
        made.writestr("model.weights.h5", bytes(1 << 28))


def twice(path: Path) -> None:
    archive(path, SMALL, WEIGHTS)
    with zipfile.ZipFile(path, "a") as made, pytest.warns(UserWarning):
        made.writestr("config.json", "{}")


def no_weights(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("metadata.json", "{}")
        made.writestr("config.json", json.dumps(SMALL))


def a_pickle_inside(path: Path) -> None:
    data = io.BytesIO(pickle.dumps({"a": 1}))
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("metadata.json", "{}")
        made.writestr("config.json", json.dumps(SMALL))
        made.writestr("model.weights.h5", data.getvalue())


def nested_deeply(path: Path) -> None:
    inner: Any = layer("Dense", "d", units=3)
    for i in range(30):
        inner = {"class_name": "Sequential", "config": {"name": f"s{i}", "layers": [inner]}}
    archive(path, inner, {})


def reads_itself(path: Path) -> None:
    config = functional(
        ["x"],
        ["a"],
        layer("InputLayer", "x", batch_input_shape=[None, 4]),
        layer("Add", "a", "x", "b"),
        layer("ReLU", "b", "a"),
    )
    hdf5(path, config, {n: [] for n in "xab"})


def reads_nothing(path: Path) -> None:
    config = functional(
        ["x"], ["a"], layer("InputLayer", "x", batch_input_shape=[None, 4]), layer("ReLU", "a", "gone")
    )
    hdf5(path, config, {n: [] for n in "xa"})


def reads_a_later_call(path: Path) -> None:
    config = functional(
        ["x"], ["a"], layer("InputLayer", "x", batch_input_shape=[None, 4]), layer("ReLU", "a", "x")
    )
    config["config"]["output_layers"] = [["a", 5, 0]]
    hdf5(path, config, {n: [] for n in "xa"})


def same_names(path: Path) -> None:
    archive(path, sequential(*SMALL["config"]["layers"], layer("Dense", "d", units=3)), WEIGHTS)


def of_theano(path: Path) -> None:
    hdf5(path, SMALL, dict([dense("d", 4, 3)]))
    with h5py.File(path, "a") as file:
        file.attrs["backend"] = "theano"


def of_keras_1(path: Path) -> None:
    hdf5(path, SMALL, dict([dense("d", 4, 3)]), "1.2.2")


def keras_4(path: Path) -> None:
    hdf5(path, SMALL, dict([dense("d", 4, 3)]), "4.0.0")


def another_version(path: Path) -> None:
    hdf5(path, SMALL, dict([dense("d", 4, 3)]), "\x1b[31m")


def of_a_quarter_of_a_billion(path: Path) -> None:
    """Channels that the file does not hold: of a layer without gamma and beta."""
    given = layer("InputLayer", "in", batch_input_shape=[None, 1 << 28])
    names = ("moving_mean", "moving_variance")
    held = {"b": [(f"b/{n}:0", np.zeros(4, np.float32)) for n in names]}
    hdf5(path, sequential(given, layer("BatchNormalization", "b", axis=[1], center=False, scale=False)), held)


def of_a_billion_classes(path: Path) -> None:
    given = layer("InputLayer", "in", batch_input_shape=[None, 4])
    hdf5(path, sequential(given, layer("CategoryEncoding", "e", num_tokens=1 << 30)), {})


def subclassed(path: Path) -> None:
    archive(path, {"class_name": "Net", "module": "mine", "config": {"name": "net"}}, {})


def circling(path: Path) -> None:
    """A damaged file on which the library never ends."""
    path.write_bytes(Path(__file__).with_name("circling.h5").read_bytes())


BROKEN: list[tuple[Callable[[Path], None], str]] = [
    (circle, "link in a circle"),
    (soft, "link to somewhere else"),
    (outside, "link to somewhere else"),
    (elsewhere, "in another file"),
    (endless, "more than are read"),
    (left_out, "more than are read"),
    (weights_only, "holds weights only"),
    (other_hdf5, "no model_config"),
    (odd_shape, "'kernel' is 3x4 in the file, the configuration and the input make it 4x3"),
    (too_few, "has 1 weights, the configuration 2"),
    (text_weights, "of type"),
    (no_json, "is not JSON"),
    (circling, "h5py fails on it"),
    (cut, "damaged"),
    (bomb, "at most"),
    (twice, "two of one name"),
    (no_weights, "has no model.weights.h5"),
    (a_pickle_inside, "damaged HDF5"),
    (nested_deeply, "deeper|deeply"),
    (reads_itself, "reads itself"),
    (reads_nothing, "has no layer 'gone'"),
    (reads_a_later_call, "call number"),
    (same_names, "two layers are called 'd'"),
    (of_theano, "theano"),
    (of_keras_1, "only 2 and 3 are read"),
    (keras_4, "only 2 and 3 are read"),
    (another_version, r"its keras_version is .* no version"),
    (of_a_quarter_of_a_billion, "'moving_mean' is 4 in the file"),
    (of_a_billion_classes, r"of shape \[1, 4, 1073741824\] is too large"),
    (subclassed, "does not say which layers it has"),
]


@pytest.mark.parametrize("write, reason", BROKEN, ids=[w.__name__ for w, _ in BROKEN])
def test_a_broken_file_is_one_clear_error(write: Callable[[Path], None], reason: str, tmp_path: Path) -> None:
    write(tmp_path / "model")
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=reason):
            import_keras(tmp_path / "model")
        assert tracemalloc.get_traced_memory()[1] < 1 << 28
    finally:
        tracemalloc.stop()


def test_no_damage_of_a_byte_is_a_traceback(tmp_path: Path) -> None:
    """Damaged copies of each kind of file give a model or an error of ours."""
    rng = np.random.default_rng(1)
    whole = [
        archive(tmp_path / "a.keras", SMALL, WEIGHTS).read_bytes(),
        hdf5(tmp_path / "a.h5", SMALL, dict([dense("d", 4, 3)])).read_bytes(),
    ]
    errors = 0
    for data in whole:
        for _ in range(8):
            broken = bytearray(data)
            for at in rng.integers(0, len(data), 8):
                broken[at] = rng.integers(256)
            (tmp_path / "broken").write_bytes(broken)
            try:
                import_keras(tmp_path / "broken")
            except InputError:
                errors += 1
    assert errors > 2


def test_missing_h5py_names_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = archive(tmp_path / "a.keras", SMALL, WEIGHTS)
    monkeypatch.setitem(__import__("sys").modules, "h5py", None)
    with pytest.raises(InputError, match=r"needs h5py; install it: pip install 'ingot\[keras\]'"):
        import_keras(path)


def test_commands_take_keras_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ingot.cli import main

    path = archive(tmp_path / "a.keras", SMALL, WEIGHTS)
    with pytest.raises(SystemExit) as status:
        monkeypatch.setattr("sys.argv", ["ingot", "import", str(path), "-o", str(tmp_path / "a.onnx")])
        main()
    assert not status.value.code and (tmp_path / "a.onnx").stat().st_size > 100
