"""One operator at a time: a plan of a single operator, kept for all calls that look the same.

Which gradient an operator has decides how autograd comes to know it. Where Fluid's gradient
operator is derived from the body, the body runs under autograd. Where somebody wrote it, a
`torch.autograd.Function` runs the plan of the gradient operators instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor

from refluid.build import apply
from refluid.core import flags
from refluid.core.errors import EnforceNotMet
from refluid.core.offsets import Levels
from refluid.core.selected_rows import SelectedRows
from refluid.eager.apart import apart, cut, detached, was_cut
from refluid.eager.running import Declared, Running
from refluid.ir.block import Block
from refluid.ir.names import EMPTY, GRAD
from refluid.ir.operator import Operator
from refluid.ir.program import Program
from refluid.kernels.products import torch_derives
from refluid.kernels.settings import without_gradients
from refluid.ops.definition import GradOp
from refluid.ops.registry import defined, gradient_ops

# Slot -> how many variables.
Counts = Sequence[tuple[str, int]]


class OperatorCall:
    """An operator with the structure of its arguments and its attributes.

    shapes: of the first call's inputs, by which its attributes are checked. feeds: names of the
    inputs, in the order of slots. changed: those it overwrites, of which the
    variable itself is given (`Running.state` names their cells). fetches: names of the outputs.
    """

    def __init__(
        self,
        type: str,
        inputs: Counts,
        outputs: Counts,
        attrs: Mapping[str, Any],
        declared: Declared,
        shapes: Sequence[Sequence[int]],
        device: torch.device,
    ) -> None:
        self.definition, self.device = defined(type), device
        changed = {
            (slot, own) for slot, own in self.definition.mutates.items() if slot in dict(outputs)
        }
        mutated = {own for _, own in changed}
        renamed = dict(changed)
        given = {slot: [f"{slot}{n}" for n in range(count)] for slot, count in inputs}
        made = {
            slot: given[renamed[slot]] if slot in renamed else [f"{slot}{n}" for n in range(count)]
            for slot, count in outputs
        }
        self.names = tuple(name for slot, _ in inputs for name in given[slot])
        self.changed = tuple(name for slot, _ in inputs if slot in mutated for name in given[slot])
        self.feeds = tuple(name for name in self.names if name not in self.changed)
        self.fetches = tuple(name for slot, _ in outputs for name in made[slot])
        self.lods = frozenset(self.names[n] for n in declared.lods) & frozenset(self.feeds)
        self.block = Program().global_block()
        self._declare(declared, shapes)
        for name in dict.fromkeys(self.fetches):
            if name not in self.names:
                self.block.create_var(name=name)
        self.op: Operator = apply(type, given, made, attrs, block=self.block)
        self.forward = Running(self.block, self.feeds, self.fetches, self.lods, device, True)
        self._backward: dict[Any, Backward] = {}

    def _declare(self, declared: Declared, shapes: Sequence[Sequence[int]]) -> None:
        for name, dtype, shape in zip(self.names, declared.dtypes, shapes, strict=True):
            self.block.create_var(
                name=name,
                shape=shape,
                dtype=dtype,
                persistable=name in self.changed,
                lod_level=len(declared.lods) and 1,
            )

    @cached_property
    def gradients(self) -> list[GradOp]:
        """The operators of its gradient."""
        return gradient_ops(self.op)

    @cached_property
    def derived(self) -> bool:
        """Whether its gradient is that of its body."""
        how = self.definition.by_autograd
        if how and flags.value("refluid_eager_direct"):
            faster = how == "products" and torch_derives() < math.inf
            return not (self.op.attrs.get("is_sparse") or faster or self.whole is None)
        return all(defined(one.type).body is None for one in self.gradients)

    @cached_property
    def whole(self) -> Backward | None:
        """The gradients of all inputs; None where Fluid refuses to compute them."""
        try:
            return self.backward((True,) * len(self.feeds), frozenset())
        except EnforceNotMet:
            return None

    @cached_property
    def constant(self) -> frozenset[str]:
        """The inputs that Fluid gives no gradient."""
        made = {name for one in self.gradients for names in one.outputs.values() for name in names}
        return frozenset(name for name in self.names if name + GRAD not in made)

    @cached_property
    def silent(self) -> frozenset[str]:
        """The outputs whose gradient Fluid doesn't ask for."""
        read = {name for one in self.gradients for names in one.inputs.values() for name in names}
        return frozenset(name for name in self.fetches if name + GRAD not in read)

    def run(
        self,
        feeds: Sequence[Any],
        cells: Sequence[Any],
        levels: Sequence[Levels],
        owners: Sequence[Any] = (),
    ) -> Any:
        """The outputs and their LoD. owners: variables fed, which get rows where gradients are."""
        takes = torch.is_grad_enabled() and any(getattr(x, "requires_grad", 0) for x in feeds)
        if not takes or not self.gradients:
            return without_gradients(self._plainly, feeds, cells, levels)
        if self.constant:
            feeds = [
                cut(one) if name in self.constant else one
                for name, one in zip(self.feeds, feeds, strict=True)
            ]
        if self.derived:
            results, lods = self.forward.run(feeds, cells, levels)
            return [
                detached(one) if name in self.silent else one
                for name, one in zip(self.fetches, self._apart(results, feeds), strict=True)
            ], lods
        found: list[Any] = []
        keeps = owners if self.op.attrs.get("is_sparse") else ()
        results = _apply(self, cells, levels, (found, keeps), *feeds)
        return self._apart(results, feeds), found[0]

    def _plainly(self, feeds: Any, cells: Any, levels: Sequence[Levels]) -> Any:
        results, lods = self.forward.run(feeds, cells, levels)
        return self._apart(results, feeds), lods

    def _apart(self, results: Sequence[Any], feeds: Sequence[Any]) -> Sequence[Any]:
        if not self.definition.views:
            return results
        return [apart(one, feeds, copies=self.definition.copies) for one in results]

    def backward(self, needed: tuple[bool, ...], lods: frozenset[str]) -> Backward:
        """The gradients of those of `feeds` that are needed. lods: what has one."""
        made = self._backward.get((needed, lods))
        if made is None:
            made = self._backward[needed, lods] = Backward(self, needed, lods)
        return made


