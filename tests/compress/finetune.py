"""Training between rounds of pruning, and of centroids. Needs PyTorch: `make compression`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper

from ingot.check.sensitivity import by_script, scan
from ingot.check.trainable import trainable
from ingot.compression.bonds import bind
from ingot.compression.entropic import PROBED, Entropic, Shared
from ingot.compression.finetune import Training
from ingot.compression.layers import layers_of
from ingot.compression.model import Wish, compress, floats
from ingot.compression.script import load_script
from ingot.compression.straight import Straight
from ingot.errors import InputError
from tests.compress.models import answers, model, read, with_weights

SCRIPT = """
import torch

torch.manual_seed(0)
torch.set_num_threads(1)
KEPT = []


def model():
    torch.manual_seed(3)
    KEPT.append(torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4)))
    return KEPT[-1]


def data():
    x = torch.randn(256, 16)
    return x, x[:, :4].argmax(1)


def train(model, steps):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(steps):
        x, y = data()
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()


def evaluate(model):
    torch.manual_seed(9)
    x, y = data()
    return (model(x).argmax(1) == y).float().mean()
"""
ROW = "(float[2,16] x) => (float[2,4] y)"
BODY = "{ h = Gemm <transB = 1> (x, v, b) r = Relu(h) m = MatMul(r, w) y = Add(m, c) }"


def prepared(folder: Path, text: str = SCRIPT) -> tuple[Path, onnx.ModelProto]:
    """A script, and the ONNX model of its network; the second matrix lies the other way round."""
    path = folder / "train.py"
    path.write_text(text)
    network = load_script(path).model()
    v, b, w, c = (p.detach().numpy() for p in network.parameters())
    return path, model(ROW, BODY, {"v": v, "b": b, "w": np.ascontiguousarray(w.T), "c": c})


def test_what_is_trained_is_what_is_written(tmp_path: Path) -> None:
    path, before = prepared(tmp_path)
    script = load_script(path)
    wish = Wish(density=("v=0.3,w=0.4",), bits=("3",), training=Training(script, 2, 150))
    made = compress(before, read, wish)
    assert [s.kept for s in made.account.layers] == [round(0.3 * 512), round(0.4 * 128)]
    for encoding in made.encodings.values():
        encoding.check()
        assert len(np.unique(encoding.decode())) <= 8
    names = [name for name, _ in made.scores]
    assert names == ["before", "pruned, round 1", "pruned, round 2", "shared", "centroids trained"]
    scores = dict(made.scores)
    assert scores["pruned, round 2"] > scores["before"] + 0.3
    assert scores["centroids trained"] > scores["before"] + 0.3
    network = script.functions["model"].__globals__["KEPT"][-1]
    weights = [p.detach().numpy() for p in network.parameters()]
    np.testing.assert_allclose(made.encodings["v"].decode(), weights[0], atol=1e-6)
    np.testing.assert_allclose(made.encodings["w"].decode(), weights[2].T, atol=1e-6)
    biases = {t.name: numpy_helper.to_array(t) for t in made.model.graph.initializer if t.name in "bc"}
    np.testing.assert_array_equal(biases["b"], weights[1])
    given = np.random.default_rng(0).standard_normal((2, 16)).astype(np.float32)
    with torch.no_grad():
        wanted = network(torch.from_numpy(given)).numpy()
    np.testing.assert_allclose(answers(made.model)[0], wanted, atol=1e-5)


def test_centroids_train_by_the_sum_of_their_gradients(tmp_path: Path) -> None:
    """One step of plain descent moves each centroid as if it were the parameter, gathered by codes."""
    text = SCRIPT.replace("optim.Adam(model.parameters(), lr=0.01)", "optim.SGD(model.parameters(), 0.1)")
    path, before = prepared(
        tmp_path, text.replace("        x, y = data()", "        torch.manual_seed(5)\n        x, y = data()")
    )
    script = load_script(path)
    network = script.model()
    script.train(network, 1)  # the round of pruning, which prunes nothing
    made = compress(before, read, Wish(bits=("2",), form="codebook", training=Training(script, 1, 1)))
    parts = [
        (encoding.codes, network[at].weight)
        for encoding, at in zip(made.encodings.values(), (0, 2), strict=True)
    ]
    codes = [torch.from_numpy(parts[0][0]).long(), torch.from_numpy(parts[1][0].T.copy()).long()]
    values = []
    for code, (_, weight) in zip(codes, parts, strict=True):
        means = [weight.detach()[code == k].mean() for k in range(4)]
        values.append(torch.stack(means).requires_grad_())
    torch.manual_seed(5)
    x, y = script.functions["train"].__globals__["data"]()
    hidden = torch.nn.functional.linear(x, values[0][codes[0]], network[0].bias).relu()
    loss = torch.nn.functional.cross_entropy(
        torch.nn.functional.linear(hidden, values[1][codes[1]], network[2].bias), y
    )
    loss.backward()
    for value, encoding in zip(values, made.encodings.values(), strict=True):
        np.testing.assert_allclose(encoding.values, (value - 0.1 * value.grad).detach().numpy(), atol=1e-5)


CONV = """{
    p = Conv <pads = [0, 0, 1, 1], strides = [2, 2]> (x, k, b)
    n = BatchNormalization <epsilon = 0.001> (p, gamma, beta, mean, variance)
    r = Relu(n)
    d = Conv <group = 4, pads = [1, 1, 1, 1]> (r, depthwise)
    s = Add(d, r)
    c = Clip(s, low, high)
    a = AveragePool <kernel_shape = [4, 4]> (c)
    f = Reshape(a, shape)
    m = MatMul(f, w)
    y = Softmax <axis = 1> (m)
}"""


def convolutional() -> onnx.ModelProto:
    """A net of a batch of 1: even its Reshape says so."""
    small = {"low": np.array(0, np.float32), "high": np.array(2, np.float32), "shape": np.array([1, 4])}
    norm = {"gamma": [4], "beta": [4], "mean": [4], "variance": np.full(4, 0.7, np.float32)}
    weights = {"k": [4, 3, 3, 3], "b": [4], "depthwise": [4, 1, 3, 3], "w": [4, 5]}
    return model("(float[1,3,8,8] x) => (float[1,5] y)", CONV, {**weights, **norm, **small})


def test_the_network_of_a_model_answers_as_onnxruntime_does() -> None:
    given = np.random.default_rng(0).standard_normal((1, 3, 8, 8)).astype(np.float32)
    network = trainable(convolutional())
    with torch.no_grad():
        alone = network(torch.from_numpy(given))
        several = network(torch.from_numpy(np.concatenate([2 * given, given, 3 * given])))
    np.testing.assert_allclose(alone.numpy(), answers(convolutional())[0], atol=1e-5)
    np.testing.assert_allclose(several[1].numpy(), alone[0].numpy(), atol=1e-5)
    assert not {"low", "high", "shape"} & set(network.constants)
    assert {id(network.constants[n]) for n in ("mean", "variance")} == {id(b) for b in network.buffers()}


def test_a_script_without_a_network_trains_that_of_the_model(tmp_path: Path) -> None:
    path, before = prepared(tmp_path)
    start, end = SCRIPT.index("def model"), SCRIPT.index("def data")
    path.write_text(SCRIPT[:start] + "def prepare(model):\n    KEPT.append(model)\n\n\n" + SCRIPT[end:])
    script = load_script(path)
    wish = Wish(density=("0.4",), bits=("3",), training=Training(script, 2, 150, build=trainable))
    made = compress(with_weights(before, {}), read, wish)
    scores = dict(made.scores)
    assert scores["centroids trained"] > scores["before"] + 0.3
    (network,) = script.functions["prepare"].__globals__["KEPT"]
    given = np.random.default_rng(0).standard_normal((2, 16)).astype(np.float32)
    with torch.no_grad():
        np.testing.assert_allclose(answers(made.model)[0], network(torch.from_numpy(given)), atol=1e-5)
    judge = by_script(script, before, layers_of(before, read), floats(before, read), trainable)
    assert judge({}) == script.evaluate(trainable(before))


@pytest.mark.parametrize(
    "body", ["{ h = MatMul(x, v) y = Det(h) }", "{ h = MatMul(x, v) y, i = TopK(h, k) }"]
)
def test_operators_that_nothing_trains(body: str, tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text("def train(model, steps): pass\ndef evaluate(model): return 0")
    made = model("(float[4,4] x) => (float y)", body, {"v": [4, 4], "k": np.array([1])})
    with pytest.raises(InputError, match=r"no (Det|TopK) that can be trained") as error:
        compress(made, read, Wish(bits=("2",), training=Training(path, build=trainable)))
    assert "model()" in (error.value.remedy or "")


def test_pads_that_auto_pad_chooses_have_no_network() -> None:
    made = convolutional()
    del made.graph.node[0].attribute[:]
    made.graph.node[0].attribute.append(onnx.helper.make_attribute("auto_pad", "SAME_UPPER"))
    with pytest.raises(InputError, match="pads that auto_pad chooses"):
        trainable(made)


def test_an_encoded_model_has_no_network() -> None:
    encoded = compress(model(ROW, BODY, {"v": [32, 16], "b": [32], "w": [32, 4], "c": [4]}), read, Wish())
    with pytest.raises(InputError, match="no uint4 in PyTorch"):
        trainable(encoded.model)


def test_weights_change_their_cluster_in_rounds_of_sharing(tmp_path: Path) -> None:
    """In all rounds but the last, the network sees shared weights and the optimiser moves others; what is
    pruned stays so, and the network answers as the file does.
    """
    seen: list[list[int]] = []
    path, before = prepared(tmp_path)
    script = load_script(path)
    train = script.functions["train"]
    network_of = script.functions["evaluate"].__globals__["KEPT"]

    def watched(network: torch.nn.Module, steps: int) -> None:
        handle = network.register_forward_hook(lambda *_: seen.append(counted(network)))
        train(network, steps)
        handle.remove()

    script.functions["train"] = watched
    wish = Wish(density=("0.5",), bits=("2",), training=Training(script, 0, 40, share_rounds=3))
    alone = compress(with_weights(before, {}), read, Wish(density=("0.5",), bits=("2",)))
    made = compress(before, read, wish)
    names = [name for name, _ in made.scores]
    assert names[1:] == ["shared, round 1", "shared, round 2", "shared", "centroids trained"]
    assert len(seen) == 3 * 40 and all(max(counts) <= 4 for counts in seen)
    assert [s.kept for s in made.account.layers] == [256, 64]
    codes = {n: e.dense().codes for n, e in made.encodings.items()}
    assert any((alone.encodings[n].dense().codes != c).any() for n, c in codes.items())
    given = np.random.default_rng(0).standard_normal((2, 16)).astype(np.float32)
    with torch.no_grad():
        np.testing.assert_allclose(answers(made.model)[0], network_of[-1](torch.from_numpy(given)), atol=1e-5)


def counted(network: torch.nn.Module) -> list[int]:
    """How many values the weights of each layer have."""
    return [len(np.unique(network[i].weight.detach().numpy())) for i in (0, 2)]


def test_changing_clusters_finds_more_than_training_centroids(tmp_path: Path) -> None:
    """One bit for each weight, and as many steps in all."""
    scores = []
    for rounds, steps in ((1, 400), (2, 200)):
        path, before = prepared(tmp_path)
        training = Training(load_script(path), 0, steps, share_rounds=rounds)
        made = compress(before, read, Wish(bits=("1",), form="codebook", training=training))
        scores.append(dict(made.scores)["centroids trained"])
    assert scores[1] > scores[0] + 0.05


def test_a_round_that_only_evaluates_leaves_weights_shared() -> None:
    """Forward passes without a backward one between: the weights of before are not lost."""
    network = torch.nn.Linear(4, 1, bias=False)
    given = torch.tensor([[1.0, 1.2, 3.0, 0.5]])
    network.weight.data.copy_(given)
    kept = torch.tensor([[True, True, True, False]])
    straight = Straight(network.weight, kept, np.array([0.0, 1.1, 3.0], np.float32))
    handles = straight.attach(network)
    with torch.no_grad():
        network(given)
    loss = network(given).sum()
    np.testing.assert_allclose(network.weight.detach(), [[1.1, 1.1, 3.0, 0.0]], rtol=1e-6)
    loss.backward()
    assert torch.equal(network.weight.detach(), given)
    assert network.weight.grad.flatten()[3] == 0
    for handle in handles:
        handle.remove()


def test_the_score_after_sharing_is_of_shared_weights(tmp_path: Path) -> None:
    path, before = prepared(tmp_path)
    made = compress(before, read, Wish(bits=("1",), training=Training(load_script(path), 1, 150)))
    scores = dict(made.scores)
    assert scores["shared"] < scores["pruned, round 1"] - 0.05


def test_a_scan_by_score_leaves_the_network_as_it_was(tmp_path: Path) -> None:
    path, before = prepared(tmp_path)
    script = load_script(path)
    layers, constants = layers_of(before, read), floats(before, read)
    judge = by_script(script, before, layers, constants)
    network = script.functions["model"].__globals__["KEPT"][-1]
    script.train(network, 150)
    weights = [p.detach().clone() for p in network.parameters()]
    for layer, at in zip(layers, (0, 2), strict=True):
        trained = weights[at].numpy()
        layer.weights = trained if layer.name == "v" else np.ascontiguousarray(trained.T)
    made = scan(layers, (1.0, 0.5, 0.01), judge, is_score=True)
    assert made.before == script.evaluate(network) > 0.6
    for curve in made.curves:
        assert curve.values[0] == made.before and curve.values[2] < made.before - 0.1
    for now, then in zip(network.parameters(), weights, strict=True):
        assert torch.equal(now, then)
    with pytest.raises(InputError, match="no parameter of model"):
        by_script(script, before, layers, {})


def test_a_layer_without_a_parameter(tmp_path: Path) -> None:
    path, _ = prepared(tmp_path)
    other = model(ROW, BODY, {"v": [32, 16], "b": [32], "w": [32, 4], "c": [4]})
    with pytest.raises(InputError, match=r"no parameter of model\(\) has the weights of layer 'v'"):
        compress(other, read, Wish(bits=("2",), training=Training(path)))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1", r"has no train\(\), evaluate\(\)"),
        ("raise ValueError('no data')", "ValueError: no data"),
        ("def model(: pass", "SyntaxError"),
        ("def model(): return 3\ntrain = evaluate = model", "returns int, not a torch.nn.Module"),
        (SCRIPT.replace("for _ in", "raise KeyError('lost')\n    for _ in"), r"train\(\) raised KeyError"),
        (SCRIPT.replace("return (model(x).argmax(1) == y).float().mean()", "return 'good'"), "not a number"),
    ],
)
def test_scripts_that_fail(text: str, message: str, tmp_path: Path) -> None:
    _, before = prepared(tmp_path)
    path = tmp_path / "other.py"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        compress(before, read, Wish(density=("0.5",), training=Training(path, 1, 1)))


def test_reordered_gates_are_found() -> None:
    lstm = torch.nn.LSTM(5, 6)
    i, f, g, o = np.split(lstm.weight_ih_l0.detach().numpy(), 4)
    constants = {"W": np.concatenate([i, o, f, g])[None], "zeros": np.zeros((24, 5), np.float32)}
    bond = bind(lstm, constants)["W"]
    np.testing.assert_array_equal(bond.read(), constants["W"])
    np.testing.assert_array_equal(bond.turned(constants["W"]), lstm.weight_ih_l0.detach().numpy())


def test_the_network_trains_by_statistics_of_batches() -> None:
    """As torch.nn.BatchNorm2d does; afterwards the file has what the buffers have."""
    network = trainable(convolutional())
    drawn = np.random.default_rng(0).standard_normal((6, 3, 8, 8)).astype(np.float32)
    drawn[0] = np.random.default_rng(0).standard_normal((1, 3, 8, 8))  # what `answers` gives
    given = torch.from_numpy(drawn)
    network.train()
    assert not torch.allclose(network(given)[:1], network(given[:1]), atol=1e-4)
    named = {name: tensor.detach().numpy() for name, tensor in network.constants.items()}
    assert (named["mean"] != 0).all()
    network.eval()
    changed = with_weights(convolutional(), {n: named[n] for n in ("mean", "variance")})
    with torch.no_grad():
        np.testing.assert_allclose(network(given[:1]), answers(changed)[0], atol=1e-5)


def test_entropy_constrained_training_reaches_the_ratio(tmp_path: Path) -> None:
    """The network answers as the file does, and better than one that is pruned to the same size first."""
    scores = {}
    for entropic in (True, False):
        path, before = prepared(tmp_path)
        script = load_script(path)
        training = Training(script, 0, 150, share_rounds=3)
        wish = Wish(bits=("4",), ratio="9x", entropic=entropic, training=training)
        made = compress(before, read, wish)
        assert 9.0 <= made.account.ratio < 9.2
        scores[entropic] = dict(made.scores)["centroids trained"]
        network = script.functions["evaluate"].__globals__["KEPT"][-1]
        given = np.random.default_rng(0).standard_normal((2, 16)).astype(np.float32)
        with torch.no_grad():
            wanted = network(torch.from_numpy(given)).numpy()
        np.testing.assert_allclose(answers(made.model)[0], wanted, atol=1e-5)
        for encoding in made.encodings.values():
            encoding.check()
            assert not entropic or (encoding.values[0] == 0 and len(encoding.values) == 16)
    assert scores[True] >= scores[False] - 0.02


def test_layers_without_gradients_count_as_the_most_sensitive() -> None:
    """And one whose gradients are small gets fewer bits than another."""
    torch.manual_seed(0)
    used, scaled, unused = (torch.nn.Linear(40, 40, bias=False) for _ in range(3))
    network = torch.nn.Sequential(used, scaled)
    tensors = [Shared(layer.weight, 4) for layer in (used, scaled, unused)]
    entropic = Entropic(tensors, 9.0, 0)
    handles = entropic.attach(network)
    for _ in range(PROBED + 1):
        network.zero_grad()
        (network(torch.randn(8, 40)).square().sum() + 30 * used.weight.sum()).backward()
    for handle in handles:
        handle.remove()
    assert tensors[0].size > tensors[1].size
    assert tensors[2].sensitivity == pytest.approx(tensors[0].sensitivity, rel=0.3)
    entropic.settle()
    assert 9.0 <= 3 * 40 * 40 * 32 / sum(each.size for each in tensors) < 9.2


def test_a_ratio_that_no_price_reaches(tmp_path: Path) -> None:
    path, before = prepared(tmp_path)
    training = Training(load_script(path), 0, 5, share_rounds=2)
    with pytest.raises(InputError, match="is all that shared values give"):
        compress(before, read, Wish(bits=("4",), ratio="900x", entropic=True, training=training))
