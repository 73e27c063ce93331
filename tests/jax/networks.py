"""Small networks of Flax as its users write them, with random weights. Read by `oracle.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

Build = Callable[[nnx.Rngs], nnx.Module]


class MLP(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.first, self.second = nnx.Linear(12, 32, rngs=rngs), nnx.Linear(32, 5, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        return nnx.softmax(self.second(nnx.gelu(self.first(x))))


class CNN(nnx.Module):
    """Two convolutions with normalisation and pooling, as Flax's own MNIST example has them."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.first = nnx.Conv(1, 8, kernel_size=(3, 3), rngs=rngs)
        self.norm = nnx.BatchNorm(8, use_running_average=True, rngs=rngs)
        self.second = nnx.Conv(8, 16, kernel_size=(3, 3), strides=2, rngs=rngs)
        self.last = nnx.Linear(7 * 7 * 16, 10, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        y = nnx.max_pool(nnx.relu(self.norm(self.first(x))), window_shape=(2, 2), strides=(2, 2))
        y = nnx.relu(self.second(y))
        return self.last(y.reshape(y.shape[0], -1))


class Residual(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.stem = nnx.Conv(3, 8, kernel_size=(3, 3), rngs=rngs)
        self.inner = nnx.Conv(8, 8, kernel_size=(3, 3), rngs=rngs)
        self.depthwise = nnx.Conv(8, 8, kernel_size=(3, 3), feature_group_count=8, rngs=rngs)
        self.norm, self.last = nnx.GroupNorm(8, num_groups=2, rngs=rngs), nnx.Linear(8, 4, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        y = nnx.relu(self.stem(x))
        y = y + nnx.silu(self.norm(self.inner(y)))
        y = nnx.avg_pool(self.depthwise(y), window_shape=(2, 2), strides=(2, 2))
        return self.last(jnp.mean(y, axis=(1, 2)))


class Encoder(nnx.Module):
    """One layer of a transformer's encoder."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.attention = nnx.MultiHeadAttention(4, 16, decode=False, rngs=rngs)
        self.before, self.after = nnx.LayerNorm(16, rngs=rngs), nnx.LayerNorm(16, rngs=rngs)
        self.up, self.down = nnx.Linear(16, 32, rngs=rngs), nnx.Linear(32, 16, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        y = x + self.attention(self.before(x))
        return y + self.down(nnx.gelu(self.up(self.after(y))))


def plain(rngs: nnx.Rngs) -> Callable[[Any], Any]:
    """A function of JAX's own, without Flax."""
    weights = jax.random.normal(rngs(), (6, 6))
    return lambda x: jnp.tanh(x @ weights).sum(axis=-1) + jax.nn.logsumexp(x, axis=-1)


NETWORKS: tuple[tuple[str, Callable[[nnx.Rngs], Any], tuple[int, ...]], ...] = (
    ("MLP", MLP, (1, 12)),
    ("CNN", CNN, (1, 28, 28, 1)),
    ("residual CNN", Residual, (1, 16, 16, 3)),
    ("transformer encoder", Encoder, (1, 10, 16)),
    ("a function of jax.numpy", plain, (3, 6)),
)
