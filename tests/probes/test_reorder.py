"""Views, transposes and channel shuffles: who reads one reads its source, wherever that is as good."""

from __future__ import annotations

import pytest

from tests.probes.moves import Case, agree, conv


def shuffled(out: str, source: str, groups: int, each: int, rows: int, columns: int) -> str:
    """The channels of all groups in turn: Reshape, Transpose, Reshape."""
    return (
        f"[first] {out}1 = Reshape({source}, s_{out}1)\n"
        f"[middle] {out}2 = Transpose<perm=[0,2,1,3,4]>({out}1)\n"
        f"[last] {out} = Reshape({out}2, s_{out}2)\n"
    )


def shapes(
    out: str, groups: int, each: int, rows: int, columns: int
) -> tuple[tuple[str, tuple[int, ...]], ...]:
    return (
        (f"s_{out}1:i", (1, groups, each, rows, columns)),
        (f"s_{out}2:i", (1, groups * each, rows, columns)),
    )


def unit(groups: int, each: int, stride: int = 1, more: str = "") -> Case:
    """Grouped 1x1 convolution, shuffle, depthwise convolution, grouped 1x1 convolution."""
    n = groups * each
    body = (
        conv("a", "x", "wa", 0, f", group={groups}")
        + "r = Relu(a)\n"
        + shuffled("k", "r", groups, each, 6, 7)
        + conv("d", "k", "wd", 1, f", group={n}, strides=[{stride},{stride}]")
        + f"b = Mul(d, scale)\n{more}"
        + conv("y", "b", "wy", 0, f", group={groups}")
    )
    weights = (
        *shapes("k", groups, each, 6, 7),
        ("wa", (n, 4, 1, 1)),
        ("wd", (n, 1, 3, 3)),
        ("scale", (n, 1, 1)),
        ("wy", (2 * n, each, 1, 1)),
    )
    return Case(body, x=(1, 4 * groups, 6, 7), weights=weights)


