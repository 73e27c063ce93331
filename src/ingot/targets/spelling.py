"""How each instruction set spells the vector and scalar operations that plain GNU C cannot be trusted with.

Keys are (operation, dtype of {a}), values templates for `str.format`; `records.py` gives tables to targets.
An operation that a table lacks has no single instruction there (or GNU C already gives it): the emitter
writes it portably. Vectors are GNU vectors: integer ones are cast to the intrinsic's type and back.

| operation | meaning |
|---|---|
| madd | {a} * {b} + {c}, rounded once: always the FMA instruction, never a contraction |
| max, min | NaN if {b} is NaN, so the constant goes first: max(0, x). A NaN in {a} alone gives {b} on x86, |
|          | which computes `a > b ? a : b` (of two zeros: {b}), and NaN on NEON and wasm |
| larger | {a} > {b} ? {a} : {b}, which is {b} if {a} is NaN; if {b} is, that or {a} |
| sqrt | correctly rounded |
| select | {a} != 0 ? {b} : {c}, lanes of {a} are 0 or -1, integers as wide as the lanes of {b} |
| any | not 0 where a lane of {a} is -1, 0 where all are 0 |
| round, floor, ceil, trunc | to an integral float; round is to nearest, ties to even |
| convert_int32 | truncates as C does (out of range: undefined, INT_MIN on x86) |
| nearest_int32 | to nearest, ties to even |
| convert_float32 | from int32, to nearest |
| scalef | {a} * 2**floor({b}), with correct overflow, underflow and denormals |
| extend16, extend32 | the vector of 16 or 32 bytes as the first lanes of a longer one, the others anything |
| pick8 ... | element {c}[i] of the register {a}, of {a} and {b} in a row, or of more in {tables}: that many |
|          | lanes in all |
| gather | element {c}[i] of the memory that {a} points to |
| widen_int32 | from narrower integers |
| saturate_int8, saturate_uint8 | from wider integers, limited to what the type holds |
| pack_int16 ... | vectors {a} and {b} in one of lanes half as wide, limited to what the type holds: |
|          | by turns 16 bytes of {a} and of {b} |
| dot4 | {c} (int32) + four products each of 8-bit {a} and int8 {b}; dot4s: pairs of them saturate in int16 |
| madd16 | {c} + {a} * {b}, of the low 16 bits of int32 {a} and {b}, signed |
| widen_even_int16 | the even ones of twice as many bytes; widen_odd_int16: the others |
| dot16 | {c} (an int32) + sixteen products of int8 {a} and {b} |
| doubling_high | the upper half of 2{a}{b}, rounded, halves up; only -2^31 times itself saturates |
| dot2 | int16 pairs: {c} (int32) + {a}[2i] * {b}[2i] + {a}[2i+1] * {b}[2i+1] |
"""

from __future__ import annotations

from collections.abc import Iterator

from .record import Spellings

ROUNDINGS = {"round": 8, "floor": 9, "ceil": 10, "trunc": 11}  # x86 immediate: mode + no inexact exception


def _x86_floats(width: int, level: int) -> Iterator[tuple[tuple[str, str], str]]:
    """`level`: 1 SSE2, 2 SSE4.2, 3 AVX2 and FMA, 4 AVX-512 (VL, DQ)."""
    mm = "_mm" if width == 16 else f"_mm{8 * width}"
    for dtype, s in (("float32", "ps"), ("float64", "pd")):
        for name in ("max", "larger"):
            yield (name, dtype), f"{mm}_max_{s}({{a}}, {{b}})"
        yield ("min", dtype), f"{mm}_min_{s}({{a}}, {{b}})"
        yield ("sqrt", dtype), f"{mm}_sqrt_{s}({{a}})"
        if level >= 3:
            yield ("madd", dtype), f"{mm}_fmadd_{s}({{a}}, {{b}}, {{c}})"
        if level >= 2:
            call = f"{mm}_roundscale_{s}" if width == 64 else f"{mm}_round_{s}"
            yield from (((name, dtype), f"{call}({{a}}, {mode})") for name, mode in ROUNDINGS.items())
        for part in (16, 32):
            if part < width:
                yield (f"extend{part}", dtype), f"{mm}_cast{s}{8 * part}_{s}{8 * width}({{a}})"
        if level >= 4:
            yield ("scalef", dtype), f"{mm}_scalef_{s}({{a}}, {{b}})"


