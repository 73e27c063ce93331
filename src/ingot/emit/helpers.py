"""The small static functions that emitted C calls, each printed once per file and only if used.

Keys are what `Printer.used` collected: ("max", "float32"), ("to", "float32", "int8"), ("exp", "float32"), ...
Functions of the math library are printed from their definitions in `ingot.loops.math`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from ingot.emit.expression import helper_name, short
from ingot.emit.fixed_point import FIXED_POINT, fixed_point
from ingot.emit.literals import literal, quoted
from ingot.emit.narrow import narrow_body, widen_body
from ingot.emit.wrap import COLUMNS
from ingot.formula.types import DTYPES, INT32, INT64, DType, dtype_named
from ingot.loops.instructions import GROUP
from ingot.targets.record import Target

Key = tuple[str, ...]


def helper(key: Key, target: Target) -> str:
    """C text of one helper. Raises KeyError for a name nobody defined."""
    op, *types = key
    if op == "routine":
        return target.routines[types[0]]
    if op == "abs" and len(types) == 2:
        return _vector_abs(key, DTYPES[types[0]], int(types[1]))
    if op == "sign" and len(types) == 2:
        return _vector_sign(key, DTYPES[types[0]], int(types[1]))
    if op == "larger" and len(types) == 2:
        return _vector_larger(key, DTYPES[types[0]], int(types[1]))
    if op in ("max", "min") and len(types) == 2:
        return _vector_extreme(key, DTYPES[types[0]], int(types[1]), target)
    if op == "fused":
        return _fused(key, *map(int, types[1:]))
    if op in FIXED_POINT:
        return _function(key, *fixed_point(op, int(types[1]) if len(types) == 2 else 1))
    if op in _OF_TEXT:
        return _OF_TEXT[op](key, dtype_named(types[0]))
    return _HELPERS[op](key, *[DTYPES.get(t) or DTYPES["int32"] for t in types if not t.isdigit()])


def is_helper(key: Key) -> bool:
    return key[0] in ("routine", "fused") or any(
        key[0] in names for names in (_HELPERS, _OF_TEXT, FIXED_POINT)
    )


def _function(key: Key, result: str, parameters: str, body: str) -> str:
    """In one line if it fits, else a line a statement: where an `if` begins a line, nothing may follow it."""
    head = f"static inline {result} {helper_name(*key)}({parameters}) {{"
    if len(head) + len(body) + 3 <= COLUMNS:
        return f"{head} {body} }}"
    return "\n".join([head, *(f"    {s}" for s in _statements(body)), "}"])


def _statements(body: str) -> Iterator[str]:
    """The statements of a function in order."""
    start = depth = 0
    for at, c in enumerate(body, 1):
        depth += (c in "({") - (c in ")}")
        is_block = c == "}" and not body.startswith("union", start)
        if depth == 0 and (c == ";" or is_block):
            yield body[start:at].strip()
            start = at


def _fused(key: Key, lanes: int = 1) -> str:
    """x * y + z of float32, rounded once by way of float64: the product is exact there, and so is the sum of
    numbers whose last bits lie within 53 of the first.
    """
    if lanes == 1:
        return _function(key, "float", "float x, float y, float z", "return (float)((double)x * y + z);")
    x, y, z = (f"__builtin_convertvector({v}, f64x{lanes})" for v in "xyz")
    body = f"return __builtin_convertvector({x} * {y} + {z}, f32x{lanes});"
    return _function(key, f"f32x{lanes}", f"f32x{lanes} x, f32x{lanes} y, f32x{lanes} z", body)


def _not_vectorized(key: Key) -> str:
    """What stands before a loop that clang must leave alone: version 22 makes wrong vectors of such loops for
    AVX2 (tests/test_toolchain.py), whatever flags the user of the C compiles it with.
    """
    lines = [
        "#ifdef __clang__ /* version 22 gets nested conditions wrong for AVX2 */",
        '#define NOT_VECTORIZED _Pragma("clang loop vectorize(disable)")',
        "#else",
        "#define NOT_VECTORIZED",
        "#endif",
    ]
    return "\n".join(lines)


def _imax(key: Key) -> str:
    return _function(key, "int", "int x, int y", "return x > y ? x : y;")


def _imin(key: Key) -> str:
    return _function(key, "int", "int x, int y", "return x < y ? x : y;")


def _ifloordiv(key: Key) -> str:
    return _function(key, "int", "int x, int y", "return x / y - (x % y != 0 && (x < 0) != (y < 0));")


def _imod(key: Key) -> str:
    return _function(key, "int", "int x, int y", "return x % y + (x % y != 0 && (x < 0) != (y < 0) ? y : 0);")


def _two(body: str) -> Callable[..., str]:
    return lambda key, t: _function(key, t.c, f"{t.c} x, {t.c} y", body.format(t=t.c))


def _one(body: str, result: str | None = None) -> Callable[..., str]:
    return lambda key, t: _function(key, result or t.c, f"{t.c} x", body.format(t=t.c))


def _extreme(key: Key, t: DType) -> str:
    """max or min; of floats the NaN there is. With a constant y one comparison is left, without a branch."""
    away, near = ("<", ">") if key[0] == "max" else (">", "<")
    body = f"if (x {away} y) x = y; return y != y ? y : x;" if t.is_float else f"return x {near} y ? x : y;"
    return _function(key, t.c, f"{t.c} x, {t.c} y", body)


def _compare(key: Key, t: DType) -> str:
    """The order of two strings: below 0, 0 or above. What stands behind a zero does not count."""
    body = (
        f"for (int i = 0; i < {t.bytes}; i++) {{ const int a = x->bytes[i], b = y->bytes[i]; "
        "if (a != b) return a - b; if (a == 0) break; } return 0;"
    )
    return _function(key, "int", f"const {t.c} *x, const {t.c} *y", body)


def _copy(key: Key, t: DType) -> str:
    body = f"for (int i = 0; i < {t.bytes}; i++) to->bytes[i] = from->bytes[i];"
    return _function(key, "void", f"{t.c} *to, const {t.c} *from", body)


def _text(key: Key, t: DType) -> str:
    """A literal string."""
    body = f"static const {t.c} text = {{{quoted(bytes.fromhex(key[2]))}}}; return &text;"
    return f"static inline const {t.c} *{helper_name(*key)}(void) {{ {body} }}"


def text_types(types: Iterable[DType]) -> str:
    """The structs that strings are."""
    rows = []
    for t in sorted({t for t in types if t.is_text}, key=lambda t: t.bits):
        guard = f"INGOT_{t.c.upper()}"
        struct = f"typedef struct {{ uint8_t bytes[{t.bytes}]; }} {t.c};"
        rows.append(f"#ifndef {guard}\n#define {guard}\n{struct}\n#endif")
    return "\n".join(rows)


def _vector_extreme(key: Key, t: DType, lanes: int, target: Target) -> str:
    """max or min that propagates NaN; the instruction answers its second operand where one is NaN."""
    vector, bits = f"{short(t.name)}x{lanes}", f"i{t.bits}x{lanes}"
    spelled = target.spelling(key[0], t.name, lanes * t.bytes)
    sign = ">" if key[0] == "max" else "<"
    if not t.is_float:
        pick = f"const {vector} m = ({vector})(x {sign} y); return (m & x) | (~m & y);"
        return _function(key, vector, f"{vector} x, {vector} y", pick)
    mask = "x != x" if spelled else f"(x {sign} y) | (x != x)"
    other = spelled.format(a="x", b="y") if spelled else "y"
    body = f"const {bits} m = {mask}; return ({vector})((m & ({bits})x) | (~m & ({bits}){other}));"
    return _function(key, vector, f"{vector} x, {vector} y", body)


def _vector_larger(key: Key, t: DType, lanes: int) -> str:
    vector, bits = f"{short(t.name)}x{lanes}", f"i{t.bits}x{lanes}"
    body = f"const {bits} m = x > y; return ({vector})((m & ({bits})x) | (~m & ({bits})y));"
    return _function(key, vector, f"{vector} x, {vector} y", body)


def _any(key: Key, t: DType) -> str:
    """Of a mask, whether a lane is set."""
    lanes = " | ".join(f"x[{i}]" for i in range(int(key[2])))
    return _function(key, "int", f"{short(t.name)}x{key[2]} x", f"return ({lanes}) != 0;")


def _vector_abs(key: Key, t: DType, lanes: int) -> str:
    """The sign bit cleared; vectors of integers are not made."""
    vector, bits = f"{short(t.name)}x{lanes}", f"i{t.bits}x{lanes}"
    mask = literal((1 << (t.bits - 1)) - 1, INT64 if t.bits == 64 else INT32)
    return _function(key, vector, f"{vector} x", f"return ({vector})(({bits})x & {mask});")


def _vector_sign(key: Key, t: DType, lanes: int) -> str:
    """Comparisons are 0 or -1; NaN stays NaN."""
    vector, bits = f"{short(t.name)}x{lanes}", f"i{t.bits}x{lanes}"
    sign = f"({bits})__builtin_convertvector((x < 0) - (x > 0), {vector})"
    body = f"const {bits} nan = x != x; return ({vector})(({sign} & ~nan) | (({bits})x & nan));"
    return _function(key, vector, f"{vector} x", body)


def _abs(key: Key, t: DType) -> str:
    if t.is_float:
        builtin = "__builtin_fabsf" if t.bits == 32 else "__builtin_fabs"
        return _function(key, t.c, f"{t.c} x", f"return {builtin}(x);")
    wide = f"uint{max(t.bits, 32)}_t"
    body = "return x;" if t.kind == "u" else f"return x < 0 ? ({t.c})(0u - ({wide})x) : x;"
    return _function(key, t.c, f"{t.c} x", body)


def _neg(key: Key, t: DType) -> str:
    return _function(key, t.c, f"{t.c} x", f"return ({t.c})(0u - (uint{max(t.bits, 32)}_t)x);")


def _sign(key: Key, t: DType) -> str:
    nan = "x != x ? x : " if t.is_float else ""
    low = "" if t.kind == "u" else " - (x < 0)"
    return _function(key, t.c, f"{t.c} x", f"return {nan}({t.c})((x > 0){low});")


def _div(key: Key, t: DType) -> str:
    """C's division; by zero it is 0, and the one quotient that overflows wraps."""
    wraps = f"y == -1 ? ({t.c})(0u - (uint{max(t.bits, 32)}_t)x) : " if t.kind == "i" else ""
    return _function(key, t.c, f"{t.c} x, {t.c} y", f"return y == 0 ? 0 : {wraps}({t.c})(x / y);")


