"""What operators on sequences share: the sequences of a value, and how results are described."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from torch import Tensor

from refluid.core.dtypes import VarType
from refluid.core.errors import EnforceNotMet
from refluid.core.offsets import Levels, Offsets
from refluid.ir.operator import Operator
from refluid.ir.variable import Variable
from refluid.ops.infer import Infer, share_lod_level
from refluid.ops.unknown import reckoned

if TYPE_CHECKING:
    from refluid.ops.registry import OperatorDef

LodRule = Callable[..., Any]
LodRules = Mapping[str, LodRule]


def sequences_of(rows: Tensor, lod: Levels, slot: str = "X", levels: int = 0) -> Offsets:
    """The sequences that the rows of input `slot` form.

    levels: how many levels there may be, any number where 0. EnforceNotMet where the input has
    others or none, or where its sequences cover another number of rows.
    """
    if not lod:
        raise EnforceNotMet(
            f"{slot} has no sequences (LoD): feed it as a LoDTensor with "
            "recursive_sequence_lengths, or give it some with lod_reset"
        )
    if levels and len(lod) != levels:
        raise EnforceNotMet(
            f"{slot} must have sequences of {levels} level, but its LoD has {len(lod)} levels: "
            f"{offsets_of(lod)}"
        )
    if lod[-1].total != rows.shape[0]:
        raise EnforceNotMet(
            f"the sequences of {slot} cover {lod[-1].total} rows but it has {rows.shape[0]}"
        )
    return lod[-1]


def outer_sequences_of(rows: Tensor, lod: Levels, slot: str = "X") -> Offsets:
    """The sequences of the first level, which Fluid takes for rows in some operators.

    EnforceNotMet as `sequences_of`: so of several levels only one of single rows will do.
    """
    return sequences_of(rows, lod[:1], slot)


def rows_of_outermost(lod: Levels) -> Levels:
    """The sequences of the first level alone, counted in rows."""
    if len(lod) < 2:
        return lod
    offsets = lod[0]
    for below in lod[1:]:
        offsets = offsets.through(below)
    return (offsets,)


def offsets_of(lod: Levels) -> str:
    """The offsets, for messages."""
    return str([list(level.values) for level in lod])


def infer_from(
    shapes: LodRules,
    *,
    levels: LodRules | None = None,
    dtypes: Mapping[str, VarType | None] | None = None,
) -> Infer:
    """A rule: `{"Out": lambda X, new_dim: (-1, new_dim)}` gives the shape of each output.

    The functions' parameters name input slots, whose shapes they get (a list of them for a slot
    of many), and attributes. `levels` gives the number of nested sequence levels likewise from
    those of the inputs. Element types are those of the first input but for `dtypes`, where None
    leaves what the output had. A shape of None says nothing.
    """

    def rule(definition: OperatorDef, op: Operator) -> None:
        inputs = [op.block.var_recursive(name) for name in op.input_arg_names]
        if not all(var.has_description() for var in inputs):
            return
        share_lod_level(definition, op)
        first = op.block.var_recursive(op.input(definition.inputs[0].name)[0])
        kinds = dict.fromkeys(shapes, first.dtype) | dict(dtypes or {})
        for slot, shape_of in shapes.items():
            shape = _apply(shape_of, definition, op, lambda var: reckoned(var.shape))
            for name in op.output(slot) if shape is not None else ():
                op.block.var_recursive(name).describe(shape=shape, dtype=kinds[slot])
        for slot, level_of in (levels or {}).items():
            for name in op.output(slot):
                level = _apply(level_of, definition, op, lambda var: var.lod_level)
                op.block.var_recursive(name).lod_level = level

    return rule


def _apply(
    rule: LodRule, definition: OperatorDef, op: Operator, what: Callable[[Variable], Any]
) -> Any:
    slots = {slot.name: slot for slot in definition.inputs}
    code = rule.__code__
    arguments: list[Any] = []
    for name in code.co_varnames[: code.co_argcount]:
        if name not in slots:
            default = definition.attributes[name].default
            arguments.append(op.attrs.get(name, default))
            continue
        found = [what(op.block.var_recursive(one)) for one in op.input(name)]
        arguments.append(found if slots[name].many else (found[0] if found else None))
    return rule(*arguments)
