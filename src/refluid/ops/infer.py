"""Shapes and types of an operator's outputs, found by running its body on meta tensors.

A size that is not known yet (-1) is replaced by a probe. The body runs twice, with two probe
sizes; an output size that changes with the probe is itself unknown. The probes have many
divisors, so that reshapes of an unknown size work out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from refluid.comm import ALONE
from refluid.core.dtypes import VarType, as_dtype, to_torch
from refluid.core.errors import EnforceNotMet
from refluid.core.importing import import_many
from refluid.core.without_dynamo import call_all_plainly
from refluid.ir.operator import Operator
from refluid.ir.schema import Slot
from refluid.ir.variable import Variable
from refluid.ops.reading import probing
from refluid.ops.signature import GRAD

if TYPE_CHECKING:
    from refluid.ops.registry import OperatorDef

call_all_plainly()

# What torch's shape rules import at the first call.
_SHAPES = "torch.fx.experimental.symbolic_shapes"
# Two sizes that stand for an unknown one; smaller ones where a tensor of the first would have more
# elements than can be counted. Each is a multiple of many numbers: layers divide and fold sizes.
PROBES = ((55440, 110880), (2520, 5040), (120, 240))
_META = torch.device("meta")
Infer = Callable[["OperatorDef", Operator], None]
Spec = tuple[tuple[int, ...], VarType]


def infer_by_probing(definition: OperatorDef, op: Operator) -> None:
    """Sets the outputs' shapes and types by the body of the operator."""
    if all(slot.name in definition.mutates for slot in definition.outputs):
        infer_in_place(definition, op)
        return
    inputs: list[tuple[Spec, ...] | None] = []
    for slot in definition.inputs:
        variables = [op.block.var_recursive(name) for name in op.input(slot.name)]
        if any(not var.has_description() for var in variables):
            return
        specs = tuple((var.shape, var.dtype) for var in variables)
        inputs.append(specs if specs or not slot.optional else None)
    attrs = tuple(
        (keyword, _frozen(op.attrs[name]))
        for name, keyword in definition.keywords.items()
        if name in op.attrs
    )
    try:
        results = outputs_of(definition.type, tuple(inputs), attrs)
    except Exception as error:
        raise EnforceNotMet(_explain(definition, op, error)) from error
    for slot, made in zip(definition.outputs, results, strict=True):
        for name, spec in zip(op.output(slot.name), made, strict=False):
            _describe(op.block.var_recursive(name), spec)
    share_lod_level(definition, op)


def share_lod_level(definition: OperatorDef, op: Operator) -> None:
    """Gives output variables the LoD level of the input that they take their LoD from."""
    name = definition.lod_source(op)
    source = op.block.find_var_recursive(name) if name else None
    if source is None:
        return
    for name in op.output_arg_names:
        var = op.block.var_recursive(name)
        if not var.persistable:
            var.lod_level = source.lod_level


def infer_gradient(definition: OperatorDef, op: Operator) -> None:
    """A gradient has the shape and type of what it is the gradient of."""
    for slot, names in op.outputs.items():
        origins = op.input(slot.removesuffix(GRAD))
        for position, name in enumerate(names):
            var = op.block.find_var_recursive(name)
            base = origins[position] if position < len(origins) else name.split(GRAD)[0]
            origin = op.block.find_var_recursive(base)
            if var is not None and origin is not None and origin.has_description():
                var.describe(shape=origin.shape, dtype=origin.dtype)


def infer_like(output: str, source: str) -> Infer:
    """A rule: `output` has the shape and type of input `source`."""

    def rule(definition: OperatorDef, op: Operator) -> None:
        for name, origin in zip(op.output(output), op.input(source), strict=False):
            var = op.block.var_recursive(origin)
            if var.has_description():
                _describe(op.block.var_recursive(name), (var.shape, var.dtype))
        share_lod_level(definition, op)

    return rule


def infer_rows(**outputs: str) -> Infer:
    """A rule: each output has the shape and type of an input but for an unknown number of rows.

    `infer_rows(Out="X")`: keywords are output slots, values input slots.
    """

    def rule(definition: OperatorDef, op: Operator) -> None:
        for output, source in outputs.items():
            for name, origin in zip(op.output(output), op.input(source), strict=False):
                var = op.block.var_recursive(origin)
                if var.has_description():
                    _describe(op.block.var_recursive(name), ((-1, *var.shape[1:]), var.dtype))
        share_lod_level(definition, op)

    return rule