def _floordiv(key: Key, t: DType) -> str:
    if t.kind == "u":
        return _div(key, t)
    wraps = f"y == -1 ? ({t.c})(0u - (uint{max(t.bits, 32)}_t)x) : "
    body = f"return y == 0 ? 0 : {wraps}({t.c})(x / y - (x % y != 0 && (x < 0) != (y < 0)));"
    return _function(key, t.c, f"{t.c} x, {t.c} y", body)


def _mod(key: Key, t: DType) -> str:
    adjust = "" if t.kind == "u" else " + (x % y != 0 && (x < 0) != (y < 0) ? y : 0)"
    guard = "y == 0 || y == -1" if t.kind == "i" else "y == 0"
    return _function(key, t.c, f"{t.c} x, {t.c} y", f"return {guard} ? 0 : ({t.c})(x % y{adjust});")


def _fmod(key: Key, t: DType) -> str:
    guard = "y == 0 || y == -1" if t.kind == "i" else "y == 0"
    return _function(key, t.c, f"{t.c} x, {t.c} y", f"return {guard} ? 0 : ({t.c})(x % y);")


def _shl(key: Key, t: DType) -> str:
    body = f"return y >= {t.bits} ? 0 : ({t.c})((uint{max(t.bits, 32)}_t)x << y);"
    return _function(key, t.c, f"{t.c} x, {t.c} y", body)


