"""Puts finished gradient operators into their block, with the variables they write."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from refluid.autodiff.making import GradientDraft
from refluid.autodiff.naming import GradientNames
from refluid.core.dtypes import VarType
from refluid.ir.block import Block
from refluid.ir.checks import check
from refluid.ir.editor import Editor
from refluid.ir.names import GRAD
from refluid.ir.operator import Operator
from refluid.ir.variable import Variable
from refluid.ops.registry import facts_of

OP_KEY = "__current_op_desc__"
Callback = Callable[[Block, dict[str, Any]], None]


def append_drafts(
    drafts: Iterable[GradientDraft], names: GradientNames, callbacks: Sequence[Callback] = ()
) -> None:
    """Appends the operators in order; after each the callbacks may append more.

    A callback is called as `callback(block, context)`. The context, one mapping for all of them,
    maps the names of all gradients to their variables' names, and `__current_op_desc__` to the
    operator.
    """
    block = names.target
    context: dict[str, Any] = dict(names.variables) if callbacks else {}
    for draft in drafts:
        check(draft.op)
        for name in draft.op.output_arg_names:
            forward = names.forward(name)
            if forward is not None and name not in block.vars:
                _declare(block, name, draft.op, forward)
        Editor(block).append(draft.op)
        if callbacks:
            context[OP_KEY] = draft.op
            with block.program.backward_role_guard():
                for callback in callbacks:
                    callback(block, context)


def _declare(block: Block, name: str, op: Operator, forward: Variable) -> None:
    """A gradient has type, shape, element type and LoD level of its variable."""
    block.create_var(
        name=name,
        type=VarType.SELECTED_ROWS if _sparse(block, name, op, forward) else forward.type,
        shape=forward.shape if forward.has_description() else None,
        dtype=forward.dtype,
        lod_level=forward.lod_level,
        persistable=False,
    )


def _sparse(block: Block, name: str, op: Operator, forward: Variable) -> bool:
    """Whether the operator gives rows of the gradient only, or a block of its own does."""
    facts = facts_of(op.type)
    if facts.sparse and not any(name in op.output(slot) for slot in facts.sparse):
        return False
    if facts.adds:
        parts = [block.var_recursive(name) for name in op.input_arg_names]
        return all(part.type == VarType.SELECTED_ROWS for part in parts)
    inner = [one.vars.get(forward.name + GRAD) for one in op.sub_blocks()]
    rows = any(one is not None and one.type == VarType.SELECTED_ROWS for one in inner)
    return forward.persistable and (rows or bool(op.attrs.get("is_sparse")))
