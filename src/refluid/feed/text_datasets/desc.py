"""The DataFeedDesc message: slots, batch size and pipe command of a dataset, as protobuf text."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format

from refluid.core.errors import EnforceNotMet

_PACKAGE = "refluid.proto"
_FIELD = descriptor_pb2.FieldDescriptorProto
_TYPES = {"string": _FIELD.TYPE_STRING, "bool": _FIELD.TYPE_BOOL, "int32": _FIELD.TYPE_INT32}
_LABELS = {
    "required": _FIELD.LABEL_REQUIRED,
    "optional": _FIELD.LABEL_OPTIONAL,
    "repeated": _FIELD.LABEL_REPEATED,
}
# Message -> field, number, label, type and default, as Fluid 1.8's own.
MESSAGES: dict[str, list[tuple[str, int, str, str, str]]] = {
    "Slot": [
        ("name", 1, "required", "string", ""),
        ("type", 2, "required", "string", ""),
        ("is_dense", 3, "optional", "bool", "false"),
        ("is_used", 4, "optional", "bool", "false"),
        ("shape", 5, "repeated", "int32", ""),
    ],
    "MultiSlotDesc": [("slots", 1, "repeated", "Slot", "")],
    "DataFeedDesc": [
        ("name", 1, "optional", "string", ""),
        ("batch_size", 2, "optional", "int32", "32"),
        ("multi_slot_desc", 3, "optional", "MultiSlotDesc", ""),
        ("pipe_command", 4, "optional", "string", ""),
        ("thread_num", 5, "optional", "int32", ""),
        ("rank_offset", 6, "optional", "string", ""),
        ("pv_batch_size", 7, "optional", "int32", "32"),
    ],
}


def _message_class() -> Any:
    file = descriptor_pb2.FileDescriptorProto(
        name="refluid/feed/data_feed.proto", package=_PACKAGE, syntax="proto2"
    )
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, number, label, kind, default in fields:
            made = message.field.add(name=field, number=number, label=_LABELS[label])
            if kind in _TYPES:
                made.type = _TYPES[kind]
            else:
                made.type, made.type_name = _FIELD.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"
            if default:
                made.default_value = default
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = pool.FindMessageTypeByName(f"{_PACKAGE}.DataFeedDesc")
    return message_factory.GetMessageClass(found)


_DESC = _message_class()


def new_desc() -> Any:
    """An empty DataFeedDesc."""
    return _DESC()


def parse_desc(text: str, origin: str) -> Any:
    """The DataFeedDesc that a text describes. EnforceNotMet names `origin` where it is none."""
    try:
        return text_format.Parse(text, _DESC())
    except text_format.ParseError as error:
        raise EnforceNotMet(f"{origin} is no DataFeedDesc in protobuf text: {error}") from error


def print_desc(desc: Any) -> str:
    """The message as protobuf text."""
    return str(text_format.MessageToString(desc))
