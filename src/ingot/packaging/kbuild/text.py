"""The text of the module: its C, its API header, Kbuild, Makefile, README, what DKMS reads.

In: the variants with their bundles, whose inputs, outputs and state are the same. Out: file contents.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.resources import files as resources
from string import Template

from ingot.bundle.bundle import Bundle
from ingot.loops.priority import PRIORITIES
from ingot.options import Optimize
from ingot.packaging.kbuild.check import check_text, selftest_text
from ingot.packaging.kbuild.golden import SelfTest
from ingot.packaging.kbuild.layout import Layout, Member, element, layout, struct_text
from ingot.packaging.kbuild.variants import Processor, Section, Variant
from ingot.packaging.project.description import VERSION
from ingot.packaging.project.interface import tensors
from ingot.targets.linux import FRAME_BYTES

SHOWN, LINE_BYTES = 16, 400  # the most elements of an output that are printed, and their text's room
LINE_WIDTH = 80
Made = Sequence[tuple[Variant, Bundle]]


def module_files(name: str, made: Made, test: SelfTest, prebuilt: bool) -> dict[str, bytes]:
    """Everything but the bundles' own files."""
    manifest = made[0][1].manifest
    inputs, outputs = layout(manifest["inputs"], "in"), layout(manifest["outputs"], "out")
    text = {
        f"{name}_module.c": _module(name, made, inputs, outputs),
        f"{name}_check.c": check_text(name, outputs, made[0][0].section),
        f"{name}_network.h": _header(name, inputs, outputs, made[0][0].section),
        f"{name}_internal.h": _internal(name, made, test),
        f"{name}_selftest.h": selftest_text(name, inputs, outputs, test),
        "Kbuild": _kbuild(name, made, prebuilt),
        "Makefile": _makefile(name, made[0][0].processor),
        "README.md": _readme(name, made),
        "dkms.conf": _filled("dkms.conf.in", name),
    }
    if prebuilt:  # what kbuild knows of how an object was made: nothing
        text |= {f".{b.name}.o.cmd": "" for _, b in made}
    return {n: t.encode() for n, t in text.items()}


MAKEFILE = """\
KDIR ?= /lib/modules/$(shell uname -r)/build
SETTINGS := $(KDIR)/include/config/auto.conf
# The kernel's own modules: one of the same name would keep the other from being loaded.
KERNEL_MODULES := $(wildcard $(foreach list,modules.order modules.builtin, \\
\t$(KDIR)/$(list) $(dir $(patsubst %/,%,$(KDIR)))$(list)))

all:
\t@test -d '$(KDIR)' || \\
\t\t{{ echo "error: no kernel headers in $(KDIR): install them, or give KDIR=DIRECTORY" >&2; exit 1; }}
\t@test ! -f $(SETTINGS) || grep -q '^{setting}=y' $(SETTINGS) || \\
\t\t{{ echo "error: the kernel of $(KDIR) is not for {machine}, as this module is: \\
give KDIR=DIRECTORY{cross}" >&2; exit 1; }}
\t@! grep -hsE '(^|/){pattern}[.]k?o$$' $(KERNEL_MODULES) /dev/null || \\
\t\t{{ echo "error: this kernel has a module {name}: compile the network with another --name" >&2; exit 1; }}
\t$(MAKE) -C $(KDIR) M=$(CURDIR) modules

clean:
\t$(MAKE) -C $(KDIR) M=$(CURDIR) clean
"""


def _filled(template: str, name: str, **words: str) -> str:
    text = resources("ingot.packaging.kbuild").joinpath(template).read_text()
    return Template(text).substitute(name=name, version=VERSION, **words)


def _makefile(name: str, processor: Processor) -> str:
    """Where the kernel has names of files, - and _ are the same."""
    return MAKEFILE.format(
        name=name,
        pattern=name.replace("_", "[-_]"),
        setting=processor.setting,
        machine=processor.title,
        cross=f" {processor.cross}" if processor.cross else "",
    )


