"""The program format agrees with Fluid's, field by field."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor

from refluid.ir import framework_pb2
from tests.golden import GOLDEN, needs_golden

# Field types by protobuf's own numbers.
TYPES = {
    FieldDescriptor.TYPE_DOUBLE: "double",
    FieldDescriptor.TYPE_FLOAT: "float",
    FieldDescriptor.TYPE_INT64: "int64",
    FieldDescriptor.TYPE_UINT64: "uint64",
    FieldDescriptor.TYPE_INT32: "int32",
    FieldDescriptor.TYPE_UINT32: "uint32",
    FieldDescriptor.TYPE_BOOL: "bool",
    FieldDescriptor.TYPE_STRING: "string",
    FieldDescriptor.TYPE_BYTES: "bytes",
    FieldDescriptor.TYPE_MESSAGE: "message",
    FieldDescriptor.TYPE_ENUM: "enum",
}
# Enum members beyond Fluid 1.8's.
ADDED = {"VarType.Type": {"BF16": 22}}


def label(field: FieldDescriptor) -> str:
    if field.is_repeated:
        return "repeated"
    return "required" if field.is_required else "optional"


def relative(full_name: str, package: str) -> str:
    return full_name.removeprefix(package + ".")


def described_field(field: FieldDescriptor, package: str) -> dict[str, Any]:
    fact: dict[str, Any] = {
        "name": field.name,
        "number": field.number,
        "label": label(field),
        "type": TYPES[field.type],
    }
    if field.has_default_value:
        fact["default"] = field.default_value
    if field.message_type is not None:
        fact["message"] = relative(field.message_type.full_name, package)
    if field.enum_type is not None:
        fact["enum"] = relative(field.enum_type.full_name, package)
    return fact


def described_enum(enum: EnumDescriptor, package: str) -> dict[str, int]:
    added = ADDED.get(relative(enum.full_name, package), {})
    values = {value.name: value.number for value in enum.values}
    assert added.items() <= values.items()
    return {name: number for name, number in values.items() if name not in added}


def described_message(message: Descriptor, package: str) -> dict[str, Any]:
    nested = message.nested_types_by_name
    return {
        "fields": {f.name: described_field(f, package) for f in message.fields},
        "messages": {name: described_message(m, package) for name, m in nested.items()},
        "enums": {n: described_enum(e, package) for n, e in message.enum_types_by_name.items()},
    }


def recorded_message(message: dict[str, Any], package: str) -> dict[str, Any]:
    def own_name(key: str, value: Any) -> Any:
        return relative(value, package) if key in ("message", "enum") else value

    return {
        "fields": {
            field["name"]: {key: own_name(key, value) for key, value in field.items()}
            for field in message["fields"]
        },
        "messages": {
            name: recorded_message(inner, package)
            for name, inner in message.get("messages", {}).items()
        },
        "enums": message.get("enums", {}),
    }


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    facts: dict[str, Any] = json.loads((GOLDEN / "program_schema.json").read_text())["framework"]
    return facts


@needs_golden
def test_messages_are_fluids(schema: dict[str, Any]) -> None:
    ours = framework_pb2.DESCRIPTOR
    assert {
        name: described_message(message, ours.package)
        for name, message in ours.message_types_by_name.items()
    } == {
        name: recorded_message(message, schema["package"])
        for name, message in schema["messages"].items()
    }


@needs_golden
def test_enums_are_fluids(schema: dict[str, Any]) -> None:
    ours = framework_pb2.DESCRIPTOR
    found = {n: described_enum(e, ours.package) for n, e in ours.enum_types_by_name.items()}
    assert found == schema["enums"]


@needs_golden
@pytest.mark.parametrize("model", ["book_fit_a_line", "ncf_mlp"])
def test_recorded_program_survives_a_round_trip(model: str) -> None:
    recorded = (GOLDEN / "zoo" / model / "main.pb").read_bytes()
    program = framework_pb2.ProgramDesc.FromString(recorded)
    assert program.blocks[0].ops
    assert program.SerializeToString() == recorded
