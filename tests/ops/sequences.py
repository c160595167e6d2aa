"""Calls bodies of operators on sequences directly: with a LoD, and with their gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from refluid.core.offsets import Levels, Offsets, as_levels
from refluid.ops.probing import by_slot
from refluid.ops.registry import GRAD, OperatorDef, find

Lods = dict[str, Any]


def levels(*lengths: list[int]) -> Levels:
    """A LoD from lengths, coarsest level first."""
    return tuple(Offsets.of_lengths(level) for level in lengths)


def random(*shape: int, seed: int = 0) -> Tensor:
    """Numbers of which no two are equal."""
    return torch.tensor(np.random.RandomState(seed).standard_normal(shape))


def split(rows: Tensor, lengths: list[int]) -> list[Any]:
    """The rows of each sequence, as arrays."""
    return np.split(rows.numpy(), np.cumsum(lengths)[:-1])


def definition(op_type: str) -> OperatorDef:
    """The operator of that type."""
    found = find(op_type)
    assert found is not None
    return found


def call(op_type: str, inputs: dict[str, Any], lods: Lods, **attrs: Any) -> list[Any]:
    """What the body returns, the LoD that it makes at the end."""
    op = definition(op_type)
    assert op.body is not None
    values = [inputs.get(slot.name) for slot in op.inputs]
    given = {keyword: lods.get(slot, ()) for keyword, slot in op.levels.items()}
    context = {"need": (True,) * len(op.outputs), "device": torch.device("cpu")}
    given |= {name: context[name] for name in op.context}
    known = {name: value for name, value in attrs.items() if name in op.keywords}
    result = op.body(*values, **given, **{op.keywords[name]: known[name] for name in known})
    single = len(op.outputs) + len(op.makes_lod) == 1
    return [result] if single else list(result)


def by_hand(op_type: str, inputs: dict[str, Any], lods: Lods, **attrs: Any) -> dict[str, Any]:
    """Gradients of the sum of the outputs' squares, from the gradient operator's body."""
    op = definition(op_type)
    made = call(op_type, inputs, lods, **attrs)
    outputs = dict(zip((slot.name for slot in op.outputs), made, strict=False))
    made_lods = dict(zip(op.makes_lod, made[len(op.outputs) :], strict=True))
    first = _main_output(op)
    known = {**inputs, **outputs, first + GRAD: 2 * outputs[first]}
    grad = definition(op_type + "_grad")
    result = call(grad.type, known, lods | made_lods, **attrs)[: len(grad.outputs)]
    slots = by_slot(grad.outputs, tuple(result) if len(grad.outputs) > 1 else result[0])
    return {
        slot.name.removesuffix(GRAD): one for slot, one in zip(grad.outputs, slots, strict=True)
    }


def by_autograd(op_type: str, inputs: dict[str, Any], lods: Lods, **attrs: Any) -> dict[str, Any]:
    """The same gradients, by autograd through the forward body."""
    op = definition(op_type)
    names = [slot.name.removesuffix(GRAD) for slot in op.gradient_slots()]
    leaves = {name: _leaves(inputs[name]) for name in names if inputs.get(name) is not None}
    made = call(op_type, inputs | leaves, lods, **attrs)
    outputs = dict(zip((slot.name for slot in op.outputs), made, strict=False))
    outputs[_main_output(op)].square().sum().backward()
    return {
        name: [one.grad for one in (leaf if isinstance(leaf, list) else [leaf])]
        for name, leaf in leaves.items()
    }


def _main_output(op: OperatorDef) -> str:
    return op.outputs[0].name


def _leaves(value: Any) -> Any:
    if isinstance(value, list):
        return [_leaves(one) for one in value]
    return value.detach().clone().requires_grad_()


__all__ = ["as_levels", "by_autograd", "by_hand", "call", "definition", "levels", "random", "split"]
