"""The text of the module: its C, its API header, golden vectors, Kbuild, Makefile.

In: the variants with their bundles, whose inputs, outputs and state are the same. Out: file contents.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files as resources
from string import Template
from typing import Any

from ingot.bundle.binding import shape
from ingot.bundle.bundle import Bundle
from ingot.formula.types import dtype_named
from ingot.packaging.kbuild.golden import SelfTest
from ingot.packaging.kbuild.variants import Variant
from ingot.targets.linux import FRAME_BYTES

SHOWN = 16
NUMBERS_PER_LINE = 12
COMPARED = ("float32", "float64", "float16", "bfloat16")
"""Types whose numbers need not be the same to the bit: compilers add in other orders."""
Tensor = Mapping[str, Any]
Made = Sequence[tuple[Variant, Bundle]]


def module_files(name: str, made: Made, test: SelfTest, prebuilt: bool) -> dict[str, bytes]:
    """Everything but the bundles' own files."""
    text = {
        f"{name}_module.c": _module(name, made),
        f"{name}_check.c": _check(name, made[0][1].manifest),
        f"{name}_network.h": _header(name, made[0][1]),
        f"{name}_selftest.h": _selftest(made[0][1].manifest, test),
        "Kbuild": _kbuild(name, made, prebuilt),
        "Makefile": MAKEFILE,
    }
    if prebuilt:  # what kbuild knows of how an object was made: nothing
        text |= {f".{b.name}.o.cmd": "" for _, b in made}
    return {n: t.encode() for n, t in text.items()}


MAKEFILE = """\
KDIR ?= /lib/modules/$(shell uname -r)/build

all:
\t$(MAKE) -C $(KDIR) M=$(CURDIR) modules

clean:
\t$(MAKE) -C $(KDIR) M=$(CURDIR) clean
"""


