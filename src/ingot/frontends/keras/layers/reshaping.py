"""What moves elements: reshapes, transposes, padding, cropping, repeating, and enlarging of images."""

from __future__ import annotations

from math import prod
from typing import Any

from ingot.frontends.keras.layers.convolution import axes_of, sizes
from ingot.frontends.keras.table import Call, Result, layer
from ingot.frontends.orders import Tensor, like, sliced
from ingot.graph.ir import Value

NAMES_OF_PADS = "a number, a number for each axis, or two numbers for each"


@layer("Flatten")
def flatten(c: Call) -> Result:
    """[batch, elements]; of channels-first images as if the channels were last."""
    x = c.x
    value = c.plain(x)
    if c.order(x.rank) is None and x.rank > 2:
        value = c.b.transposed(value, (0, *range(2, x.rank), 1))
    return Tensor(c.b.reshape(value, (x.shape[0], prod(x.shape[1:]))))


@layer("Reshape")
def reshape(c: Call) -> Result:
    """The batch stays; one extent may be -1."""
    x, target = c.x, c.settings.integers("target_shape")
    return Tensor(c.b.reshape(c.plain(x), (x.shape[0], *filled_shape(c, target, prod(x.shape[1:])))))


def filled_shape(c: Call, target: list[int], count: int) -> list[int]:
    """The shape with its -1 replaced by what is left of so many elements."""
    rest = prod(n for n in target if n != -1)
    c.require(target.count(-1) <= 1 and min(target, default=0) >= -1, f"a shape of {target}")
    if -1 in target:
        c.require(rest > 0 and count % rest == 0, f"a shape of {target}")
        target = [count // rest if n == -1 else n for n in target]
    c.require(prod(target) == count, f"a shape of {target}")
    return target


@layer("Permute")
def permute(c: Call) -> Result:
    """Axes count from 1, behind the batch. Only the order is noted."""
    x, dims = c.x, c.settings.integers("dims")
    c.require(sorted(dims) == list(range(1, x.rank)), f"{dims} is no order of {x.rank - 1} axes")
    return permuted(x, (0, *dims))


def permuted(x: Tensor, perm: tuple[int, ...]) -> Tensor:
    order = tuple(x.order[p] for p in perm) if x.order is not None else perm
    return Tensor(x.value, None if order == tuple(range(x.rank)) else order)


@layer("RepeatVector")
def repeat_vector(c: Call) -> Result:
    """[batch, features] -> [batch, n, features]"""
    x, n = c.x, c.settings.count("n")
    c.require(x.rank == 2, "an input of two axes is needed")
    value = c.b.reshape(c.plain(x), (x.shape[0], 1, x.shape[1]))
    return Tensor(c.b.one("Expand", value, c.b.ints([x.shape[0], n, x.shape[1]])))


# ---- padding, cropping


def both_sides(c: Call, name: str, n: int) -> list[tuple[int, int]]:
    """Two numbers for each axis."""
    found: Any = c.settings.get(name, 1)
    if isinstance(found, int) and not isinstance(found, bool):
        found = [found] * n
    if isinstance(found, list) and n == 1 and len(found) == 2 and all(isinstance(v, int) for v in found):
        found = [found]
    pairs = [[v, v] if isinstance(v, int) else v for v in found] if isinstance(found, list) else []
    fits = len(pairs) == n and all(
        isinstance(p, list) and len(p) == 2 and all(type(v) is int and 0 <= v < 1 << 31 for v in p)
        for p in pairs
    )
    c.require(fits, f"its {name!r} is {str(found)[:60]}: {NAMES_OF_PADS} is needed")
    return [(p[0], p[1]) for p in pairs]


@layer("ZeroPadding1D", "ZeroPadding2D", "ZeroPadding3D")
def zero_padding(c: Call) -> Result:
    x, n = c.x, axes_of(c)
    sizes(c, x, n)
    sides, order = both_sides(c, "padding", n), c.order(x.rank)
    flat = [0, 0, *(p[0] for p in sides), 0, 0, *(p[1] for p in sides)]
    held = c.b.held(x, order)
    if not any(flat):
        return Tensor(held, order)
    return Tensor(c.b.one("Pad", held, c.b.ints(flat), like(c.b, held, 0)), order)


@layer("Cropping1D", "Cropping2D", "Cropping3D")
def cropping(c: Call) -> Result:
    x, n = c.x, axes_of(c)
    extents, _ = sizes(c, x, n)
    sides, order = both_sides(c, "cropping", n), c.order(x.rank)
    c.require(all(sum(p) < e for p, e in zip(sides, extents, strict=True)), f"{sides} cut off")
    return Tensor(
        _window(c, c.b.held(x, order), [(p[0], e - p[1]) for p, e in zip(sides, extents, strict=True)]), order
    )


def _window(c: Call, held: Value, bounds: list[tuple[int, int]]) -> Value:
    """From where to where of each spatial axis of a channels-first image."""
    n, channels = Tensor(held).shape[:2]
    starts, ends = [0, 0, *(b[0] for b in bounds)], [n, channels, *(b[1] for b in bounds)]
    return sliced(c.b, held, starts, ends, [1] * len(starts))


# ---- images


@layer("UpSampling1D", "UpSampling2D", "UpSampling3D")
def up_sampling(c: Call) -> Result:
    """Every element several times, or what lies between elements (bilinear, bicubic)."""
    x, n = c.x, axes_of(c)
    extents, _ = sizes(c, x, n)
    factors = c.settings.counts("size", n, 2)
    how = c.settings.text("interpolation", "nearest")
    order = c.order(x.rank)
    made = resized(c, c.b.held(x, order), [e * f for e, f in zip(extents, factors, strict=True)], how)
    return Tensor(made, order)


def resized(c: Call, held: Value, wanted: list[int], how: str) -> Value:
    """A channels-first image in another size; pixels are areas whose middles are compared."""
    c.require(min(wanted) > 0 and max(wanted) < 1 << 24, f"an image of {wanted}")
    size = c.b.ints([*Tensor(held).shape[:2], *wanted])
    if how == "nearest":
        mode: dict[str, Any] = {"mode": "nearest", "nearest_mode": "floor"}
        mode["coordinate_transformation_mode"] = _nearest(Tensor(held).shape[2:], wanted)
        if mode["coordinate_transformation_mode"] == "half_pixel":
            mode["nearest_mode"] = "round_prefer_ceil"
    elif how == "bilinear":
        mode = {"mode": "linear", "coordinate_transformation_mode": "half_pixel"}
    elif how == "bicubic":
        mode = {"mode": "cubic", "cubic_coeff_a": -0.5, "exclude_outside": 1}
        mode["coordinate_transformation_mode"] = "half_pixel"
    else:
        raise c.refuse(f"the interpolation {how[:40]!r} is not supported")
    return c.b.one("Resize", held, None, None, size, **mode)


def _nearest(extents: tuple[int, ...], wanted: list[int]) -> str:
    """For whole factors both ways of counting give the same element; the simpler one is written."""
    is_whole = all(w % e == 0 for e, w in zip(extents, wanted, strict=True))
    return "asymmetric" if is_whole else "half_pixel"
