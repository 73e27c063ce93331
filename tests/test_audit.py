"""The audit of objects: fixups followed to their ends, facts of the code, rules, and files that lie."""

from __future__ import annotations

import dataclasses
import random
import re
import struct
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from ingot.audit.audit import Audit, audit
from ingot.audit.listing import Assembly, fixups_of, placed_fixups
from ingot.audit.policy import POLICIES, Policy, broken, judge
from ingot.binary.read import read_object
from ingot.binary.record import ALLOC, Relocation
from ingot.cli import app
from ingot.errors import InputError
from ingot.targets import TARGETS, Target
from ingot.targets.toolchain import archive, assemble, compile_c, link_shared

PPC64LE = dataclasses.replace(
    TARGETS["riscv64"], name="ppc64le", triple="powerpc64le-none-elf", flags=(), relocation="static"
)
ROWS: dict[str, Target] = {
    **{n: TARGETS[n] for n in ("x86-64", "x86-64-v4", "i386", "aarch64", "armv7e-m", "riscv64", "s390x")},
    "ppc64le": PPC64LE,
}
CODE = """
extern int elsewhere(int x);
extern const int table[];
static const int own[4] = {3, 1, 4, 1};
__attribute__((__noinline__)) static int inner(int n)
{
    int s = 0;
    for (int i = 0; i < n; i++) { s += own[i & 3] * i; __asm__ volatile("" : "+r"(s)); }
    return s;
}
int outer(int n) { return inner(n) + table[n] + elsewhere(n); }
"""
# What each leaves of: the call of `elsewhere`, the address of `table`.
LEFT = {
    "x86-64": "R_X86_64_PLT32",
    "x86-64-v4": "R_X86_64_PLT32",
    "i386": "R_386_P(C|LT)32",
    "aarch64": "R_AARCH64_(CALL|JUMP)26",
    "armv7e-m": "R_ARM_THM_(CALL|JUMP24)",
    "riscv64": "R_RISCV_CALL_PLT",
    "s390x": "R_390_PLT32DBL",
    "ppc64le": "R_PPC64_REL24",
}
PPC = """\
	.text
foo:
	bge 0, .LBB0_4
.LBB0_4:
	bge 0, {name}
	blr
"""
X86 = "x86_64-unknown-none"


def ingot(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(a) for a in arguments])


def x86(text: str, section: str = ".text") -> Audit:
    """Of assembly with one function f around it."""
    head = f'.section {section},"ax"\n.globl f\n.type f,@function\nf:\n'
    return audit(assemble(f"{head}{text}\n.size f, .-f\n", X86), None, TARGETS["x86-64"])


def allocated(content: bytes) -> list[Relocation]:
    """The relocations of what is loaded: not those of debug information."""
    file = read_object(content)
    return [r for r in file.relocations if file.sections[r.section].flags & ALLOC]


# ---- fixups ------------------------------------------------------------------------------------------------


def test_the_founding_listing_and_its_ends() -> None:
    text = PPC.format(name="ext_LBB0_5")
    made, placed = placed_fixups(text, Assembly.of_triple("powerpc64le-unknown-unknown"))
    first, second = audit(made, placed).fixups
    assert (first.kind, first.value, first.relocations) == ("fixup_ppc_brcond14", ".LBB0_4", ())
    assert (first.code, first.patched, first.goal) == ("04 00 80 40", "04 00", "foo+0x4")
    assert (second.kind, second.offset) == ("fixup_ppc_brcond14", 4)
    (left,) = second.relocations
    assert (left.type, left.symbol, left.addend) == ("R_PPC64_REL14", "ext_LBB0_5", 0)
    assert left.why == "'ext_LBB0_5' is not in this file"


def test_the_object_alone_shows_the_same_ends() -> None:
    made = assemble(PPC.format(name="ext_LBB0_5"), "powerpc64le-unknown-unknown")
    first, second = audit(made).fixups
    assert (first.code, first.goal, first.relocations) == ("04 00 80 40", "foo+0x4", ())
    assert [r.type for r in second.relocations] == ["R_PPC64_REL14"]