def infer_in_place(definition: OperatorDef, op: Operator) -> None:
    """Outputs that are overwritten inputs have those inputs' shape and type."""
    for out_slot, in_slot in definition.mutates.items():
        infer_like(out_slot, in_slot)(definition, op)


def no_inference(definition: OperatorDef, op: Operator) -> None:
    """A rule for operators whose outputs say nothing before they run."""


def _describe(var: Variable, spec: Spec | None) -> None:
    if spec is not None:
        var.describe(shape=spec[0], dtype=spec[1])


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


@lru_cache(maxsize=4096)
def outputs_of(
    op_type: str,
    inputs: tuple[tuple[Spec, ...] | None, ...],
    attrs: tuple[tuple[str, Any], ...],
) -> list[list[Spec | None]]:
    """Shapes and types of all outputs, slot by slot, by the body on meta tensors of such inputs.

    Unknown sizes are -1: those that follow from unknown ones, or from elements of inputs. Raises
    whatever the body does.
    """
    for sizes in PROBES[:-1]:
        try:
            return _between(op_type, inputs, attrs, sizes)
        except RuntimeError as error:
            if "overflow" not in str(error):
                raise
    return _between(op_type, inputs, attrs, PROBES[-1])


def _between(
    op_type: str,
    inputs: tuple[tuple[Spec, ...] | None, ...],
    attrs: tuple[tuple[str, Any], ...],
    sizes: tuple[int, int],
) -> list[list[Spec | None]]:
    from refluid.ops.registry import find

    definition = find(op_type)
    assert definition is not None
    import_many(_SHAPES)
    unknown = any(min(shape, default=0) < 0 for specs in inputs for shape, _ in specs or ())
    with probing(sizes[0]) as probe:
        first = _probe(definition, inputs, dict(attrs), sizes[0])
    if not unknown and not probe.used:
        return first
    with probing(sizes[1]):
        second = _probe(definition, inputs, dict(attrs), sizes[1])
    return [
        [_merge(one, two) for one, two in zip(*pair, strict=True)]
        for pair in zip(first, second, strict=True)
    ]


def _merge(one: Spec | None, two: Spec | None) -> Spec | None:
    if one is None or two is None:
        return None
    sizes = zip(one[0], two[0], strict=True)
    return tuple(a if a == b else -1 for a, b in sizes), one[1]


def _probe(
    definition: OperatorDef,
    inputs: Sequence[tuple[Spec, ...] | None],
    attrs: dict[str, Any],
    size: int,
) -> list[list[Spec | None]]:
    values: list[Any] = []
    for slot, specs in zip(definition.inputs, inputs, strict=True):
        tensors = [_meta(spec, size) for spec in specs or ()]
        values.append((tensors or None) if slot.many else (tensors[0] if tensors else None))
    context: dict[str, Any] = {"comm": ALONE, "device": _META, "random": lambda seed: None}
    context["counts"] = (1,) * len(definition.outputs)
    given = {name: context[name] for name in definition.context}
    assert definition.body is not None
    with torch.no_grad():
        result = definition.body(*values, **attrs, **given)
    return [[_spec(one) for one in slot] for slot in by_slot(definition.outputs, result)]


def by_slot(slots: tuple[Slot, ...], result: Any) -> list[list[Tensor | None]]:
    """What a body returned, as one list per output slot."""
    parts = (result,) if len(slots) == 1 else result
    return [
        list(part) if slot.many and part is not None else [part]
        for slot, part in zip(slots, parts, strict=True)
    ]


def _meta(spec: Spec, size: int) -> Tensor:
    shape = [size if one < 0 else one for one in spec[0]]
    return torch.empty(shape, dtype=to_torch(spec[1]), device=_META)


def _spec(value: Tensor | None) -> Spec | None:
    if value is None:
        return None
    return tuple(value.shape), as_dtype(value.dtype)


def _explain(definition: OperatorDef, op: Operator, error: Exception) -> str:
    shapes = ", ".join(
        f"{slot}={[list(op.block.var_recursive(name).shape) for name in names]}"
        for slot, names in op.inputs.items()
        if names
    )
    where = "\n".join(op.callstack)
    return f"operator {definition.type} can't take inputs of shape {shapes}: {error}\n{where}"
