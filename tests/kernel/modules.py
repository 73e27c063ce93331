"""The modules that are tried: their models, how they are compiled, and the script that loads each.

In: a folder, a `Machine`. Out: the files that go into the machine.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
from onnx import parser
from typer.testing import CliRunner

import ingot
from benchmarks.models import MODELS
from benchmarks.net import Net
from ingot.audit.audit import audit
from ingot.audit.policy import POLICIES, broken, judge
from ingot.bundle.bundle import Bundle
from ingot.cli import app
from ingot.driver import compile_with
from ingot.options import Options
from ingot.packaging.kbuild import kbuild
from ingot.packaging.kbuild.variants import GENERAL
from ingot.targets.linux import FRAME_BYTES
from ingot.targets.records import find
from tests.corpus import CASES

from .counting import counting, program
from .machine import Machine, run
from .mixed import KEPT, LINE_LEAK, mixed, vectors
from .mixed import STATE as KEPT_STATE

HERE = Path(__file__).parent
DIGITS = HERE.parents[1] / "examples" / "digits" / "digits.onnx"
INDIGO = HERE.parents[2] / "shared" / "indigo"
POLICY = """<ir_version: 10, opset_import: ["" : 21]>
policy (float[1,9] seen, float[1,9] before) => (float[1,5] action, float[1,9] after)
<float[9,5] w = {1,0,0,0,0, 0,1,0,0,0, 0,0,1,0,0, 0,0,0,1,0, 0,0,0,0,1,
                 1,1,1,1,1, 0,1,0,1,0, 1,0,1,0,1, 1,1,0,0,1}> {
  mixed = Add(seen, before)
  after = Tanh(mixed)
  logits = MatMul(after, w)
  action = Softmax(logits)
}"""
STATE = {"after": "before"}
FAST = ("x86-64", "x86-64-v3")
ARM = "aarch64+aarch64-dotprod+aarch64-i8mm"
PACKED = ("lstm_state_out=lstm_state_in",)
SPLIT = ("lstm_c_out=lstm_c_in", "lstm_h_out=lstm_h_in")
META = ("lstm_c_out=global/Placeholder_1", "lstm_h_out=global/Placeholder_2")
EXITS = ("global/rnn/while/Exit_2", "global/rnn/while/Exit_3")
CARRIED = tuple(f"{EXITS[i]}=global/Placeholder_{i + 1}" for i in range(2))
FORMS: dict[str, tuple[str, tuple[str, ...]]] = {
    "graph": ("graph.pb", PACKED),
    "graph_addv1": ("graph_addv1.pb", PACKED),
    "graph_meta": ("graph_meta.pb", META),
    "checkpoint": ("checkpoint", CARRIED),
    "indigo": ("indigo.onnx", PACKED),
    "indigo_lstm": ("indigo_lstm.onnx", SPLIT),
    "indigo_lstm_packed": ("indigo_lstm_packed.onnx", PACKED),
}
"""The golden case: the name of its module, its file, and its state."""


def module(model: Any, name: str, folder: Path, prebuilt: bool = False, **options: Any) -> Path:
    """A module's directory."""
    return kbuild(model, Options(name=name, **options), compile_with, prebuilt).save(folder / name)


def audited(built: Path) -> Path:
    """The module that the kernel's own compiler built, if it keeps the kernel's rules."""
    reasons = broken(judge(audit(built.read_bytes()), POLICIES["module"]))
    if reasons:
        raise RuntimeError(f"{built.name} breaks rules of the kernel:\n" + "\n".join(reasons))
    return built


def policy(machine: Machine, folder: Path, **options: Any) -> Path:
    return audited(
        machine.build(module(parser.parse_model(POLICY), "policy", folder, state=STATE, **options))
    )


def digits(machine: Machine, folder: Path, target: str = "+".join(FAST)) -> Path:
    return audited(machine.build(module(onnx.load(DIGITS), "digits", folder, target=target)))