def test_a_label_that_is_local_and_undefined_is_explained(tmp_path: Path) -> None:
    path = tmp_path / "ppc-br-test.s"
    path.write_text(PPC.format(name=".LBB0_5"))
    result = ingot("audit", path, "--triple", "powerpc64le-unknown-unknown")
    assert result.exit_code == 2
    assert "LLVM cannot assemble this: .LBB0_5 is not defined" in result.stderr


@pytest.mark.parametrize("name", ROWS)
def test_every_fixup_ends_somewhere(name: str) -> None:
    """With the source at hand: each fixup of the assembler's is resolved or a relocation."""
    target = ROWS[name]
    text = compile_c(CODE, target, kind="assembly").decode()
    made, placed = placed_fixups(text, Assembly.of_target(target))
    found = audit(made, placed)
    noted = [f for f in found.fixups if f.kind]
    assert len(noted) == sum(map(len, placed.values())) > 2
    assert all(f.relocations or f.patched for f in noted)
    left = [f for f in found.fixups if any(r.symbol == "elsewhere" for r in f.relocations)]
    assert len(left) == 1 and "'elsewhere' is not in this file" in left[0].relocations[0].why
    assert re.fullmatch(LEFT[name], left[0].relocations[0].type)
    assert {"elsewhere", "table"} <= found.undefined.keys()
    assert found.undefined["elsewhere"] == ("outer",)
    assert sum(len(f.relocations) for f in found.fixups) == len(allocated(made))


@pytest.mark.parametrize("name", ROWS)
def test_resolved_branches_are_found_without_the_source(name: str) -> None:
    found = audit(compile_c(CODE, ROWS[name]))
    resolved = [f for f in found.fixups if not f.relocations]
    where = {f.function for f in found.fixups}
    assert where >= {"inner", "outer"}
    if name != "riscv64":  # whose linker may shorten code: every branch is a relocation
        assert any(f.function == "inner" and f.goal.startswith("inner") for f in resolved)
    else:
        branch = next(r for f in found.fixups for r in f.relocations if "BRANCH" in r.type)
        assert branch.why == "no distance is final: the linker may shorten code between here and there"


def test_a_relaxed_branch_is_followed_at_its_true_place() -> None:
    """The listing shows the short form; the object has the long one, and everything behind it moved."""
    text = "f: jmp g\n.skip 300, 0x90\n g: jne f\n call h\n"
    made, placed = placed_fixups(text, Assembly.of_triple(X86))
    first, second, third = audit(made, placed).fixups
    assert (first.code, first.patched, first.offset) == ("e9 2c 01 00 00", "2c 01 00 00", 0)
    assert second.offset == 305 and second.code.startswith("0f 85")
    assert [r.type for r in third.relocations] == ["R_X86_64_PLT32"]


def test_fixups_of_a_listing_have_the_bytes_that_they_patch() -> None:
    listing = Assembly.of_triple("powerpc64le-unknown-unknown").listing(PPC.format(name=".LBB0_5"))
    (_, (first,)), (_, (second,)) = fixups_of(listing)
    assert first.mask == second.mask == (True, True, False, False)
    assert (first.value, second.value) == (".LBB0_4", ".LBB0_5")


def test_the_reason_is_the_one_that_holds() -> None:
    text = """
    .text
    .globl shown
    shown: nop
    .weak soft
    soft: nop
    f: call shown
     call soft
     movq other@GOTPCREL(%rip), %rax
     leaq .Lconst(%rip), %rax
     movabsq $f, %rax
     movl %fs:mine@TPOFF, %eax
    .section .rodata
    .Lconst: .quad f
    """
    found = audit(assemble(text, X86))
    why = [f.relocations[0].why for f in found.fixups if f.relocations]
    assert why[0].startswith("it is global: the linker may put another definition")
    assert why[1] == why[0]
    assert why[2].startswith("its address is read from the table")
    assert why[3] == "it lies in another section, .rodata: the linker places both"
    assert why[4] == "an absolute address: known when the section is placed"
    assert why[5].startswith("a thread's own copy")
    assert found.fixups[-1].section == ".rodata" and not found.fixups[-1].instruction


