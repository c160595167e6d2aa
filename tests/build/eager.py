"""A backend that runs operators at once: what `build` asks of one, in its plainest form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from refluid.core.dtypes import as_dtype
from refluid.ir.attributes import convert
from refluid.ir.variable import Variable
from refluid.ops.probing import by_slot
from refluid.ops.registry import OperatorDef, find

CONTEXT = {"device": torch.device("cpu"), "random": lambda seed: None}


class Value(Variable):
    """A variable that holds its tensor, as soon as an operator has written it."""

    def __init__(self, tensor: Tensor | None = None, **options: Any) -> None:
        super().__init__(None, **options)  # type: ignore[arg-type]
        self.tensor = tensor

    @property
    def shape(self) -> tuple[int, ...]:
        return super().shape if self.tensor is None else tuple(self.tensor.shape)

    @property
    def dtype(self) -> Any:
        return super().dtype if self.tensor is None else as_dtype(self.tensor.dtype)


class AtOnce:
    """Runs operators by their bodies. Parameters are given by name, or made by initializers."""

    def __init__(self, parameters: Mapping[str, Tensor] | None = None) -> None:
        self.parameters = {name: Value(one, name=name) for name, one in (parameters or {}).items()}
        self.ran: list[str] = []

    def variable(self, **options: Any) -> Value:
        return Value(**options)

    state = variable

    def parameter(self, initializer: Any, options: dict[str, Any]) -> Value:
        kept = {
            name: options[name]
            for name in ("name", "shape", "dtype", "stop_gradient")
            if name in options
        }
        if options["name"] not in self.parameters:
            made = self.parameters[options["name"]] = Value(**kept)
            initializer(made, None)
        return self.parameters[options["name"]]

    def initialise(self, var: Value, initializer: Any) -> None:
        initializer(var, None)

    def run(
        self,
        type: str,
        inputs: Mapping[str, Any] | None,
        outputs: Mapping[str, Any],
        attrs: Mapping[str, Any] | None,
    ) -> None:
        definition = find(type)
        assert definition is not None and definition.body is not None
        results = definition.body(
            *_arguments(definition, inputs or {}),
            **_attributes(definition, attrs or {}),
            **_context(definition, outputs),
        )
        for slot, tensors in zip(
            definition.outputs, by_slot(definition.outputs, results), strict=True
        ):
            for var, tensor in zip(_listed(outputs.get(slot.name)), tensors, strict=False):
                var.tensor = tensor
        self.ran.append(type)


def _listed(given: Any) -> list[Value]:
    if given is None:
        return []
    return list(given) if isinstance(given, list | tuple) else [given]


def _arguments(definition: OperatorDef, inputs: Mapping[str, Any]) -> list[Any]:
    found = [[one.tensor for one in _listed(inputs.get(slot.name))] for slot in definition.inputs]
    return [
        (tensors or None) if slot.many else (tensors[0] if tensors else None)
        for slot, tensors in zip(definition.inputs, found, strict=True)
    ]


def _attributes(definition: OperatorDef, attrs: Mapping[str, Any]) -> dict[str, Any]:
    made = {}
    for name, keyword in definition.keywords.items():
        declared = definition.attributes[name]
        given = attrs.get(name)
        made[keyword] = declared.default if given is None else convert(given, declared.kind)
    return made


def _context(definition: OperatorDef, outputs: Mapping[str, Any]) -> dict[str, Any]:
    counts = tuple(len(_listed(outputs.get(slot.name))) for slot in definition.outputs)
    known = CONTEXT | {"counts": counts, "need": tuple(map(bool, counts))}
    return {name: known[name] for name in definition.context}