def integers(machine: Machine, folder: Path) -> Path:
    """A module of a network of bytes, which needs no FPU: it calls for none and has no instruction of one."""
    (case,) = (c for c in CASES if c.name == "mobilenet_bytes")
    made = audited(machine.build(module(case.model, "integers", folder, target=GENERAL)))
    found = audit(made.read_bytes(), None, find(GENERAL))
    unit = [n for n in found.undefined if "fpu" in n or n.startswith(("__float", "__fix"))]
    if unit or any(f.outside for f in found.functions):
        raise RuntimeError(f"integers.ko uses the FPU: {unit}, {[f.outside for f in found.functions]}")
    return made


def wrong(machine: Machine, folder: Path) -> Path:
    """A module whose last golden vector is not what its network gives."""
    made = module(parser.parse_model(POLICY), "wrong", folder, state=STATE, target="x86-64")
    header = made / "wrong_selftest.h"
    before, comma, after = header.read_text().rpartition("0x")
    header.write_text(f"{before}{comma}{int(after[:2], 16) ^ 1:02x}{after[2:]}")
    return machine.build(made)


def odd(machine: Machine, folder: Path) -> Path:
    """A module whose names the kernel has for itself, and whose numbers are narrow."""
    text = """<ir_version: 10, opset_import: ["" : 21]>
    g (float16[4] current, uint4[5] u8, bfloat16[3] b)
      => (float16[4] n, uint4[5] out, bfloat16[3] c, double[3] d) {
      n = Exp(current)
      out = Identity(u8)
      c = Sqrt(b)
      d = Cast<to = 11>(c)
    }"""
    return machine.build(module(parser.parse_model(text), "simple", folder, target="x86-64"))


LEAK = ("kvzalloc(INGOT_MEMORY", "kvmalloc(INGOT_MEMORY")
PAGES = ("#define INGOT_ALIGN 64\n", "#define INGOT_ALIGN 262144\n")
VARIED: dict[str, tuple[tuple[str, str], ...]] = {
    "paged": (PAGES,),
    "leaky": (LEAK, (LINE_LEAK[0].replace("mixed", "leaky"), LINE_LEAK[1].replace("mixed", "leaky"))),
    "leaky_paged": (LEAK, PAGES),
}
"""Modules of mixed types, and what is otherwise in their C: with memory of whole pages, not of slabs, as that
of small networks is, and with leaks, which must be seen."""


def varied(folder: Path, name: str) -> Path:
    """The directory of a module of mixed types that is changed."""
    made = module(mixed(), name, folder, target=FAST[0])
    file = made / f"{name}_module.c"
    text = file.read_text()
    for old, new in VARIED[name]:
        if text.count(old) != 1:
            raise RuntimeError(f"{old!r} stands {text.count(old)} times in {file.name}")
        text = text.replace(old, new)
    file.write_text(text)
    return made


def poisoned(machine: Machine, folder: Path) -> list[Path]:
    """Modules of mixed types whose functions find their stack filled, and a program that uses them."""
    models = {"mixed": (mixed(), {}), "kept": (parser.parse_model(KEPT), KEPT_STATE)}
    here = folder / "program"
    here.mkdir()
    files, flags = [], "-ftrivial-auto-var-init=pattern"
    for name, (model, state) in models.items():
        made = module(model, name, folder, state=state, target="+".join(FAST) if name == "mixed" else FAST[0])
        shutil.copy(made / f"{name}_network.h", here)
        files.append(audited(machine.build(made, flags=flags)))
    (here / "vectors.h").write_text(vectors(compile_with(mixed(), Options(target=FAST[0])).manifest))
    files += [machine.build(varied(folder, name), flags=flags) for name in VARIED]
    words = ("-O2", "-Wall", "-Werror", "-static", "-I", str(here), str(HERE / "user" / "program.c"))
    run("gcc", *words, "-o", str(here / "user"))
    return [*files, written(machine, folder, "dirt"), here / "user"]


def probe(machine: Machine, folder: Path) -> Path:
    """The module that calls those of policy and digits."""
    return written(machine, folder, "probe", uses=("policy", "digits"))


