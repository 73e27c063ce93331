"""Start code of static programs without libc, one C file for every target that runs some.

It defines `_start`, which aligns the stack and calls `int main(void)`, `ingot_read`, `ingot_write` (until all
bytes are through) and the four mem* functions. Programs are Linux's, but on Armv8-M those of an emulated
board, whose debugger (Arm's semihosting) reads and writes for them: there `vectors` is what a reset looks at.
Compiled and linked by `toolchain.link_executable`.
"""

START = r"""
typedef __SIZE_TYPE__ size;
#if defined(__arm__) && __ARM_ARCH >= 8 && __ARM_ARCH_PROFILE == 'M'
#define BOARD
enum { READ = 6, WRITE = 5, OPEN = 1, EXIT = 0x20, EXITED = 0x20026 };
#elif defined(__x86_64__)
enum { READ = 0, WRITE = 1, EXIT = 60 };
#elif defined(__aarch64__) || defined(__riscv)
enum { READ = 63, WRITE = 64, EXIT = 93 };
#else
enum { READ = 3, WRITE = 4, EXIT = 1 };
#endif

#if defined(BOARD)
static long ask(long operation, const void *arguments)
{
    register long r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = arguments;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}

/* Files are opened once each; how many bytes were not moved is what the debugger answers. */
static long call(long n, long a, long b, long c)
{
    static const char *const name[] = {"/dev/stdin", "/dev/stdout"};
    static long handle[2];
    if (n == EXIT) return ask(EXIT, (const long[]){EXITED, a});
    if (!handle[a]) handle[a] = ask(OPEN, (const long[]){(long)name[a], a ? 5 : 1, a ? 11 : 10});
    return c - ask(n, (const long[]){handle[a], b, c});
}
#else
static long call(long n, long a, long b, long c)
{
#if defined(__x86_64__)
    long r;
    __asm__ volatile("syscall" : "=a"(r) : "a"(n), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return r;
#elif defined(__i386__)
    long r;
    __asm__ volatile("int $0x80" : "=a"(r) : "a"(n), "b"(a), "c"(b), "d"(c) : "memory");
    return r;
#elif defined(__aarch64__)
    register long x8 __asm__("x8") = n, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
    return x0;
#elif defined(__arm__)
    register long r7 __asm__("r7") = n, r0 __asm__("r0") = a, r1 __asm__("r1") = b, r2 __asm__("r2") = c;
    __asm__ volatile("svc 0" : "+r"(r0) : "r"(r7), "r"(r1), "r"(r2) : "memory");
    return r0;
#elif defined(__riscv)
    register long a7 __asm__("a7") = n, a0 __asm__("a0") = a, a1 __asm__("a1") = b, a2 __asm__("a2") = c;
    __asm__ volatile("ecall" : "+r"(a0) : "r"(a7), "r"(a1), "r"(a2) : "memory");
    return a0;
#elif defined(__s390x__)
    register long r1 __asm__("r1") = n, r2 __asm__("r2") = a, r3 __asm__("r3") = b, r4 __asm__("r4") = c;
    __asm__ volatile("svc 0" : "+d"(r2) : "d"(r1), "d"(r3), "d"(r4) : "memory");
    return r2;
#else
#error "no system call known for this processor"
#endif
}
#endif

static long transfer(long n, int file, char *at, long count)
{
    long done = 0;
    while (done < count) {
        long step = call(n, file, (long)(at + done), count - done);
        if (step <= 0) break;
        done += step;
    }
    return done;
}
long ingot_read(int file, void *to, long count) { return transfer(READ, file, to, count); }
long ingot_write(int file, const void *at, long count) { return transfer(WRITE, file, (char *)at, count); }

void *memcpy(void *to, const void *from, size n)
{
    volatile char *a = to;
    const char *b = from;
    while (n--) *a++ = *b++;
    return to;
}
void *memset(void *to, int value, size n)
{
    volatile char *a = to;
    while (n--) *a++ = (char)value;
    return to;
}
void *memmove(void *to, const void *from, size n)
{
    volatile char *a = to;
    const volatile char *b = from;
    if ((size)a <= (size)b) while (n--) *a++ = *b++;
    else while (n--) a[n] = b[n];
    return to;
}
int memcmp(const void *x, const void *y, size n)
{
    const volatile unsigned char *a = x, *b = y;
    for (; n--; a++, b++) if (*a != *b) return *a - *b;
    return 0;
}

int main(void);
void ingot_start(void);
void ingot_start(void) { call(EXIT, main(), 0, 0); for (;;) ; }
#if defined(__x86_64__)
__asm__(".globl _start\n_start: xor %ebp, %ebp\n and $-64, %rsp\n call ingot_start\n");
#elif defined(__i386__)
__asm__(".globl _start\n_start: xor %ebp, %ebp\n and $-64, %esp\n call ingot_start\n");
#elif defined(__riscv)
__asm__(".globl _start\n_start:\n.option push\n.option norelax\n1: auipc gp, %pcrel_hi(__global_pointer$)\n"
        " addi gp, gp, %pcrel_lo(1b)\n.option pop\n andi sp, sp, -16\n j ingot_start\n");
#elif defined(__s390x__)
__asm__(".globl _start\n_start: aghi %r15, -160\n brasl %r14, ingot_start\n");
#elif defined(BOARD)
static _Alignas(8) char stack[1 << 20];
void _start(void);
void _start(void)
{
    *(volatile unsigned *)0xE000ED88 |= 0xFu << 20; /* floating point and vectors on */
    __asm__ volatile("dsb\n isb" ::: "memory");
    ingot_start();
}
static void fault(void) { call(EXIT, 99, 0, 0); for (;;) ; }
__attribute__((section(".vectors"), used)) static const void *const vectors[16] = {
    stack + sizeof stack, (void *)_start, (void *)fault, (void *)fault, (void *)fault, (void *)fault,
    (void *)fault,
};
#else
void _start(void);
void _start(void) { ingot_start(); }
#endif
"""

AN547 = """
ENTRY(_start)
SECTIONS {
  .vectors 0x10000000 : { KEEP(*(.vectors)) }
  .text 0x70000000 : { *(.text*) }
  .rodata : { *(.rodata*) }
  .data : { *(.data*) }
  .bss : { *(.bss*) *(COMMON) }
  /DISCARD/ : { *(.ARM.exidx*) *(.comment) *(.note*) }
}
"""
"""Of Arm's board MPS3 AN547, a Cortex-M55: what a reset reads in its memory for code, all else in the large
one, which is zero at first."""