# ---- facts -------------------------------------------------------------------------------------------------


def test_functions_have_their_stack_and_its_path() -> None:
    text = """
    __attribute__((__noinline__)) void sink(void *p) { __asm__ volatile("" : : "r"(p) : "memory"); }
    __attribute__((__noinline__)) void deep(void) { char x[500]; sink(x); sink(x); }
    void shallow(void) { char x[16]; sink(x); deep(); sink(x); }
    void blind(void (*f)(void)) { f(); f(); }
    """
    for name in ("x86-64", "aarch64", "armv7e-m"):
        found = {f.name: f for f in audit(compile_c(text, ROWS[name])).functions}
        assert found["deep"].stack >= 500 and found["shallow"].stack < 100
        assert found["shallow"].deepest >= found["shallow"].stack + found["deep"].stack - 16
        assert found["shallow"].path[:2] == ("shallow", "deep")
        assert found["blind"].deepest is None and "calls through a pointer" in found["blind"].why


def test_a_stack_pointer_that_was_saved_is_found_again() -> None:
    """As gcc aligns the stack of a function with arguments on it."""
    text = """leaq 8(%rsp), %r10
     andq $-16, %rsp
     pushq -8(%r10)
     pushq %rbp
     movq %rsp, %rbp
     pushq %r10
     subq $40, %rsp
     xorl %r10d, %r10d
     leaq -8(%rbp), %rsp
     popq %r10
     popq %rbp
     leaq -8(%r10), %rsp
     ret"""
    (found,) = x86(text).functions
    assert found.why == "" and found.stack == 8 + 8 + 3 * 8 + 40


@pytest.mark.parametrize("release", ["addeq sp, #24", "addeq sp, sp, #24", "nopeq"])
def test_a_return_on_a_condition_leaves_the_depth_known(release: str) -> None:
    """As clang leaves a loop of no turns early: what is stacked later counts from the deeper place."""
    text = f"push {{r4, r7, lr}}\n sub sp, #24\n cmp r0, #0\n itt eq\n {release}\n popeq {{r4, r7, pc}}\n"
    text = (
        f".thumb\n.type f,%function\n.thumb_func\nf: {text} push {{r5, r6}}\n pop {{r5, r6}}\n add sp, #24\n"
    )
    made = assemble(f"{text} pop {{r4, r7, pc}}\n.size f, .-f\n", ROWS["armv7e-m"].triple)
    (found,) = audit(made, None, TARGETS["armv7e-m"]).functions
    assert found.why == "" and found.stack == 3 * 4 + 24 + 2 * 4


def test_what_is_known_of_an_unknown_depth() -> None:
    found = x86("subq $40, %rsp\n callq elsewhere\n addq $40, %rsp\n ret").functions[0]
    assert (found.deepest, found.least) == (None, 48) and found.why == "'elsewhere' is not in this file"
    text = """g: subq $72, %rsp
     addq $72, %rsp
     ret
     .size g, .-g
     .type f,@function
    f: callq __fentry__
     pushq %rax
     callq *%rax
     callq g
     popq %rax
     jmp g
     .size f, .-f
    """
    f = {f.name: f for f in audit(assemble(f".type g,@function\n{text}", X86)).functions}["f"]
    assert (f.stack, f.deepest, f.least) == (16, None, 96) and f.why == "'f' calls through a pointer"
    (f,) = [
        f for f in audit(assemble(f".type g,@function\n{text.replace(' callq *%rax', '')}", X86)).functions
        if f.name == "f"
    ]  # fmt: skip
    assert (f.deepest, f.path) == (96, ("f", "g"))