def _shr(key: Key, t: DType) -> str:
    far = "x < 0 ? -1 : 0" if t.kind == "i" else "0"
    return _function(key, t.c, f"{t.c} x, {t.c} y", f"return ({t.c})(y >= {t.bits} ? ({far}) : x >> y);")


def _pow(key: Key, t: DType) -> str:
    """Integers: by squaring, wrapping."""
    wide = f"uint{max(t.bits, 32)}_t"
    negative = (
        "" if t.kind == "u" else f"if (y < 0) return ({t.c})(x == 1 ? 1 : x == -1 ? 1 - 2 * (y & 1) : 0); "
    )
    loop = f"{wide} r = 1, b = ({wide})x; for (; y > 0; y = ({t.c})(y / 2)) {{ if (y & 1) r *= b; b *= b; }} "
    return _function(key, t.c, f"{t.c} x, {t.c} y", f"{negative}{loop}return ({t.c})r;")


def _mulhi(key: Key, t: DType) -> str:
    wide = f"{'u' if t.kind == 'u' else ''}int{2 * t.bits}_t"
    return _function(key, t.c, f"{t.c} x, {t.c} y", f"return ({t.c})((({wide})x * ({wide})y) >> {t.bits});")


def _to(key: Key, source: DType, to: DType) -> str:
    """Float to integer: truncates, saturates, NaN is 0."""
    f = "f" if source.bits == 32 else ""
    lo, hi = float(to.lowest), float(to.highest) + (1.0 if to.bits < 53 else 0.0)
    above, below = f"x >= {hi!r}{f}", f"x < {lo!r}{f}" if to.kind == "i" else "x <= -1.0" + f
    whole = to if to.kind != "x" else INT32
    high, low = literal(int(whole.highest), whole), literal(int(whole.lowest), whole)
    body = f"return x != x ? 0 : {above} ? {high} : {below} ? {low} : ({to.c})x;"
    return _function(key, to.c, f"{source.c} x", body)


