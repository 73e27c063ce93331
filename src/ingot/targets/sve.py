"""How Arm's scalable vectors (SVE) spell operations, for processors whose vectors have one known length.

Compilers take GNU vectors of that length (`-msve-vector-bits`) for the intrinsics' types; the other way
around they do so in assignments only.
"""

from __future__ import annotations

from collections.abc import Iterator

from .record import Spellings

HEADER = "#include <arm_sve.h>\n"
ROUNDINGS = {"round": "rintn", "floor": "rintm", "ceil": "rintp", "trunc": "rintz", "sqrt": "sqrt"}


def _floats(width: int) -> Iterator[tuple[tuple[str, str], str]]:
    """Every operation is on all lanes."""
    for ctype, bits in (("float", 32), ("double", 64)):
        dtype, every, s = f"float{bits}", f"svptrue_b{bits}()", f"f{bits}_x"
        is_set = f"svcmpne_n_s{bits}({every}, {{a}}, 0)"
        calls = {"madd": f"svmla_{s}({every}, {{c}}, {{a}}, {{b}})"}
        calls["select"] = f"svsel_f{bits}({is_set}, {{b}}, {{c}})"
        calls |= {name: f"sv{name}_{s}({every}, {{a}}, {{b}})" for name in ("max", "min")}
        calls["larger"] = f"svmaxnm_{s}({every}, {{a}}, {{b}})"
        calls |= {name: f"sv{call}_{s}({every}, {{a}})" for name, call in ROUNDINGS.items()}
        yield from (((name, dtype), _as_vector(ctype, width, call)) for name, call in calls.items())
        yield ("any", f"int{bits}"), f"svptest_any({every}, {is_set})"
    nearest = "svcvt_s32_f32_x(svptrue_b32(), svrintn_f32_x(svptrue_b32(), {a}))"
    yield ("nearest_int32", "float32"), _as_vector("int", width, nearest)


def _integers(width: int) -> Iterator[tuple[tuple[str, str], str]]:
    for ctype, s in (("signed char", "s8"), ("unsigned char", "u8"), ("short", "s16"), ("int", "s32")):
        dtype = f"{'uint' if s[0] == 'u' else 'int'}{s[1:]}"
        for name in ("max", "min"):
            call = f"sv{name}_{s}_x(svptrue_b{s[1:]}(), {{a}}, {{b}})"
            yield (name, dtype), _as_vector(ctype, width, call)
    yield ("dot4", "int8"), _as_vector("int", width, "svdot_s32({c}, {a}, {b})")


def _as_vector(ctype: str, size: int, call: str) -> str:
    """What an intrinsic answers, as a vector of so many bytes."""
    vector = f"{ctype} ingot_r __attribute__((__vector_size__({size})))"
    return f"(__extension__ ({{{{ {vector} = {call}; ingot_r; }}}}))"


def sve(width: int) -> Spellings:
    """Operations on vectors of `width` bytes."""
    return {**dict(_floats(width)), **dict(_integers(width))}


def sve_i8mm(width: int) -> Spellings:
    """USDOT multiplies uint8 by int8."""
    return {("dot4", "uint8"): _as_vector("int", width, "svusdot_s32({c}, {a}, {b})")}