CROSS = """
On a machine with another processor, `make` takes the kernel's headers and the cross compiler:

    make KDIR=DIR {cross}
"""


def _readme(name: str, made: Made) -> str:
    processor = made[0][0].processor
    return _filled(
        "README.md.in",
        name,
        machine=processor.title,
        cross=CROSS.format(cross=processor.cross) if processor.cross else "",
        tensors="\n".join(tensors(made[0][1].manifest)),
    )


def _module(name: str, made: Made, inputs: Layout, outputs: Layout) -> str:
    first = made[0][1].manifest
    weakest, *others = (v for v, _ in made)
    return _filled(
        "module.c.in",
        name,
        includes="\n".join(f'#include "{b.name}.h"' for _, b in made),
        state_bytes=f"sizeof(struct {made[0][1].name}_state)" if first["state"] else "0UL",
        arena_bytes=max(b.manifest["sizes"]["arena_bytes"] for _, b in made),
        variants="\n".join(_variant(name, v, b) for v, b in made),
        choices="\n".join(_choice(v) for v in reversed(others)),
        weakest=weakest.symbol,
        headers="\n".join(f"#include <{header}>" for header in weakest.section.includes),
        enter=weakest.section.enter,
        leave=weakest.section.leave,
        pin=weakest.section.pin,
        unpin=weakest.section.unpin,
        helper=weakest.section.helper,
        is_busy=weakest.section.is_busy,
        parameters=_parameters(inputs, outputs),
        parameters_in=_listed(m.name for m in inputs.members),
        parameters_out=_listed(m.name for m in outputs.members),
        members_in=_listed(f"n->input->{m.name}" for m in inputs.members),
        members_out=_listed(f"n->output->{m.name}" for m in outputs.members),
        output_names=_listed(f'"{m.tensor["symbol"]}"' for m in outputs.members),
    )


def _listed(words: Iterable[str], between: str = ", ") -> str:
    """On as many lines as it takes; names have no spaces that could be broken."""
    lines = [""]
    for word in between.join(w.replace(" ", "\0") for w in words).split(" "):
        lines += [""] if lines[-1] and len(lines[-1]) + len(word) > LINE_WIDTH else []
        lines[-1] += f"{' ' if lines[-1] else ''}{word}"
    return "\n\t\t".join(lines).replace("\0", " ")


def _parameters(inputs: Layout, outputs: Layout) -> str:
    """Strings are rows of characters, as for the bundle."""

    def pointer(m: Member) -> str:
        return f"{element(m.dtype)} *{m.name}"

    rows = [f"const {pointer(m)}" for m in inputs.members]
    return _listed([*rows, *map(pointer, outputs.members)])


def _variant(name: str, v: Variant, bundle: Bundle) -> str:
    """The functions and the table of one variant."""
    here, m = v.symbol, bundle.manifest
    arguments = [f"in[{i}]" for i in range(len(m["inputs"]))]
    arguments += [f"out[{i}]" for i in range(len(m["outputs"]))]
    arguments += [*(["n->state"] if m["state"] else []), "n->arena"]
    reset = f"\t{bundle.name}_state_init(n->state);\n" if m["state"] else ""
    return f"""\
int {bundle.name}_pause(void)
{{
\treturn ingot_pause();
}}

static int ingot_{here}_call(struct {name}_network *n, const void *const *in, void *const *out)
{{
\tswitch ({bundle.name}({_listed(arguments)})) {{
\tcase {bundle.name.upper()}_OK:
\t\treturn 0;
\tcase {bundle.name.upper()}_ERR_STOPPED:
\t\treturn -EINTR;
\tdefault: /* an index or an extent among the inputs is out of range */
\t\treturn -EINVAL;
\t}}
}}

static void ingot_{here}_restart(struct {name}_network *n)
{{
{reset}}}

static const struct ingot_variant ingot_{here}_variant = {{
\t.name = "{v.target}",
\t.run = ingot_{here}_call,
\t.restart = ingot_{here}_restart,
}};
"""