def _nearest(key: Key, t: DType) -> str:
    """The nearest integer of a float32 within 2^22, ties to even: added to 1.5 * 2^23, it is rounded to a
    whole number of that float's last bits.
    """
    body = "union { float f; int32_t i; } u; u.f = x + 12582912.0f; return u.i - 0x4B400000;"
    return _function(key, "int32_t", f"{t.c} x", body)


def _bits(key: Key, source: DType, to: DType) -> str:
    body = f"union {{ {source.c} from; {to.c} to; }} u; u.from = x; return u.to;"
    return _function(key, to.c, f"{source.c} x", body)


def _widen(key: Key, t: DType) -> str:
    if t.bits < 16:
        return _function(key, "float", f"{t.c} x", widen_body(t))
    if t.name == "bfloat16":
        body = "union { uint32_t i; float f; } u; u.i = (uint32_t)x << 16; return u.f;"
    else:
        body = (
            "union { uint32_t i; float f; } u; "
            "const uint32_t s = (uint32_t)(x & 0x8000u) << 16, e = (x >> 10) & 31u, m = x & 1023u; "
            "if (e == 0) { u.f = (float)m * 5.9604644775390625e-08f; u.i |= s; } "
            "else u.i = s | ((e == 31u ? 255u : e + 112u) << 23) | (m << 13); return u.f;"
        )
    return _function(key, "float", "uint16_t x", body)


def _narrow(key: Key, t: DType) -> str:
    """Round half to even; a NaN stays a quiet NaN of its sign."""
    if t.bits < 16:
        return _function(key, t.c, f"{t.compute.c} x", narrow_body(t))
    head = "union { float f; uint32_t i; } u; u.f = x; const uint32_t s = (u.i >> 16) & 0x8000u; "
    if t.name == "bfloat16":
        body = (
            "union { float f; uint32_t i; } u; u.f = x; if (x != x) return (uint16_t)((u.i >> 16) | 64u); "
            "return (uint16_t)((u.i + 0x7FFFu + ((u.i >> 16) & 1u)) >> 16);"
        )
    else:
        body = head + (
            "const uint32_t b = u.i & 0x7FFFFFFFu; if (b > 0x7F800000u) return (uint16_t)(s | 0x7E00u); "
            "if (b >= 0x477FF000u) return (uint16_t)(s | 0x7C00u); "
            "if (b < 0x38800000u) { u.i = b; u.f += 0.5f; return (uint16_t)(s | (u.i - 0x3F000000u)); } "
            "return (uint16_t)(s | ((b - 0x38000000u + 0xFFFu + ((b >> 13) & 1u)) >> 13));"
        )
    return _function(key, "uint16_t", "float x", body)


def _isinf(key: Key, t: DType) -> str:
    return _function(key, "uint8_t", f"{t.c} x", "return x - x != 0 && x == x;")


def _splat(key: Key, t: DType) -> str:
    lanes = int(key[2])
    items = ", ".join(["x"] * lanes)
    return _function(
        key, f"{short(t.name)}x{lanes}", f"{t.c} x", f"return ({short(t.name)}x{lanes}){{{items}}};"
    )


def _part(key: Key, t: DType) -> str:
    """Some neighbouring lanes of a longer vector."""
    whole, lanes, first = map(int, key[2:])
    picks = ", ".join(str(first + i) for i in range(lanes))
    name = short(t.name)
    body = f"return __builtin_shufflevector(x, x, {picks});"
    return _function(key, f"{name}x{lanes}", f"{name}x{whole} x", body)


def _narrower(key: Key, t: DType) -> str:
    """Some lanes of a vector of equal elements. gcc repeats an element once more for a narrower register
    unless that is a part of the wider one; clang does so if it is.
    """
    whole, lanes = map(int, key[2:])
    name, vector = helper_name(*key), f"{short(t.name)}x{lanes}"
    head = f"static inline {vector} {name}({short(t.name)}x{whole} x, {t.c} each) {{"
    alike = f"    (void)x; return ({vector}){{{', '.join(['each'] * lanes)}}};"
    part = f"    (void)each; return __builtin_shufflevector(x, x, {', '.join(map(str, range(lanes)))});"
    return "\n".join((head, "#ifdef __clang__", alike, "#else", part, "#endif", "}"))


