"""Gradients without code: a forward operator run under autograd, and its gradient operator.

Where a plan meets `T_grad` and nobody wrote one, it looks for the operator `T` that made its
inputs. That operator is run recording autograd's graph, and `T_grad` is one call of
`torch.autograd.grad` on what was recorded. Where the forward values were overwritten in
between, or no such operator exists, the forward runs again inside the gradient operator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from refluid.analysis.uses import Key, key_of, writes
from refluid.ir.names import EMPTY, GRAD, without_part
from refluid.ir.operator import Operator
from refluid.ops.registry import OperatorDef, find
from refluid.runtime.trees import Name

AGAIN = ".subprog_"


@dataclass
class Taped:
    """Inputs and outputs of a forward operator with autograd's graph between them."""

    leaves: list[Any]
    outputs: list[Any]


class _Before:
    """The operators before one: by type and gradient, and where each variable was written last."""

    def __init__(self, types: AbstractSet[str]) -> None:
        self._types = types
        self._ops: list[Operator] = []
        self._making: dict[tuple[str, str], list[int]] = {}
        self._written: dict[Key, int] = {}

    def add(self, op: Operator) -> None:
        """The next operator; of other types than those asked for only what it writes counts."""
        position = len(self._ops)
        self._ops.append(op)
        if op.type in self._types:
            for gradient in {"", *_gradients_of_outputs(op)}:
                self._making.setdefault((op.type, gradient), []).append(position)
        for key in writes(op):
            self._written[key] = position

    def forward_of(self, op: Operator, forward: OperatorDef) -> int | None:
        """Where the operator is whose gradient `op` computes, if its inputs are still the same."""
        given = _given(op, forward)
        # One of the gradients suffices to find the few operators that may have made the outputs.
        places = self._making.get((forward.type, min(given, default="")), ())
        for position in reversed(places):
            candidate = self._ops[position]
            if _matches(op, candidate, forward, given):
                read = (key_of(candidate.block, name) for name in candidate.input_arg_names)
                stale = any(self._written.get(key, -1) >= position for key in read)
                return None if stale else position
        return None


@dataclass(frozen=True)
class Pair:
    """What one operator has to do with another: `gradient` reads what `forward` records."""

    forward: int
    gradient: int
    gradient_op: Operator

    @property
    def name(self) -> Name:
        """The plan's name for the recording."""
        return Name(f"k{self.gradient_op.block.idx}_{self.forward}")


def pair_gradients(ops: Sequence[Operator]) -> dict[int, Pair]:
    """Both positions of each pair of a forward operator and its gradient -> that pair."""
    pairs: dict[int, Pair] = {}
    wanted = {name: forward for name in {op.type for op in ops} if (forward := _recorded(name))}
    if not wanted:
        return pairs
    before = _Before({forward.type for forward in wanted.values()})
    for position, op in enumerate(ops):
        forward = wanted.get(op.type)
        made = before.forward_of(op, forward) if forward else None
        if made is not None and made not in pairs:
            pairs[made] = pairs[position] = Pair(made, position, op)
        before.add(op)
    return pairs


def _recorded(name: str) -> OperatorDef | None:
    """Of a gradient that nobody wrote, the operator that is run under autograd."""
    definition = find(name)
    return definition.forward if definition else None


def _gradients_of_outputs(op: Operator) -> set[str]:
    """What is computed again for a gradient has the gradient of what was computed first."""
    return {name.split(AGAIN)[0] + GRAD for names in op.outputs.values() for name in names}


def _given(op: Operator, forward: OperatorDef) -> set[str]:
    """The gradients of outputs that `op` is given."""
    names = (name for slot in forward.outputs for name in op.input(slot.name + GRAD))
    return {without_part(name) for name in names} - {EMPTY}


def _matches(op: Operator, candidate: Operator, forward: OperatorDef, given: set[str]) -> bool:
    slots = {**candidate.outputs, **candidate.inputs}
    same = all(op.input(slot) == slots.get(slot, []) for slot in forward.uses or ())
    return same and given <= _gradients_of_outputs(candidate)


