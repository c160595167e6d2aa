"""Rules for what a program says of an operator's outputs: shapes, types, LoD levels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from refluid.core.advice import fix_line, in_plain_words
from refluid.core.causes import shown_cause
from refluid.core.dtypes import FLOATING, VarType, dtype_name
from refluid.core.errors import EnforceNotMet
from refluid.ir.names import GRAD
from refluid.ir.operator import Operator
from refluid.ir.variable import Variable
from refluid.ops.element_types import INT64, wrong_kind
from refluid.ops.probing import Attributes, Outputs, outputs_of
from refluid.ops.probing import InputSpec as InputSpec

if TYPE_CHECKING:
    from refluid.ops.definition import OperatorDef

Specs = list[tuple[InputSpec, ...] | None]
Infer = Callable[["OperatorDef", Operator], None]


def infer_by_probing(
    definition: OperatorDef, op: Operator, taken: Mapping[str, Sequence[int]] = MappingProxyType({})
) -> None:
    """Sets the outputs' shapes and types by the body of the operator.

    taken: variables that are taken to have another shape than they declare.
    """
    if all(slot.name in definition.mutates for slot in definition.outputs):
        infer_in_place(definition, op)
        return
    inputs: Specs = []
    for slot in definition.inputs:
        variables = [op.block.var_recursive(name) for name in op.input(slot.name)]
        if any(not var.has_description() for var in variables):
            return
        specs = tuple((tuple(taken.get(v.name, v.shape)), v.dtype) for v in variables)
        inputs.append(specs if specs or not slot.optional else None)
    attrs = tuple(
        (keyword, _frozen(op.attrs[name]))
        for name, keyword in definition.keywords.items()
        if name in op.attrs
    )
    try:
        results = _outputs_of(definition, inputs, attrs)
    except Exception as error:
        says = wrong_kind(op)
        found = error if says is None else EnforceNotMet(says)
        raise EnforceNotMet(_explain(op, found)) from shown_cause(error)
    for slot, made in zip(definition.outputs, results, strict=True):
        for name, spec in zip(op.output(slot.name), made, strict=False):
            _describe(op.block.var_recursive(name), spec)
    share_lod_level(definition, op)


def _outputs_of(definition: OperatorDef, inputs: Specs, attrs: Attributes) -> Outputs:
    try:
        return outputs_of(definition, tuple(inputs), attrs)
    except ValueError:
        fed = _with_integers(definition, inputs)
        if fed == inputs:
            raise
        return outputs_of(definition, tuple(fed), attrs)


def _with_integers(definition: OperatorDef, inputs: Specs) -> Specs:
    """The inputs with int64 where kernels take nothing else: a label that was declared without a
    type may be fed as integers, which `fluid.layers.data` lets through."""
    whole = INT64.get(definition.type, ())
    return [
        tuple((shape, VarType.INT64 if kind in FLOATING else kind) for shape, kind in specs)
        if specs and slot.name in whole
        else specs
        for slot, specs in zip(definition.inputs, inputs, strict=True)
    ]


def share_lod_level(definition: OperatorDef, op: Operator) -> None:
    """Gives output variables the LoD level of the input that they take their LoD from."""
    for slot, names in op.outputs.items():
        for position, name in enumerate(names):
            giver = definition.lod_source(op, slot, position)
            source = op.block.find_var_recursive(giver) if giver else None
            if source is None:
                continue
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


def _describe(var: Variable, spec: InputSpec | None) -> None:
    if spec is not None:
        var.describe(shape=spec[0], dtype=spec[1])


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def refuse_pythons(op: Operator, error: Exception) -> None:
    """EnforceNotMet, with the inputs' shapes, in place of an error that a rule didn't raise."""
    from refluid.core.arguments import is_pythons

    if is_pythons(error):
        raise EnforceNotMet(_explain(op, error)) from shown_cause(error)


def say_where(op: Operator, error: EnforceNotMet) -> None:
    """EnforceNotMet, with the inputs' shapes and the user's line, in place of one without."""
    if f"operator {op.title}" not in str(error):
        raise EnforceNotMet(_explain(op, error)) from shown_cause(error)


def _explain(op: Operator, error: Exception) -> str:
    inputs = [
        (slot, op.block.var_recursive(name)) for slot, names in op.inputs.items() for name in names
    ]
    given = "".join(
        f"\n  {slot}({var.name}): {dtype_name(var.dtype)}{list(var.shape)}" for slot, var in inputs
    )
    where = f"\n{op.made_at}" if op.made_at else ""
    says = in_plain_words(error)
    return f"operator {op.title} can't take its inputs: {says}{given}{where}" + fix_line(str(error))
