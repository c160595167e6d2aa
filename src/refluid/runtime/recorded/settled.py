"""What is decided once the shapes of all that is fed are known: which results of a statement."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from refluid.analysis.uses import Key, key_of
from refluid.core.dtypes import as_dtype
from refluid.ir.names import GRAD
from refluid.ir.operator import Operator
from refluid.ops.effects import Effect
from refluid.ops.infer import infer_gradient
from refluid.ops.probing import outputs_of
from refluid.ops.registry import OperatorDef, facts_of, find
from refluid.runtime import pairing
from refluid.runtime.recorded.graph import Layout, Value
from refluid.runtime.steps import Call
from refluid.runtime.trees import IGNORED, Name
from refluid.runtime.writing import CONTROL

_ELSEWHERE = Effect.COMM | Effect.HOST
_KNOWN_CONTEXT = frozenset({"need", "counts", "device", "random"})
PlanNames = Mapping[Key, Name]
NamedValues = Mapping[Name, Value]


def source_of(op: Operator) -> OperatorDef | None:
    """The operator whose body runs: of a gradient operator without one, the forward operator."""
    definition = find(op.type)
    return definition.forward if definition and definition.body is None else definition


def is_ours(op: Operator) -> bool:
    """Whether the operator's code is refluid's own."""
    source = source_of(op)
    if source is None or source.body is None:
        return False
    return source.body.__module__.startswith("refluid.ops.")


def is_pure(op: Operator) -> bool:
    """Whether the operator's code is refluid's own and has no effect but its outputs."""
    source = source_of(op)
    return is_ours(op) and source is not None and not source.context - _KNOWN_CONTEXT


def calls_plainly(step: Call, constants: Mapping[str, object]) -> bool:
    """Whether it calls an operator's own code, rather than that under settings of torch."""
    module = getattr(constants[step.function], "__module__", "")
    return module.startswith("refluid.ops.") or module == pairing.__name__


def settles(op: Operator | None, before: NamedValues) -> bool:
    """Whether shapes decide those of all results, if the statement reads no elements either."""
    if not all(value.settled for value in before.values()):
        return False
    if op is None:
        return True
    if facts_of(op.type).reads:
        return False
    if op.type in CONTROL:
        return all(settles(one, {}) for block in op.sub_blocks() for one in block.ops)
    return is_ours(op)


def overwrites(op: Operator | None) -> bool:
    """Whether the results are variables that the operator is given and changes in place."""
    definition = find(op.type) if op is not None else None
    return definition is not None and bool(definition.mutates)


def is_gathered(made: Tensor, before: NamedValues) -> bool:
    """Whether a tensor that replicas exchanged may have a shape that those of others decide."""
    shapes = [value.layout.shape for value in before.values() if value.layout is not None]
    return made.shape not in shapes


def decided(
    op: Operator | None, names: PlanNames, known: NamedValues, made: Mapping[str, object]
) -> set[str]:
    """Results of a statement that read elements, whose shapes these cannot have changed.

    names: the Python name of each variable. known: the values before the statement. made: what
    stands under each name after it.
    """
    definition = find(op.type) if op is not None else None
    if op is None or definition is None or op.type in CONTROL or not is_ours(op):
        return set()
    if definition.effects & _ELSEWHERE:  # trying it would do it again
        return set()
    if definition.body is None or definition.infer_rule is infer_gradient:
        shapes = _of_gradients(op, names, known)
    else:
        shapes = _of_body(op, definition, names, known)
    return {
        name
        for name, shape in shapes.items()
        if isinstance(thing := made.get(name), Tensor) and tuple(thing.shape) == shape
    }


def _layout(op: Operator, variable: str, names: PlanNames, known: NamedValues) -> Layout | None:
    """Shape and type of a variable, if the shapes of what is fed decide it."""
    value = known.get(names.get(key_of(op.block, variable), IGNORED))
    return value.layout if value is not None and value.settled else None


def _of_body(
    op: Operator, definition: OperatorDef, names: PlanNames, known: NamedValues
) -> dict[str, tuple[int, ...]]:
    """By the body on tensors of these shapes that have no elements."""
    specs = []
    for slot in definition.inputs:
        layouts = [_layout(op, name, names, known) for name in op.input(slot.name)]
        if any(one is None for one in layouts):
            return {}
        given = tuple((tuple(one.shape), as_dtype(one.dtype)) for one in layouts if one)
        specs.append(given if given or not slot.optional else None)
    attrs = tuple(
        (keyword, tuple(value) if isinstance(value := op.attrs[name], list) else value)
        for name, keyword in definition.keywords.items()
        if name in op.attrs
    )
    try:
        results = outputs_of(definition, tuple(specs), attrs)
    except Exception:  # a body that cannot do without elements
        return {}
    return {
        names.get(key_of(op.block, variable), ""): spec[0]
        for slot, made in zip(definition.outputs, results, strict=True)
        for variable, spec in zip(op.output(slot.name), made, strict=False)
        if spec is not None
    }


def _of_gradients(op: Operator, names: PlanNames, known: NamedValues) -> dict[str, tuple[int, ...]]:
    """A gradient has the shape of what it is the gradient of."""
    shapes = {}
    for made in op.output_arg_names:
        origin = _layout(op, made.split(GRAD)[0], names, known)
        if origin is not None:
            shapes[names.get(key_of(op.block, made), "")] = tuple(origin.shape)
    return shapes
