"""NAME_board.c, .h and .ld: what NAME_main.c needs on an emulated board of Arm's that has no system.

In: a `Unit` whose target is such a board. Out: the start code, which a debugger (semihosting) prints and ends
for, as much of `printf` as the program calls, and the linker script.
"""

from __future__ import annotations

from ingot.emit.unit import Unit, provenance
from ingot.targets.userland import START

HEADER = """\
#include <stddef.h>

/* Of C's library, what the program calls. */
int printf(const char *form, ...); /* %s, %d, %lld and %.7g */
int memcmp(const void *a, const void *b, size_t bytes);
int strcmp(const char *a, const char *b);
void *malloc(size_t bytes);
void *memcpy(void *to, const void *from, size_t bytes);
void *memset(void *to, int value, size_t bytes);
void exit(int status);
"""
LIBRARY = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>"

PRINTF = r"""
void exit(int status);
void exit(int status) { call(EXIT, status, 0, 0); for (;;) ; }

int strcmp(const char *a, const char *b);
int strcmp(const char *a, const char *b)
{
    while (*a && *a == *b) a++, b++;
    return (unsigned char)*a - (unsigned char)*b;
}

void *malloc(size bytes);
void *malloc(size bytes)
{
    static _Alignas(64) char heap[1 << 20];
    static size taken;
    char *const found = heap + taken;
    if (bytes > sizeof heap - taken) return 0;
    taken += (bytes + 63) / 64 * 64;
    return found;
}

static char line[128];
static int length;

static void put(char c)
{
    line[length++] = c;
    if (c == '\n' || length == (int)sizeof line) ingot_write(1, line, length), length = 0;
}

static void put_text(const char *s) { while (*s) put(*s++); }

static void put_integer(long long n)
{
    char digits[20];
    int count = 0;
    unsigned long long rest = n < 0 ? 0ull - (unsigned long long)n : (unsigned long long)n;
    do digits[count++] = (char)('0' + rest % 10); while (rest /= 10);
    if (n < 0) put('-');
    while (count) put(digits[--count]);
}

/* Seven digits and an exponent: close to what %.7g prints, the last digit may be another one. */
static void put_number(double x)
{
    int power = 0, last = 6;
    long digits, unit = 1000000;
    if (x != x) { put_text("nan"); return; }
    if (x < 0) { put('-'); x = -x; }
    if (x - x != 0) { put_text("inf"); return; }
    if (x == 0) { put('0'); return; }
    while (x >= 10) x /= 10, power++;
    while (x < 1) x *= 10, power--;
    digits = (long)(x * 1e6 + 0.5);
    if (digits == 10000000) digits /= 10, power++;
    while (digits % 10 == 0 && last > 0) digits /= 10, unit /= 10, last--;
    put((char)('0' + digits / unit));
    if (last) put('.');
    for (digits %= unit; last > 0; digits %= unit, last--) unit /= 10, put((char)('0' + digits / unit));
    if (power) { put('e'); put_integer(power); }
}

int printf(const char *form, ...);
int printf(const char *form, ...)
{
    __builtin_va_list list;
    __builtin_va_start(list, form);
    for (; *form; form++) {
        if (*form != '%') { put(*form); continue; }
        switch (*++form) {
        case 's': put_text(__builtin_va_arg(list, const char *)); break;
        case 'd': put_integer(__builtin_va_arg(list, int)); break;
        case 'l': form += 2; put_integer(__builtin_va_arg(list, long long)); break;
        default: form += 2; put_number(__builtin_va_arg(list, double)); break;
        }
    }
    __builtin_va_end(list);
    return 0;
}
"""


def board_files(unit: Unit) -> dict[str, str]:
    """Their texts, by name; nothing for other targets."""
    if not unit.target.board:
        return {}
    top, name = provenance(unit), f"{unit.name}_board"
    return {
        f"{name}.c": f"{top}\n\n#define BOARD 1\n{START.strip()}\n{PRINTF}",
        f"{name}.h": f"{top}\n\n{HEADER}",
        f"{name}.ld": unit.target.board.lstrip(),
    }


def includes(unit: Unit) -> str:
    """What NAME_main.c takes from the library of C, or with INGOT_BOARD defined from NAME_board.c."""
    if not unit.target.board:
        return LIBRARY
    return f'#ifdef INGOT_BOARD\n#include "{unit.name}_board.h"\n#else\n{LIBRARY}\n#endif'