@pytest.mark.parametrize(
    ("name", "jump"), [("x86-64", "jmp *%r11"), ("aarch64", "br x16"), ("armv7e-m", "bx r2")]
)
def test_a_jump_through_a_register_is_no_place_in_the_function(name: str, jump: str) -> None:
    """The number in its name is not an offset."""
    filler = "nop\n" * 20
    made = assemble(f".type f,%function\nf: {jump}\n{filler}.size f, .-f\n", ROWS[name].triple)
    (found,) = audit(made).functions
    assert found.deepest is None and found.why == "'f' calls through a pointer"


def test_the_kernels_thunks_are_returns_and_calls_through_pointers() -> None:
    found = x86("subq $40, %rsp\n addq $40, %rsp\n jmp __x86_return_thunk")
    assert found.functions[0].deepest == 48
    found = x86("callq __x86_indirect_thunk_r11\n ret")
    assert "calls through a pointer" in found.functions[0].why


def test_the_red_zone_is_seen_in_leaf_functions() -> None:
    text = "int f(int a, int b) { volatile int x[8]; x[a & 7] = b; x[1] = 2; return x[2]; }"
    x86_64 = TARGETS["x86-64"]
    (found,) = audit(compile_c(text, x86_64)).functions
    assert 24 <= found.red_zone <= 128
    (found,) = audit(compile_c(text, x86_64, flags=("-mno-red-zone",))).functions
    assert found.red_zone == 0


def test_what_wants_an_aligned_stack_is_seen() -> None:
    found = x86("subq $24, %rsp\n movaps %xmm0, (%rsp)\n movups %xmm0, 8(%rsp)\n addq $24, %rsp\n ret")
    (aligned,) = found.functions[0].aligned
    assert (aligned.bytes, aligned.base, aligned.count) == (16, "stack", 1)
    realigned = "pushq %rbp\n movq %rsp, %rbp\n andq $-64, %rsp\n subq $64, %rsp\n vmovaps %zmm0, (%rsp)\n"
    found = x86(realigned + "movq %rbp, %rsp\n popq %rbp\n ret")
    assert [(a.bytes, a.base) for a in found.functions[0].aligned] == [(64, "realigned")]
    found = x86("vmovaps (%rdi), %ymm0\n addps (%rsi), %xmm1\n vaddps (%rsi), %xmm1, %xmm1\n ret")
    assert [(a.bytes, a.base) for a in found.functions[0].aligned] == [(16, "pointer"), (32, "pointer")]


def test_writable_data_and_sections() -> None:
    found = audit(compile_c("static int n; int next(void) { return ++n; } int start = 7;", TARGETS["x86-64"]))
    assert {names for names in found.writable.values()} == {("n",), ("start",)}
    assert {s.kind for s in found.sections} == {"text", "data", "bss"}


FEATURES = [
    ("vfmadd231ps %ymm0, %ymm1, %ymm2", {"fma"}),
    ("vpaddd %ymm0, %ymm1, %ymm2", {"avx2"}),
    ("vaddps %ymm16, %ymm1, %ymm2", {"avx512vl", "avx512f"}),
    ("vpdpbusd %zmm0, %zmm1, %zmm2", {"avx512_vnni"}),
    ("{vex} vpdpbusd %ymm0, %ymm1, %ymm2", {"avx_vnni"}),
    ("vaddph %zmm0, %zmm1, %zmm2", {"avx512_fp16"}),
    ("lzcntl %eax, %eax", {"lzcnt"}),
    ("tdpbusd %tmm0, %tmm1, %tmm2", {"amx_int8"}),
]


@pytest.mark.parametrize(("text", "needs"), FEATURES)
def test_what_an_instruction_needs(text: str, needs: set[str]) -> None:
    assert needs <= x86(f"{text}\n ret").features.keys()


