"""TensorFlow's messages, as far as an importer reads them: classes made at run time from a table.

Out: `message("GraphDef")` and the like, for the files' binary and text forms. A field is NAME=NUMBER:TYPE,
with `*` behind the type where it is repeated; others are skipped as protobuf skips unknown ones.
Called by everything in this package that opens a file.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from google.protobuf import (  # type: ignore[import-untyped]  # protobuf ships no types
    descriptor_pb2,
    descriptor_pool,
    message_factory,
)
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from ingot.errors import ModelError
from ingot.frontends import text_form

PACKAGE = "ingot.tensorflow"
MESSAGES = {
    "Dim": "size=1:int64 name=2:string",
    "Shape": "dim=2:Dim* unknown_rank=3:bool",
    "Tensor": "dtype=1:DataType tensor_shape=2:Shape version_number=3:int32 tensor_content=4:bytes"
    " half_val=13:int32* float_val=5:float* double_val=6:double* int_val=7:int32* string_val=8:bytes*"
    " int64_val=10:int64* bool_val=11:bool* uint32_val=16:uint32* uint64_val=17:uint64*",
    "NameAttrList": "name=1:string attr=2:AttrEntry*",
    "ListValue": "s=2:bytes* i=3:int64* f=4:float* b=5:bool* type=6:DataType* shape=7:Shape* tensor=8:Tensor*"
    " func=9:NameAttrList*",
    "Attr": "list=1:ListValue s=2:bytes i=3:int64 f=4:float b=5:bool type=6:DataType shape=7:Shape"
    " tensor=8:Tensor placeholder=9:string func=10:NameAttrList",
    "AttrEntry": "key=1:string value=2:Attr",
    "Node": "name=1:string op=2:string input=3:string* device=4:string attr=5:AttrEntry*",
    "Arg": "name=1:string description=2:string type=3:DataType type_attr=4:string number_attr=5:string"
    " type_list_attr=6:string",
    "Signature": "name=1:string input_arg=2:Arg* output_arg=3:Arg*",
    "StringEntry": "key=1:string value=2:string",
    "Function": "signature=1:Signature attr=5:AttrEntry* node_def=3:Node* ret=4:StringEntry*",
    "Library": "function=1:Function*",
    "GraphDef": "node=1:Node* library=2:Library",
    "TensorInfo": "name=1:string dtype=2:DataType tensor_shape=3:Shape",
    "InfoEntry": "key=1:string value=2:TensorInfo",
    "SignatureDef": "inputs=1:InfoEntry* outputs=2:InfoEntry* method_name=3:string",
    "SignatureEntry": "key=1:string value=2:SignatureDef",
    "MetaInfo": "meta_graph_version=1:string tags=4:string*",
    "MetaGraph": "meta_info_def=1:MetaInfo graph_def=2:GraphDef signature_def=5:SignatureEntry*",
    "SavedModel": "saved_model_schema_version=1:int64 meta_graphs=2:MetaGraph*",
    "TensorId": "node_name=1:string output_index=2:int64",
    "Feed": "id=1:TensorId shape=2:Shape name=3:string type=4:DataType",
    "Fetch": "id=1:TensorId name=2:string shape=3:Shape type=4:DataType",
    "Config": "feed=1:Feed* fetch=2:Fetch*",
    "BundleHeader": "num_shards=1:int32 endianness=2:int32",
    "Extent": "start=1:int64 length=2:int64",
    "Slice": "extent=1:Extent*",
    "BundleEntry": "dtype=1:int32 shape=2:Shape shard_id=3:int32 offset=4:int64 size=5:int64 crc32c=6:fixed32"
    " slices=7:Slice*",
}
ENUM = (
    "INVALID FLOAT DOUBLE INT32 UINT8 INT16 INT8 STRING COMPLEX64 INT64 BOOL QINT8 QUINT8 QINT32 BFLOAT16"
    " QINT16 QUINT16 UINT16 COMPLEX128 HALF RESOURCE VARIANT UINT32 UINT64"
)
"""DataType, in the order of its numbers: the text form writes DT_FLOAT."""
REFERENCE = 100  # what the number of a type grows by where a variable of it is meant


@cache
def _pool() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="ingot_tensorflow.proto", package=PACKAGE, syntax="proto3")
    kinds = file.enum_type.add(name="DataType")
    for number, name in enumerate(ENUM.split()):
        kinds.value.add(name=f"DT_{name}", number=number)
        if number:
            kinds.value.add(name=f"DT_{name}_REF", number=number + REFERENCE)
    for name, fields in MESSAGES.items():
        made = file.message_type.add(name=name)
        for field in fields.split():
            _add_field(made, field)
        choices = {"Attr": made.field, "Extent": made.field[-1:]}.get(name, ())
        if choices:
            made.oneof_decl.add(name="value")
        for one in choices:
            one.oneof_index = 0
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return pool


def _add_field(made: Any, text: str) -> None:
    name, _, rest = text.partition("=")
    number, _, kind = rest.partition(":")
    proto = descriptor_pb2.FieldDescriptorProto
    label = proto.LABEL_REPEATED if kind.endswith("*") else proto.LABEL_OPTIONAL
    kind = kind.removesuffix("*")
    field = made.field.add(name=name, number=int(number), label=label)
    if kind in MESSAGES or kind == "DataType":
        field.type = proto.TYPE_ENUM if kind == "DataType" else proto.TYPE_MESSAGE
        field.type_name = f".{PACKAGE}.{kind}"
    else:
        field.type = getattr(proto, f"TYPE_{kind.upper()}")


def message(name: str) -> Any:
    """An empty message of one of MESSAGES."""
    found = _pool().FindMessageTypeByName(f"{PACKAGE}.{name}")
    return message_factory.GetMessageClass(found)()


def parse(name: str, data: bytes, what: str) -> Any:
    """The binary form. Raises ModelError, in which `what` names the file."""
    made = message(name)
    try:
        made.ParseFromString(data)
    except DecodeError:
        raise ModelError(f"{what} is no {name} of TensorFlow, or is cut short") from None
    return made


def parse_text(name: str, data: bytes, what: str) -> Any:
    """The text form. Raises ModelError."""
    return text_form.parse_text(message(name), data, what, f"a {name}")


def entries(repeated: Any) -> dict[str, Any]:
    """A map, which protobuf stores as a list of keys and values."""
    return {str(e.key): e.value for e in repeated}