class Backward:
    """The gradient operators of a call, for some of its inputs.

    reads: which forward values they take, by name. wants: which gradients of outputs.
    """

    def __init__(self, call: OperatorCall, needed: tuple[bool, ...], lods: frozenset[str]) -> None:
        self.block = block = Program().global_block()
        targets = [name for name, wanted in zip(call.feeds, needed, strict=True) if wanted]
        kept = {name + GRAD for name in targets}
        made: set[str] = set()
        read: dict[str, None] = {}
        for one in call.gradients:
            outputs = {
                slot: [name if name in kept else EMPTY for name in names]
                for slot, names in one.outputs.items()
            }
            written = {name for names in outputs.values() for name in names} - {EMPTY}
            if not written:
                continue
            read |= dict.fromkeys(
                name for names in one.inputs.values() for name in names if name not in made
            )
            made |= written
            self._append(block, call.op, one, outputs)
        forward = {*call.feeds, *call.fetches, *call.changed}
        # What has a LoD is there for it, read or not: gradients take theirs from it.
        self.reads = tuple(
            name for name in {**read, **dict.fromkeys(sorted(lods))} if name in forward
        )
        self.wants = tuple(name for name in read if name not in forward and name != EMPTY)
        self.slopeless = [
            name in call.fetches and name + GRAD not in self.wants for name in self.reads
        ]
        self.gives = tuple(name + GRAD if name + GRAD in made else None for name in call.feeds)
        fetches = tuple(name for name in self.gives if name is not None)
        feeds = (*self.reads, *self.wants)
        fed = frozenset(name for name in feeds if name.removesuffix(GRAD) in lods)
        self.running = Running(block, feeds, fetches, fed, call.device)

    def _append(
        self, block: Block, op: Operator, one: GradOp, outputs: Mapping[str, Sequence[str]]
    ) -> None:
        for names in (*one.inputs.values(), *outputs.values()):
            for name in names:
                if name != EMPTY and not block.has_var(name):
                    var = op.block.vars.get(name.removesuffix(GRAD))
                    level = None if var is None else var.lod_level
                    block.create_var(name=name, lod_level=level)
        attrs = op.attrs if one.attrs is None else one.attrs
        apply(one.type, one.inputs, outputs, attrs, block=block)


