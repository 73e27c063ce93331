"""C identifiers for the model's names: readable where they can be, unique always, of [A-Za-z0-9_] only.

A scope hands out identifiers; the same thing always gets the same one, two things never share one, and no
name that the scope was told is taken (keywords, loop variables, our own functions) is ever given out, nor one
that begins as the macros of a header do.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable

_KEYWORDS = """
alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t char8_t
class co_await co_return co_yield compl complex concept const const_cast consteval constexpr constinit
continue decltype default delete do double dynamic_cast else enum EOF errno explicit export extern false
far float for friend goto i386 if inline int linux long main mutable namespace near new noexcept not
not_eq NULL nullptr operator or or_eq private protected public register reinterpret_cast requires restrict
return short signed sizeof static static_assert static_cast status stderr stdin stdout struct switch
template this thread_local throw true try typedef typeid typename typeof typeof_unqual union unix unsigned
using virtual void volatile wchar_t while xor xor_eq
"""
_KERNEL = """
aligned_be64 aligned_le64 aligned_s64 aligned_u64 asm_inline barrier_before_unreachable fallthrough noinline
noinline_for_stack noinstr notrace pgoff_t randomized_struct_fields_end randomized_struct_fields_start
rcu_head BITS_PER_LONG BITS_PER_LONG_LONG GCC_VERSION KASAN_ABI_VERSION KBUILD_BASENAME KBUILD_MODNAME MODULE
"""
_LIBRARY = """
abort abs acos acosh alarm alloca asin asinh assert atan atan2 atanh atexit atof atoi atol bcmp bcopy
bsearch bzero cabs cacos calloc carg cbrt ceil cexp cimag clock clog close conj copysign cos cosh cpow
creal csin csqrt ctan ctime difftime div drem environ erf erfc exit exp exp10 exp2 expm1 fabs fclose fdim
fflush ffs fgets floor fma fmax fmin fmod fopen fork fprintf fputc fputs fread free frexp fscanf fseek
ftell fwrite gamma getc getchar getenv gets hypot ilogb index isalnum isalpha isdigit isfinite isinf
islower isnan isnormal isprint isspace isupper j0 j1 jn kill labs ldexp lgamma link llabs llrint llround
localtime log log10 log1p log2 logb longjmp lrint lround malloc memchr memcmp memcpy memmove memset mktime
modf nan nearbyint nextafter open perror pipe poll pow pow10 printf putc putchar puts qsort raise rand
read realloc remainder remove remquo rename rewind rindex rint round scalb scanf select setjmp signal
signbit significand sin sincos sinh sleep snprintf sprintf sqrt srand sscanf stat strcat strchr strcmp
strcpy strdup strlen strncat strncmp strncpy strrchr strstr strtod strtok strtol sync system tan tanh
tgamma time times tolower toupper trunc ungetc vprintf wait write y0 y1 yn
"""
KEYWORDS = frozenset((_KEYWORDS + _KERNEL).split())
"""Never a name of ours: C, C++ and common macros, and those of every file of Linux."""
LIBRARY = frozenset(_LIBRARY.split())
"""Functions of C libraries: a bundle so called would take their place in the program it is linked into."""
LONGEST = 48


def identifier(name: str, fallback: str = "t") -> str:
    """The name with every other character as `_`, cut to a length that a reader can bear; not yet unique."""
    plain = re.sub(r"[^A-Za-z0-9_]+", "_", name, flags=re.ASCII).strip("_")[:LONGEST].strip("_")
    if not plain:
        return fallback
    return f"{fallback}_{plain}" if plain[0].isdigit() else plain


class Scope:
    """Identifiers of one C scope (a file, a function, a struct).

    `macros`: what the names of the headers' macros and constants begin with, which hold in every scope.
    """

    def __init__(self, taken: Iterable[str] = (), macros: tuple[str, ...] = ()) -> None:
        self._taken: set[str] = {*KEYWORDS, *taken}
        self._macros = macros
        self._names: dict[Hashable, str] = {}
        self._last: dict[str, int] = {}  # of each stem the number that was given out last

    def name(self, thing: Hashable, wanted: str, fallback: str = "t") -> str:
        """The identifier of `thing`, made from `wanted` on first use."""
        if thing not in self._names:
            self._names[thing] = self.fresh(wanted, fallback)
        return self._names[thing]

    def take(self, names: Iterable[str]) -> None:
        """These identifiers are never given out."""
        self._taken.update(names)

    def give(self, thing: Hashable, exact: str) -> bool:
        """Name `thing` exactly so; False if that name is taken."""
        if not self._is_free(exact):
            return False
        self._taken.add(exact)
        self._names[thing] = exact
        return True

    def fresh(self, wanted: str, fallback: str = "t") -> str:
        """An identifier nobody has yet."""
        plain = identifier(wanted, fallback)
        if plain.startswith(self._macros):
            plain = f"{fallback}_{plain}"
        n = self._last.get(plain, 0) + 1
        while not self._is_free(candidate := plain if n == 1 else f"{plain}_{n}"):
            n += 1
        self._last[plain] = n
        self._taken.add(candidate)
        return candidate

    def _is_free(self, name: str) -> bool:
        return not (name in self._taken or name.startswith(("__", *self._macros)) or _is_ours(name))


def is_identifier(name: str) -> bool:
    """Whether C takes the text as an identifier (it may still be a keyword)."""
    return re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) is not None


def _is_ours(name: str) -> bool:
    """Names of stdint and of the printer's own helpers end so (`int8_t`, `max_f32`, `f32x8`, `string64`)."""
    return bool(
        re.search(r"_t$|_(f|i|u)(8|16|32|64)(x\d+)?$|^[fiu](8|16|32|64)x\d+$|^i(max|min|floordiv|mod)$", name)
        or re.search(r"(^|_)string\d+$", name)
    )


def comment(text: str) -> str:
    """Text that is safe inside a C comment: printable ASCII, no comment marks, no trigraphs, no line ends."""
    plain = "".join(c if " " <= c <= "~" else "?" for c in text)
    return re.sub(r"\?\?+", "?", plain.replace("*/", "* /").replace("/*", "/ *").replace("\\", "/"))[:200]