def wanted_inputs(op: Operator, forward: OperatorDef) -> tuple[tuple[bool, ...], ...]:
    """For each forward input slot and variable in it: whether `op` writes its gradient."""
    wanted = []
    for slot in forward.inputs:
        names = op.output(slot.name + GRAD)
        wanted.append(tuple(name != EMPTY for name in names))
    return tuple(wanted)


WantedGradients = tuple[tuple[bool, ...], ...]


def _leaf(value: Any, wanted: tuple[bool, ...]) -> Any:
    if isinstance(value, list):
        flags = [*wanted, *[False] * (len(value) - len(wanted))]
        return [_leaf(one, (flag,)) for one, flag in zip(value, flags, strict=True)]
    if not (isinstance(value, Tensor) and any(wanted)):
        return value
    differentiable = value.is_floating_point() or value.is_complex()
    return value.detach().requires_grad_() if differentiable else value


def _detached(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.detach()
    if isinstance(value, list | tuple) and any(isinstance(one, Tensor) for one in value):
        return [_detached(one) for one in value]
    return value


def recorder(forward: OperatorDef, wanted: WantedGradients) -> Callable[..., Any]:
    """The operator's body made to return `(recording, result)`."""
    body, count = forward.body, len(forward.outputs)
    single = count == 1 and not forward.makes_lod
    assert body is not None

    def run(*inputs: Any, **attrs: Any) -> tuple[Taped, Any]:
        leaves = [_leaf(value, flags) for value, flags in zip(inputs, wanted, strict=True)]
        with torch.enable_grad():
            result = body(*leaves, **attrs)
        if single:
            return Taped(leaves, [result]), _detached(result)
        return Taped(leaves, list(result[:count])), [_detached(one) for one in result]

    return run


def replayer(forward: OperatorDef, wanted: WantedGradients) -> Callable[..., Any]:
    """The gradient operator: from a recording and output gradients to input gradients."""
    order = [slot.name for slot in forward.inputs]
    places = [order.index(slot.name.removesuffix(GRAD)) for slot in forward.gradient_slots()]

    def run(recording: Taped, *grads: Any) -> Any:
        pairs = list(_pairs(recording.outputs, grads))
        leaves = _flat(recording.leaves)
        targets = [leaf for leaf in leaves if isinstance(leaf, Tensor) and leaf.requires_grad]
        found: list[Tensor | None] = [None] * len(targets)
        if pairs and targets:
            outputs, given = zip(*pairs, strict=True)
            found = list(torch.autograd.grad(outputs, targets, given, allow_unused=True))
        lookup = {id(target): grad for target, grad in zip(targets, found, strict=True)}
        results = [_gradients(recording.leaves[place], wanted[place], lookup) for place in places]
        return results[0] if len(results) == 1 else tuple(results)

    return run


def _pairs(outputs: Sequence[Any], grads: Sequence[Any]) -> Any:
    for output, grad in zip(outputs, grads, strict=True):
        if isinstance(output, list | tuple):
            yield from _pairs(output, grad or [None] * len(output))
        elif isinstance(output, Tensor) and output.requires_grad and grad is not None:
            yield output, grad.reshape(output.shape).to(output.dtype)


def _flat(leaves: Sequence[Any]) -> list[Any]:
    flat: list[Any] = []
    for leaf in leaves:
        flat.extend(leaf if isinstance(leaf, list) else [leaf])
    return flat


def _gradients(leaf: Any, flags: tuple[bool, ...], lookup: dict[int, Tensor | None]) -> Any:
    """The gradient of one input slot: a tensor, a list of them, or None where nobody wants it."""
    if isinstance(leaf, list):
        return [_gradients(one, (flag,), lookup) for one, flag in zip(leaf, flags, strict=False)]
    if not any(flags) or not isinstance(leaf, Tensor):
        return None
    grad = lookup.get(id(leaf))
    return torch.zeros_like(leaf) if grad is None else grad


def recompute(forward: OperatorDef, wanted: WantedGradients) -> Callable[..., Any]:
    """The gradient operator that runs its forward again, on the values as they are now."""
    record = recorder(forward, wanted)
    replay = replayer(forward, wanted)
    count = len(forward.inputs)

    def run(*arguments: Any, **attrs: Any) -> Any:
        recording, _ = record(*arguments[:count], **attrs)
        return replay(recording, *arguments[count:])

    return run