def _dot(key: Key, a: DType, b: DType) -> str:
    """c[i] += the products of the operands' i-th groups, summed (`loops/instructions.py`)."""
    k, lanes = GROUP[key[0]], int(key[3])
    x, y = (f"{short(t.name)}x{k * lanes}" for t in (a, b))
    total = "int32_t" if lanes == 1 else f"i32x{lanes}"
    at = "" if lanes == 1 else "[i]"
    add = f"c{at} += (int32_t)x[{k} * i + j] * y[{k} * i + j];"
    body = f"for (int i = 0; i < {lanes}; i++) for (int j = 0; j < {k}; j++) {add} return c;"
    return _function(key, total, f"{x} x, {y} y, {total} c", body)


def _madd16(key: Key, a: DType, b: DType) -> str:
    """c + the product of the low halves."""
    body = "return (int32_t)((uint32_t)c + (uint32_t)((int32_t)(int16_t)x * (int16_t)y));"
    return _function(key, "int32_t", f"{a.c} x, {b.c} y, int32_t c", body)


def _pick(key: Key, t: DType, index: DType) -> str:
    """Lane i is element index[i] of the tables in a row."""
    width, count, lanes = map(int, key[3:])
    name, wide = short(t.name), f"{short(t.name)}x{lanes}"
    tables = "abcd"[:count]
    parameters = ", ".join(f"{name}x{width} {x}" for x in tables)
    found = f"{tables[-1]}[index[i] & {width - 1}]"
    for k, x in reversed(list(enumerate(tables[:-1], 1))):
        found = f"index[i] < {k * width} ? {x}[index[i] & {width - 1}] : {found}"
    body = f"{wide} r = {{0}}; for (int i = 0; i < {lanes}; i++) r[i] = {found}; return r;"
    return _function(key, wide, f"{parameters}, {short(index.name)}x{lanes} index", body)


def _dot_saturating(key: Key, a: DType, b: DType) -> str:
    """c[i] += four products, two and two of which are summed in 16 bits that saturate."""
    lanes = int(key[3])
    x, y = (f"{short(t.name)}x{4 * lanes}" for t in (a, b))
    total = f"i32x{lanes}"
    pair = "int s = (int)x[4 * i + j] * y[4 * i + j] + (int)x[4 * i + j + 1] * y[4 * i + j + 1]; "
    add = "c[i] += s > 32767 ? 32767 : s < -32768 ? -32768 : s; "
    body = f"for (int i = 0; i < {lanes}; i++) for (int j = 0; j < 4; j += 2) {{ {pair}{add}}} return c;"
    return _function(key, total, f"{x} x, {y} y, {total} c", body)


def vector_types(used: set[Key]) -> Iterator[str]:
    """The typedefs of vectors: unaligned and free to alias, as loads and stores of arrays need."""
    for _, name, lanes in sorted(k for k in used if k[0] == "type"):
        t = DTYPES[name]
        size = t.bytes * int(lanes)
        attributes = f"vector_size({size}), aligned({t.bytes}), may_alias"
        yield f"typedef {t.c} {short(name)}x{lanes} __attribute__(({attributes}));"


_OF_TEXT = {"compare": _compare, "copy": _copy, "text": _text}
_HELPERS: dict[str, Callable[..., str]] = {
    "not_vectorized": _not_vectorized,
    "imax": _imax,
    "imin": _imin,
    "ifloordiv": _ifloordiv,
    "imod": _imod,
    "max": _extreme,
    "min": _extreme,
    "larger": _two("return x > y ? x : y;"),
    "abs": _abs,
    "neg": _neg,
    "sign": _sign,
    "div": _div,
    "floordiv": _floordiv,
    "mod": _mod,
    "fmod": _fmod,
    "shl": _shl,
    "shr": _shr,
    "pow": _pow,
    "mulhi": _mulhi,
    "to": _to,
    "nearest": _nearest,
    "bits": _bits,
    "widen": _widen,
    "narrow": _narrow,
    "isinf": _isinf,
    "any": _any,
    "madd16": _madd16,
    "dot2": _dot,
    "dot4": _dot,
    "dot4s": _dot_saturating,
    "dot16": _dot,
    "pick": _pick,
    "splat": _splat,
    "part": _part,
    "narrower": _narrower,
    "isnan": _one("return x != x;", "uint8_t"),
}