def _x86_selects(width: int, level: int) -> Iterator[tuple[tuple[str, str], str]]:
    """Masks are integer vectors; below SSE4.1 `(m & b) | (~m & c)` is what the machine does anyway."""
    if level < 2:
        return
    mm = "_mm" if width == 16 else f"_mm{8 * width}"
    m = f"__m{8 * width}"
    for dtype, s, vector, bits in (("float32", "ps", m, 32), ("float64", "pd", m + "d", 64)):
        if width == 64:
            mask = f"_mm512_movepi{bits}_mask((__m512i)({{a}}))"
            yield ("select", dtype), f"_mm512_mask_blend_{s}({mask}, {{c}}, {{b}})"
        else:
            yield ("select", dtype), f"{mm}_blendv_{s}({{c}}, {{b}}, ({vector})({{a}}))"
    i = f"__m{8 * width}i"
    a, b, c = (f"({i})({{{x}}})" for x in "abc")
    for dtype in ("int8", "uint8"):
        blend = f"{mm}_blendv_epi8({c}, {b}, {a})"
        if width == 64:
            blend = f"_mm512_mask_blend_epi8(_mm512_movepi8_mask({a}), {c}, {b})"
        yield ("select", dtype), _vector(dtype, width) + blend


def _x86_any(width: int, _: int) -> Iterator[tuple[tuple[str, str], str]]:
    for bits in (32, 64):
        test = f"movepi{bits}_mask" if width == 64 else "movemask_epi8"
        yield ("any", f"int{bits}"), f"_mm{'' if width == 16 else 8 * width}_{test}((__m{8 * width}i)({{a}}))"


def _vector(dtype: str, size: int) -> str:
    """The cast to a vector of so many bytes."""
    ctype = {"int8": "signed char", "uint8": "unsigned char", "int16": "short"}[dtype]
    return f"({ctype} __attribute__((__vector_size__({size}))))"


