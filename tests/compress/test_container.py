"""The released container: files of its layout made here, round trips, and files that lie."""

from __future__ import annotations

import numpy as np
import pytest

from ingot.compression.container import Form, Stored, read_container, write_container
from ingot.compression.model import Wish, compress, to_container
from ingot.errors import InputError, ModelError
from ingot.graph.encoding import Sparse
from tests.compress.models import answers, model, read

FORMS = [Form("conv1", (4, 3, 3, 3), 4, 8), Form("fc2", (10, 36), 10, 4), Form("ip3", (2, 41), 2, 4)]


def layers(seed: int = 0) -> list[tuple[Form, Stored]]:
    rng = np.random.default_rng(seed)
    made = []
    for form, density in zip(FORMS, (0.5, 0.06, 0.01), strict=True):
        values = np.append(0, rng.standard_normal((1 << form.bits) - 1)).astype(np.float32)
        codes = rng.integers(1, 1 << form.bits, form.shape) * (rng.random(form.shape) < density)
        bias = rng.standard_normal(form.outputs).astype(np.float32)
        made.append((form, Stored(Sparse.of(codes.astype(np.uint8), values, 4), bias)))
    return made


@pytest.mark.parametrize("seed", range(4))
def test_a_round_trip(seed: int) -> None:
    made = layers(seed)
    data = write_container(made)
    for (_, stored), found in zip(made, read_container(data, FORMS), strict=True):
        np.testing.assert_array_equal(found.weights.decode(), stored.weights.decode())
        np.testing.assert_array_equal(found.bias, stored.bias)
    assert write_container(list(zip(FORMS, read_container(data, FORMS), strict=True))) == data


def test_the_layout_byte_by_byte() -> None:
    """Written by hand from the description: 4-bit codes and gaps, the low half of a byte first."""
    values = np.arange(16, dtype="<f4")
    codes, gaps = bytes([0x21, 0x03]), bytes([0xF2, 0x01])  # codes 1, 2, 3 after gaps 2, 15, 1
    data = (
        np.array([3], "<u4").tobytes() + values.tobytes() + np.array([7, 8], "<f4").tobytes() + codes + gaps
    )
    (found,) = read_container(data, [Form("ip", (2, 12), 2, 4)])
    wanted = np.zeros(24, np.float32)
    wanted[[2, 18, 20]] = 1, 2, 3
    np.testing.assert_array_equal(found.weights.decode().reshape(-1), wanted)
    assert found.bias.tolist() == [7, 8]


def test_files_that_lie() -> None:
    data = write_container(layers())
    for end in (0, 3, 12, 50, len(data) - 1):
        with pytest.raises(ModelError, match="the container ends at byte"):
            read_container(data[:end], FORMS)
    with pytest.raises(ModelError, match=r"take [\d,]+ of its [\d,]+ bytes"):
        read_container(data + b"\0", FORMS)
    with pytest.raises(ModelError, match="more than it has weights"):
        read_container(b"\xff\xff\xff\xff" + data[4:], FORMS)
    with pytest.raises(ModelError):
        read_container(data, FORMS[::-1])
    nan = bytearray(data)
    nan[12 + 4 : 12 + 8] = np.array([np.nan], "<f4").tobytes()
    with pytest.raises(ModelError, match="no numbers"):
        read_container(bytes(nan), FORMS)
    rng = np.random.default_rng(1)
    for _ in range(300):
        broken = np.frombuffer(data, np.uint8).copy()
        broken[rng.integers(0, len(data), 4)] = rng.integers(0, 256, 4)
        try:
            found = read_container(broken.tobytes(), FORMS)
        except ModelError:
            continue
        assert [f.weights.decode().shape for f in found] == [f.shape for f in FORMS]


def test_encodings_without_room() -> None:
    (form, stored), *_ = layers()
    with pytest.raises(InputError, match="compress with --bits conv=8,fc=4 --gap-bits 4"):
        write_container([(Form("dense", form.shape, form.outputs, 4), stored)])


SIGNATURE = "(float[1,3,6,6] x) => (float[1,10] y)"
BODY = """{ c = Conv(x, w, b) r = Relu(c) f = Flatten(r)
  g = Gemm <transB = 1> (f, v, d) h = Gemm(g, u) y = MatMul(h, t) }"""
WEIGHTS = {"w": [4, 3, 3, 3], "b": [4], "v": [20, 64], "d": [20], "u": [20, 12], "t": [12, 10]}


def test_a_model_through_a_container() -> None:
    """Out of a compressed model into a container, and from there into the model as it was at first."""
    wish = Wish(density=("0.3",), gap_bits=("4",), form="sparse")
    made = compress(model(SIGNATURE, BODY, WEIGHTS), read, wish)
    data = to_container(made.model, read)
    changed = model(SIGNATURE, BODY, {**WEIGHTS, "b": np.zeros(4, np.float32)})
    again = compress(changed, read, Wish(container=data))
    assert to_container(again.model, read) == data
    np.testing.assert_array_equal(answers(again.model)[0], answers(made.model)[0])
    with pytest.raises(ModelError, match="another order"):
        compress(
            model(SIGNATURE, BODY, {**WEIGHTS, "u": [20, 13], "t": [13, 10]}), read, Wish(container=data)
        )
    with pytest.raises(InputError, match="compress with --form sparse"):
        to_container(compress(model(SIGNATURE, BODY, WEIGHTS), read, Wish()).model, read)
    recurrent = "(float[5,1,12] x) => (float[5,1,1,16] y)", "{ y = RNN <hidden_size = 16> (x, w, r) }"
    with pytest.raises(InputError, match="no place in a container"):
        compress(model(*recurrent, {"w": [1, 16, 12], "r": [1, 16, 16]}), read, Wish(container=data))
