"""A small transformer in numpy: forwards in any precision, and the gradients of its weights.

In: weights by name, tokens [batch, length]. Out: logits [batch, length, tokens], and a function that takes
their gradient to those of the weights. The layers are those of Llama without factors of norms: what is
normalised meets a matrix, which has them already.
"""

from collections.abc import Callable
from functools import reduce

import numpy as np

WIDTH, LAYERS, HEADS, INNER, CONTEXT = 64, 2, 4, 128, 64
HEAD = WIDTH // HEADS
EPSILON = 1e-5

Array = np.ndarray
Weights = dict[str, Array]
Pull = Callable[[Array], Array]


def shapes(tokens: int) -> dict[str, tuple[int, int]]:
    """The matrices, [inputs, outputs] each; the first holds a row for each token."""
    found = {"embedding": (tokens, WIDTH)}
    for i in range(LAYERS):
        found |= {f"{i}.{name}": (WIDTH, WIDTH) for name in "qkvo"}
        found |= {f"{i}.gate": (WIDTH, INNER), f"{i}.up": (WIDTH, INNER), f"{i}.down": (INNER, WIDTH)}
    return found | {"logits": (WIDTH, tokens)}


def angles(dtype: type = np.float32) -> tuple[Array, Array]:
    """Cosines and sines of the rotary embedding, [CONTEXT, HEAD / 2] each."""
    turns = np.arange(CONTEXT)[:, None] / 100 ** (np.arange(HEAD // 2) / (HEAD // 2))
    return np.cos(turns).astype(dtype), np.sin(turns).astype(dtype)


def turned(x: Array, sign: int) -> Array:
    """Heads [batch, heads, length, HEAD] turned by their positions, or back."""
    cos, sin = (part[: x.shape[2]] for part in angles(x.dtype.type))
    a, b = np.split(x, 2, axis=-1)
    return np.concatenate([a * cos - sign * b * sin, sign * a * sin + b * cos], axis=-1)


def normal(x: Array) -> tuple[Array, Pull]:
    """Vectors divided by their root mean square."""
    r = (1 / np.sqrt(np.mean(x * x, -1, keepdims=True) + EPSILON)).astype(x.dtype)
    y = x * r
    return y, lambda d: r * (d - y * np.mean(d * y, -1, keepdims=True))


def dense(x: Array, w: Weights, name: str, found: Weights) -> tuple[Array, Pull]:
    """A matrix product; its pull leaves the gradient of the matrix in `found`."""

    def pull(d: Array) -> Array:
        found[name] = x.reshape(-1, x.shape[-1]).T @ d.reshape(-1, d.shape[-1])
        return d @ w[name].T

    return x @ w[name], pull


def split(x: Array) -> Array:
    """[batch, length, WIDTH] as heads."""
    return x.reshape(*x.shape[:2], HEADS, HEAD).swapaxes(1, 2)


def whole(x: Array) -> Array:
    """Heads as [batch, length, WIDTH]."""
    x = x.swapaxes(1, 2)
    return x.reshape(*x.shape[:2], WIDTH)


def attend(q: Array, k: Array, v: Array) -> tuple[Array, Callable[[Array], tuple[Array, Array, Array]]]:
    """Causal attention of heads."""
    scores = q @ k.swapaxes(-1, -2) / HEAD**0.5
    scores = np.where(np.tri(q.shape[2], dtype=bool), scores, -np.inf)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)

    def pull(d: Array) -> tuple[Array, Array, Array]:
        d_p = d @ v.swapaxes(-1, -2)
        d_scores = p * (d_p - np.sum(d_p * p, -1, keepdims=True)) / HEAD**0.5
        return d_scores @ k, d_scores.swapaxes(-1, -2) @ q, p.swapaxes(-1, -2) @ d

    return p @ v, pull


def attention(x: Array, w: Weights, i: int, found: Weights) -> tuple[Array, Pull]:
    """x and what it attends to."""
    h, pull_normal = normal(x)
    (q, pull_q), (k, pull_k), (v, pull_v) = (dense(h, w, f"{i}.{name}", found) for name in "qkv")
    y, pull_heads = attend(turned(split(q), 1), turned(split(k), 1), split(v))
    y, pull_o = dense(whole(y), w, f"{i}.o", found)

    def pull(d: Array) -> Array:
        d_q, d_k, d_v = pull_heads(split(pull_o(d)))
        d_h = pull_q(whole(turned(d_q, -1))) + pull_k(whole(turned(d_k, -1))) + pull_v(whole(d_v))
        return d + pull_normal(d_h)

    return x + y, pull


def feed_forward(x: Array, w: Weights, i: int, found: Weights) -> tuple[Array, Pull]:
    """x and the gated part."""
    h, pull_normal = normal(x)
    gate, pull_gate = dense(h, w, f"{i}.gate", found)
    up, pull_up = dense(h, w, f"{i}.up", found)
    sigmoid = 1 / (1 + np.exp(-gate))
    y, pull_down = dense(gate * sigmoid * up, w, f"{i}.down", found)

    def pull(d: Array) -> Array:
        d_y = pull_down(d)
        d_gate = d_y * up * sigmoid * (1 + gate * (1 - sigmoid))
        return d + pull_normal(pull_gate(d_gate) + pull_up(d_y * gate * sigmoid))

    return x + y, pull


def forward(w: Weights, tokens: Array) -> tuple[Array, Callable[[Array], Weights]]:
    """Logits, and the gradients of all weights by that of the logits."""
    found: Weights = {}
    x, pulls = w["embedding"][tokens], list[Pull]()
    for i in range(LAYERS):
        for part in (attention, feed_forward):
            x, pull = part(x, w, i, found)
            pulls.append(pull)
    h, pull_normal = normal(x)
    logits, pull_logits = dense(h, w, "logits", found)

    def gradients(d: Array) -> Weights:
        d = reduce(lambda d, pull: pull(d), [pull_logits, pull_normal, *reversed(pulls)], d)
        found["embedding"] = np.zeros_like(w["embedding"])
        np.add.at(found["embedding"], tokens, d)
        return found

    return logits, gradients