@pytest.mark.parametrize("name", ROWS)
def test_code_of_a_target_stays_in_its_declared_features(name: str) -> None:
    text = """
    #include <stdint.h>
    typedef float v __attribute__((vector_size(16)));
    v f(v a, v b) { return a * b + a; }
    double g(double a, double b) { return a / b; }
    float h(float a, int32_t b) { return b > 3 ? a * (float)b : a; }
    int64_t i(int64_t a, int64_t b) { return a * b + (a >> 3); }
    int j(uint32_t a) { return __builtin_popcount(a) + __builtin_clz(a | 1); }
    """
    made = audit(compile_c(text, ROWS[name]), None, ROWS[name])
    assert judge(made, Policy(features=False))[0].reasons == ()


@pytest.mark.parametrize(
    ("target", "text", "feature"),
    [
        ("x86-64-v3", "vaddps %zmm0, %zmm1, %zmm2", "avx512f"),
        ("x86-64", "popcntl %eax, %eax", "popcnt"),
        ("aarch64", ".arch_extension dotprod\n sdot v0.4s, v1.16b, v2.16b", "dotprod"),
        ("aarch64", ".arch armv8-a+sve\n add z0.s, z1.s, z2.s", "sve"),
        ("armv7e-m", ".fpu vfpv4\n vadd.f64 d0, d1, d2", "double precision"),
        ("riscv64", ".option arch, +zba\n sh1add a0, a1, a2", "Zba"),
        ("s390x", ".machine z14\n vfasb %v0, %v1, %v2", "vector"),
        ("ppc64le", ".machine power10\n xxspltiw 1, 4", "option"),
    ],
)
def test_instructions_outside_of_the_declared_features(target: str, text: str, feature: str) -> None:
    known = {**TARGETS, **ROWS}[target]
    made = assemble(f".text\nf: {text}\n", known.triple)
    (verdict,) = judge(audit(made, None, known), Policy(features=False))
    assert any("at f+0x0" in r for r in verdict.reasons), verdict
    assert feature in " ".join(verdict.reasons) or "no known instruction" in verdict.reasons[0]


def test_flags_of_the_user_declare_features() -> None:
    made = assemble("f: vpaddd %ymm0, %ymm1, %ymm2\n", X86)
    assert not judge(audit(made, None, TARGETS["x86-64"]), Policy(features=False))[0].holds
    assert judge(audit(made, None, TARGETS["x86-64"], ("-mavx2",)), Policy(features=False))[0].holds
    made = assemble(".arch armv8.2-a+dotprod\nf: sdot v0.4s, v1.16b, v2.16b\n", "aarch64-none-elf")
    flags = ("-mcpu=cortex-a55",)
    assert judge(audit(made, None, TARGETS["aarch64"], flags), Policy(features=False))[0].holds


def test_a_target_of_another_machine_is_refused() -> None:
    with pytest.raises(InputError, match="another machine"):
        audit(assemble("f: ret\n", X86), None, TARGETS["aarch64"])


# ---- rules -------------------------------------------------------------------------------------------------

BREAKS = [
    ("no undefined symbol", "call helper\n ret", "'helper' is undefined, used by f"),
    ("no call of libm", "call expf\n ret", "'expf' is of the mathematical library"),
    ("no call of libm", "call __divti3\n ret", "'__divti3' is of the compiler's runtime library"),
    ("no writable data", "ret\n.data\n.long 1\n.text", ".data holds 4 bytes"),
    ("red zone", "movl %eax, -8(%rsp)\n ret", "'f' uses 8 bytes"),
    ("less than 512", "subq $504, %rsp\n addq $504, %rsp\n ret", "'f' takes 512 bytes"),
    ("less than 512", "subq %rax, %rsp\n addq %rax, %rsp\n ret", "cannot be followed"),
    ("aligned to 8", "subq $24, %rsp\n movaps %xmm0, (%rsp)\n addq $24, %rsp\n ret", "stack aligned to 16"),
    ("only instructions", "vaddps %ymm0, %ymm1, %ymm2\n ret", "avx"),
    ("only instructions", "ret\n .byte 0x0f, 0x0a", "no known instruction"),
]


