"""The files of a kernel module: what they hold, and what is refused."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from onnx import parser

from benchmarks.net import Net
from ingot.audit.audit import audit
from ingot.bundle.bundle import Bundle
from ingot.driver import compile_with
from ingot.errors import InputError
from ingot.options import Options
from ingot.packaging.kbuild import kbuild, package
from ingot.packaging.kbuild.package import broken_rules
from ingot.packaging.kbuild.text import _makefile
from ingot.packaging.kbuild.variants import AARCH64, VARIANTS, X86_64
from ingot.targets.toolchain import assemble

NET = """<ir_version: 10, opset_import: ["" : 21]>
policy (float[1,4] seen, float[1,4] before) => (float[1,3] action, float[1,4] after)
<float[4,3] w = {1,0,0, 0,1,0, 0,0,1, 1,1,1}> {
  after = Add(seen, before)
  action = MatMul(after, w)
}"""
STATE = {"after": "before"}


def _module(**options: object) -> dict[str, bytes]:
    target = "x86-64+x86-64-v3"
    wanted = Options(**{"name": "policy", "target": target, "state": STATE, **options})  # type: ignore[arg-type]
    return dict(kbuild(parser.parse_model(NET), wanted, compile_with).files)


def test_a_module_has_its_c_a_bundle_per_variant_and_what_make_needs() -> None:
    files = _module()
    names = {
        "policy_module.c",
        "policy_check.c",
        "policy_network.h",
        "policy_internal.h",
        "policy_selftest.h",
        "Kbuild",
        "Makefile",
    }
    assert names < files.keys()
    assert {"policy_x86_64.c", "policy_x86_64.h", "policy_x86_64_v3.c", "policy_x86_64_v3.h"} < files.keys()
    kbuild_file = files["Kbuild"].decode()
    assert "obj-m := policy.o" in kbuild_file
    assert "CFLAGS_policy_x86_64_v3.o := $(OWN) -msse -msse2" in kbuild_file
    assert "-Werror=frame-larger-than=512" in kbuild_file
    assert "$(call level,policy_x86_64_v3,-msse -msse2" in kbuild_file


def test_a_readme_says_how_a_program_asks_the_module(tmp_path: Path) -> None:
    files = _module()
    readme = files["README.md"].decode()
    assert "| input `seen` | float32 | 1x4 |" in readme and "insmod policy.ko" in readme
    (tmp_path / "policy_network.h").write_bytes(files["policy_network.h"])
    (tmp_path / "use.c").write_text(readme.split("```c\n")[1].split("```")[0])
    command = ["gcc", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "use.c"]
    subprocess.run(command, cwd=tmp_path, check=True)


def test_dkms_builds_a_module_for_the_kernel_that_it_names() -> None:
    files = _module()
    settings = dict(line.split("=", 1) for line in files["dkms.conf"].decode().splitlines()[1:])
    assert settings["BUILT_MODULE_NAME[0]"] == '"policy"' and settings["AUTOINSTALL"] == '"yes"'
    assert settings["MAKE[0]"] == '"make KDIR=${kernel_source_dir}"'
    assert f"MODULE_VERSION({settings['PACKAGE_VERSION']});" in files["policy_module.c"].decode()


def test_no_float_is_touched_outside_of_what_is_compiled_for_it() -> None:
    text = _module()["policy_module.c"].decode()
    code = "\n".join(
        line
        for line in text.splitlines()
        if "float *" not in line and not line.lstrip("/").startswith((" *", "*"))
    )
    assert "float" not in code.replace("the text has no floats", "") and "double" not in code
    assert "if (!irq_fpu_usable())\n\t\treturn -EBUSY;" in text
    assert "cpu_has_xfeatures(XFEATURE_MASK_YMM, NULL)" in text


WHOLE = """<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]>
whole (int8[1,4] a, int8[1,4] b) => (int8[1,4] y)
<float s = {0.1}, float t = {0.07}, float u = {0.15}, int8 z = {3}> {
  y = com.microsoft.QLinearAdd(a, s, z, b, t, z, u, z)
}"""


def test_a_network_of_integers_needs_no_fpu() -> None:
    options = Options(name="whole", target="x86-64-general")
    for prebuilt in (False, True):
        files = dict(kbuild(parser.parse_model(WHOLE), options, compile_with, prebuilt).files)
        text = "\n".join(
            files[f"whole_{n}"].decode() for n in ("module.c", "check.c", "network.h", "internal.h")
        )
        assert "fpu_begin" not in text and "irq_fpu_usable" not in text and "define INGOT_FLOATS" not in text
        assert "preempt_disable();" in text and "if (raw_cpu_read(ingot_sections.network))" in text
        assert "NO_FPU :=\nOWN := -mgeneral-regs-only" in files["Kbuild"].decode()


@pytest.mark.parametrize(
    ("model", "target", "message"),
    [
        (NET, "x86-64-general", "has no floats, but the network has: seen, before, action, after"),
        (WHOLE, "x86-64+x86-64-general", "cannot be made for"),
        (WHOLE, "x86-64-v3", "or x86-64-general alone"),
    ],
)
def test_what_general_registers_cannot_do_is_said(model: str, target: str, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        kbuild(parser.parse_model(model), Options(name="net", target=target), compile_with)


ARM = "raspberrypi4+aarch64-dotprod+aarch64-i8mm"


def test_a_module_for_aarch64_computes_in_sections_of_neon() -> None:
    files = _module(target=ARM)
    assert {"policy_aarch64.c", "policy_aarch64_dotprod.c", "policy_aarch64_i8mm.c"} < files.keys()
    text = files["policy_module.c"].decode()
    assert "fpu" not in text.lower() and "#include <asm/neon.h>\n#include <asm/simd.h>" in text
    assert "if (!may_use_simd() || ingot_is_nested())\n\t\treturn -EBUSY;" in text
    assert "\tpreempt_disable();" in text and "\tkernel_neon_begin();\n\tthis_cpu_write" in text
    assert "\tkernel_neon_end();\n\tpreempt_enable();\n" in text
    chosen = re.findall(r"if \((cpu_have\w+.*)\)\n\t\treturn &ingot_(\w+)_variant", text)
    assert [name for _, name in chosen] == ["aarch64_i8mm", "aarch64_dotprod"]
    assert all("cpu_have_named_feature(ASIMDDP)" in condition for condition, _ in chosen)
    rules = files["Kbuild"].decode()
    assert "NO_FPU := -mgeneral-regs-only\n" in rules and "-mno-sse" not in rules
    assert "CFLAGS_policy_aarch64_dotprod.o := $(OWN) -march=armv8.2-a+dotprod" in rules
    readme = files["README.md"].decode()
    assert "kernel for aarch64" in readme and "CROSS_COMPILE=aarch64-linux-gnu-" in readme


def test_golden_vectors_need_no_emulator(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where objects of the module's processor cannot run, portable C gives them, with other last digits."""

    def outputs(files: dict[str, bytes]) -> np.ndarray:
        rows = files["policy_selftest.h"].decode().split("selftest_output")[1].split()
        return np.frombuffer(bytes(int(w.strip(","), 16) for w in rows if w.startswith("0x")), np.float32)

    with_one = outputs(_module(target="aarch64"))
    monkeypatch.setattr(package, "obstacle", lambda target: f"no emulator of {target.name}")
    np.testing.assert_allclose(outputs(_module(target="aarch64")), with_one, rtol=1e-5)


