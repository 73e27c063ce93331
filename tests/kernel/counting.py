"""How many instructions one inference takes: in the kernel without what surrounds it, and in user space.

In: the directory of a kernel module; a bundle. Out: a second module around the same objects, and a program.
Both print `count: WHERE VARIANT N instructions`, the module also the longest stretch without a pause. Their
clock is the time stamp counter, which counts instructions where QEMU is told so.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from ingot.bundle.bundle import Bundle

from .machine import run

MODULE = """\
// SPDX-License-Identifier: GPL-2.0 OR 0BSD
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt
#include <linux/mm.h>
#include <linux/module.h>
#include <asm/fpu/api.h>
#include <asm/msr.h>
{includes}

enum {{ BYTES = {bytes} }};
static u64 since, longest;

static void stretch(void)
{{
	u64 now = rdtsc();

	longest = max(longest, now - since);
	since = rdtsc();
}}

{variants}

static int __init load(void)
{{
	u8 *memory = kvzalloc(BYTES, GFP_KERNEL), *at = memory;

	if (!memory)
		return -ENOMEM;
	at = PTR_ALIGN(at, 64);
{calls}
	kvfree(memory);
	return 0;
}}

static void __exit unload(void)
{{
}}

module_init(load);
module_exit(unload);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Counts instructions");
"""
VARIANT = """\
int {name}_pause(void);
int {name}_pause(void)
{{
	stretch();
	return 0;
}}

static void count_{name}(u8 *at)
{{
	unsigned long flags;
	u64 began, empty, took;
	int turn, status = 0;

	kernel_fpu_begin();
	local_irq_save(flags);
	for (turn = 0; turn < 2; turn++) {{
		began = rdtsc();
		empty = rdtsc() - began;
		longest = 0;
		since = began = rdtsc();
		status |= {name}({arguments});
		took = rdtsc() - began - empty;
		stretch();
	}}
	local_irq_restore(flags);
	kernel_fpu_end();
	pr_info("count: {where} {target} %llu instructions, longest stretch %llu, status %d\\n",
		took, longest, status);
}}
"""
PROGRAM = """\
#include <stdio.h>
#include <x86intrin.h>
#include "{name}.h"
static unsigned char at[{bytes}] __attribute__((aligned(64)));
int main(void)
{{
    unsigned long long began, empty, took;
    int status = 0;
    for (int turn = 0; turn < 2; turn++) {{
        began = __rdtsc();
        empty = __rdtsc() - began;
        began = __rdtsc();
        status |= {name}({arguments});
        took = __rdtsc() - began - empty;
    }}
    printf("count: user {target} %llu instructions, status %d\\n", took, status);
    return 0;
}}
"""


def places(manifest: dict[str, Any]) -> tuple[str, int]:
    """The arguments of an entry as places in one block of memory, and the block's bytes."""
    tensors = [*manifest["inputs"], *manifest["outputs"]]
    at, words = 0, []
    for t in tensors:
        count = 1
        for n in t["shape"]:
            count *= n
        words.append(f"(void *)(at + {at})")
        at += -(-count * 8 // 64) * 64  # no element takes more than eight bytes
    arena = manifest["sizes"]["arena_bytes"]
    return ", ".join([*words, f"(void *)(at + {at})"]), at + arena + 128


def counting(folder: Path, module: Path, made: dict[str, Bundle], where: str) -> Path:
    """The directory of a module that counts what the objects of another one do; `made`: by variant."""
    here = folder / f"count_{where}_{module.name}"
    shutil.copytree(module, here)
    name, variants, calls, most = module.name, [], [], 0
    for target, bundle in made.items():
        arguments, size = places(bundle.manifest)
        variants.append(VARIANT.format(name=bundle.name, arguments=arguments, where=where, target=target))
        calls.append(f"\tif ({CHECKS[target]})\n\t\tcount_{bundle.name}(at);")
        most = max(most, size)
    includes = "\n".join(f'#include "{b.name}.h"' for b in made.values())
    text = MODULE.format(includes=includes, bytes=most, variants="\n".join(variants), calls="\n".join(calls))
    (here / "counter.c").write_text(text)
    kbuild = (here / "Kbuild").read_text()
    kbuild = kbuild.replace(f"obj-m := {name}.o", f"obj-m := {here.name}.o")
    kbuild = kbuild.replace(
        f"{name}-objs := {name}_module.o {name}_check.o", f"{here.name}-objs := counter.o"
    )
    (here / "Kbuild").write_text(kbuild)
    return here


CHECKS = {"x86-64": "1", "x86-64-v3": "boot_cpu_has(X86_FEATURE_AVX2)"}


def program(folder: Path, bundle: Bundle, target: str) -> Path:
    """A program that counts what the shipped object does."""
    here = bundle.save(folder / f"user_{bundle.name}_{target.replace('-', '_')}")
    arguments, size = places(bundle.manifest)
    text = PROGRAM.format(name=bundle.name, bytes=size, arguments=arguments, target=target)
    (here / "main.c").write_text(text)
    made = folder / here.name / here.name
    objects = ["main.c", f"{bundle.name}.o"]
    run("gcc", "-O2", "-static", "-no-pie", *objects, "-o", str(made), cwd=here)
    return made
