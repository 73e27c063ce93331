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
    "micropython",
    "kbuild",
]
Weights = Literal["embedded", "external"]
Relocation = Literal["static", "pic"]
FloatAbi = Literal["hard", "softfp", "soft"]
CodeModel = Literal["tiny", "small", "kernel", "medium", "large"]
PROMISED = 0.01  # max|d| / max|y| of a layer whose activations are int8, if errors are independent


@dataclass(frozen=True, slots=True)
class Options:
    """All options of a compilation.

    What is read:

    - `define`: a value for a dynamic dimension, or a range (lo, hi).
    - `capacity`: the largest extents of values with data-dependent shapes, a number for all axes or one per
      axis; the entry "" applies to all values that are not named.
    - `string_bytes`: the size of a string, including the terminating zero; constants may need more.
    - `state`: pairs {next: previous} of an output and the input that it becomes in the next run.
    - `infer_shapes`: ignore declared shapes and types of outputs that contradict the operators.
    - `fix`: inputs to make constants, by name: a number that fills the input, nested lists, or an array.
    - `seed_input`: add an input, for each value of which random operators draw different numbers.
    - `outputs` (names): compile the part of the model that computes these values. `inputs` (NAME:SHAPE): cut
      a TensorFlow graph behind them, or set the shapes of a Keras model's inputs. `model_inputs`
      (NAME,TYPE,[SHAPE]) describes inputs that a Caffe2 net or an ONNX model does not.
    - `keep_inputs`: initializers that are also graph inputs stay inputs, instead of becoming constants.

    The target:

    - `target`: its name, or several x86 targets, weakest first: `x86-64+x86-64-v3` selects one at run time.
    - `cpu`, `features` (LLVM's names, as +sse4a or -fma), `float_abi`, `relocation`, `code_model`: details of
      the target. `cc` is another C compiler, and `cflags` are its additional flags.
    - `max_ram`, `max_flash`: a bundle that needs more bytes is refused. With `max_ram`, layers are computed
      row by row if necessary.
    - `memory`, `flash`: the sizes of memory regions in bytes, fastest first. Each region has a section of its
      name; the code is in the first region of `flash`.

    The code:

    - `optimize`: size, balanced or speed (`loops/priority.py` lists the effects).
    - `math`: "exact" computes the model's own sums, without fast convolution algorithms, and every sigmoid
      and tanh to full precision. Averages divide by their counts, and weights in blocks (MatMulNBits)
      multiply floats as they are.
    - `activations`: "int8" multiplies encoded weights by activations that are quantised at run time, if a
      layer stays within 1 % of max|y|.
    - `huffman`: store encoded weights in Huffman codes, which the bundle expands a few columns at a time.
    - `tuning`: the content of a tuning file.
    - `strict_speed`: refuse kernels of more than 1 % of the work that do not use the target's vectors.
    - `fuse`: if off, keep one kernel per node, to verify layer by layer. `generators`: if off, write naive
      loops only.
    - `frame_bytes`: the largest stack of a function (0: any); fast convolutions that need more are not used.

    The bundle:

    - `name`; `emit`: the kinds of files, by default c, obj, weights-bin, also weights-txt if the caller
      provides the weights, and module for WebAssembly.
    - `api`: the calling convention. `weights`: by default, external for Glow's two conventions, and embedded
      for the others.
    - `rename`: names in C for inputs and outputs.
    - `threads`: the entry function takes a `parallel_for` of the caller.
    - `profile`: the entry function reports the time of each kernel to `NAME_profile`.
    - `pauses`: the entry function calls `NAME_pause` every few microseconds, while no vector register is in
      use; if that returns a value other than 0, the run ends with `ERR_STOPPED`, and its state is unchanged.
      Threads do not pause.
    - `selftest`: add NAME_selftest, which runs golden inputs and finds the first layer that differs.
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