def test_prebuilt_objects_for_aarch64_keep_all_rules() -> None:
    options = Options(name="n", state=STATE, target=ARM)
    files = kbuild(parser.parse_model(NET), options, compile_with, prebuilt=True).files
    shipped = [n.removesuffix(".o_shipped") for n in files if n.endswith(".o_shipped")]
    assert sorted(shipped) == ["n_aarch64", "n_aarch64_dotprod", "n_aarch64_i8mm"]
    for name in shipped:
        bundle = Bundle(name, {f"{name}.o": files[f"{name}.o_shipped"]}, {})
        variant = VARIANTS[name.removeprefix("n_").replace("_", "-")]
        assert broken_rules(bundle, variant, prebuilt=True) == []


ODD = "adrp x0, :got:{name}\n ldr x0, [x0, :got_lo12:{name}]\n ret"


def test_relocations_that_the_kernel_does_not_resolve_are_refused() -> None:
    found = broken_rules(_object(ODD.format(name="n_pause"), "aarch64-none-elf"), VARIANTS["aarch64"], True)
    assert found and all("only relocations that the kernel resolves" in reason for reason in found)
    assert "R_AARCH64_ADR_GOT_PAGE in n, for 'n_pause'" in found[0]


def test_the_state_lives_with_each_user_and_starts_anew() -> None:
    text = _module()["policy_module.c"].decode()
    assert "#define INGOT_STATE sizeof(struct policy_x86_64_state)" in text
    assert "policy_x86_64_state_init(n->state);" in text


