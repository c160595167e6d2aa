"""Bodies of operators with all that plans would give them but the tensors."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from refluid.core.random import RandomSource
from refluid.eager.calls import OperatorCall
from refluid.ir.operator import Operator
from refluid.ops.definition import OperatorDef
from refluid.runtime.kernels import TORCHS_CHOICE, KernelChoice

# What bodies may ask for besides (`OperatorDef.context`).
SUPPLIED = {"device", "random", "need", "counts"}
_LISTS = (list, tuple)


def bound(definition: OperatorDef, op: Operator, call: OperatorCall) -> Callable[..., Any]:
    """The body with the attributes of `op`, and what plans supply."""
    assert definition.body is not None
    given = options(definition, op)
    counts = tuple(len(op.output(slot.name)) for slot in definition.outputs)
    known = {
        "device": call.device,
        "random": RandomSource(call.device),
        "need": tuple(map(bool, counts)),
        "counts": counts,
    }
    given |= {name: known[name] for name in definition.context}
    body = KernelChoice(call.device, TORCHS_CHOICE)(op, definition.body)
    return partial(body, **given) if given else body


def of_ranks(
    definition: OperatorDef, op: Operator, call: OperatorCall
) -> Callable[..., Any] | None:
    """A body for inputs of the ranks of a call that is quicker to call, where there is one."""
    choose, (device, known) = definition.of_ranks, (call.device, TORCHS_CHOICE)
    body = definition.body
    if choose is None or body is None or KernelChoice(device, known)(op, body) is not body:
        return None
    names = [op.input(slot.name) for slot in definition.inputs]
    ranks = tuple(
        len(call.block.var(one[0]).shape) if one and not slot.many else None
        for slot, one in zip(definition.inputs, names, strict=True)
    )
    return choose(ranks, **options(definition, op))


def options(definition: OperatorDef, op: Operator) -> dict[str, Any]:
    """The attributes as keywords of the body, but for defaults."""
    return {
        keyword: _frozen(op.attrs[name])
        for name, keyword in definition.keywords.items()
        if name in op.attrs and op.attrs[name] != definition.attributes[name].default
    }


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, _LISTS) else value
