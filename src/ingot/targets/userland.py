"""Start code of programs without libc, one C file for every target that runs some.

It defines `_start`, which aligns the stack and calls `int main(void)`, `ingot_read`, `ingot_write` (until all
bytes are through) and the four mem* functions. Programs are Linux's; with BOARD defined those of an emulated
board of Arm's, whose debugger (semihosting) reads and writes for them: there `vectors` is what a reset looks
at; Windows'; and WebAssembly modules, whose embedder calls `main`, reads and writes. Compiled and linked by
`toolchain.link_executable`.
"""

START = r"""
typedef __SIZE_TYPE__ size;
typedef __PTRDIFF_TYPE__ word;
#if defined(__wasm__)
enum { READ, WRITE };
#elif defined(_WIN32)
enum { READ, WRITE, EXIT };
#elif defined(BOARD)
enum { READ = 6, WRITE = 5, OPEN = 1, EXIT = 0x20, EXITED = 0x20026 };
#elif defined(__x86_64__)
enum { READ = 0, WRITE = 1, EXIT = 60 };
#elif defined(__aarch64__) || defined(__riscv) || defined(__loongarch__) || defined(__hexagon__)
enum { READ = 63, WRITE = 64, EXIT = 93 };
#elif defined(__mips64)
enum { READ = 5000, WRITE = 5001, EXIT = 5058 };
#elif defined(__mips__)
enum { READ = 4003, WRITE = 4004, EXIT = 4001 };
#else
enum { READ = 3, WRITE = 4, EXIT = 1 };
#endif

#if defined(__wasm__)
long ingot_transfer_in(int file, void *to, long count); /* what the embedder brings */
long ingot_transfer_out(int file, const void *at, long count);
static long call(long n, long a, long b, long c)
{
    return n == READ ? ingot_transfer_in((int)a, (void *)b, c) : ingot_transfer_out((int)a, (void *)b, c);
}
#elif defined(_WIN32)
void __main(void);
void __main(void) {} /* what the compiler calls first in main */
#define SYSTEM __declspec(dllimport)
SYSTEM void *GetStdHandle(unsigned which);
SYSTEM int ReadFile(void *file, void *to, unsigned count, unsigned *moved, void *overlapped);
SYSTEM int WriteFile(void *file, const void *at, unsigned count, unsigned *moved, void *overlapped);
SYSTEM void ExitProcess(unsigned status);
static long call(long n, long long a, long long b, long c)
{
    unsigned moved = 0;
    if (n == EXIT) ExitProcess((unsigned)a);
    if (n == READ) ReadFile(GetStdHandle(-10u - (unsigned)a), (void *)b, (unsigned)c, &moved, 0);
    else WriteFile(GetStdHandle(-10u - (unsigned)a), (const void *)b, (unsigned)c, &moved, 0);
    return (long)moved;
}
#elif defined(BOARD)
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
#elif defined(__powerpc__)
    register long r0 __asm__("r0") = n, r3 __asm__("r3") = a, r4 __asm__("r4") = b, r5 __asm__("r5") = c;
    __asm__ volatile("sc" : "+r"(r0), "+r"(r3), "+r"(r4), "+r"(r5)
                     : : "memory", "cr0", "r6", "r7", "r8", "r9", "r10", "r11", "r12");
    return r3;
#elif defined(__mips__)
    register long v0 __asm__("$2") = n, a0 __asm__("$4") = a, a1 __asm__("$5") = b, a2 __asm__("$6") = c;
    register long a3 __asm__("$7");
    __asm__ volatile("syscall" : "+r"(v0), "=r"(a3) : "r"(a0), "r"(a1), "r"(a2)
                     : "memory", "$8", "$9", "$10", "$11", "$12", "$13", "$14", "$15", "$24", "$25");
    return v0;
#elif defined(__sparc__)
    register long g1 __asm__("g1") = n, o0 __asm__("o0") = a, o1 __asm__("o1") = b, o2 __asm__("o2") = c;
    __asm__ volatile("ta 0x6d" : "+r"(o0) : "r"(g1), "r"(o1), "r"(o2) : "memory");
    return o0;
#elif defined(__loongarch__)
    register long a7 __asm__("$a7") = n, a0 __asm__("$a0") = a, a1 __asm__("$a1") = b, a2 __asm__("$a2") = c;
    __asm__ volatile("syscall 0" : "+r"(a0) : "r"(a7), "r"(a1), "r"(a2)
                     : "memory", "$t0", "$t1", "$t2", "$t3", "$t4", "$t5", "$t6", "$t7", "$t8");
    return a0;
#elif defined(__hexagon__)
    register long r6 __asm__("r6") = n, r0 __asm__("r0") = a, r1 __asm__("r1") = b, r2 __asm__("r2") = c;
    __asm__ volatile("trap0(#1)" : "+r"(r0) : "r"(r6), "r"(r1), "r"(r2) : "memory");
    return r0;
#else
#error "no system call known for this processor"
#endif
}
#endif

static long transfer(long n, int file, char *at, long count)
{
    long done = 0;
    while (done < count) {
        long step = call(n, file, (word)(at + done), count - done);
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

#if !defined(__wasm__)
int main(void);
void ingot_start(void);
void ingot_start(void) { call(EXIT, main(), 0, 0); for (;;) ; }
#if defined(__x86_64__)
__asm__(".globl _start\n_start: xor %ebp, %ebp\n and $-64, %rsp\n sub $64, %rsp\n call ingot_start\n");
#elif defined(__i386__)
__asm__(".globl _start\n_start: xor %ebp, %ebp\n and $-64, %esp\n call ingot_start\n");
#elif defined(__riscv)
__asm__(".globl _start\n_start:\n.option push\n.option norelax\n1: auipc gp, %pcrel_hi(__global_pointer$)\n"
        " addi gp, gp, %pcrel_lo(1b)\n.option pop\n andi sp, sp, -16\n j ingot_start\n");
#elif defined(__s390x__)
__asm__(".globl _start\n_start: aghi %r15, -160\n brasl %r14, ingot_start\n");
#elif defined(__mips__)
__asm__(".globl _start\n.set noreorder\n_start: jal ingot_start\n nop\n");
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
#endif
"""


def board(vectors: int, memory: int) -> str:
    """Linker script of an emulated board of Arm's: what a reset reads in its memory for code, all else in the
    large one, which is zero at first.
    """
    return f"""
ENTRY(_start)
SECTIONS {{
  .vectors {vectors:#x} : {{ KEEP(*(.vectors)) }}
  .text {memory:#x} : {{ *(.text*) }}
  .rodata : {{ *(.rodata*) }}
  .data : {{ *(.data*) }}
  .bss : {{ *(.bss*) *(COMMON) }}
  /DISCARD/ : {{ *(.ARM.exidx*) *(.comment) *(.note*) }}
}}
"""


AN385 = board(0, 0x2100_0000)  # Cortex-M3, and with AN386 the M4
AN500 = board(0, 0x6000_0000)  # Cortex-M7
AN505 = board(0x1000_0000, 0x8000_0000)  # Cortex-M33
AN547 = board(0x1000_0000, 0x7000_0000)  # Cortex-M55

KERNEL32 = "LIBRARY kernel32.dll\nEXPORTS\nGetStdHandle\nReadFile\nWriteFile\nExitProcess\n"
"""What of Windows the start code calls, for whoever makes an import library of it."""
