"""What NAME_main.c adds where a bundle reports to NAME_profile: how long each kernel takes.

In: a `Unit`. Out: C. On a Cortex-M it reads the cycle counter of the debug unit (DWT_CYCCNT, Armv7-M ARM
C1.8.8); where that stands still (Cortex-M0, emulators) SysTick, whose 24 bits a longer kernel wraps;
elsewhere the clock of C.
"""

from __future__ import annotations

from ingot.emit.unit import Unit
from ingot.loops.program import Call

HOOK = """\
#if defined(__ARM_ARCH_PROFILE) && __ARM_ARCH_PROFILE == 'M'
#define {upper}_REGISTER(at) (*(volatile unsigned *)(at))
#define {upper}_TICKS_ARE ({name}_has_cycles ? "cycles" : "ticks of SysTick")
static int {name}_has_cycles; /* else SysTick counts */

static void {name}_ticks_start(void) {{
    {upper}_REGISTER(0xE000EDFC) |= 1u << 24; /* DEMCR: the debug unit is on */
    {upper}_REGISTER(0xE0001FB0) = 0xC5ACCE55; /* a Cortex-M7 locks it */
    {upper}_REGISTER(0xE0001004) = 0;
    {upper}_REGISTER(0xE0001000) |= 1; /* DWT_CTRL: count cycles */
    {upper}_REGISTER(0xE000E014) = 0xFFFFFF; /* SysTick counts down from here */
    {upper}_REGISTER(0xE000E018) = 0;
    {upper}_REGISTER(0xE000E010) = 5; /* with the processor's clock, without interrupts */
    {name}_has_cycles = {upper}_REGISTER(0xE0001004) != {upper}_REGISTER(0xE0001004);
}}

typedef unsigned {name}_moment;
static {name}_moment {name}_ticks_now(void) {{
    return {name}_has_cycles ? {upper}_REGISTER(0xE0001004) : 0xFFFFFF - {upper}_REGISTER(0xE000E018);
}}

static {name}_moment {name}_ticks_since({name}_moment before) {{
    return ({name}_ticks_now() - before) & ({name}_has_cycles ? 0xFFFFFFFFu : 0xFFFFFFu);
}}
#else
#include <time.h>
#define {upper}_TICKS_ARE "ticks of clock()"
static void {name}_ticks_start(void) {{}}
typedef clock_t {name}_moment;
static {name}_moment {name}_ticks_now(void) {{ return clock(); }}
static {name}_moment {name}_ticks_since({name}_moment before) {{ return clock() - before; }}
#endif

static const char *const {name}_kernels[{count}] = {{
{kernels}
}};
static long long {name}_ticks[{count}];

/* Kernel i runs from here on; -1: none does. */
void {name}_profile(int i);
void {name}_profile(int i) {{
    static int running = -1;
    static {name}_moment begin;
    if (running >= 0) {name}_ticks[running] += (long long){name}_ticks_since(begin);
    running = i;
    begin = {name}_ticks_now();
}}

static void {name}_print_ticks(void) {{
    for (int i = 0; i < {count}; i++)
        printf("%s: %lld %s\\n", {name}_kernels[i], {name}_ticks[i], {upper}_TICKS_ARE);
}}"""


def hook(unit: Unit) -> str:
    """The functions; nothing for a bundle that reports nothing."""
    if not unit.is_profiled:
        return ""
    names = [unit.function(call.kernel) for call in unit.numbers if isinstance(call, Call)]
    rows = "\n".join(f'    "{name}",' for name in (*names, "copies between kernels"))
    return HOOK.format(name=unit.name, upper=unit.upper, count=len(names) + 1, kernels=rows)