def test_golden_vectors_are_ten_runs_of_one_input_where_there_is_a_state() -> None:
    files = _module()
    assert b"INGOT_RUNS = 10" in files["policy_internal.h"]
    head, outputs = files["policy_selftest.h"].decode().split("selftest_output")
    ramp = np.arange(4, dtype=np.float32) * np.float32(0.1)
    numbers = [int(word.strip(","), 16) for word in head.split() if word.startswith("0x")]
    assert bytes(numbers) == ramp.tobytes()
    first = np.frombuffer(
        bytes(int(w.strip(","), 16) for w in outputs.split() if w.startswith("0x")), np.float32
    )
    np.testing.assert_allclose(first[:3], [0.3, 0.4, 0.5], rtol=1e-6)
    np.testing.assert_allclose(first[-3:], [3, 4, 5], rtol=1e-6)


def test_a_long_network_pauses() -> None:
    net = Net("deep", (1, 4096))
    wanted = Options(name="deep", target="x86-64+x86-64-v3")
    files = kbuild(net.model(y=net.dense("x", 64)), wanted, compile_with).files
    assert b"int deep_x86_64_v3_pause(void);" in files["deep_x86_64_v3.c"]
    stops = b"    if (deep_x86_64_v3_pause()) return DEEP_X86_64_V3_ERR_STOPPED;"
    assert stops in files["deep_x86_64_v3.c"]
    assert b"int deep_x86_64_v3_pause(void)\n{\n\treturn ingot_pause();" in files["deep_module.c"]


@pytest.mark.parametrize(
    "target", ["c99", "x86-64-v3", "aarch64-dotprod", "raspberrypi5", "cortex-m4", "aarch64+x86-64-v3"]
)
def test_other_processors_are_refused(target: str) -> None:
    with pytest.raises(InputError, match="a kernel module cannot be made for"):
        _module(target=target)


def test_extents_of_run_time_are_refused() -> None:
    model = parser.parse_model(NET.replace("[1,", "[N,"))
    with pytest.raises(InputError, match="fixed shapes, but N varies"):
        kbuild(model, Options(define={"N": (1, 4)}), compile_with)


BREAKS = [
    ("no undefined symbol", "call printk\n ret", "'printk' is undefined"),
    ("no call of libm", "call tanhf\n ret", "the mathematical library"),
    ("no call of libm", "call __truncsfhf2\n ret", "the compiler's runtime library"),
    ("no writable data", "ret\n .bss\n .skip 8\n .text", ".bss holds 8 bytes"),
    ("red zone", "movq %rax, -128(%rsp)\n ret", "'n' uses 128 bytes"),
    ("stack in every function", "subq $504, %rsp\n addq $504, %rsp\n ret", "'n' takes 512 bytes"),
    ("aligned to 8", "subq $40, %rsp\n movaps %xmm0, (%rsp)\n addq $40, %rsp\n ret", "aligned to 16"),
    ("only instructions", "vaddps %zmm0, %zmm1, %zmm2\n ret", "avx512f"),
]


def _object(text: str, triple: str = "x86_64-unknown-none") -> Bundle:
    code = assemble(f".globl n\n.type n,@function\nn: {text}\n.size n, .-n\n", triple)
    return Bundle("n", {"n.o": code}, {})


@pytest.mark.parametrize(("rule", "text", "reason"), BREAKS)
def test_an_object_that_breaks_a_rule_is_refused(rule: str, text: str, reason: str) -> None:
    def build(model: object, options: Options) -> Bundle:
        made = compile_with(model, options)
        return Bundle(made.name, made.files, made.manifest, {**made._parts, f"{made.name}.o": bad})

    bad = _object(text).object
    (found,) = broken_rules(_object(text), VARIANTS["x86-64-v3"], prebuilt=True)
    assert rule in found and reason in found
    options = Options(name="n", target="x86-64", state=STATE)
    with pytest.raises(InputError, match="cannot be linked into the kernel") as caught:
        kbuild(parser.parse_model(NET), options, build, prebuilt=True)
    assert reason in str(caught.value)


