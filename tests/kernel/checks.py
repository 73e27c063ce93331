"""What is done in the machine, and what it must say: a line of each boot's table is a test.

In: what a boot printed. Out: whether a check holds.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ingot.packaging.kbuild.golden import RUNS

from .logged import NAMES, is_told
from .machine import COUNTED, Arm64, Machine
from .mixed import printed
from .modules import FORMS, INDIGO, of_arm, special, usual

Check = tuple[str, Callable[[str], bool]]
PROBED = (
    *("a first run", "another model", "users have states of their own", "nested use is busy"),
    *("an interrupt within an FPU section is busy", "an interrupt where softirqs are off is busy"),
    *("an interrupt elsewhere runs", "a softirq within an FPU section is busy", "a softirq elsewhere runs"),
    *("a run after all of these", "allocations are seen", "no run allocates memory", "10000 runs"),
    "all CPUs at the same time",
)
USED = (
    *("nothing of others is read", "nothing of others is read from whole pages"),
    *("what leaks from slabs is seen", "what leaks from pages is seen"),
    "other sizes and bad addresses are errors",
    *("a killed run leaves the state as it was", "memory is its group's", "no more than its group has"),
)
COMPLAINTS = (
    *("BUG", "Oops", "WARNING", "general protection", "invalid opcode", "UBSAN", "soft lockup", "hung_task"),
    *("scheduling while atomic", "page allocation failure", "vmalloc error", "Bad or missing usercopy"),
)
LOADED = """
insmod /mixed.ko selftest=1; echo "@mixed $?"
insmod /kept.ko selftest=1; echo "@kept $?"
for m in paged leaky leaky_paged; do insmod /$m.ko selftest=1; echo "@varied $?"; done
insmod /policy.ko selftest=1; echo "@policy $?"
insmod /digits.ko selftest=1 section_us=20; echo "@digits $?"
insmod /integers.ko selftest=1; echo "@integers $?"
insmod /probe.ko; echo "@probe $?"
insmod /dirt.ko
rmmod policy; echo "@used $?"
rmmod probe; echo "@unused $?"
"""
DEVICE = """
stat -c "@mode %a" /dev/ingot-policy
printf xx > /dev/ingot-policy; echo "@short $?"
dd if=/dev/zero of=/dev/ingot-policy bs=1M count=1 2>/dev/null; echo "@long $?"
dd if=/dev/zero of=/dev/ingot-policy bs=37 count=1 2>/dev/null; echo "@odd_write $?"
head -c 36 /dev/zero > /input
exec 3<>/dev/ingot-policy
head -c 20 <&3 > /nothing; echo "@unwritten $?"
dd if=/input bs=36 count=1 >&3 2>/dev/null; echo "@full $?"
dd bs=20 count=1 <&3 2>/dev/null | od -A n -t x4 | tr -d '\\n' | sed 's/^/@first /'; echo
dd bs=19 count=1 <&3 of=/nothing 2>/dev/null; echo "@odd_read $?"
dd bs=64k count=1 <&3 of=/nothing 2>/dev/null; echo "@long_read $?"
rmmod policy; echo "@busy $?"
exec 3>&-
"""
USER = """
/user
echo 20000 > /sys/module/kept/parameters/section_us || echo "@unlimited 1"
"""
WRONG = """
insmod /wrong.ko; echo "@untested $?"; rmmod wrong
insmod /wrong.ko selftest=1; echo "@wrong $?"
ls /dev/ingot-wrong; echo "@nodevice $?"
"""
ODD = """
insmod /simple.ko selftest=1; echo "@odd $?"; rmmod simple
"""
COUNTS = """
for k in /count_*.ko; do insmod $k; echo "@counted $?"; done
for p in /user_*; do $p; done
"""
GOLDEN = """
for k in /golden_*.ko; do insmod $k selftest=1; echo "@golden $?"; rmmod ${k#/}; done
"""
ON_ARM = """
for m in policy digits integers mixed shipped; do insmod /$m.ko selftest=1; echo "@loaded $?"; done
insmod /probe.ko; echo "@probe $?"
rmmod policy; echo "@used $?"
rmmod probe; echo "@unused $?"
"""
TWO = """
loops() {
  exec 4<>/dev/ingot-policy
  for i in $(seq 200); do dd if=/input bs=36 count=1 >&4 2>/dev/null || echo "@lost"; done
  echo "@last $(dd bs=20 count=1 <&4 2>/dev/null | od -A n -t x4 | tr -d '\\n')"
  echo "@loop"
}
loops & loops & wait
"""
END = """
for m in policy digits mixed kept integers paged leaky leaky_paged dirt; do rmmod $m; echo "@gone $?"; done
"""


def has(pattern: str, times: int = 1) -> Callable[[str], bool]:
    return lambda said: len(re.findall(pattern, said, re.M)) >= times


def without(pattern: str) -> Callable[[str], bool]:
    return lambda said: re.search(pattern, said) is None


def probed(name: str) -> Check:
    return name, has(f"probe: {name} ok$")


def outputs(said: str, mark: str) -> list[list[str]]:
    return [line.split() for line in re.findall(rf"^{mark}((?:\s+[0-9a-f]{{8}}){{5}})", said, re.M)]


def first_action(said: str) -> bool:
    """tanh(0 + 0) = 0: five equal probabilities."""
    found = outputs(said, "@first")
    return bool(found) and all(abs(struct.unpack(">f", bytes.fromhex(w))[0] - 0.2) < 1e-6 for w in found[0])


def last_actions(said: str) -> bool:
    """Two processes that did the same have the same state."""
    found = outputs(said, "@last")
    return len(found) == 2 and found[0] == found[1]


def instructions(said: str, where: str, target: str, name: str = "") -> tuple[int, int]:
    """How many one inference took, and the longest stretch without a pause."""
    pattern = rf"{name}: count: {where} {target} (\d+) instructions, longest stretch (\d+), status 0"
    found = re.search(pattern, said)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def as_in_user_space(where: str, target: str) -> Check:
    """Within 5 % of what the shipped object takes there."""

    def holds(said: str) -> bool:
        user = re.search(rf"count: user {target} (\d+) instructions, status 0", said)
        here = instructions(said, where, target, "step")[0]
        return user is not None and abs(here / int(user[1]) - 1) <= 0.05

    return f"an inference of {target}, {where}, takes the instructions of user space", holds


def bounded(target: str) -> Check:
    """At an instruction per nanosecond a section of 200 us ends within the next 200."""
    name = f"a long network of {target} pauses in time"
    return name, lambda said: 0 < instructions(said, "gcc", target, "long_network")[1] < 200_000


def published(form: str) -> Check:
    """Ten lines whose digits are the published ones; a digit that float32 may turn is one off at most."""

    def holds(said: str) -> bool:
        lines = re.findall(rf"golden_{form}: run \d+, \w+:((?: 0\.\d{{5}}){{5}})", said)
        found = [[round(float(w) * 1e5) for w in line.split()] for line in lines]
        wanted = json.loads((INDIGO / "expected.json").read_text())["seed_printed"]
        rows = [[round(p * 1e5) for p in row] for row in wanted]
        near = (abs(a - b) <= 1 for x, y in zip(found, rows, strict=False) for a, b in zip(x, y, strict=True))
        return len(found) == 10 and all(near)

    return f"the ten published lines from {form}", holds


TYPES = [f"run {n}, {name}:{line}" for n in range(RUNS) for name, line in printed(n).items()]


def lines(module: str, said: str) -> list[str]:
    """What a module's selftest has told the log of its outputs."""
    return re.findall(rf" {module}: (run \d+, \w+:.*)$", said, re.M)


def every_type(said: str) -> bool:
    """The selftest's lines, and no others, whatever the stack was filled with."""
    return lines("mixed", said) == lines("paged", said) == TYPES


def leak_is_told(said: str) -> bool:
    """The first output's line is not what it should be; all others are."""
    first = TYPES[0].partition(", ")[2].partition(":")[0]
    wrong = [a for a, b in zip(lines("leaky", said), TYPES, strict=False) if a != b]
    return len(lines("leaky", said)) == len(TYPES) and len(wrong) == RUNS and all(first in w for w in wrong)


def killed(said: str) -> bool:
    """The section that runs ends, and the process with it: 200 us and what an emulated machine adds."""
    found = re.search(r"^user: killed after (\d+) us", said, re.M)
    return found is not None and int(found[1]) < 250_000


BOTH: tuple[Check, ...] = (
    ("no complaint of the kernel", without(rf"@dmesg .*({'|'.join(COMPLAINTS)})")),
    ("no corrupted memory", without(r"@dmesg .*(Redzone|Poison overwritten|Object padding)")),
    ("two models are loaded at once", has(r"^@(policy|digits) 0$", 2)),
    (
        "a network of integers runs without the FPU",
        has(r"integers: selftest: 0 of \d+ runs differ, status 0"),
    ),
    ("golden vectors agree", has(r"(policy|digits): selftest: 0 of \d+ runs differ, status 0", 2)),
    *map(probed, PROBED),
    ("a module that another one uses stays", has(r"^@used 1$")),
    ("modules are removed", has(r"^@(unused|gone) 0$", 10)),
    ("modules of mixed types are loaded", has(r"^@(mixed|kept) 0$", 2)),
    (
        "golden vectors of mixed types agree",
        has(r"(mixed|kept): selftest: 0 of \d+ runs differ, status 0", 2),
    ),
    ("every type is printed", every_type),
    *((f"the log has the numbers of {name}", partial(is_told, name)) for name in NAMES),
    ("modules with leaks are loaded", has(r"^@varied 0$", 3)),
    ("what leaks from the stack is seen", leak_is_told),
)
ALONE: tuple[Check, ...] = (
    ("AVX2 is chosen", has(r"policy: x86-64-v3")),
    ("the device is its owner's", has(r"^@mode 600$")),
    ("a short write is an error", has(r"^@short 1$")),
    ("a long write is an error", has(r"^@long 1$")),
    ("a write of another size is an error", has(r"^@odd_write 1$")),
    ("a write of all inputs runs", has(r"^@full 0$")),
    ("reading before a run is an error", has(r"^@unwritten 1$")),
    ("reading another size is an error", has(r"^@odd_read 1$")),
    ("reading more is an error", has(r"^@long_read 1$")),
    ("the outputs are right", first_action),
    ("a module in use stays", has(r"^@busy 1$")),
    ("what no selftest looks at loads", has(r"^@untested 0$")),
    ("a golden vector that differs keeps it out", has(r"^@wrong [1-9]")),
    ("names of the kernel's own are no trouble", has(r"^@odd 0$")),
    ("and leaves no device", has(r"^@nodevice 1$")),
    *(as_in_user_space(where, target) for where in ("gcc", "prebuilt") for target in ("x86-64", "x86-64-v3")),
    *map(bounded, ("x86-64", "x86-64-v3")),
)
TOGETHER: tuple[Check, ...] = (
    ("without AVX2 the SSE2 variant is chosen", has(r"policy: x86-64,")),
    ("there are four CPUs", has("probe: 8 threads on 4 CPUs")),
    ("two processes run it at the same time", has(r"^@loop$", 2)),
    ("no run is lost", without(r"@lost")),
    ("nearly all memory is filled before each look", has(r"dirt: \d{5,} pages filled", 4)),
    *((name, has(rf"^user: {name} ok$")) for name in USED),
    ("a process that is killed ends at once", killed),
    ("sections have a limit", has(r"^@unlimited 1$")),
    ("each process has its own state", last_actions),
)
ON_ARM_PROBED = (
    *("a first run", "another model", "users have states of their own", "nested use is busy"),
    *("an interrupt is busy", "a softirq elsewhere runs", "a run after all of these", "allocations are seen"),
    *("no run allocates memory", "10000 runs", "all CPUs at the same time"),
)


def of_arm_that_chooses(feature: str) -> tuple[Check, ...]:
    """What a kernel of AArch64 must say, on a processor of these instructions."""
    target = "aarch64" + (f"-{feature}" if feature else "")
    device = {"the device is its owner's", "a write of another size is an error", "the outputs are right"}
    return (
        BOTH[0],
        *map(probed, ON_ARM_PROBED),
        (f"{target} is chosen", has(rf"policy: {target},")),
        ("five models are loaded at once", has(r"^@loaded 0$", 5)),
        (
            "golden vectors agree",
            has(r"(policy|digits|integers|mixed|shipped): selftest: 0 of \d+ runs differ, status 0", 5),
        ),
        ("every type is printed", lambda said: lines("mixed", said) == TYPES),
        ("a module that another one uses stays", has(r"^@used 1$")),
        ("two processes run it at the same time", has(r"^@loop$", 2)),
        ("each process has its own state", last_actions),
        *(check for check in ALONE if check[0] in device),
    )


LINES: tuple[Check, ...] = tuple(published(form) for form in (*FORMS, "graph_prebuilt"))


@dataclass(frozen=True)
class Boot:
    """A processor, what is done on it, and what it must say."""

    cpu: str
    options: tuple[str, ...]
    script: str
    checks: tuple[Check, ...]
    files: Callable[[Machine, Path], list[Path]] = usual
    kernel: type[Machine] = Machine


BOOTS = {
    "alone": Boot(
        "max",
        COUNTED,
        LOADED + DEVICE + WRONG + ODD + COUNTS + GOLDEN + END,
        (*BOTH, *ALONE, *LINES),
        lambda machine, folder: [*usual(machine, folder), *special(machine, folder)],
    ),
    "together": Boot(
        "qemu64",
        ("-smp", "4"),
        LOADED + USER + "head -c 36 /dev/zero > /input" + TWO + END,
        (*BOTH, *TOGETHER),
    ),
    "arm64": Boot("max", ("-smp", "2"), ON_ARM + DEVICE + TWO, of_arm_that_chooses("i8mm"), of_arm, Arm64),
    "cortex-a53": Boot(
        "cortex-a53", ("-smp", "2"), ON_ARM + DEVICE + TWO, of_arm_that_chooses(""), of_arm, Arm64
    ),
}