@pytest.mark.parametrize(("rule", "text", "reason"), BREAKS)
def test_every_rule_of_the_kernel_can_be_broken(rule: str, text: str, reason: str) -> None:
    found = broken(judge(x86(text), POLICIES["kernel"]))
    assert any(rule in line and reason in line for line in found), found
    assert all(rule in line for line in found), "one rule is broken, not another"


def test_what_the_kernel_allows_is_allowed() -> None:
    text = "subq $500, %rsp\n addq $500, %rsp\n callq __x86_indirect_thunk_rax\n jmp __x86_return_thunk"
    assert broken(judge(x86(text), POLICIES["kernel"])) == []
    assert broken(judge(x86("call expf\n ret"), Policy(undefined=("expf",)))) == []


@pytest.mark.parametrize("name", ["expf", "sqrt", "powl", "sincosf", "__addsf3", "__aeabi_fadd", "__udivti3"])
def test_library_calls_are_known_by_name(name: str) -> None:
    (verdict,) = judge(x86(f"call {name}\n ret"), Policy(libraries=False))
    assert verdict.reasons


@pytest.mark.parametrize("name", ["memcpy", "expire", "printk", "logger", "__fentry__", "sinful"])
def test_other_names_are_no_library_calls(name: str) -> None:
    (verdict,) = judge(x86(f"call {name}\n ret"), Policy(libraries=False))
    assert verdict.holds


# ---- the command line --------------------------------------------------------------------------------------


def test_a_broken_rule_is_a_failure_with_its_reason(tmp_path: Path) -> None:
    path = tmp_path / "bad.o"
    path.write_bytes(
        assemble(".globl f\n.type f,@function\nf: movl %eax, -8(%rsp)\n ret\n.size f,.-f\n", X86)
    )
    result = ingot("audit", path, "--policy", "kernel")
    assert result.exit_code == 1
    assert "'f' uses 8 bytes" in result.stderr and "BROKEN" in result.stdout
    assert ingot("audit", path).exit_code == 0
    assert ingot("audit", path, "--max-stack", "8").exit_code == 1