def test_the_kernels_thunks_and_the_pause_may_be_undefined() -> None:
    good = _object("callq n_pause\n callq __x86_indirect_thunk_r11\n jmp __x86_return_thunk")
    assert broken_rules(good, VARIANTS["x86-64"], prebuilt=True) == []


@pytest.mark.parametrize("prebuilt", [False, True])
def test_flags_that_break_a_rule_are_refused(prebuilt: bool) -> None:
    options = Options(name="n", target="x86-64", state=STATE, cflags=("-mavx",))
    with pytest.raises(InputError, match="only instructions of x86-64"):
        kbuild(parser.parse_model(NET), options, compile_with, prebuilt)


def test_prebuilt_objects_keep_all_rules() -> None:
    options = Options(name="n", state=STATE)
    files = kbuild(parser.parse_model(NET), options, compile_with, prebuilt=True).files
    shipped = {n: data for n, data in files.items() if n.endswith(".o_shipped")}
    assert len(shipped) == 3
    for name, data in shipped.items():
        found = audit(data)
        assert found.undefined.keys() <= {"__x86_return_thunk", f"{name.removesuffix('.o_shipped')}_pause"}
        assert all(f.red_zone == 0 and f.stack is not None and f.stack < 512 for f in found.functions)


def test_what_a_device_cannot_carry_is_refused() -> None:
    head = '<ir_version: 10, opset_import: ["" : 21]>'
    found = "g (float[8] x) => (int64[1, N] y) { y = NonZero(x) }"
    listed = "g (float[4] x) => (seq(float[4]) y) { y = SequenceConstruct(x, x) }"
    reasons = {found: "data says how many y has", listed: "'y' is of kind sequence"}
    for text, reason in reasons.items():
        with pytest.raises(InputError, match=reason):
            kbuild(parser.parse_model(head + text), Options(), compile_with)


def test_names_that_the_kernel_has_or_that_are_long() -> None:
    """simple_open() is the kernel's, `current` a macro of it; variants of a long name are still apart."""
    text = (
        '<ir_version: 10, opset_import: ["" : 21]> g (float[4] current) => (float[4] n) { n = Relu(current) }'
    )
    files = kbuild(parser.parse_model(text), Options(name="simple", target="x86-64"), compile_with).files
    wanted = b"int simple_network_infer(struct simple_network *network, const float *in_current"
    assert wanted in files["simple_network.h"]
    code = files["simple_module.c"].decode()
    assert code.index('#include "simple_x86_64.h"') < code.index("#include <linux/")
    long = kbuild(parser.parse_model(text), Options(name="a" * 70), compile_with).files
    assert len({n for n in long if n.endswith(".c") and "_x86_64" in n}) == 3


MIXED = """<ir_version: 10, opset_import: ["" : 21]>
mixed (int8[3] x, float[5] b, double[1] c, int4[5] d, string[2] s, int64 e)
   => (bool[3] p, double[1] q, uint4[3] r, int16[3] t, string[2] u) {
  p = Cast<to = 9>(x)
  q = Mul(c, c)
  wide = Cast<to = 7>(x)
  more = Add(wide, e)
  r = Cast<to = 21>(more)
  t = Cast<to = 5>(more)
  some = StringConcat(s, s)
  u = Identity(some)
  unused = Add(b, b)
}"""


def test_every_tensor_is_aligned_to_its_elements() -> None:
    """As in the struct that a program declares, whatever the types beside it."""
    model = parser.parse_model(MIXED)
    files = kbuild(model, Options(name="mixed", target="x86-64", keep_inputs=True), compile_with).files
    header = files["mixed_network.h"].decode()
    rows = ["int8_t in_x[3]; /* at 0: int8 */", "float in_b[5]; /* at 4: float32 */"]
    rows += ["double in_c[1] __attribute__((aligned(8))); /* at 24: float64 */"]
    rows += ["uint8_t in_d[3]; /* at 32: int4, 5 packed */", "char in_s[2][64]; /* at 35: string64 */"]
    rows += ["int64_t in_e[1] __attribute__((aligned(8))); /* at 168: int64 */"]
    rows += ["uint8_t out_p[3]; /* at 0: bool */", "uint8_t out_r[2]; /* at 16: uint4, 3 packed */"]
    rows += ["int16_t out_t[3]; /* at 18: int16 */", "char out_u[2][64]; /* at 24: string64 */"]
    assert [row for row in rows if f"\t{row}\n" not in header] == []
    golden = files["mixed_selftest.h"].decode()
    assert "_Static_assert(sizeof(struct mixed_inputs) == 176" in golden
    assert "_Static_assert(sizeof(struct mixed_outputs) == 152" in golden
    assert "selftest_input[3][176]" in golden and "selftest_output[3][152]" in golden


