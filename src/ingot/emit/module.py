"""What a WebAssembly module is used by: NAME.mjs, an ES module, and NAME.d.mts, its types for TypeScript.

In: the manifest of a bundle, and the bytes of each of its tensors. Out: text. Called by `bundle.build`.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files as resources
from string import Template
from typing import Any

from ingot.emit.unit import ERRORS
from ingot.formula.types import DType, dtype_named

Manifest = Mapping[str, Any]
VIEWS = {
    "int64": "BigInt64Array",
    "uint64": "BigUint64Array",
    "float32": "Float32Array",
    "float64": "Float64Array",
}


def script(manifest: Manifest, sizes: Sequence[int]) -> str:
    """The text of NAME.mjs; `sizes` gives the bytes of each input, output and member of the state."""
    ins, outs, params = manifest["inputs"], manifest["outputs"], manifest["params"]
    given = frozenset(p["symbol"] for p in params)
    template = Template(resources("ingot.emit").joinpath("module.mjs.in").read_text())
    return template.substitute(
        name=manifest["name"],
        inputs=_listed(_tensor(t, "in", n, given) for t, n in zip(ins, sizes, strict=False)),
        outputs=_listed(_tensor(t, "out", n, given) for t, n in zip(outs, sizes[len(ins) :], strict=False)),
        extents=", ".join(p["symbol"] for p in params),
        params=_listed(f'{{ name: "{p["symbol"]}", lo: {p["lo"]}, hi: {p["hi"]} }}' for p in params),
        errors=json.dumps({value: name for name, value in ERRORS.items()}),
        memory=json.dumps(_memory(manifest, sizes)),
        arguments=f"[{', '.join(_arguments(manifest))}]",
    )


def _memory(manifest: Manifest, sizes: Sequence[int]) -> dict[str, int]:
    """Bytes of everything that is laid out behind the module's own data, by the name of its place."""
    ins, outs = manifest["inputs"], manifest["outputs"]
    names = [f"in_{t['symbol']}" for t in ins] + [f"out_{t['symbol']}" for t in outs]
    found = dict(zip(names, sizes, strict=False))
    kept = manifest["sizes"]
    external = kept["weights_bytes"] if manifest["weights"] == "external" else 0
    return {**found, "weights": external, "state": kept["state_bytes"], "arena": kept["arena_bytes"]}


def _arguments(manifest: Manifest) -> Iterator[str]:
    """As the entry takes them."""
    if manifest["weights"] == "external":
        yield "this.#at.weights"
    yield "...numbers"
    yield from (f"this.#at.in_{t['symbol']}" for t in manifest["inputs"])
    yield from (f"this.#at.out_{t['symbol']}" for t in manifest["outputs"])
    yield from ["this.#at.state"] if manifest["state"] else []
    yield from ["0", "0"] if manifest["threaded"] else []  # one task after the other
    yield "this.#at.arena"


def _listed(rows: Iterator[str]) -> str:
    lines = [f"  {row},\n" for row in rows]
    return f"[\n{''.join(lines)}]" if lines else "[]"


def _tensor(t: Mapping[str, Any], side: str, size: int, params: frozenset[str]) -> str:
    """A tensor as JavaScript has it: its shape and how many elements, or functions of the extents."""
    dtype = dtype_named(t["dtype"])
    view, unit = _view(dtype)
    shape, count = ", ".join(map(_number, t["shape"])), f"{size // unit}"
    symbols = set().union(*(_symbols(n) for n in t["shape"]))
    if symbols & params:  # those that the bundle measures have room for the most there can be
        count = f"(e) => {_count(dtype, ' * '.join(map(_number, t['shape'])))}"
    return (
        f'{{ name: {json.dumps(t["name"])}, symbol: "{t["symbol"]}", dtype: "{dtype.name}", '
        f'type: "{view}", place: "{side}_{t["symbol"]}", '
        f"shape: {f'(e) => [{shape}]' if symbols else f'[{shape}]'}, elements: {count} }}"
    )


def _count(dtype: DType, product: str) -> str:
    """Elements of the typed array that so many of the tensor take."""
    if dtype.is_text:
        return f"{product} * {dtype.bytes}"
    return f"Math.ceil({product} * {dtype.bits} / 8)" if dtype.is_packed else product


def _symbols(extent: int | str) -> set[str]:
    tree = ast.parse(str(extent), mode="eval")
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} - {"max", "min"}


OPERATORS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}


def _number(extent: int | str) -> str:
    """An extent of the manifest, such as ((N + 2) // 2), in JavaScript; `e` holds the extents."""

    def text(node: ast.AST) -> str:
        match node:
            case ast.Constant(value=value):
                return str(value)
            case ast.Name(id=name):
                return f"e.{name}"
            case ast.UnaryOp(ast.USub(), operand):
                return f"-{text(operand)}"
            case ast.BinOp(left, ast.FloorDiv(), right):
                return f"Math.floor({text(left)} / {text(right)})"
            case ast.BinOp(left, ast.Mod(), right):
                return f"({text(left)} - Math.floor({text(left)} / {text(right)}) * {text(right)})"
            case ast.BinOp(left, operator, right):
                return f"({text(left)} {OPERATORS[type(operator)]} {text(right)})"
            case ast.Call(ast.Name(id=name), arguments):
                return f"Math.{name}({', '.join(map(text, arguments))})"
        raise AssertionError(ast.dump(node))

    return text(ast.parse(str(extent), mode="eval").body)


def _view(dtype: DType) -> tuple[str, int]:
    """The typed array of JavaScript, and the bytes of an element: bits where it has no such numbers."""
    if dtype.is_text or dtype.is_packed or dtype.name == "bool":
        return "Uint8Array", 1
    if dtype.name in VIEWS:
        return VIEWS[dtype.name], dtype.bytes
    sign = "Int" if dtype.kind == "i" else "Uint"
    return f"{sign}{8 * dtype.bytes}Array", dtype.bytes


TYPES = """\
// SPDX-License-Identifier: 0BSD
// What {name}.mjs has, for TypeScript.

export interface Tensor {{
  name: string;
  symbol: string;
  dtype: string;
  type: string;
  place: string;
  shape: number[] | ((extents: Record<string, number>) => number[]);
  elements: number | ((extents: Record<string, number>) => number);
}}
export interface Inputs {{
{inputs}}}
export interface Outputs {{
{outputs}}}
export interface Extents {{
{extents}}}

export const inputs: Tensor[];
export const outputs: Tensor[];
export const extents: {{ name: string; lo: number; hi: number }}[];

export class Network {{
  /** Back to the state before the first run, for a network that has one. */
  reset(): void;
  /** One inference. Throws where the network returns an error. */
  run(inputs: Inputs, extents{optional}: Extents): Outputs;
}}

/** Load the network: from {name}.wasm beside this file, or from elsewhere. */
export function load(
  source?: string | URL | ArrayBuffer | ArrayBufferView | WebAssembly.Module,
  weights?: ArrayBuffer | ArrayBufferView,
): Promise<Network>;
"""


def declarations(manifest: Manifest) -> str:
    """The text of NAME.d.mts."""

    def members(tensors: Sequence[Mapping[str, Any]]) -> str:
        return "".join(f"  {json.dumps(t['name'])}: {_view(dtype_named(t['dtype']))[0]};\n" for t in tensors)

    return TYPES.format(
        name=manifest["name"],
        inputs=members(manifest["inputs"]),
        outputs=members(manifest["outputs"]),
        extents="".join(f"  {p['symbol']}: number;\n" for p in manifest["params"]),
        optional="" if manifest["params"] else "?",
    )
