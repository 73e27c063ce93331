"""What is put together is made in its place, what is cut out is read where it lies: at every level."""

from __future__ import annotations

import pytest

from tests.probes.moves import Case, agree, conv

ONE, TWO, THREE = ("v", (4, 5, 1, 1)), ("u", (3, 5, 3, 3)), ("t", (6, 7, 3, 3))
BOTH = conv("a", "x", "v") + conv("b", "x", "u", 1)
CASES = {
    "two convolutions": Case(
        BOTH + "[cat] k = Concat<axis=1>(a, b)\n" + conv("y", "k", "t"), weights=(ONE, TWO, THREE)
    ),
    "a window that leaves the whole": Case(
        BOTH + "[cat] k = Concat<axis=1>(a, b)\n" + conv("y", "k", "t", 1), weights=(ONE, TWO, THREE)
    ),
    "a window that leaves a part": Case(
        BOTH + "[cat] k = Concat<axis=1>(a, b)\n" + conv("y", "k", "t") + conv("s", "a", "s2", 2),
        "float[n,c,h,w] y, float[n,c,h,w] s",
        weights=(ONE, TWO, THREE, ("s2", (2, 4, 5, 5))),
    ),
    "along the rows, under a window that leaves the whole": Case(
        conv("a", "x", "v")
        + conv("b", "z", "v")
        + "[cat] k = Concat<axis=2>(a, b)\n"
        + conv("y", "k", "t", 1),
        copies=("cat",),
        weights=(ONE, ("t", (6, 4, 3, 3))),
    ),
    "along the rows, under a window that stays inside": Case(
        conv("a", "x", "v") + conv("b", "z", "v") + "[cat] k = Concat<axis=2>(a, b)\n" + conv("y", "k", "t"),
        weights=(ONE, ("t", (6, 4, 3, 3))),
    ),
    "a chain, each a prefix of the next": Case(
        conv("a", "x", "v")
        + conv("b", "a", "w2", 1)
        + "[cat1] k = Concat<axis=1>(a, b)\n"
        + conv("c", "k", "w3", 1)
        + "[cat2] l = Concat<axis=1>(k, c)\n"
        + conv("d", "l", "w4", 1)
        + "[cat3] m = Concat<axis=1>(l, d)\n"
        + conv("y", "m", "w5"),
        weights=(ONE, *((f"w{i}", (3, 4 + 3 * i - 6, 3, 3)) for i in range(2, 6))),
    ),
    "an input among the parts": Case(
        conv("a", "x", "v") + "[cat] k = Concat<axis=1>(a, z)\n" + conv("y", "k", "t"),
        copies=("cat",),
        weights=(ONE, ("t", (6, 9, 3, 3))),
    ),
    "a constant among the parts": Case(
        conv("a", "x", "v") + "[cat] k = Concat<axis=1>(a, c)\n" + conv("y", "k", "t"),
        copies=("cat",),
        weights=(ONE, ("c", (1, 2, 6, 7)), ("t", (6, 6, 3, 3))),
    ),
    "an output among the parts": Case(
        BOTH + "[cat] k = Concat<axis=1>(a, b)\n" + conv("y", "k", "t"),
        "float[n,c,h,w] y, float[n,c,h,w] a",
        copies=("cat",),
        weights=(ONE, TWO, THREE),
        is_exported=True,
    ),
    "one tensor twice": Case(
        conv("a", "x", "v") + "[cat] k = Concat<axis=1>(a, a)\n" + conv("y", "k", "t"),
        copies=("cat",),
        weights=(ONE, ("t", (6, 8, 3, 3))),
    ),
    "one tensor in two concatenations": Case(
        BOTH
        + "[cat1] k = Concat<axis=1>(a, b)\n[cat2] l = Concat<axis=1>(b, a)\n"
        + conv("p", "k", "t")
        + conv("q", "l", "t")
        + "y = Add(p, q)\n",
        copies=("cat2",),
        weights=(ONE, TWO, THREE),
    ),
    "a map of the whole": Case(
        BOTH + "[cat] k = Concat<axis=1>(a, b)\nr = Relu(k)\n" + conv("y", "r", "t"),
        weights=(ONE, TWO, THREE),
    ),
    "the whole is the output": Case("a = Exp(x)\nb = Abs(z)\n[cat] y = Concat<axis=1>(a, b)"),
    "the whole is the output, along the innermost axis": Case(
        "a = Exp(x)\nb = Abs(z)\n[cat] y = Concat<axis=3>(a, b)"
    ),
    "a batch": Case("a = Exp(x)\nb = Abs(z)\n[cat] k = Concat<axis=1>(a, b)\ny = Softmax(k)", x=(3, 2, 2, 3)),
    "wholes within wholes along different axes": Case(
        "a = Exp(x)\nb = Abs(z)\n[c1] k = Concat<axis=2>(a, b)\nc = Neg(k)\n"
        "[c2] l = Concat<axis=1>(k, c)\n[c3] y = Concat<axis=3>(l, l)\n",
        copies=("c3",),
    ),
    "a view of the whole": Case(
        "a = Exp(x)\nb = Abs(z)\n[cat] k = Concat<axis=1>(a, b)\n[flat] f = Flatten(k)\ny = Softmax(f)",
        "float[n,c] y",
    ),
    "a view of a part": Case(
        "a = Exp(x)\n[flat] f = Flatten(a)\n[cat] k = Concat<axis=1>(f, f)\ny = Softmax(k)",
        "float[n,c] y",
        copies=("cat",),
    ),
    "a view that is the output": Case(
        "a = Exp(x)\nb = Softmax(a)\n[flat] y = Flatten(b)", "float[n,c] y", x=(2, 3, 4, 5)
    ),
    "a view of a whole that is the output": Case(
        "a = Exp(x)\nb = Abs(z)\n[cat] k = Concat<axis=1>(a, b)\n[flat] y = Flatten(k)", "float[n,c] y"
    ),
    "two views that are outputs": Case(
        "a = Exp(x)\n[flat] y = Flatten(a)\n[again] y2 = Flatten<axis=2>(a)",
        "float[n,c] y, float[n,c] y2",
        copies=("again",),
    ),
    "a view of the input": Case("[flat] y = Flatten(x)", "float[n,c] y", copies=("flat",)),
    "a view of one pixel": Case(
        conv("a", "x", "v") + "p = GlobalMaxPool(a)\n[flat] f = Flatten(p)\ny = Softmax(f)",
        "float[n,c] y",
        weights=(ONE,),
    ),
    "halves read by windows": Case(
        conv("a", "x", "w8")
        + "[split] p, q = Split<axis=1, num_outputs=2>(a)\n"
        + conv("c", "p", "w4", 1)
        + conv("d", "q", "w4")
        + "s = ReduceMean<keepdims=1>(c)\ny = Add(d, s)\n",
        weights=(("w8", (8, 5, 1, 1)), ("w4", (3, 4, 3, 3))),
    ),
    "a slice of the input": Case(
        "[cut] k = Slice(x, s, e, ax)\ny = Softmax(k)",
        weights=(("s:i", (2, 1)), ("e:i", (4, 4)), ("ax:i", (1, 2))),
    ),
    "a slice of a view": Case(
        "e1 = Exp(x)\n[view] v = Reshape(e1, sh)\n[cut] k = Slice(v, s, e, ax)\ny = Softmax(k)",
        "float[n,c] y",
        weights=(("sh:i", (7, 30)), ("s:i", (2, 1)), ("e:i", (4, 22)), ("ax:i", (0, 1))),
    ),
    "a slice with steps": Case(
        "e1 = Exp(x)\n[cut] k = Slice(e1, s, e, ax, st)\ny = Softmax(k)",
        copies=("cut",),
        weights=(("s:i", (2, 1)), ("e:i", (4, 6)), ("ax:i", (1, 2)), ("st:i", (1, 2))),
    ),
    "slices put together again": Case(
        "e1 = Exp(x)\n[split] p, q = Split<axis=2, num_outputs=2>(e1)\n[cat] k = Concat<axis=2>(q, p)\n"
        "y = Softmax(k)",
        copies=("cat",),
    ),
    "a part read beside the one it makes": Case(
        "a = Exp(x)\nb = Neg(a)\n[cat] k = Concat<axis=1>(a, b)\nc = Abs(b)\n"
        "[cat2] l = Concat<axis=1>(k, c)\ny = Softmax(l)",
    ),
    "the identity": Case("a = Exp(x)\n[same] b = Identity(a)\ny = Softmax(b)"),
}


@pytest.mark.parametrize("name", CASES)
def test_in_place(name: str) -> None:
    agree(CASES[name])
