"""`fluid.op`: operators as messages, made by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from refluid.fluid.graphs.operator_protos import operator_proto, operator_types
from refluid.ir import framework_pb2 as pb
from refluid.ir.attributes import AttrType

__all__ = ["OpDescCreationMethod", "OpInfo", "Operator", "OperatorFactory", "get_all_op_protos"]

# Where a message keeps the value of an attribute of a type.
_FIELDS = {
    AttrType.INT: "i",
    AttrType.FLOAT: "f",
    AttrType.STRING: "s",
    AttrType.INTS: "ints",
    AttrType.FLOATS: "floats",
    AttrType.STRINGS: "strings",
    AttrType.BOOLEAN: "b",
    AttrType.BOOLEANS: "bools",
    AttrType.LONG: "l",
    AttrType.LONGS: "longs",
}


def get_all_op_protos() -> list[pb.OpProto]:
    """The slots and attributes of all operators."""
    return [operator_proto(op_type) for op_type in operator_types()]


def is_str(s: Any) -> bool:
    """Whether something is text."""
    return isinstance(s, str)


class OpDescCreationMethod:
    """Makes `OpDesc` messages of one operator: slots and attributes are given by name."""

    def __init__(self, op_proto: pb.OpProto) -> None:
        if not isinstance(op_proto, pb.OpProto):
            raise TypeError(f"Type of op_proto should be OpProto, not {type(op_proto).__name__}.")
        self.__op_proto__ = op_proto
        self.__extra_attrs__: list[str] = []

    def __call__(self, *args: Any, **kwargs: Any) -> pb.OpDesc:
        if args:
            raise ValueError("Only keyword arguments are supported.")
        proto = self.__op_proto__
        desc = pb.OpDesc(type=proto.type)
        for slots, filled in ((proto.inputs, desc.inputs), (proto.outputs, desc.outputs)):
            for slot in slots:
                given = kwargs.get(slot.name, [])
                names = [given] if is_str(given) else list(given)
                if len(names) > 1 and not slot.duplicable:
                    raise ValueError(f"{slot.name} of {proto.type} takes one variable: {names}")
                filled.add(parameter=slot.name, arguments=names)
        for attr in proto.attrs:
            if attr.name in kwargs:
                desc.attrs.append(_attribute(attr, kwargs[attr.name]))
        return desc

    @staticmethod
    def any_is_true(generator: Iterable[Any]) -> bool:
        """Whether one of the values is true."""
        return any(generator)


def _attribute(attr: pb.OpProto.Attr, value: Any) -> pb.OpDesc.Attr:
    kind = AttrType(attr.type)
    if kind not in _FIELDS:
        raise NotImplementedError(f"a message with {attr.name}, a {kind.name}, can't be made")
    return pb.OpDesc.Attr(name=attr.name, type=attr.type, **{_FIELDS[kind]: value})


class OpInfo:
    """What is known of an operator, and the method that makes its messages."""

    def __init__(
        self,
        name: str,
        method: Callable[..., pb.OpDesc],
        inputs: list[tuple[str, bool]],
        outputs: list[tuple[str, bool]],
        attrs: list[str],
    ) -> None:
        self.name = name
        self.method = method
        self.inputs = inputs
        self.outputs = outputs
        self.attrs = attrs


def create_op_creation_method(op_proto: pb.OpProto) -> OpInfo:
    """The method that makes messages of an operator, with what is known of it."""
    return OpInfo(
        op_proto.type,
        OpDescCreationMethod(op_proto),
        [(slot.name, slot.duplicable) for slot in op_proto.inputs],
        [(slot.name, slot.duplicable) for slot in op_proto.outputs],
        [attr.name for attr in op_proto.attrs],
    )


class OperatorFactory:
    """Makes messages of operators by name: `Operator("mul", X="a", Y="b", Out="c")`."""

    def __init__(self) -> None:
        self.op_methods: dict[str, OpInfo] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> pb.OpDesc:
        if "type" in kwargs:
            if args:
                raise ValueError(
                    'Except the argument "type", all of the other arguments '
                    "should be keyword arguments."
                )
            args = (kwargs.pop("type"),)
        if len(args) != 1:
            raise ValueError("the type of the operator is the only argument without a name")
        return self.get_op_info(args[0]).method(**kwargs)

    def types(self) -> list[str]:
        """All operators, by name."""
        return operator_types()

    def get_op_info(self, t: str) -> OpInfo:
        """What is known of an operator; ValueError for an unknown one."""
        if t not in self.op_methods:
            self.op_methods[t] = create_op_creation_method(operator_proto(t))
        return self.op_methods[t]

    def get_op_input_names(self, type: str) -> list[str]:
        """Its input slots, by name."""
        return [name for name, _ in self.get_op_info(type).inputs]

    def get_op_inputs(self, type: str) -> list[tuple[str, bool]]:
        """Its input slots, each with whether it takes several variables."""
        return self.get_op_info(type).inputs

    def get_op_output_names(self, type: str) -> list[str]:
        """Its output slots, by name."""
        return [name for name, _ in self.get_op_info(type).outputs]

    def get_op_outputs(self, type: str) -> list[tuple[str, bool]]:
        """Its output slots, each with whether it gives several variables."""
        return self.get_op_info(type).outputs

    def get_op_attr_names(self, type: str) -> list[str]:
        """Its attributes, by name."""
        return self.get_op_info(type).attrs


Operator = OperatorFactory()
