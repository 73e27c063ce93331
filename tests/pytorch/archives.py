"""Archives of torch.export.save written by hand: a sound one, and a hundred that are not."""

from __future__ import annotations

import copy
import io
import json
import pickle
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

ROOT = "archive"
SYMBOL = "Symbol('s77', positive=True, integer=True)"
PROGRAM, SAMPLES = "models/model.json", "data/sample_inputs/model.pt"
WEIGHTS, CONSTANTS = "data/weights/model_weights_config.json", "data/constants/model_constants_config.json"
Members = dict[str, bytes]


def structure(*kinds: str) -> str:
    """A tuple of leaves inside a tuple, as pytree writes it; `kinds` are other types for the outer one."""
    leaf = {"type": None, "context": None, "children_spec": []}
    inner = {"type": "builtins.tuple", "context": "null", "children_spec": [leaf]}
    rest = {"type": "builtins.dict", "context": "[]", "children_spec": []}
    outer = {"type": (kinds or ("builtins.tuple",))[0], "context": "null", "children_spec": [inner, rest]}
    return json.dumps([1, outer])


def tensor_meta(*sizes: Any) -> dict[str, Any]:
    """A float32 tensor's type; a size is a number or an expression."""
    held = [
        {"as_int": n} if isinstance(n, int) else {"as_expr": {"expr_str": n, "hint": None}} for n in sizes
    ]
    return {
        "dtype": 7,
        "sizes": held,
        "requires_grad": False,
        "device": {"type": "cpu", "index": None},
        "strides": [{"as_int": 1} for _ in sizes],
        "storage_offset": {"as_int": 0},
        "layout": 7,
    }


def program() -> dict[str, Any]:
    """y = x + w, of vectors whose length is a symbol; w has one element."""

    def name(n: str) -> dict[str, Any]:
        return {"as_tensor": {"name": n}}

    given = [{"name": k, "arg": name(v), "kind": 1} for k, v in (("self", "x"), ("other", "p_w"))]
    node = {
        "target": "torch.ops.aten.add.Tensor",
        "inputs": given,
        "outputs": [name("add")],
        "metadata": {"stack_trace": "line 1"},
        "is_hop_single_tensor_return": None,
        "name": "add",
    }
    graph = {
        "inputs": [name("p_w"), name("x")],
        "outputs": [name("add")],
        "nodes": [node],
        "tensor_values": {"p_w": tensor_meta(1), "x": tensor_meta(SYMBOL), "add": tensor_meta(SYMBOL)},
        "sym_int_values": {},
        "sym_bool_values": {},
        "is_single_tensor_return": False,
        "custom_obj_values": {},
        "sym_float_values": {},
    }
    signature = {
        "input_specs": [
            {"parameter": {"arg": {"name": "p_w"}, "parameter_name": "w"}},
            {"user_input": {"arg": name("x")}},
        ],
        "output_specs": [{"user_output": {"arg": name("add")}}],
    }
    leaf = json.dumps([1, {"type": None, "context": None, "children_spec": []}])
    calls = {
        "inputs": [],
        "outputs": [],
        "in_spec": structure(),
        "out_spec": leaf,
        "forward_arg_names": ["x"],
    }
    return {
        "graph_module": {
            "graph": graph,
            "signature": signature,
            "module_call_graph": [{"fqn": "", "signature": calls}],
            "metadata": {},
            "treespec_namedtuple_fields": {},
        },
        "opset_version": {"aten": 10},
        "range_constraints": {"s77": {"min_val": 2, "max_val": 64}},
        "schema_version": {"major": 8, "minor": 15},
        "verifiers": ["TRAINING"],
        "torch_version": "2.13.0",
        "guards_code": ["__import__('os').abort()"],
    }


def payloads() -> dict[str, Any]:
    meta = tensor_meta(1)
    return {
        "config": {"w": {"path_name": "weight_0", "is_param": True, "use_pickle": False, "tensor_meta": meta}}
    }


def members() -> Members:
    return {
        "data/weights/weight_0": b"\0\0\0\x40",
        WEIGHTS: json.dumps(payloads()).encode(),
        CONSTANTS: b'{"config": {}}',
        PROGRAM: json.dumps(program()).encode(),
        SAMPLES: pickle.dumps(print),
        "archive_format": b"pt2",
        "archive_version": b"0",
        ".data/version": b"3\n",
        "byteorder": b"little",
    }