def written(machine: Machine, folder: Path, name: str, uses: Sequence[str] = ()) -> Path:
    """A module of these tests, whose C file lies here, and which may call modules of networks."""
    made = folder / name
    made.mkdir()
    shutil.copy(HERE / f"{name}.c", made)
    for other in uses:
        shutil.copy(folder / other / f"{other}_network.h", made)
    (made / "Kbuild").write_text(f"obj-m := {name}.o\n")
    shutil.copy(folder / "policy" / "Makefile", made)
    return machine.build(made, [folder / other for other in uses])


def variants(model: Any, name: str) -> dict[str, Bundle]:
    """The bundles that a module is made of."""
    plain = Options(name=name, pauses=True, frame_bytes=FRAME_BYTES)
    made = {}
    for target in FAST:
        wanted = replace(plain, name=f"{name}_{target.replace('-', '_')}", target=target)
        made[target] = compile_with(model, wanted)
    return made


def long_network() -> onnx.ModelProto:
    """Two convolutions of some milliseconds."""
    net = Net("net", (1, 16, 40, 40))
    x = net.conv("x", 32, 3, pads=1, then="Relu")
    return net.model(y=net.then(net.conv(x, 16, 3, pads=1), "Sigmoid"))


def counters(machine: Machine, folder: Path, model: Any, name: str, kinds: Sequence[str]) -> list[Path]:
    """Modules that count the instructions of one inference of a model."""
    made = variants(model, name)
    return [
        machine.build(
            counting(
                folder,
                module(model, name, folder / kind, kind == "prebuilt", target="+".join(FAST)),
                made,
                kind,
            )
        )
        for kind in kinds
    ]


def programs(folder: Path, model: Any, name: str) -> list[Path]:
    """Programs that do the same in user space."""
    bundles = {t: ingot.compile(model, name=f"{name}_{t[7:] or 'v1'}", target=t) for t in FAST}
    return [program(folder, bundle, target) for target, bundle in bundles.items()]


def golden(machine: Machine, folder: Path, form: str, prebuilt: bool = False) -> Path:
    """The golden case from one of its forms, by the command that a user types."""
    file, state = FORMS[form]
    made = folder / f"golden_{form}{'_prebuilt' if prebuilt else ''}"
    words = ["compile", str(INDIGO / file), "--package", "kbuild", "-o", str(made), "--name", made.name]
    words += [
        "--target",
        "+".join(FAST if form == "graph" else FAST[:1]),
        *(["--prebuilt"] if prebuilt else []),
    ]
    words += [w for pair in state for w in ("--state", pair)]
    words += ["--outputs", ",".join(("global/Reshape_1", *EXITS))] if form == "checkpoint" else []
    done = CliRunner().invoke(app, words)
    if done.exit_code:
        raise RuntimeError(f"ingot {' '.join(words)}\n{done.output}")
    return audited(machine.build(made))


def special(machine: Machine, folder: Path) -> list[Path]:
    """What only one boot looks at: a module that is wrong, counts, and the golden case where there is one."""
    files = [wrong(machine, folder), odd(machine, folder)]
    step = MODELS["indigo_op"]()
    files += counters(machine, folder, step, "step", ("gcc", "prebuilt")) + programs(folder, step, "step")
    files += counters(machine, folder, long_network(), "long_network", ("gcc",))
    if INDIGO.is_dir():
        files += [golden(machine, folder, form) for form in FORMS]
        files.append(golden(machine, folder, "graph", prebuilt=True))
    return files


def usual(machine: Machine, folder: Path) -> list[Path]:
    """What every boot of this processor tries."""
    files = [policy(machine, folder), digits(machine, folder), probe(machine, folder)]
    return [*files, integers(machine, folder), *poisoned(machine, folder)]


def of_arm(machine: Machine, folder: Path) -> list[Path]:
    """Modules for AArch64, one with objects of the pinned compiler and one of every type."""
    files = [policy(machine, folder, target=ARM), digits(machine, folder, ARM), probe(machine, folder)]
    (case,) = (c for c in CASES if c.name == "mobilenet_bytes")
    made = {"integers": (case.model, False), "mixed": (mixed(), False), "shipped": (onnx.load(DIGITS), True)}
    for name, (model, prebuilt) in made.items():
        files.append(audited(machine.build(module(model, name, folder, prebuilt, target=ARM))))
    return files