FLAT = conv("a", "x", "w", 1) + "p = MaxPool<kernel_shape=[2,2], strides=[2,2]>(a)\n[flat] f = Flatten(p)\n"
CASES = {
    "a shuffle between grouped convolutions": unit(2, 4),
    "a shuffle under a stride": unit(2, 6, 2),
    "three groups": unit(3, 9),
    "groups that shuffle unevenly": Case(
        (odd := unit(2, 5)).body, copies=("last",), x=odd.x, weights=odd.weights
    ),
    "a shuffle of which a part is read": Case(
        conv("a", "x", "w")
        + shuffled("k", "a", 2, 4, 6, 7)
        + "[split] p, q = Split<axis=1, num_outputs=2>(k)\n"
        + conv("b", "p", "u", 1)
        + "[cat] y = Concat<axis=1>(b, q)",
        copies=("split", "cat"),
        weights=(*shapes("k", 2, 4, 6, 7), ("w", (8, 5, 1, 1)), ("u", (3, 4, 3, 3))),
    ),
    "a shuffle that is an output": Case(
        conv("a", "x", "w") + shuffled("k", "a", 2, 4, 6, 7) + conv("y", "k", "u"),
        "float[n,c,h,w] y, float[n,c,h,w] k",
        copies=("last",),
        weights=(*shapes("k", 2, 4, 6, 7), ("w", (8, 5, 1, 1)), ("u", (3, 8, 3, 3))),
    ),
    "a shuffle added to something else": Case(
        conv("a", "x", "w")
        + shuffled("k", "a", 2, 4, 6, 7)
        + conv("b", "x", "w")
        + "s = Add(k, b)\n"
        + conv("y", "s", "u"),
        weights=(*shapes("k", 2, 4, 6, 7), ("w", (8, 5, 1, 1)), ("u", (3, 8, 3, 3))),
    ),
    "a matrix behind an image": Case(
        FLAT + "y = Gemm<transB=1>(f, v)", "float[n,c] y", weights=(("w", (6, 5, 3, 3)), ("v", (10, 54)))
    ),
    "a matrix behind images": Case(
        FLAT + "m = MatMul(f, v)\ns = Add(m, c)\ny = Relu(s)",
        "float[n,c] y",
        x=(3, 5, 6, 7),
        weights=(("w", (6, 5, 3, 3)), ("v", (54, 10)), ("c", (10,))),
    ),
    "an image that is flattened for two": Case(
        FLAT + "y = Gemm(f, v)\nz2 = Softmax(f)",
        "float[n,c] y, float[n,c] z2",
        copies=("flat",),
        weights=(("w", (6, 5, 3, 3)), ("v", (54, 10))),
    ),
    "zeros around an image": Case(
        "e = Exp(x)\n[pad] p = Pad(e, s)\n" + conv("y", "p", "w"),
        weights=(("s:i", (0, 0, 2, 1, 0, 0, 0, 3)), ("w", (6, 5, 3, 3))),
    ),
    "zeros around zeros": Case(
        "e = Exp(x)\n[pad] p = Pad(e, s)\n" + conv("y", "p", "w", 1),
        weights=(("s:i", (0, 1, 2, 1, 0, 2, 0, 3)), ("w", (6, 8, 3, 3))),
    ),
    "zeros around the input, and a depthwise convolution": Case(
        "[pad] p = Pad(x, s)\n" + conv("y", "p", "w", 0, ", group=5, strides=[2,2]"),
        weights=(("s:i", (0, 0, 0, 0, 0, 0, 1, 1)), ("w", (5, 1, 3, 3))),
    ),
    "cut, then zeros around what is left": Case(
        "e = Exp(x)\n[pad] p = Pad(e, s)\n" + conv("y", "p", "w", 1),
        copies=("pad",),
        weights=(("s:i", (0, 0, -1, 1, 0, 0, 0, -2)), ("w", (6, 5, 3, 3))),
    ),
    "ones around an image": Case(
        "e = Exp(x)\n[pad] p = Pad(e, s, one)\n" + conv("y", "p", "w"),
        copies=("pad",),
        weights=(("s:i", (0, 0, 2, 1, 0, 0, 0, 3)), ("one", ()), ("w", (6, 5, 3, 3))),
    ),
    "zeros under a pool": Case(
        "e = Abs(x)\n[pad] p = Pad(e, s)\ny = MaxPool<kernel_shape=[4,4]>(p)",
        copies=("pad",),
        weights=(("s:i", (0, 0, 2, 1, 0, 0, 0, 3)),),
    ),
    "a turned image within zeros": Case(
        conv("a", "x", "w")
        + "[turn] t = Transpose<perm=[0,1,3,2]>(a)\n[pad] p = Pad(t, s)\n"
        + conv("y", "p", "u"),
        copies=("turn",),
        weights=(("s:i", (0, 0, 2, 1, 0, 0, 0, 3)), ("w", (4, 5, 1, 1)), ("u", (3, 4, 3, 3))),
    ),
    "one pixel": Case(
        conv("a", "x", "w") + "p = GlobalAveragePool(a)\n[flat] f = Flatten(p)\ny = Gemm(f, v)",
        "float[n,c] y",
        weights=(("w", (6, 5, 3, 3)), ("v", (6, 10))),
    ),
    "channels last outside": Case(
        "[turn] t = Transpose<perm=[0,3,1,2]>(x)\n"
        + conv("a", "t", "w", 1)
        + "[back] y = Transpose<perm=[0,2,3,1]>(a)",
        copies=("turn", "back"),
        x=(1, 6, 7, 5),
        weights=(("w", (6, 5, 3, 3)),),
    ),
    "there and back": Case(
        "a = Exp(x)\n[turn] t = Transpose<perm=[0,3,1,2]>(a)\n[back] b = Transpose<perm=[0,2,3,1]>(t)\n"
        "y = Softmax(b)"
    ),
    "views of views": Case(
        "a = Exp(x)\n[one] t = Reshape(a, s1)\n[two] b = Reshape(t, s2)\ny = Softmax(b)",
        "float[n,c] y",
        weights=(("s1:i", (5, 42)), ("s2:i", (10, 21))),
    ),
    "a turned matrix": Case(
        "a = Exp(x)\n[turn] t = Transpose(a)\ny = MatMul(t, v)",
        "float[n,c] y",
        x=(6, 7),
        weights=(("v", (6, 9)),),
    ),
    "a turned matrix of an uneven view": Case(
        "a = Exp(x)\n[view] b = Reshape(a, s)\n[turn] t = Transpose(b)\ny = MatMul(t, v)",
        "float[n,c] y",
        x=(6, 35),
        weights=(("s:i", (10, 21)), ("v", (10, 9))),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_reorder(name: str) -> None:
    agree(CASES[name])
