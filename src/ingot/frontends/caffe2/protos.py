"""Caffe2's messages, as far as an importer reads them: classes made at run time from a table.

Out: `read_net(path)`, a NetDef of a file in binary or text form. Fields that the table does not name are
skipped, as protobuf does with unknown ones.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from google.protobuf import (  # type: ignore[import-untyped]  # protobuf ships no types
    descriptor_pb2,
    descriptor_pool,
    message_factory,
)
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from ingot.errors import ModelError
from ingot.files import read_file
from ingot.frontends.formats import NET_KEYS
from ingot.frontends.sample import Sample
from ingot.frontends.text_form import parse_text
from ingot.frontends.wire import Parts, read_message

PACKAGE = "ingot.caffe2"
SHOWN = 64
TEXT_BYTES = 1 << 24
PARTS: Parts = {2: {5: {}}}  # the operators and their arguments
MESSAGES = {
    "Argument": "name=1:string f=2:float i=3:int64 s=4:bytes floats=5:float* ints=6:int64* strings=7:bytes*",
    "Operator": "input=1:string* output=2:string* name=3:string type=4:string arg=5:Argument*",
    "Net": "name=1:string op=2:Operator* arg=6:Argument* external_input=7:string* external_output=8:string*",
}


@cache
def _pool() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="ingot_caffe2.proto", package=PACKAGE, syntax="proto2")
    for name, fields in MESSAGES.items():
        made = file.message_type.add(name=name)
        for field in fields.split():
            _add_field(made, *field.replace(":", "=").split("="))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return pool


def _add_field(made: Any, name: str, number: str, kind: str) -> None:
    proto = descriptor_pb2.FieldDescriptorProto
    label = proto.LABEL_REPEATED if kind.endswith("*") else proto.LABEL_OPTIONAL
    kind = kind.removesuffix("*")
    field = made.field.add(name=name, number=int(number), label=label)
    if kind in MESSAGES:
        field.type, field.type_name = proto.TYPE_MESSAGE, f".{PACKAGE}.{kind}"
    else:
        field.type = getattr(proto, f"TYPE_{kind.upper()}")


def message(name: str) -> Any:
    """An empty message of one of MESSAGES."""
    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(f"{PACKAGE}.{name}"))()


def read_net(path: Path) -> Any:
    """The net of a file. Raises InputError for a file that holds none."""
    net, keys = message("Net"), set(Sample(path).keys)
    if keys and keys <= NET_KEYS:  # an init net may have nothing but a name
        return parse_text(net, read_file(path, TEXT_BYTES), path.name, "a net of Caffe2's")
    try:
        net.ParseFromString(read_message(path, "a net of Caffe2's", PARTS))
    except DecodeError:
        raise ModelError(f"{path} is no net of Caffe2's, or is cut short") from None
    names = [net.name, *net.external_input, *net.external_output]
    for op in net.op:
        names += [op.name, op.type, *op.input, *op.output, *(a.name for a in op.arg)]
    for name in names:
        if not isinstance(name, str):  # so protobuf hands over what is not UTF-8
            raise ModelError(f"{path}: the name {name[:SHOWN]!r} is not UTF-8")
    return net
