"""Options of one compilation: one frozen record that travels from the command line to the emitter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, TypedDict, cast

Define = Mapping[str, int | tuple[int, int]]
Capacity = int | tuple[int, ...]
Emit = Literal["c", "obj", "lib", "shared", "weights-bin", "weights-txt", "main", "module"]
Api = Literal["direct", "static", "dynamic", "argument"]
Math = Literal["exact", "standard"]
Activations = Literal["float", "int8"]
Optimize = Literal["size", "balanced", "speed"]
Package = Literal[
    "cmake",
    "make",
    "pkg-config",
    "cargo",
    "python",
    "wasm",
    "arduino",
    "platformio",
    "zephyr",
    "esp-idf",
    "cmsis-pack",
    "kbuild",
]
Weights = Literal["embedded", "external"]
Relocation = Literal["static", "pic"]
FloatAbi = Literal["hard", "softfp", "soft"]
CodeModel = Literal["tiny", "small", "kernel", "medium", "large"]
PROMISED = 0.01  # max|d| / max|y| of a layer whose activations are int8, if errors are independent


@dataclass(frozen=True, slots=True)
class Options:
    """Everything a user can say about a compilation.

    `define` gives symbolic dimensions a value, or a range (lo, hi) for a bounded dynamic one. `capacity`
    gives values whose extents only the data tells their largest ones: a number for all axes or one per
    axis; that of "" is for every value not named. `string_bytes` is the room of a string, its last zero
    included; constants may need more. `state` pairs outputs with inputs {next: previous}: what one run
    leaves to the next. `infer_shapes` believes the operators where the model declares other shapes or
    types of what they make. `fuse` off keeps one kernel per node, for verification layer by layer. With
    `generators` off there are only naive loops. `strict_speed` makes it an error that kernels which count
    compute one element at a time although the target has vectors. `optimize` says what is to be small,
    code or time (`loops/priority.py` has what it decides). `math` "exact" adds and multiplies what the model
    says, as it says it: no fast convolution algorithms, every sigmoid and tanh to its last digits.
    `activations` "int8" multiplies encoded weights in bytes, by activations that are quantised as the bundle
    runs, where a layer stays within 1 % of max|y| unless rounding errors share a sign. `huffman` stores
    encoded weights in Huffman codes, which the bundle expands some columns at a time. `target` may name
    several, weakest first: `x86-64+x86-64-v3` is one bundle that picks at run time. `threads` gives the entry
    a `parallel_for` of the caller's. `profile` makes the entry report to `NAME_profile` where its time goes.
    `pauses` makes it call `NAME_pause` every few microseconds, where no vector register keeps its content;
    what is not 0 ends the run with `ERR_STOPPED`, its state as it was. Threads do not pause.
    `selftest` adds NAME_selftest, which runs golden inputs and names the first layer that differs.
    `frame_bytes` is the most stack that a function should take (0: any): fast convolutions whose transforms
    need more are not chosen. `tuning` is the content of a tuning file. `emit` () is c, obj, weights-bin,
    weights-txt where the caller brings the weights, and module for WebAssembly. `weights` None is what the
    api means: external for Glow's two, embedded for the others. `seed_input` adds an input, the number of
    the run, that random operators draw other numbers for. `rename` gives inputs and outputs C names of the
    user's choice; `cflags` go to the compiler behind our own. `inputs` (NAME:SHAPE) and `outputs` (names)
    are what to import of a TensorFlow graph; `model_inputs` (NAME,TYPE,[SHAPE]) describe the inputs of
    Caffe2's nets. `fix` makes inputs constants, by name: a number, which fills the input, nested lists or
    an array.
    `cpu`, `features` (LLVM's words, as +sse4a or -fma), `float_abi`, `code_model` say more of the target.
    `max_ram` and `max_flash` are bytes: a bundle that takes more is refused; within `max_ram`, layers go row
    by row as far as that is needed. `memory` and `flash` give
    regions their bytes, fastest first: what lies in which is decided here, and the sections are named after
    them; the code is in the first of `flash`.
    """

    name: str | None = None
    target: str = "native"
    api: Api = "direct"
    define: Define = field(default_factory=dict)
    emit: tuple[Emit, ...] = ()
    weights: Weights | None = None
    relocation: Relocation | None = None
    cpu: str | None = None
    features: tuple[str, ...] = ()
    float_abi: FloatAbi | None = None
    code_model: CodeModel | None = None
    cc: str | None = None
    cflags: tuple[str, ...] = ()
    state: Mapping[str, str] = field(default_factory=dict)
    rename: Mapping[str, str] = field(default_factory=dict)
    fix: Mapping[str, Any] = field(default_factory=dict)
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    model_inputs: tuple[str, ...] = ()
    keep_inputs: bool = False
    seed_input: bool = False
    capacity: Mapping[str, Capacity] = field(default_factory=dict)
    string_bytes: int = 64
    infer_shapes: bool = False
    fuse: bool = True
    max_ram: int | None = None
    max_flash: int | None = None
    memory: Mapping[str, int] = field(default_factory=dict)
    flash: Mapping[str, int] = field(default_factory=dict)
    threads: bool = False
    profile: bool = False
    pauses: bool = False
    selftest: bool = False
    frame_bytes: int = 0
    generators: bool = True
    strict_speed: bool = False
    tuning: Mapping[str, Any] = field(default_factory=dict)
    optimize: Optimize = "speed"
    math: Math = "standard"
    activations: Activations = "float"
    huffman: bool = False


class OptionFields(TypedDict, total=False):
    """The fields of `Options` as keyword parameters; a test holds the two against each other."""

    name: str | None
    target: str
    api: Api
    define: Define
    emit: tuple[Emit, ...]
    weights: Weights | None
    relocation: Relocation | None
    cpu: str | None
    features: tuple[str, ...]
    float_abi: FloatAbi | None
    code_model: CodeModel | None
    cc: str | None
    cflags: tuple[str, ...]
    state: Mapping[str, str]
    rename: Mapping[str, str]
    fix: Mapping[str, Any]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    model_inputs: tuple[str, ...]
    keep_inputs: bool
    seed_input: bool
    capacity: Mapping[str, Capacity]
    string_bytes: int
    infer_shapes: bool
    fuse: bool
    max_ram: int | None
    max_flash: int | None
    memory: Mapping[str, int]
    flash: Mapping[str, int]
    threads: bool
    profile: bool
    pauses: bool
    selftest: bool
    frame_bytes: int
    generators: bool
    strict_speed: bool
    tuning: Mapping[str, Any]
    optimize: Optimize
    math: Math
    activations: Activations
    huffman: bool


def fields_of(options: Options) -> OptionFields:
    """Return the options as keyword arguments."""
    return cast(OptionFields, {f.name: getattr(options, f.name) for f in fields(options)})


def changed_of(options: Options) -> OptionFields:
    """Return the options that are not the default ones, as keyword arguments."""
    default = Options()
    return cast(OptionFields, {k: v for k, v in fields_of(options).items() if v != getattr(default, k)})