def size(t: Tensor) -> int:
    """Bytes of a tensor."""
    count = 1
    for n in shape(t, {}):
        count *= n
    dtype = dtype_named(t["dtype"])
    return -(-count * dtype.bits // 8)


def c_type(t: Tensor) -> str:
    return dtype_named(t["dtype"]).c


def _module(name: str, made: Made) -> str:
    first = made[0][1].manifest
    inputs, outputs = first["inputs"], first["outputs"]
    weakest, *others = (v for v, _ in made)
    template = Template(resources("ingot.packaging.kbuild").joinpath("module.c.in").read_text())
    return template.substitute(
        name=name,
        includes="\n".join(f'#include "{b.name}.h"' for _, b in made),
        input_bytes=sum(map(size, inputs)),
        output_bytes=sum(map(size, outputs)),
        state_bytes=f"sizeof(struct {made[0][1].name}_state)" if first["state"] else 0,
        arena_bytes=max(b.manifest["sizes"]["arena_bytes"] for _, b in made),
        variants="\n".join(_variant(name, v, b) for v, b in made),
        choices="\n".join(_choice(v) for v in reversed(others)),
        weakest=weakest.symbol,
        parameters=_parameters(first),
        input_list=", ".join(f"(const u8 *)in_{t['symbol']}" for t in inputs),
        output_list=", ".join(f"(u8 *)out_{t['symbol']}" for t in outputs),
        input_sizes=", ".join(str(size(t)) for t in inputs),
        output_sizes=", ".join(str(size(t)) for t in outputs),
    )


def _parameters(manifest: Mapping[str, Any]) -> str:
    """Named as no macro of the kernel is."""
    rows = [f"const {c_type(t)} *in_{t['symbol']}" for t in manifest["inputs"]]
    return ", ".join([*rows, *(f"{c_type(t)} *out_{t['symbol']}" for t in manifest["outputs"])])


def _variant(name: str, v: Variant, bundle: Bundle) -> str:
    """The functions and the table of one variant."""
    here, m = v.symbol, bundle.manifest
    arguments = [f"(const {c_type(t)} *)in[{i}]" for i, t in enumerate(m["inputs"])]
    arguments += [f"({c_type(t)} *)out[{i}]" for i, t in enumerate(m["outputs"])]
    arguments += [f"(struct {bundle.name}_state *)n->state"] if m["state"] else []
    arguments += ["n->arena"]
    reset = f"\t{bundle.name}_state_init((struct {bundle.name}_state *)n->state);\n" if m["state"] else ""
    return f"""\
void {bundle.name}_pause(void);
void {bundle.name}_pause(void)
{{
\tpause_if_due();
}}
static int run_{here}(struct {name}_network *n, const u8 *const *in, u8 *const *out)
{{
\treturn {bundle.name}({", ".join(arguments)});
}}
static void reset_{here}(struct {name}_network *n)
{{
{reset}}}
static const struct variant {here} = {{ "{v.target}", run_{here}, reset_{here} }};
"""


def _choice(v: Variant) -> str:
    checks = " && ".join(f"boot_cpu_has(X86_FEATURE_{c})" for c in v.checks)
    xfeatures = "XFEATURE_MASK_AVX512" if "AVX512F" in v.checks else "XFEATURE_MASK_YMM"
    return f"\tif ({checks} && cpu_has_xfeatures({xfeatures}, NULL))\n\t\treturn &{v.symbol};"


def _check(name: str, manifest: Mapping[str, Any]) -> str:
    rows, at = [], 0
    for t in manifest["outputs"]:
        kind, n, element = t["dtype"], size(t), dtype_named(t["dtype"]).bits // 8
        check, count = (f"agrees_{kind}", n // element) if kind in COMPARED else ("same", n)
        rows.append(f"{check}(found + {at}, wanted + {at}, {count})")
        at += n
    body = "\treturn " + " &&\n\t\t".join(rows) + ";"
    template = Template(resources("ingot.packaging.kbuild").joinpath("check.c.in").read_text())
    return template.substitute(name=name, agreements=body)


def _header(name: str, bundle: Bundle) -> str:
    m, guard = bundle.manifest, f"{name.upper()}_NETWORK_H"
    tensors = [*m["inputs"], *m["outputs"]]
    shapes = [f" *   {t['symbol']}: {t['dtype']} [{', '.join(map(str, t['shape']))}]" for t in tensors]
    shown = "\n".join(shapes)
    return f"""\
/* SPDX-License-Identifier: 0BSD */
/*
 * The network {name} for other modules of the kernel.
 *
{shown}
 */
#ifndef {guard}
#define {guard}

#include <linux/types.h>

struct {name}_network;

/* Memory for one user of the network; process context. ERR_PTR(-ENOMEM) if there is none. */
struct {name}_network *{name}_network_open(void);
void {name}_network_close(struct {name}_network *network);
/* Back to the state before the first run. */
void {name}_network_restart(struct {name}_network *network);
/*
 * One inference; one at a time for each network. can_sleep: process context without spin locks, where the
 * CPU is given up between sections. 0; -EBUSY where the FPU cannot be used (irq_fpu_usable()); -EINVAL for
 * inputs that hold an index or a count out of range.
 */
int {name}_network_infer(struct {name}_network *network, {_parameters(m)}, bool can_sleep);

/* Of the module itself. */
int {name}_network_agrees(const unsigned char *found, const unsigned char *wanted);
int {name}_network_decimal(const unsigned char *output, int i);

#endif
"""


def _selftest(manifest: Mapping[str, Any], test: SelfTest) -> str:
    first = manifest["outputs"][0]
    shown = min(size(first) // 4, SHOWN) if first["dtype"] == "float32" else 0
    lines = ["/* SPDX-License-Identifier: 0BSD */", "/* Inputs, and what the bundle gives in user space. */"]
    lines.append(f"enum {{ SELFTEST_RUNS = {len(test.outputs)}, SELFTEST_SHOWN = {shown} }};")
    for what, rows in (("input", test.inputs), ("output", test.outputs)):
        head = f"static const u8 selftest_{what}[{len(rows)}][{len(rows[0])}]"
        lines.append(f"{head} __attribute__((aligned(64))) = {{")
        lines += [line for row in rows for line in _bytes(row)]
        lines.append("};")
    return "\n".join(lines) + "\n"


def _bytes(data: bytes) -> Iterator[str]:
    yield "\t{"
    for at in range(0, len(data), NUMBERS_PER_LINE):
        yield "\t\t" + " ".join(f"0x{b:02x}," for b in data[at : at + NUMBERS_PER_LINE])
    yield "\t},"


def _stems(bundle: Bundle) -> list[str]:
    """The sources of a bundle without their endings."""
    return sorted({f.rsplit(".", 1)[0] for f in bundle.files if f.endswith((".c", ".S"))})


NO_STACK = (
    "-fno-predictive-commoning -fno-schedule-insns -fno-tree-pre -fno-gcse -fno-tree-loop-im -fno-ivopts"
)
LEVELS = ("-O3", "-O2", f"-O2 {NO_STACK}", f"-O1 {NO_STACK}")
"""Flags of gcc, fastest code first: the later ones hold fewer values for later, which takes less stack."""
FLAGS = f"""\
# The network's C is compiled with vector registers, which it uses between kernel_fpu_begin() and
# kernel_fpu_end() only.
NO_FPU := -mno-sse -mno-mmx -mno-sse2 -mno-3dnow -mno-avx -msoft-float -mgeneral-regs-only
FPU := -mhard-float -std=gnu11 -ffreestanding -fno-math-errno -ffp-contract=off \\
\t-fno-strict-aliasing -fno-jump-tables -fno-tree-loop-distribute-patterns \\
\t-fno-conserve-stack -Wno-declaration-after-statement -Wno-vla -Wno-misleading-indentation \\
\t-Wframe-larger-than={FRAME_BYTES} -Werror=frame-larger-than={FRAME_BYTES} \\
\t-isystem $(shell $(CC) -print-file-name=include)

# No function may take much of the kernel stack: the first of these is taken with which none does.
{{levels}}
LAST := {LEVELS[-1]}
TRY = $(CC) $(filter-out $(NO_FPU), \\
\t$(LINUXINCLUDE) $(KBUILD_CPPFLAGS) $(KBUILD_CFLAGS) $(KBUILD_CFLAGS_MODULE))
fits = $(shell $(TRY) $(FPU) $2 -I$(src) -c $(src)/$1.c -o /dev/null >/dev/null 2>&1 && echo y)
level = {{choice}}
"""


def _flags() -> str:
    """What the files of the network are compiled with; `level` is asked only where something is compiled."""
    tried = [f"LEVEL{i}" for i in range(len(LEVELS) - 1)]
    choice = "$(LAST)"
    for name in reversed(tried):
        choice = f"$(if $(call fits,$1,$({name}) $2),$({name}),{choice})"
    levels = "\n".join(f"{name} := {flags}" for name, flags in zip(tried, LEVELS, strict=False))
    return FLAGS.format(levels=levels, choice=f"$(if $(value try-run),{choice})")


def _kbuild(name: str, made: Made, prebuilt: bool) -> str:
    """What the kernel's build reads."""
    objects = [f"{name}_module.o", f"{name}_check.o"]
    rows = [_flags()]
    compiled = [(f"{name}_check", made[0][0])]
    for variant, bundle in made:
        own = _stems(bundle)
        objects += [f"{bundle.name}.o"] if prebuilt else [f"{stem}.o" for stem in own]
        compiled += [] if prebuilt else [(stem, variant) for stem in own if f"{stem}.c" in bundle.files]
    for stem, variant in compiled:
        machine = " ".join(variant.flags)
        level = "" if stem.endswith("_weights") else f" $(call level,{stem},{machine})"
        rows.append(f"CFLAGS_{stem}.o := $(FPU) {machine}{level}")
        rows.append(f"CFLAGS_REMOVE_{stem}.o := $(NO_FPU)")
    listed = [stem for _, b in made for stem in _stems(b) if f"{stem}.S" in b.files]
    rows += [f"AFLAGS_{stem}.o := -Wa,-I$(src)" for stem in listed]  # where .incbin finds the weights
    rows += ["", f"obj-m := {name}.o", f"{name}-objs := {' '.join(objects)}"]
    return "\n".join(rows) + "\n"