def test_devices_have_names_of_their_own() -> None:
    """The kernel's drivers and udev's rules know none that begins so."""
    options = Options(name="null", target="x86-64", state=STATE)
    files = kbuild(parser.parse_model(NET), options, compile_with).files
    text = files["null_module.c"].decode() + files["null_network.h"].decode()
    assert '\t.name = "ingot-null",\n' in text and "/dev/null" not in text


def test_a_module_that_the_kernel_has_is_refused_when_it_is_built(tmp_path: Path) -> None:
    """Loaded, it would keep the kernel's own from being loaded."""
    assert shutil.which("make"), "make is missing; tools/debian-packages.txt lists it"
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "Makefile").write_text("modules:\n\t@echo built\n")
    (tmp_path / "modules.order").write_text("kernel/fs/ext4/ext4.ko\nkernel/sound/snd-hda-intel.ko\n")
    (tmp_path / "modules.builtin").write_text("kernel/drivers/char/random.ko\n")

    def made(name: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "Makefile").write_text(_makefile(name, X86_64))
        command = ["make", "-C", str(tmp_path), f"KDIR={tmp_path}/build"]
        return subprocess.run(command, capture_output=True, text=True)

    for name in ("ext4", "snd_hda_intel", "random"):
        refused = made(name)
        assert refused.returncode and f"this kernel has a module {name}: compile" in refused.stderr
        assert "built" not in refused.stdout
    for name in ("ext", "ext4_net", "intel", "policy"):
        assert "built" in made(name).stdout


def test_missing_kernel_headers_are_named(tmp_path: Path) -> None:
    assert shutil.which("make"), "make is missing; tools/debian-packages.txt lists it"
    (tmp_path / "Makefile").write_text(_makefile("net", X86_64))
    command = ["make", "-C", str(tmp_path), f"KDIR={tmp_path}/none"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode and f"no kernel headers in {tmp_path}/none: install them" in done.stderr


def test_a_kernel_of_another_processor_is_named(tmp_path: Path) -> None:
    assert shutil.which("make"), "make is missing; tools/debian-packages.txt lists it"
    settings = tmp_path / "build" / "include" / "config" / "auto.conf"
    settings.parent.mkdir(parents=True)
    settings.write_text("CONFIG_64BIT=y\nCONFIG_X86_64=y\n")
    (tmp_path / "build" / "Makefile").write_text("modules:\n\t@echo built\n")
    said = {}
    for processor in (X86_64, AARCH64):
        (tmp_path / "Makefile").write_text(_makefile("net", processor))
        command = ["make", "-C", str(tmp_path), f"KDIR={tmp_path}/build"]
        said[processor.title] = subprocess.run(command, capture_output=True, text=True)
    assert "\nbuilt" in said["x86-64"].stdout and "\nbuilt" not in said["aarch64"].stdout
    reason = (
        f"kernel of {tmp_path}/build is not for aarch64, as this module is: give KDIR=DIRECTORY ARCH=arm64"
    )
    assert said["aarch64"].returncode and reason in said["aarch64"].stderr


def test_more_than_two_gigabytes_are_refused() -> None:
    """Before anything is run or written."""
    model = parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 21]>
        g (double[1074, 500, 500] x) => (double[1074] y) <int64[2] axes = {1, 2}> {
          y = ReduceMax<keepdims = 0>(x, axes)
        }"""
    )
    reason = re.escape(
        "at most 2,147,479,232 bytes for each user, but the network takes 2,148,008,592 (inputs"
    )
    with pytest.raises(InputError, match=reason):
        kbuild(model, Options(name="big", target="x86-64"), compile_with)


def test_names_that_are_macros_in_every_file_of_the_kernel() -> None:
    text = """<ir_version: 10, opset_import: ["" : 21]>
    g (float[4] noinline, float[4] notrace) => (float[4] rcu_head) { rcu_head = Add(noinline, notrace) }"""
    files = kbuild(parser.parse_model(text), Options(name="n", target="x86-64"), compile_with).files
    code = files["n_x86_64.c"].decode()
    assert "int n_x86_64(const float *noinline_2, const float *notrace_2, float *rcu_head_2" in code
