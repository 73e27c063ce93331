"""How POWER8 and its successors spell operations on their vectors of 16 bytes (VSX), little-endian."""

from __future__ import annotations

from collections.abc import Iterator

from .record import Spellings

HEADER = "#include <altivec.h>\n#undef vector\n#undef pixel\n#undef bool\n"
"""The intrinsics, without the words that they take from C."""
ROUNDINGS = {"round": "rint", "floor": "floor", "ceil": "ceil", "trunc": "trunc", "sqrt": "sqrt"}


def _cast(ctype: str, operand: str) -> str:
    return f"(__vector {ctype})({{{operand}}})"


def _vsx() -> Iterator[tuple[tuple[str, str], str]]:
    """max and min of floats are missing, as vec_max and vec_min answer the other operand where one is NaN."""
    for dtype, mask in (("float32", "unsigned int"), ("float64", "unsigned long long")):
        yield ("madd", dtype), "vec_madd({a}, {b}, {c})"
        yield ("larger", dtype), "vec_max({a}, {b})"
        yield ("select", dtype), f"vec_sel({{c}}, {{b}}, {_cast(mask, 'a')})"
        yield from (((name, dtype), f"vec_{call}({{a}})") for name, call in ROUNDINGS.items())
    for dtype in ("int32", "int64"):
        yield ("any", dtype), f"vec_any_ne({_cast('int', 'a')}, (__vector int){{{{0}}}})"
    for dtype in ("int8", "uint8", "int16", "int32"):
        yield from (((name, dtype), f"vec_{name}({{a}}, {{b}})") for name in ("max", "min"))
    yield ("nearest_int32", "float32"), "vec_signed(vec_rint({a}))"
    for to, dtype, ctype, call in (
        ("int16", "int32", "int", "packs"),
        ("int8", "int16", "short", "packs"),
        ("uint8", "int16", "short", "packsu"),
    ):
        yield (f"pack_{to}", dtype), f"vec_{call}({_cast(ctype, 'a')}, {_cast(ctype, 'b')})"


def _products() -> Iterator[tuple[tuple[str, str], str]]:
    """Bytes are signed times unsigned: of two signed ones, {b} is taken with 128 more, which is paid back."""
    a, b, c = _cast("signed char", "a"), _cast("signed char", "b"), _cast("int", "c")
    shifted = "(__vector unsigned char)vec_xor({b}, vec_splats((signed char)-128))"
    paid = f"vec_msum({a}, vec_splats((unsigned char)128), vec_splats(0))"
    yield ("dot4", "uint8"), f"vec_msum({b}, {_cast('unsigned char', 'a')}, {c})"
    yield ("dot4", "int8"), f"vec_msum({a}, {shifted}, vec_sub({c}, {paid}))"
    yield ("dot2", "int16"), f"vec_msum({_cast('short', 'a')}, {_cast('short', 'b')}, {c})"
    for dtype in ("int8", "uint8"):
        yield ("pick16", dtype), f"vec_perm({{a}}, {{a}}, {_cast('unsigned char', 'c')})"
        yield ("pick32", dtype), f"vec_perm({{a}}, {{b}}, {_cast('unsigned char', 'c')})"


VSX: Spellings = {**dict(_vsx()), **dict(_products())}
