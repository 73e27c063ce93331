"""Operators on sequences and optionals, read into nodes on tensors; handlers of `handlers.py`.

A sequence whose elements are known one by one stays a list as long as positions are constants: taking,
inserting and erasing are then done here, and no code is made for them. Otherwise the operators get the three
tensors of a sequence in its place and are defined in `ingot.ops.sequence`.
"""

from __future__ import annotations

import numpy as np
import onnx

from ingot.errors import ModelError, ShapeError, UnsupportedError
from ingot.formula.types import FLOAT32, DType
from ingot.frontends.onnx.objects import Listed, Object, Option, Ragged, form_of, truth
from ingot.frontends.onnx.place import Handler, Place, scalar
from ingot.graph.ir import Value, constant_value
from ingot.graph.onnx_types import dtype_from_onnx

LONGEST = 256  # elements of a list: more are an array


def _position(at: Place, i: int, default: int | None) -> int | None:
    """The position that operand i gives, if it is a constant; `default` where it is left out."""
    found = at.operand(i)
    if found is None:
        return default
    value = at.tensor(i).constant
    if value is None:
        return None
    if value.size != 1:
        raise ShapeError(f"{at.label}: a position has {value.size} elements instead of one")
    return int(value.reshape(-1)[0])


def _within(at: Place, position: int, length: int, last: int) -> int:
    """A position counted from the front. Raises ShapeError beyond -length .. last."""
    if not -length <= position <= last:
        raise ShapeError(f"{at.label}: position {position} is out of range for {length} elements")
    return position + length if position < 0 else position


def construct(at: Place) -> bool:
    elements = tuple(at.tensor(i) for i in range(len(at.operands)))
    if not elements:
        raise ModelError(f"{at.label}: no elements; SequenceEmpty makes an empty sequence")
    at.result(0, Listed(elements))
    return True


def empty(at: Place) -> bool:
    number = at.attributes().get("dtype", onnx.TensorProto.FLOAT)
    assert isinstance(number, int)
    at.result(0, Listed((), dtype_from_onnx(number, at.reader.text)))
    return True


def insert(at: Place) -> bool:
    sequence, element = at.sequence(0), at.tensor(1)
    if isinstance(sequence, Listed) and len(sequence.elements) < LONGEST:
        n = len(sequence.elements)
        position = _position(at, 2, n)
        if position is not None:
            k = _within(at, position, n, n)
            at.result(0, Listed((*sequence.elements[:k], element, *sequence.elements[k:])))
            return True
    three = at.ragged(sequence, at.proto.input[0])
    inputs = [three.data, three.extents, three.length, element, at.optional_tensor(2)]
    at.sequence_result("SequenceInsert", inputs)
    return True


def erase(at: Place) -> bool:
    sequence = at.sequence(0)
    if isinstance(sequence, Listed):
        n = len(sequence.elements)
        position = _position(at, 1, n - 1)
        if position is not None:
            k = _within(at, position, n, n - 1)
            at.result(0, Listed((*sequence.elements[:k], *sequence.elements[k + 1 :]), sequence.dtype))
            return True
    three = at.ragged(sequence, at.proto.input[0])
    inputs = [three.data, three.extents, three.length, at.optional_tensor(1)]
    at.sequence_result("SequenceErase", inputs)
    return True


def element(at: Place) -> bool:
    sequence = at.sequence(0)
    if isinstance(sequence, Listed):
        position = _position(at, 1, None)
        if position is not None:
            n = len(sequence.elements)
            at.result(0, sequence.elements[_within(at, position, n, n - 1)])
            return True
    three = at.ragged(sequence, at.proto.input[0])
    at.tensor_result("SequenceAt", [three.data, three.extents, three.length, at.tensor(1)])
    return True


def length(at: Place) -> bool:
    sequence = at.sequence(0)
    if isinstance(sequence, Listed):
        at.result(0, scalar(at.proto.output[0], len(sequence.elements)))
    else:
        at.tensor_result("SequenceLength", [sequence.data, sequence.extents, sequence.length])
    return True