def _x86_integers(width: int, level: int) -> Iterator[tuple[tuple[str, str], str]]:
    """Results are cast to the compilers' own `__v8si`: intrinsics see all integer vectors as one type."""
    mm = "_mm" if width == 16 else f"_mm{8 * width}"
    i, n = f"__m{8 * width}i", width
    yield ("convert_int32", "float32"), f"(__v{n // 4}si){mm}_cvttps_epi32({{a}})"
    yield ("nearest_int32", "float32"), f"(__v{n // 4}si){mm}_cvtps_epi32({{a}})"
    yield ("convert_float32", "int32"), f"{mm}_cvtepi32_ps(({i})({{a}}))"
    dot = f"{mm}_madd_epi16(({i})({{a}}), ({i})({{b}}))"
    yield ("dot2", "int16"), f"(__v{n // 4}si){mm}_add_epi32(({i})({{c}}), {dot})"
    packs = (("int16", "int32", "s_epi32"), ("int8", "int16", "s_epi16"), ("uint8", "int16", "us_epi16"))
    for dtype, wide, call in packs:
        yield (f"pack_{dtype}", wide), f"{_vector(dtype, n)}{mm}_pack{call}(({i})({{a}}), ({i})({{b}}))"
    if level >= 4:
        few = {64: "{}", 32: "((__v2di){})[0]", 16: "((__v4si){})[0]"}[width]
        natural = f"{mm}_max_epi32(({i})({{a}}), ({i}){{{{0}}}})"
        for dtype, call in (("uint8", f"usepi32_epi8({natural})"), ("int8", f"sepi32_epi8(({i})({{a}}))")):
            yield (f"saturate_{dtype}", "int32"), _vector(dtype, n // 4) + few.format(f"{mm}_cvt{call}")
    kinds = [("uint8", "epu8", f"(__v{n}qu)"), ("int16", "epi16", f"(__v{n // 2}hi)")]
    if level >= 2:
        # `__v32qi` is a vector of char, which gcc keeps apart from signed char.
        kinds += [("int8", "epi8", "(__typeof__({a}))"), ("int32", "epi32", f"(__v{n // 4}si)")]
    for dtype, s, back in kinds:
        for name in ("max", "min"):
            yield (name, dtype), f"{back}{mm}_{name}_{s}(({i})({{a}}), ({i})({{b}}))"


def _x86_tables(width: int, level: int) -> Iterator[tuple[tuple[str, str], str]]:
    """Table look-ups and products of bytes. Of two tables of 16 bytes, each answers 0 for the other's part:
    vpshufb does so where the highest bit of an index is set.
    """
    if level < 2:
        return
    if width == 16:
        for dtype in ("uint8", "int8"):
            yield ("pick16", dtype), "_mm_shuffle_epi8((__m128i)({a}), (__m128i)({c}))"
        return
    mm, i = f"_mm{8 * width}", f"__m{8 * width}i"
    spread = f"{mm}_broadcastsi128_si256" if width == 32 else f"{mm}_broadcast_i32x4"
    a, b = (f"{spread}((__m128i)({{{x}}}))" for x in "ab")
    low = f"{mm}_shuffle_epi8({a}, {mm}_add_epi8(({i})({{c}}), {mm}_set1_epi8(112)))"
    high = f"{mm}_shuffle_epi8({b}, {mm}_sub_epi8(({i})({{c}}), {mm}_set1_epi8(16)))"
    either = f"{mm}_or_si{8 * width}({low}, {high})"
    few = "(__m128i)({a})" if width == 64 else "_mm_cvtsi64_si128((long long)({a}))"
    for dtype in ("uint8", "int8"):
        yield ("pick16", dtype), f"{mm}_shuffle_epi8({a}, ({i})({{c}}))"
        yield ("pick32", dtype), either
        yield ("widen_int32", dtype), f"(__v{width // 4}si){mm}_cvtep{dtype[0]}8_epi32({few})"
    pairs = f"{mm}_madd_epi16({mm}_maddubs_epi16(({i})({{a}}), ({i})({{b}})), {mm}_set1_epi16(1))"
    yield ("dot4s", "uint8"), f"(__v{width // 4}si){mm}_add_epi32(({i})({{c}}), {pairs})"
    index = f"({i})({{c}})"
    if width == 64:
        yield ("pick16", "float32"), f"_mm512_permutexvar_ps({index}, {{a}})"
        yield ("pick32", "float32"), f"_mm512_permutex2var_ps({{a}}, {index}, {{b}})"
    else:
        yield ("pick8", "float32"), f"_mm256_permutevar8x32_ps({{a}}, {index})"
        halves = ", ".join(f"_mm256_permutevar8x32_ps({{{x}}}, {index})" for x in "ab")
        mask = f"_mm256_castsi256_ps(_mm256_slli_epi32({index}, 28))"
        yield ("pick16", "float32"), f"_mm256_blendv_ps({halves}, {mask})"


def x86_vnni(width: int) -> Spellings:
    """Look-ups among 128 bytes (VBMI); products of bytes, not saturated, and of pairs of 16 bits (VNNI)."""
    mm, i = "_mm" if width == 16 else f"_mm{8 * width}", f"__m{8 * width}i"
    a, b, c = (f"({i})({{{x}}})" for x in "abc")
    table = {
        ("dot4", "uint8"): f"(__v{width // 4}si){mm}_dpbusd_epi32({c}, {a}, {b})",
        ("dot2", "int16"): f"(__v{width // 4}si){mm}_dpwssd_epi32({c}, {a}, {b})",
    }
    if width == 64:
        table["pick128", "uint8"] = f"_mm512_permutex2var_epi8({a}, {c}, {b})"
    return table


def x86_avx_vnni(width: int) -> Spellings:
    """The products of bytes of `x86_vnni` as AVX-VNNI encodes them, where there is no AVX-512."""
    return {key: text.replace("_epi32(", "_avx_epi32(") for key, text in x86_vnni(width).items()}


def x86_vector(width: int, level: int) -> Spellings:
    """Operations on vectors of `width` bytes at micro-architecture `level`."""
    parts = (_x86_floats, _x86_selects, _x86_any, _x86_integers, _x86_tables)
    return {key: text for part in parts for key, text in part(width, level)}


def x86_scalar(level: int) -> Spellings:
    """sqrt through the intrinsic: `__builtin_sqrtf` may become a call, `_mm_sqrt_ss` never does."""
    table = {
        ("sqrt", "float32"): "_mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss({a})))",
        ("sqrt", "float64"): "_mm_cvtsd_f64(_mm_sqrt_sd(_mm_setzero_pd(), _mm_set_sd({a})))",
    }
    return table | (FMA_BUILTIN if level >= 3 else {})


def _asm(ctype: str, instruction: str, register: str) -> str:
    """One machine instruction as a GNU C expression: no compiler at no -O level can turn it into a call."""
    asm = f'__asm__("{instruction}" : "={register}"(ingot_r) : "{register}"({{a}}))'
    return f"(__extension__ ({{{{ {ctype} ingot_r; {asm}; ingot_r; }}}}))"


# Never sets errno, and this spelling is expanded at -O0 too: inline wherever the machine has the FMA.
FMA_BUILTIN = {
    ("madd", "float32"): "__builtin_fmaf({a}, {b}, {c})",
    ("madd", "float64"): "__builtin_fma({a}, {b}, {c})",
}


def fma_scalar(sqrt32: tuple[str, str], sqrt64: tuple[str, str] | None = None) -> Spellings:
    """Scalars of a machine with FMA and square root; `sqrt*` are (instruction, register constraint)."""
    table = {("sqrt", "float32"): _asm("float", *sqrt32), ("madd", "float32"): FMA_BUILTIN["madd", "float32"]}
    if sqrt64 is not None:
        table |= FMA_BUILTIN | {("sqrt", "float64"): _asm("double", *sqrt64)}
    return table


def vfp_nearest(instruction: str) -> Spellings:
    """The nearest int32 on Arm cores: the integer is made in a register of floats."""
    asm = f'__asm__("{instruction} %1, %1\\n\\tvmov %0, %1" : "=r"(ingot_r), "+t"(ingot_x))'
    text = f"(__extension__ ({{{{ float ingot_x = {{a}}; int32_t ingot_r; {asm}; ingot_r; }}}}))"
    return {("nearest_int32", "float32"): text}


def fpv5_rounding(*dtypes: str) -> Spellings:
    """To integral floats, by Arm's FPv5 (Cortex-M7 and above), of the types that the core has."""
    letters = (("round", "n"), ("floor", "m"), ("ceil", "p"), ("trunc", "z"))
    forms = {"float32": ("float", "f32 %0, %1", "t"), "float64": ("double", "f64 %P0, %P1", "w")}
    return {
        (name, dtype): _asm(ctype, f"vrint{s}.{operands}", register)
        for dtype, (ctype, operands, register) in forms.items()
        if dtype in dtypes
        for name, s in letters
    }


def _neon() -> Iterator[tuple[tuple[str, str], str]]:
    for dtype, s in (("float32", "f32"), ("float64", "f64")):
        yield ("madd", dtype), f"vfmaq_{s}({{c}}, {{a}}, {{b}})"
        yield ("max", dtype), f"vmaxq_{s}({{a}}, {{b}})"
        yield ("larger", dtype), f"vmaxnmq_{s}({{a}}, {{b}})"
        yield ("min", dtype), f"vminq_{s}({{a}}, {{b}})"
        yield ("sqrt", dtype), f"vsqrtq_{s}({{a}})"
        unsigned = "u32" if s == "f32" else "u64"
        yield ("select", dtype), f"vbslq_{s}((uint{unsigned[1:]}x{128 // int(s[1:])}_t)({{a}}), {{b}}, {{c}})"
        letters = (("round", "n"), ("floor", "m"), ("ceil", "p"), ("trunc", ""))
        yield from (((name, dtype), f"vrnd{letter}q_{s}({{a}})") for name, letter in letters)
    yield from ((("any", t), "vmaxvq_u32((uint32x4_t)({a}))") for t in ("int32", "int64"))
    yield ("convert_int32", "float32"), "vcvtq_s32_f32({a})"
    yield ("nearest_int32", "float32"), "vcvtnq_s32_f32({a})"
    yield ("convert_float32", "int32"), "vcvtq_f32_s32({a})"
    for to, dtype, call, s in (
        ("int16", "int32", "qmovn_s32", "s16"),
        ("int8", "int16", "qmovn_s16", "s8"),
        ("uint8", "int16", "qmovun_s16", "u8"),
    ):
        wide = "int32x4_t" if dtype == "int32" else "int16x8_t"
        yield (f"pack_{to}", dtype), f"vcombine_{s}(v{call}(({wide})({{a}})), v{call}(({wide})({{b}})))"
    for dtype, s in (("int8", "s8"), ("uint8", "u8"), ("int16", "s16"), ("int32", "s32")):
        yield ("max", dtype), f"vmaxq_{s}({{a}}, {{b}})"
        yield ("min", dtype), f"vminq_{s}({{a}}, {{b}})"
    yield ("doubling_high", "int32"), "vqrdmulhq_s32({a}, {b})"


def _neon_tables() -> Iterator[tuple[tuple[str, str], str]]:
    """TBL picks bytes. Products of bytes fit 16 bits: pairs of them are added as they widen to 32."""
    index = "(uint8x16_t)({c})"
    for dtype, s, t in (("uint8", "u8", "uint8x16"), ("int8", "s8", "int8x16")):
        yield ("pick16", dtype), f"vqtbl1q_{s}(({t}_t)({{a}}), {index})"
        both = f"({t}x2_t){{{{{{{{({t}_t)({{a}}), ({t}_t)({{b}})}}}}}}}}"
        yield ("pick32", dtype), f"vqtbl2q_{s}({both}, {index})"
        yield ("pick64", dtype), f"vqtbl4q_{s}(({t}x4_t){{{{{{{{{{tables}}}}}}}}}}, {index})"
        yield ("select", dtype), f"vbslq_{s}((uint8x16_t)({{a}}), ({t}_t)({{b}}), ({t}_t)({{c}}))"
    for dtype, wide in (
        ("uint8", "vreinterpretq_s16_u16(vmovl_u8({get}_u8((uint8x16_t)({{a}}))))"),
        ("int8", ""),
    ):
        halves = []
        for get in ("vget_low", "vget_high"):
            a, b = wide.format(get=get), f"{get}_s8((int8x16_t)({{b}}))"
            product = (
                f"vmulq_s16({a}, vmovl_s8({b}))" if wide else f"vmull_s8({get}_s8((int8x16_t)({{a}})), {b})"
            )
            halves.append(f"vpaddlq_s16({product})")
        yield ("dot4", dtype), f"vaddq_s32((int32x4_t)({{c}}), vpaddq_s32({', '.join(halves)}))"


def neon_dotprod() -> Spellings:
    """SDOT takes int8 on both sides: uint8 a as a - 128, and twice 64 of every b to make up for it."""
    b = "(int8x16_t)({b})"
    total = "(int32x4_t)({c})"
    for x in ("(int8x16_t)veorq_u8((uint8x16_t)({a}), vdupq_n_u8(128))", "vdupq_n_s8(64)", "vdupq_n_s8(64)"):
        total = f"vdotq_s32({total}, {x}, {b})"
    return {("dot4", "uint8"): total, ("dot4", "int8"): SDOT}


SDOT = "vdotq_s32((int32x4_t)({c}), (int8x16_t)({a}), (int8x16_t)({b}))"


def neon_i8mm() -> Spellings:
    """USDOT multiplies uint8 by int8."""
    mixed = "vusdotq_s32((int32x4_t)({c}), (uint8x16_t)({a}), (int8x16_t)({b}))"
    return {("dot4", "uint8"): mixed, ("dot4", "int8"): SDOT}


def _wasm() -> Iterator[tuple[tuple[str, str], str]]:
    """simd128 has no FMA (relaxed-simd's may round twice) and traps on nothing."""
    for dtype, s, v in (("float32", "f32x4", "__f32x4"), ("float64", "f64x2", "__f64x2")):
        yield from (
            ((name, dtype), f"({v})wasm_{s}_{name}((v128_t)({{a}}), (v128_t)({{b}}))")
            for name in ("max", "min")
        )
        yield ("larger", dtype), f"({v})wasm_{s}_pmax((v128_t)({{b}}), (v128_t)({{a}}))"
        calls = (
            ("sqrt", "sqrt"),
            ("round", "nearest"),
            ("floor", "floor"),
            ("ceil", "ceil"),
            ("trunc", "trunc"),
        )
        yield from (((name, dtype), f"({v})wasm_{s}_{call}((v128_t)({{a}}))") for name, call in calls)
        yield ("any", f"int{s[1:3]}"), "wasm_v128_any_true((v128_t)({a}))"
        masked = "wasm_v128_bitselect((v128_t)({b}), (v128_t)({c}), (v128_t)({a}))"
        yield ("select", dtype), f"({v}){masked}"


def _dsp() -> Iterator[tuple[tuple[str, str], str]]:
    """Arm's 32-bit registers of bytes and 16-bit halves (Cortex-M4 and above), by ACLE's builtins."""
    for dtype, extend in (("int8", "sxtb16"), ("uint8", "uxtb16")):
        turned = "(int32_t)((uint32_t)({a}) >> 8 | (uint32_t)({a}) << 24)"  # one rotation, part of the next
        yield ("widen_even_int16", dtype), f"__builtin_arm_{extend}((int32_t)({{a}}))"
        yield ("widen_odd_int16", dtype), f"__builtin_arm_{extend}({turned})"
    yield ("dot2", "int16"), "__builtin_arm_smlad((int32_t)({a}), (int32_t)({b}), {c})"
    yield ("madd16", "int32"), "__builtin_arm_smlabb({a}, {b}, {c})"


def _mve() -> Iterator[tuple[tuple[str, str], str]]:
    """Armv8.1-M's vectors of integers (Helium). Its vectors of floats take denormals for 0, and "less" of a
    NaN for true, which clang's vectorizer does not expect: floats are computed one at a time.
    """
    for dtype, s in (("uint8", "u8"), ("int8", "s8")):
        index = "(uint8x16_t)({c})"
        yield ("gather", dtype), f"vldrbq_gather_offset_{s}((const {dtype}_t *)({{a}}), {index})"
    yield ("dot16", "int8"), "vmladavaq_s8({c}, (int8x16_t)({a}), (int8x16_t)({b}))"


MVE: Spellings = dict(_mve())
DSP: Spellings = dict(_dsp())
NEON: Spellings = {**dict(_neon()), **dict(_neon_tables())}
WASM: Spellings = dict(_wasm())