class _Written(torch.autograd.Function):
    """An operator with the gradient that Fluid gives it."""

    @staticmethod
    def forward(
        ctx: Any, call: OperatorCall, cells: Any, levels: Any, beside: Any, *feeds: Any
    ) -> tuple[Any, ...]:
        found, ctx.owners = beside
        results, lods = call.forward.run(feeds, cells, levels)
        found.append(lods)
        needed = tuple(ctx.needs_input_grad[4:])
        of_names = dict(zip((*call.feeds, *call.fetches), (*levels, *lods), strict=True))
        ctx.levels = {name: one for name, one in of_names.items() if one}
        ctx.call, ctx.made = call, None
        without = any(defined(one.type).once for one in call.gradients)
        ctx.once = without or any(map(was_cut, feeds))
        ctx.set_materialize_grads(False)
        try:
            ctx.made = call.backward(needed, frozenset(ctx.levels))
        except EnforceNotMet as error:  # it can't be computed, which matters if it is asked for
            ctx.error = error
        values = dict(zip(call.feeds, feeds, strict=True))
        values |= dict(zip(call.fetches, results, strict=True))
        values |= {name: cell.value for name, cell in zip(call.forward.state, cells, strict=True)}
        saved = [values[name] for name in ctx.made.reads] if ctx.made else []
        ctx.save_for_backward(*(one if isinstance(one, Tensor) else None for one in saved))
        ctx.others = [None if isinstance(one, Tensor) else one for one in saved]
        ctx.shapes = {
            name + GRAD: (one.shape, one.dtype)
            for name, one in zip(call.fetches, results, strict=True)
            if isinstance(one, Tensor)
        }
        # What is an output of its own would lead back here for good, where it stays.
        known = (*feeds, *(cell.value for cell in cells))
        return tuple(
            one.view_as(one) if any(one is given for given in known) else one for one in results
        )

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Any, ...]:
        call, made = ctx.call, ctx.made
        if made is None:
            raise ctx.error
        saved = [
            one if tensor is None else tensor
            for tensor, one in zip(ctx.saved_tensors, ctx.others, strict=True)
        ]
        given = {name + GRAD: one for name, one in zip(call.fetches, grads, strict=True)}
        wanted = [
            torch.zeros(ctx.shapes[name][0], dtype=ctx.shapes[name][1], device=call.device)
            if given[name] is None
            else given[name]
            for name in made.wants
        ]
        names = (*made.reads, *made.wants)
        levels = [ctx.levels.get(name.removesuffix(GRAD), ()) for name in names]
        run, second = made.running.run, torch.is_grad_enabled()
        if second:
            from refluid.eager.second import answered, followed, kept

            saved, run = kept(saved, made.slopeless, call.op.type), partial(followed, run)
        found = iter(run((*saved, *wanted), (), levels)[0])
        gradients = [next(found) if one else None for one in made.gives]
        for number, owner in enumerate(ctx.owners):
            if isinstance(gradients[number], SelectedRows) and owner.takes_rows:
                owner.add_rows(gradients[number])
                gradients[number] = None
        gradients = [*map(_dense, gradients)]
        if second:
            gradients = answered(ctx, gradients, given.values())
        return (None, None, None, None, *gradients)


def _dense(value: Any) -> Any:
    return value.to_dense() if isinstance(value, SelectedRows) else value


_apply: Callable[..., Any] = _Written.apply