def test_json_has_everything(tmp_path: Path) -> None:
    import json

    path = tmp_path / "code.o"
    path.write_bytes(compile_c(CODE, TARGETS["x86-64"]))
    result = ingot("audit", path, "--target", "x86-64", "--allow", "elsewhere", "--allow", "table", "--json")
    assert result.exit_code == 0, result.output
    data = json.loads(result.stdout)
    assert {f["name"] for f in data["functions"]} == {"inner", "outer"}
    assert all(r["holds"] for r in data["rules"]) and len(data["rules"]) == 2
    assert {"section", "offset", "relocations", "patched", "goal", "kind"} <= data["fixups"][0].keys()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.o", b"", "not an ELF object"),
        ("a.o", b"\x7fELF", "not an ELF object"),
        ("a.o", b"\0asm\1\0\0\0\1\x80", "the WebAssembly file is truncated"),
        ("a.o", b"\xcf\xfa\xed\xfe\7\0\0\1", "the Mach-O file is truncated"),
        ("a.o", b"\x64\x86\1\0", "the COFF file is truncated"),
        ("a.a", b"!<arch>\n", "archive"),
        ("a.s", b"nonsense\n", "--triple"),
    ],
)
def test_what_is_no_object_is_one_error(name: str, content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    result = ingot("audit", tmp_path / name)
    assert result.exit_code == 2 and message in result.stderr and result.stderr.count("\n") == 1


def test_shared_libraries_and_archives() -> None:
    made = compile_c("static int own; int *f(void) { return &own; }", TARGETS["x86-64"])
    found = audit(link_shared([made], ["f"]))
    assert found.kind == "shared library" and "f" in [f.name for f in found.functions]
    assert all(f.instruction or f.relocations for f in found.fixups)
    with pytest.raises(InputError, match="ar x"):
        audit(archive({"a.o": made}))


# ---- files that lie ----------------------------------------------------------------------------------------


def seed(name: str) -> bytes:
    return compile_c(CODE, ROWS[name])


@pytest.mark.parametrize("name", ["x86-64", "i386", "aarch64", "armv7e-m", "riscv64", "s390x"])
def test_a_truncated_object_is_one_error(name: str) -> None:
    whole = seed(name)
    for length in range(0, len(whole) - 1, max(1, len(whole) // 40)):
        with pytest.raises(InputError):
            audit(whole[:length])


@pytest.mark.parametrize("name", ["x86-64", "i386", "armv7e-m", "s390x"])
def test_damaged_objects_are_audited_or_refused(name: str) -> None:
    """Seeded: bytes of headers and tables replaced by extremes. Never another exception, never long."""
    generator, whole = random.Random(name), seed(name)
    wide, order = whole[4] == 2, "<" if whole[5] == 1 else ">"
    (headers,) = struct.unpack_from(order + ("Q" if wide else "I"), whole, 40 if wide else 32)
    began = time.monotonic()
    for _ in range(150):
        made = bytearray(whole)
        for _ in range(generator.randrange(1, 4)):
            start = generator.choice([0, headers])
            at = generator.randrange(start, min(start + 640, len(made)))
            made[at] = generator.choice([0, 1, 127, 128, 255])
        try:
            judge(audit(bytes(made)), POLICIES["kernel"])
        except InputError as error:
            assert len(str(error)) < 400
    assert time.monotonic() - began < 60


def patched(content: bytes, at: int, layout: str, value: int) -> bytes:
    return content[:at] + struct.pack(layout, value) + content[at + struct.calcsize(layout) :]


def test_huge_counts_are_refused_at_once() -> None:
    whole = seed("x86-64")
    (headers,) = struct.unpack_from("<Q", whole, 40)
    many = patched(whole, 60, "<H", 0)  # e_shnum 0: the count is the first header's size
    for count in (1 << 20, 1 << 40, (1 << 64) - 1):
        with pytest.raises(InputError, match="sections"):
            audit(patched(many, headers + 32, "<Q", count))
    for size in (1 << 40, (1 << 64) - 1):  # sh_size of the first real section
        with pytest.raises(InputError, match="truncated or wrong"):
            audit(patched(whole, headers + 64 + 32, "<Q", size))


def test_memory_that_is_only_claimed_is_not_taken() -> None:
    made = assemble(".bss\n.globl big\nbig: .skip 0x7fffffffffff\n", X86)
    (section,) = [s for s in audit(made).sections if s.name == ".bss"]
    assert section.bytes == 0x7FFFFFFFFFFF


def test_functions_over_each_other_are_refused() -> None:
    with pytest.raises(InputError, match="overlap"):
        audit(assemble(_overlapping(), X86))


def _overlapping() -> str:
    """Each of 64 functions begins one byte behind the one before, and all end together."""
    heads = "".join(f".type f{i},@function\nf{i}: nop\n" for i in range(64))
    return f".text\n{heads}.skip 4096, 0x90\n" + "".join(f".size f{i}, .-f{i}\n" for i in range(64))


def test_calls_of_calls_end() -> None:
    """Ten thousand functions, each of which calls the next."""
    lines = [f".type f{i},@function\nf{i}: call f{i + 1}\n ret\n.size f{i},.-f{i}" for i in range(10_000)]
    found = audit(assemble("\n".join([*lines, "f10000: ret\n"]), X86))
    assert found.functions[0].deepest is None and len(found.functions) == 10_001