def concat(at: Place) -> bool:
    sequence, given = at.sequence(0), at.attributes()
    axis, new_axis = given.get("axis"), given.get("new_axis", 0)
    if not isinstance(axis, int):
        raise ModelError(f"{at.label}: the attribute axis is missing")
    if isinstance(sequence, Ragged):
        three = [sequence.data, sequence.extents, sequence.length]
        at.tensor_result("ConcatFromSequence", three, axis=axis, new_axis=new_axis)
    elif not sequence.elements:
        raise ShapeError(f"{at.label}: the sequence is empty")
    else:
        elements: tuple[Value, ...] = sequence.elements
        if new_axis:
            elements = tuple(_reshaped(at, "Unsqueeze", e, axis) for e in elements)
        at.tensor_result("Concat", elements, axis=axis)
    return True


def _reshaped(at: Place, op: str, value: Value, axis: int) -> Value:
    """Squeeze or Unsqueeze of one axis."""
    made = at.reader.value(at.scope, value.name, f".{op.lower()}d")
    at.append(op, [value, constant_value("axes", np.array([axis], np.int64))], [made])
    return made


def split(at: Place) -> bool:
    """SplitToSequence: parts whose sizes are known are the outputs of a Split."""
    given = at.attributes()
    axis, keep = given.get("axis", 0), given.get("keepdims", 1)
    assert isinstance(axis, int)
    sizes = _sizes(at, axis)
    if sizes is None or not 0 < len(sizes) <= LONGEST:
        at.sequence_result("SplitToSequence", [at.tensor(0), at.optional_tensor(1)], **given)
        return True
    parts = at.values(0, [f".{k}" for k in range(len(sizes))])
    at.append("Split", [at.tensor(0), constant_value("sizes", np.array(sizes, np.int64))], parts, axis=axis)
    if at.operand(1) is None and not keep:
        parts = [_reshaped(at, "Squeeze", p, axis) for p in parts]
    at.result(0, Listed(tuple(parts)))
    return True


def _sizes(at: Place, axis: int) -> list[int] | None:
    """The sizes of the parts, where constants tell them. SplitToSequence-24."""
    if at.operand(1) is not None:
        wanted = at.tensor(1).constant
        if wanted is None:
            return None
        if wanted.ndim == 1:
            return [int(n) for n in wanted]
        chunk = int(wanted.reshape(-1)[0])
    else:
        chunk = 1
    shape = at.tensor(0).shape or _inferred_shape(at)
    if shape is None or not -len(shape) <= axis < len(shape) or chunk < 1:
        return None
    n = shape[axis]
    return [min(chunk, n - k) for k in range(0, n, chunk)] if isinstance(n, int) and n < LONGEST else None


def _inferred_shape(at: Place) -> tuple[int | None, ...] | None:
    tensor = at.scope.types.of(at.proto.input[0]).tensor_type
    if not tensor.HasField("shape"):
        return None
    return tuple(int(d.dim_value) if d.HasField("dim_value") else None for d in tensor.shape.dim)


def optional(at: Place) -> bool:
    """Optional of a tensor or sequence; without one, an empty optional of the type it names."""
    found = at.operand(0)
    if found is not None:
        at.result(0, Option(found, truth(True)))
        return True
    content = next((a.tp for a in at.proto.attribute if a.name == "type"), None)
    if content is None:
        raise ModelError(f"{at.label}: neither an element nor a type")
    at.result(0, Option(nothing(at, content), truth(False)))
    return True


def nothing(at: Place, content: onnx.TypeProto) -> Object | None:
    """What stands for an element that is not there: an empty sequence, or zeros of the type's shape."""
    match content.WhichOneof("value"):
        case "sequence_type":
            return Listed((), _element_type(at, content.sequence_type.elem_type))
        case "tensor_type":
            dims = content.tensor_type.shape.dim
            if not content.tensor_type.HasField("shape") or any(not d.HasField("dim_value") for d in dims):
                return None
            return constant_value(
                "nothing", np.zeros([d.dim_value for d in dims], _element_type(at, content).numpy)
            )
    raise UnsupportedError(f"{at.label}: an optional of this type is not supported")