def _choice(v: Variant) -> str:
    return f"\tif ({_listed(v.checks, ' && ')})\n\t\treturn &ingot_{v.symbol}_variant;"


HEADER = """\
/* SPDX-License-Identifier: 0BSD */
/*
 * The network {name}: what /dev/ingot-{name} takes and gives, and its functions for other modules.
 */
#ifndef {guard}
#define {guard}

#ifdef __KERNEL__
#include <linux/types.h>
#else
#include <stdint.h>
#endif

/* What one write() gives the network. What lies between the tensors means nothing. */
{inputs}

/* What one read() gets. Between the tensors are zeros. */
{outputs}

#ifdef __KERNEL__
struct {name}_network;

/* Memory for one user of the network; process context. ERR_PTR(-ENOMEM) if there is none. */
struct {name}_network *{name}_network_open(void);
/* NULL and what {name}_network_open() failed with are nothing to close. */
void {name}_network_close(struct {name}_network *network);
/* Back to the state before the first run. */
void {name}_network_restart(struct {name}_network *network);
/*
 * One inference; one at a time for each network. can_sleep: process context without spin locks, where the
 * CPU is given up between sections. 0; -EBUSY where {busy}; -EINVAL for
 * inputs that hold an index or a count out of range; with can_sleep, -EINTR where the process is being
 * killed. After an error the state is what it was before, and the outputs mean nothing.
 */
int {name}_network_infer(struct {name}_network *network, {parameters},
\tbool can_sleep);
#endif

#endif
"""


def _header(name: str, inputs: Layout, outputs: Layout, section: Section) -> str:
    return HEADER.format(
        name=name,
        busy=section.busy,
        guard=f"{name.upper()}_NETWORK_H",
        inputs=struct_text(f"{name}_inputs", inputs),
        outputs=struct_text(f"{name}_outputs", outputs),
        parameters=_parameters(inputs, outputs),
    )


INTERNAL = """\
/* SPDX-License-Identifier: 0BSD */
/* What the files of the module share. */
#ifndef {guard}
#define {guard}

#include "{name}_network.h"

enum {{ INGOT_RUNS = {runs}, INGOT_SHOWN = {shown}, INGOT_LINE = {line} }};
{floats}
/* Golden vectors; called between {section.enter} and {section.leave}. */
const struct {name}_inputs *{name}_network_given(int run);
int {name}_network_agrees(const struct {name}_outputs *found, int run);
void {name}_network_line(char *line, unsigned long bytes, const struct {name}_outputs *found, int output);

/* Called by the variants. */
{pauses}

#endif
"""


def _internal(name: str, made: Made, test: SelfTest) -> str:
    return INTERNAL.format(
        name=name,
        guard=f"{name.upper()}_INTERNAL_H",
        floats="#define INGOT_FLOATS\n" if made[0][0].section.has_floats else "",
        section=made[0][0].section,
        runs=len(test.outputs),
        shown=SHOWN,
        line=LINE_BYTES,
        pauses="\n".join(f"int {b.name}_pause(void);" for _, b in made),
    )


def _stems(bundle: Bundle) -> list[str]:
    """The sources of a bundle without their endings."""
    return sorted({f.rsplit(".", 1)[0] for f in bundle.files if f.endswith((".c", ".S"))})


