"""Two boots, many checks: what a user of a kernel module relies on.

    python -m tests.kernel [--cache DIR]

Prints a line for each check; the status is 1 if one fails. The machine and its packages are `machine.py`'s.
"""

from __future__ import annotations

import argparse
import re
import struct
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import onnx
from onnx import parser
from rich.console import Console

from ingot.driver import compile_with
from ingot.options import Options
from ingot.packaging.kbuild import kbuild

from .machine import Machine

POLICY = """<ir_version: 10, opset_import: ["" : 21]>
policy (float[1,9] seen, float[1,9] before) => (float[1,5] action, float[1,9] after)
<float[9,5] w = {1,0,0,0,0, 0,1,0,0,0, 0,0,1,0,0, 0,0,0,1,0, 0,0,0,0,1,
                 1,1,1,1,1, 0,1,0,1,0, 1,0,1,0,1, 1,1,0,0,1}> {
  mixed = Add(seen, before)
  after = Tanh(mixed)
  logits = MatMul(after, w)
  action = Softmax(logits)
}"""
DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits.onnx"
SCRIPT = """
insmod /policy.ko selftest=1; echo "@policy $?"
insmod /digits.ko selftest=1 section_us=20; echo "@digits $?"
stat -c "@mode %a" /dev/policy
printf xx > /dev/policy; echo "@short $?"
head -c 36 /dev/zero > /input; cat /input > /dev/policy; echo "@write $?"
exec 3<>/dev/policy
head -c 20 <&3 > /nothing; echo "@unwritten $?"
dd if=/input bs=36 count=1 >&3 2>/dev/null; echo "@full $?"
dd bs=20 count=1 <&3 2>/dev/null | od -A n -t x4 | tr -d '\\n' | sed 's/^/@first /'; echo
dd bs=19 count=1 <&3 of=/nothing 2>/dev/null; echo "@odd $?"
rmmod policy; echo "@busy $?"
exec 3>&-
loops() {
  exec 4<>/dev/policy
  for i in $(seq 200); do dd if=/input bs=36 count=1 >&4 2>/dev/null || echo "@lost"; done
  echo "@loop"
}
loops & loops & wait
rmmod policy; echo "@gone $?"
rmmod digits; echo "@gone $?"
"""
FALLBACK = 'insmod /policy.ko selftest=1; echo "@policy $?"; rmmod policy; echo "@gone $?"'
Check = tuple[str, Callable[[str], bool]]


def has(pattern: str, times: int = 1) -> Callable[[str], bool]:
    return lambda said: len(re.findall(pattern, said, re.M)) >= times


def without(pattern: str) -> Callable[[str], bool]:
    return lambda said: re.search(pattern, said) is None


def first_action(said: str) -> bool:
    """tanh(0 + 0) = 0: five equal probabilities."""
    found = re.search(r"^@first((?:\s+[0-9a-f]{8}){5})", said, re.M)
    words = found.group(1).split() if found else []
    return bool(words) and all(abs(struct.unpack(">f", bytes.fromhex(w))[0] - 0.2) < 1e-6 for w in words)


BOTH: list[Check] = [
    ("no complaint of the kernel", without(r"@dmesg .*(BUG|Oops|WARNING|general protection|invalid opcode)")),
    ("no corrupted memory", without(r"@dmesg .*(Redzone|Poison overwritten|Object padding)")),
]
FIRST: list[Check] = [
    ("two models are loaded at once", has(r"^@(policy|digits) 0$", 2)),
    ("AVX2 is chosen", has(r"policy: x86-64-v3")),
    ("golden vectors agree", has(r"selftest: 0 of \d+ runs differ, status 0", 2)),
    ("the device is its owner's", has(r"^@mode 600$")),
    ("a short write is an error", has(r"^@short 1$")),
    ("a write of all inputs runs", has(r"^@full 0$")),
    ("reading before a run is an error", has(r"^@unwritten 1$")),
    ("reading another size is an error", has(r"^@odd 1$")),
    ("the outputs are right", first_action),
    ("a module in use stays", has(r"^@busy 1$")),
    ("two processes run it at the same time", has(r"^@loop$", 2)),
    ("no run is lost", without(r"@lost")),
    ("modules are removed", has(r"^@gone 0$", 2)),
]
SECOND: list[Check] = [
    ("without AVX2 the SSE2 variant is chosen", has(r"policy: x86-64,")),
    ("golden vectors agree without AVX2", has(r"selftest: 0 of \d+ runs differ, status 0")),
]


def module(model: object, name: str, folder: Path, **options: object) -> Path:
    """A module's directory."""
    wanted = Options(name=name, **options)  # type: ignore[arg-type]
    return kbuild(model, wanted, compile_with).save(folder / name)


def main() -> int:
    options = argparse.ArgumentParser(prog="kernel", description="Try kernel modules under QEMU.")
    options.add_argument("--cache", type=Path, default=Path(".pytest_cache/d/ingot-kernel"))
    console, failed = Console(), 0
    machine = Machine(options.parse_args().cache.resolve())
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        policy = module(parser.parse_model(POLICY), "policy", here, state={"after": "before"})
        digits = module(onnx.load(DIGITS), "digits", here)
        built = [machine.build(m) for m in (policy, digits)]
        boots = [
            (machine.boot(here / "first", SCRIPT, built), [*BOTH, *FIRST]),
            (machine.boot(here / "second", FALLBACK, built[:1], cpu="qemu64"), [*BOTH, *SECOND]),
        ]
        for said, checks in boots:
            bad = [name for name, holds in checks if not holds(said)]
            for name, _ in checks:
                console.print(f"{'FAILED' if name in bad else 'ok'}  {name}", highlight=False)
            if bad:
                console.print(said, highlight=False)
            failed += len(bad)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