def packed(held: Members, root: str = ROOT, kind: int = zipfile.ZIP_STORED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", kind) as made:
        for name, data in held.items():
            made.writestr(f"{root}/{name}", data)
    return out.getvalue()


def changed(edit: Callable[[dict[str, Any]], object], member: str = PROGRAM) -> bytes:
    """The archive with its program, or another document of it, edited."""
    held = members()
    document = copy.deepcopy(json.loads(held[member]))
    edit(document)
    return packed(held | {member: json.dumps(document).encode()})


def in_training() -> bytes:
    """A program whose only node is a dropout as it is while a model is trained."""

    def edit(document: dict[str, Any]) -> None:
        node = document["graph_module"]["graph"]["nodes"][0]
        node["target"] = "torch.ops.aten.dropout.default"
        rate, train = {"as_float": 0.1}, {"as_bool": True}
        node["inputs"][1:] = [{"name": k, "arg": v, "kind": 1} for k, v in (("p", rate), ("train", train))]

    return changed(edit)


def with_target(name: str) -> bytes:
    return changed(lambda d: d["graph_module"]["graph"]["nodes"][0].update(target=name))


def with_size(expression: Any) -> bytes:
    def edit(document: dict[str, Any]) -> None:
        document["graph_module"]["graph"]["tensor_values"]["x"]["sizes"][0]["as_expr"]["expr_str"] = (
            expression
        )

    return changed(edit)


def with_structure(text: str, key: str = "in_spec") -> bytes:
    return changed(lambda d: d["graph_module"]["module_call_graph"][0]["signature"].update({key: text}))


def with_range(name: str) -> bytes:
    return changed(lambda d: d["range_constraints"].update({name: {}}))


def with_operand(operand: dict[str, Any]) -> bytes:
    return changed(lambda d: d["graph_module"]["graph"]["nodes"][0]["inputs"].append(operand))


def with_payload(**fields: Any) -> bytes:
    return changed(lambda d: d["config"]["w"].update(fields), WEIGHTS)


TARGETS = (
    *(
        "torch.os.system",
        "torch.ops.load_library",
        "torch.ops.aten.__init__.__globals__",
        "os.system",
        "#x.y",
    ),
    *(
        "torch.ops.aten.from_file.default",
        "torch.ops.mine.add.default",
        "_operator.methodcaller",
        "torch.load",
    ),
    *(
        "_operator.attrgetter",
        "math.factorial",
        "torch.hub.load",
        "torch.ops.higher_order.triton_kernel_wrapper",
    ),
    *("torch.ops.aten.__class__.mro", "torch._sources.exec", "builtins.eval", "torch.ops.aten", ""),
)
EXPRESSIONS = (
    *("__import__('os').abort()", "s77.__class__", "preview(s77)", "'s77'", "[s77]", "lambda: 1", "s77; s77"),
    *("Symbol('__import__')", "sympify('1')", "10**999999999", "f(s77)", "s77\n", "1" * 2000, "exec", "{}"),
)
STRUCTURES = (
    *("mine.Tuple", "collections.namedtuple", "collections.defaultdict", "builtins.object", "torch.Size"),
)


def hostile() -> Iterator[tuple[str, bytes]]:
    """Archives that are refused before PyTorch is asked for: what they are, and their bytes."""
    whole = packed(members())
    for k in range(16):
        yield f"cut at {k}", whole[: 4 + len(whole) * k // 16]
    for name in TARGETS:
        yield f"the function {name!r}", with_target(name)
    for expression in EXPRESSIONS:
        yield f"the size {expression[:40]!r}", with_size(expression)
    for kind in STRUCTURES:
        yield f"a structure {kind}", with_structure(structure(kind))
    enum = json.dumps([1, {"type": "builtins.dict", "context": '[{"__enum__": true}]', "children_spec": []}])
    for text in (enum, "", "{", "[" * 100, '[1, {"a": NaN}]', structure("x" * 10_000)):
        yield f"the structure {text[:40]!r}", with_structure(text, "out_spec")
    yield from _members()
    yield from _payloads()
    yield from _documents()


def _members() -> Iterator[tuple[str, bytes]]:
    held = members()
    for name in (PROGRAM, WEIGHTS, CONSTANTS, "data/weights/weight_0"):
        yield f"no {name}", packed({k: v for k, v in held.items() if k != name})
    for name in ("../../evil", "a/../../b", "..", "/etc/passwd/.."):
        yield f"a file {name!r}", packed(held | {name: b""})
    for member, value in (("archive_format", b"xyz"), ("archive_version", b"9"), ("byteorder", b"big")):
        yield f"{member} {value!r}", packed(held | {member: value})
    yield "compressed", packed(held, kind=zipfile.ZIP_DEFLATED)
    yield "a bomb", packed(held | {"data/weights/weight_0": bytes(50_000_000)}, kind=zipfile.ZIP_DEFLATED)
    yield "weights as a pickle", packed(held | {"data/weights/model.pt": pickle.dumps(print)})
    yield "constants as a pickle", packed(held | {"data/constants/model.pt": pickle.dumps(print)})
    code = {k: v for k, v in held.items() if k != PROGRAM}
    yield "compiled code", packed(code | {"data/aotinductor/model/m.so": b"\x7fELF"})
    yield "two programs", packed(held | {"models/other.json": held[PROGRAM]})
    yield "no program, but a folder", packed(code | {"models/": b""})
    outside = io.BytesIO()
    with zipfile.ZipFile(outside, "w") as made:
        for name, data in held.items():
            made.writestr(f"{ROOT}/{name}", data)
        made.writestr("elsewhere/x", b"")
    yield "two folders", outside.getvalue()
    yield (
        "a size that is not",
        packed(held).replace(len(held[PROGRAM]).to_bytes(4, "little"), b"\xff\xff\xff\x7f"),
    )
    yield "an offset that is not", _with_directory(packed(held), b"\xf0\xff\xff\x7f")


def _with_directory(data: bytes, offset: bytes) -> bytes:
    """The archive, whose last entry claims to begin somewhere else."""
    at = data.rindex(b"PK\1\2")
    return data[: at + 42] + offset + data[at + 46 :]


def _payloads() -> Iterator[tuple[str, bytes]]:
    for name in (
        "../secret",
        "weight_1/../../x",
        "opaque_obj_0",
        "custom_obj_0",
        "weight_99",
        "/etc/passwd",
        "",
    ):
        yield f"weights in {name!r}", with_payload(path_name=name)
    yield "a pickled weight", with_payload(use_pickle=True)
    yield "a weight without a type", with_payload(tensor_meta=None)
    yield "weights by number", with_payload(path_name=7)
    yield (
        "a weight on another device",
        with_payload(tensor_meta=tensor_meta(1) | {"device": {"type": "cuda", "index": 0}}),
    )
    yield "no list of weights", changed(lambda d: d.clear(), WEIGHTS)
    yield "weights as a list", changed(lambda d: d.update(config=[]), WEIGHTS)


def _documents() -> Iterator[tuple[str, bytes]]:
    held = members()
    texts = (
        b"",
        b"{",
        b"[]",
        b"null",
        b"1",
        b"\xff\xfe",
        b'{"a": 1, "a": 2}',
        b'{"x": 1e999}',
        b'{"x": NaN}',
    )
    for text in (*texts, b'{"a":' * 100 + b"1" + b"}" * 100, b"9" * 5000, b"{}", b'{"graph_module": {}}'):
        yield f"the program {text[:20]!r}", packed(held | {PROGRAM: text})
        yield f"the weights {text[:20]!r}", packed(held | {WEIGHTS: text})
    for name in ("s", "__x", "s77; 1", "u999999999"):
        yield f"a range of {name!r}", with_range(name)
    operator = {"name": "f", "arg": {"as_operator": "torch.os.system"}, "kind": 1}
    yield "a function as an argument", with_operand(operator)
    custom = {"name": "f", "arg": {"as_custom_obj": {"name": "o", "class_fqn": "C"}}, "kind": 1}
    yield "an object as an argument", with_operand(custom)
