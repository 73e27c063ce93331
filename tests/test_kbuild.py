"""The files of a kernel module: what they hold, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import parser

from benchmarks.net import Net
from ingot.audit.audit import audit
from ingot.bundle.bundle import Bundle
from ingot.driver import compile_with
from ingot.errors import InputError
from ingot.options import Options
from ingot.packaging.kbuild import kbuild
from ingot.packaging.kbuild.package import broken_rules
from ingot.packaging.kbuild.variants import VARIANTS
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
        "policy_selftest.h",
        "Kbuild",
        "Makefile",
    }
    assert names < files.keys()
    assert {"policy_x86_64.c", "policy_x86_64.h", "policy_x86_64_v3.c", "policy_x86_64_v3.h"} < files.keys()
    kbuild_file = files["Kbuild"].decode()
    assert "obj-m := policy.o" in kbuild_file
    assert "CFLAGS_policy_x86_64_v3.o := $(FPU) -msse -msse2" in kbuild_file
    assert "-Werror=frame-larger-than=512" in kbuild_file
    assert "$(call level,policy_x86_64_v3,-msse -msse2" in kbuild_file


def test_no_float_is_touched_outside_of_what_is_compiled_for_it() -> None:
    text = _module()["policy_module.c"].decode()
    code = "\n".join(
        line for line in text.splitlines() if "float *" not in line and not line.startswith(" *")
    )
    assert "float" not in code and "double" not in code
    assert "if (!irq_fpu_usable())\n\t\treturn -EBUSY;" in text
    assert "cpu_has_xfeatures(XFEATURE_MASK_YMM, NULL)" in text


def test_the_state_lives_with_each_user_and_starts_anew() -> None:
    text = _module()["policy_module.c"].decode()
    assert "STATE_BYTES = sizeof(struct policy_x86_64_state)" in text
    assert "policy_x86_64_state_init((struct policy_x86_64_state *)n->state);" in text


def test_golden_vectors_are_ten_runs_of_one_input_where_there_is_a_state() -> None:
    text = _module()["policy_selftest.h"].decode()
    assert "SELFTEST_RUNS = 10, SELFTEST_SHOWN = 3" in text
    head, outputs = text.split("selftest_output")
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
    assert b"void deep_x86_64_v3_pause(void);" in files["deep_x86_64_v3.c"]
    assert b"    deep_x86_64_v3_pause();" in files["deep_x86_64_v3.c"]
    assert b"void deep_x86_64_v3_pause(void)\n{\n\tpause_if_due();" in files["deep_module.c"]


@pytest.mark.parametrize("target", ["c99", "x86-64-v3", "aarch64"])
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


def _object(text: str) -> Bundle:
    code = assemble(f".globl n\n.type n,@function\nn: {text}\n.size n, .-n\n", "x86_64-unknown-none")
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
    words = "g (string[2] s) => (bool[2] y) { t = StringConcat(s, s) y = Equal(s, t) }"
    found = "g (float[8] x) => (int64[1, N] y) { y = NonZero(x) }"
    listed = "g (float[4] x) => (seq(float[4]) y) { y = SequenceConstruct(x, x) }"
    reasons = {words: "s holds strings", found: "data says how many y has", listed: "no sequences"}
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