NO_STACK = (
    "-fno-predictive-commoning -fno-schedule-insns -fno-tree-pre -fno-gcse -fno-tree-loop-im -fno-ivopts"
)
LEAST_STACK = f"{NO_STACK} -fno-move-loop-invariants -fno-tree-ter -fno-tree-sra"
LEVELS = ("-O3", "-O2", f"-O2 {NO_STACK}", f"-O2 {LEAST_STACK}", f"-O1 {LEAST_STACK}")
"""Flags of gcc, fastest code first: the later ones hold fewer values for later, which takes less stack."""
FLOATS = """\
# The network's C is compiled with vector registers, which it uses between {section.enter} and
# {section.leave} only."""
NO_FLOATS = """\
# The network is of integers: its C uses no vector register, as all of the kernel's."""
FLAGS = f"""\
{{why}}
NO_FPU :={{forbidden}}
OWN :={{own}} -std=gnu11 -ffreestanding -fno-math-errno -ffp-contract=off \\
\t-fno-strict-aliasing -fno-jump-tables -fno-tree-loop-distribute-patterns \\
\t-fno-conserve-stack -Wno-declaration-after-statement -Wno-vla -Wno-misleading-indentation \\
\t-Wframe-larger-than={{limit}} -Werror=frame-larger-than={{limit}} \\
\t-isystem $(shell $(CC) -print-file-name=include)

# No function may take much of the kernel stack: the first of these is taken with which none does.
{{levels}}
LAST := {LEVELS[-1]}
TRY = $(CC) $(filter-out $(NO_FPU), \\
\t$(LINUXINCLUDE) $(KBUILD_CPPFLAGS) $(KBUILD_CFLAGS) $(KBUILD_CFLAGS_MODULE))
fits = $(shell $(TRY) $(OWN) $2 -I$(src) -c $(src)/$1.c -o /dev/null >/dev/null 2>&1 && echo y)
level = {{choice}}
"""


def _flags(section: Section, processor: Processor, level: str) -> str:
    """What the files of the network are compiled with, the wanted `level` if its stack is small enough, which
    is asked only where something is compiled.
    """
    tried = [f"LEVEL{i}" for i in range(len(LEVELS) - 1)]
    choice = "$(LAST)"
    for name in reversed(tried):
        choice = f"$(if $(call fits,$1,$({name}) $2),$({name}),{choice})"
    offered = zip(tried, (level, *LEVELS[1:]), strict=False)
    levels = "\n".join(f"{name} := {flags}" for name, flags in offered)
    return FLAGS.format(
        why=(FLOATS if section.has_floats else NO_FLOATS).format(section=section),
        forbidden=f" {section.forbidden}" if section.forbidden else "",
        own=f" {section.own}" if section.own else "",
        limit=FRAME_BYTES - processor.saved_bytes,
        levels=levels,
        choice=f"$(if $(value try-run),{choice})",
    )


def _kbuild(name: str, made: Made, prebuilt: bool) -> str:
    """What the kernel's build reads."""
    objects = [f"{name}_module.o", f"{name}_check.o"]
    optimize: Optimize = made[0][1].manifest["options"]["optimize"]
    rows = [_flags(made[0][0].section, made[0][0].processor, PRIORITIES[optimize].level)]
    compiled = [(f"{name}_check", made[0][0])]
    for variant, bundle in made:
        own = _stems(bundle)
        objects += [f"{bundle.name}.o"] if prebuilt else [f"{stem}.o" for stem in own]
        compiled += [] if prebuilt else [(stem, variant) for stem in own if f"{stem}.c" in bundle.files]
    for stem, variant in compiled:
        machine = " ".join(variant.flags)
        level = "" if stem.endswith("_weights") else f" $(call level,{stem},{machine})"
        rows.append(f"CFLAGS_{stem}.o := $(OWN) {machine}{level}")
        rows.append(f"CFLAGS_REMOVE_{stem}.o := $(NO_FPU)")
    listed = [stem for _, b in made for stem in _stems(b) if f"{stem}.S" in b.files]
    rows += [f"AFLAGS_{stem}.o := -Wa,-I$(src)" for stem in listed]  # where .incbin finds the weights
    rows += ["", f"obj-m := {name}.o", f"{name}-objs := {' '.join(objects)}"]
    return "\n".join(rows) + "\n"