def _element_type(at: Place, type_: onnx.TypeProto) -> DType:
    number = type_.tensor_type.elem_type
    return dtype_from_onnx(number, at.reader.text) if number else FLOAT32


def has_element(at: Place) -> bool:
    """OptionalHasElement-18: a tensor or sequence is an optional that has one; an absent input has none."""
    found = at.operand(0)
    present = found.present if isinstance(found, Option) else truth(found is not None)
    at.result(0, present)
    return True


def get_element(at: Place) -> bool:
    """OptionalGetElement-18. Where only the run shows whether there is one, the bundle checks it."""
    found = at.operand(0)
    if found is None:
        raise ModelError(f"{at.label}: the input is missing")
    at.result(0, content_of(at, found, at.proto.output[0]))
    return True


def content_of(at: Place, thing: Object, name: str) -> Object:
    """The element of an optional, checked; anything else as it is. Raises ModelError if there is none."""
    if not isinstance(thing, Option):
        return thing
    if thing.is_there is False or thing.content is None:
        raise ModelError(f"{at.label}: the optional is empty")
    if thing.is_there:
        return thing.content
    inner = at.ragged(thing.content, name) if isinstance(thing.content, Listed) else thing.content
    guarded = inner.length if isinstance(inner, Ragged) else inner
    assert isinstance(guarded, Value), "there is no optional of an optional"
    value = at.reader.value(at.scope, name, ".length" if isinstance(inner, Ragged) else ".content")
    at.append("OptionalGetElement", [guarded, thing.present], [value])
    return Ragged(inner.data, inner.extents, value) if isinstance(inner, Ragged) else value


def identity(at: Place) -> bool:
    """Identity of what is no tensor: another name."""
    found = at.operand(0)
    if found is None or isinstance(found, Value):
        return False
    at.result(0, found)
    return True


def sequence_map(at: Place) -> bool:
    """SequenceMap over lists: the body, once per element. Over others it is a Loop: its function body."""
    first = at.sequence(0)
    others = at.operands[1:]
    if not isinstance(first, Listed) or any(isinstance(o, Ragged) for o in others):
        return False
    body, n = at.subgraph("body"), len(first.elements)
    if len(body.input) != len(at.operands) or len(body.output) < len(at.proto.output):
        raise ModelError(f"{at.label}: the body's inputs or outputs do not fit the node's")
    if any(isinstance(o, Listed) and len(o.elements) != n for o in others):
        raise ShapeError(f"{at.label}: the sequences differ in length")
    made: list[list[Value]] = [[] for _ in at.proto.output]
    for k in range(n):
        inner = at.scope.subgraph()
        at.reader.declare(body, inner)
        for info, thing in zip(body.input, at.operands, strict=True):
            if thing is None:
                raise ModelError(f"{at.label}: an input is missing")
            given = thing.elements[k] if isinstance(thing, Listed) else thing
            at.reader.call_it(inner, info.name, given)
        at.reader.count(len(body.node), at.label)
        for row, value in zip(made, at.reader.fill(at.graph, body, inner), strict=False):
            if not isinstance(value, Value):
                raise ModelError(f"{at.label}: the body gives a {form_of(value)}, a tensor is needed")
            row.append(value)
    for i, (row, info) in enumerate(zip(made, body.output, strict=False)):
        at.result(i, Listed(tuple(row), _element_type(at, info.type)))
    return True


SEQUENCES: dict[str, Handler] = {
    "SequenceConstruct": construct,
    "SequenceEmpty": empty,
    "SequenceInsert": insert,
    "SequenceErase": erase,
    "SequenceAt": element,
    "SequenceLength": length,
    "ConcatFromSequence": concat,
    "SplitToSequence": split,
    "SequenceMap": sequence_map,
    "Optional": optional,
    "OptionalHasElement": has_element,
    "OptionalGetElement": get_element,
    "Identity": identity,
}
