"""A `DistributedStrategy` as protobuf's text, which Paddle reads and writes: only what was set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format

from refluid.paddle.distributed.fleet.base.configs import CONFIGS
from refluid.paddle.distributed.fleet.base.fields import (
    BUILD,
    EXECUTION,
    FLAGS,
    SWITCHES,
    StrategyField,
    TrainingMode,
)

_Proto = descriptor_pb2.FieldDescriptorProto
_TYPES = {
    bool: _Proto.TYPE_BOOL,
    int: _Proto.TYPE_INT32,
    float: _Proto.TYPE_FLOAT,
    str: _Proto.TYPE_STRING,
    TrainingMode: _Proto.TYPE_ENUM,
}
# Messages within one: its field, and its fields.
NESTED = {**CONFIGS, "build_strategy": BUILD, "execution_strategy": EXECUTION}
_PACKAGE = "refluid.fleet"


def to_text(values: Mapping[str, Any]) -> str:
    """The text of what was set: values by name, nested ones as mappings."""
    message = _kind()()
    for name, value in values.items():
        if name in NESTED:
            inner = getattr(message, name)
            inner.SetInParent()
            for key, one in value.items():
                _put(inner, NESTED[name][key], one)
        else:
            _put(message, {**SWITCHES, **FLAGS}[name], value)
    text: str = text_format.MessageToString(message)
    return text


def from_text(text: str) -> dict[str, Any]:
    """What a text sets. ValueError, with line and column, where it isn't of a strategy."""
    message = _kind()()
    try:
        text_format.Parse(text, message)
    except text_format.ParseError as error:
        raise ValueError(f"no DistributedStrategy: {error}") from None
    flat = {one.written: one for one in (*SWITCHES.values(), *FLAGS.values())}
    found: dict[str, Any] = {}
    for descriptor, value in message.ListFields():
        name = descriptor.name
        if name in NESTED:
            inner = {one.written: one for one in NESTED[name].values()}
            found[name] = {
                inner[each.name].name: _taken(inner[each.name], own)
                for each, own in value.ListFields()
            }
        else:
            found[flat[name].name] = _taken(flat[name], value)
    return found


def _put(message: Any, field: StrategyField, value: Any) -> None:
    if isinstance(field.default, list):
        getattr(message, field.written).extend(value)
    else:
        setattr(message, field.written, value)


def _taken(field: StrategyField, value: Any) -> Any:
    return list(value) if isinstance(field.default, list) else type(field.default)(value)


@cache
def _kind() -> type[Any]:
    """The message type, made of the tables."""
    file = descriptor_pb2.FileDescriptorProto(
        name="refluid_distributed_strategy.proto", package=_PACKAGE, syntax="proto2"
    )
    file.enum_type.add(name="Mode").value.extend(
        descriptor_pb2.EnumValueDescriptorProto(name=one.name, number=one) for one in TrainingMode
    )
    for name, fields in NESTED.items():
        _fill(file.message_type.add(name=name), fields.values())
    whole = file.message_type.add(name="DistributedStrategy")
    _fill(whole, (*SWITCHES.values(), *FLAGS.values()))
    for name in NESTED:
        whole.field.add(
            name=name,
            number=len(whole.field) + 1,
            label=_Proto.LABEL_OPTIONAL,
            type=_Proto.TYPE_MESSAGE,
            type_name=f".{_PACKAGE}.{name}",
        )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(
        pool.FindMessageTypeByName(f"{_PACKAGE}.DistributedStrategy")
    )


def _fill(message: Any, fields: Iterable[StrategyField]) -> None:
    for field in fields:
        several = isinstance(field.default, list)
        kind = field.kind if several else type(field.default)
        label = _Proto.LABEL_REPEATED if several else _Proto.LABEL_OPTIONAL
        one = message.field.add(
            name=field.written, number=len(message.field) + 1, label=label, type=_TYPES[kind]
        )
        if kind is TrainingMode:
            one.type_name = f".{_PACKAGE}.Mode"
