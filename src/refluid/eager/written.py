"""Operators whose gradient somebody wrote, for torch's autograd: both bodies on tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from refluid.core import flags
from refluid.core.advice import fix_line, in_plain_words
from refluid.core.errors import EnforceNotMet
from refluid.core.selected_rows import SelectedRows
from refluid.eager.apart import was_cut
from refluid.eager.calls import OperatorCall
from refluid.eager.shared_weights import shared_weights
from refluid.ir.attributes import convert
from refluid.ir.names import GRAD
from refluid.ir.operator import Operator
from refluid.ops.definition import OperatorDef
from refluid.ops.probing import by_slot
from refluid.ops.registry import defined, gradient_ops
from refluid.runtime.failure import described
from refluid.runtime.kernels import TORCHS_CHOICE, KernelChoice

# Where a tensor is: ("saved", n), ("slope", n) or ("", 0) for none.
Place = tuple[str, int]
_CONTEXT = {"device", "need", "counts"}


class WrittenGradient:
    """A call whose gradient is that of one written operator.

    given: slot -> how many variables in a list, -1 for a single one, None for none. body: the
    operator on values by slot. weight: the place among the inputs of one whose gradient is a sum
    over those of `rows_of`; -1 for none. rows: whether what is saved, and then the slopes, have
    these rows.
    """

    def __init__(
        self,
        call: OperatorCall,
        op: Operator,
        given: Sequence[tuple[str, int | None]],
        body: Callable[..., Any],
    ) -> None:
        assert call.whole is not None
        (gradient,) = call.whole.block.ops
        self.op, self.body = op, body
        self._counts = [count for _, count in given if count is not None]
        self._nones = [number for number, (_, count) in enumerate(given) if count is None]
        self._lists = any(count >= 0 for count in self._counts) or bool(self._nones)
        self._outputs, mutates = call.definition.outputs, call.definition.mutates
        self._single = len(self._outputs) == 1 and not self._outputs[0].many and not mutates
        self._sources = [
            call.names.index(op.output(slot.name)[0]) if slot.name in mutates else -1
            for slot in self._outputs
        ]
        fetched = [
            name
            for slot, source in zip(self._outputs, self._sources, strict=True)
            if source < 0
            for name in (op.output(slot.name) if slot.many else [*op.output(slot.name), ""][:1])
        ]
        own = {name: ("out", n) for n, name in enumerate(fetched) if name}
        own |= {name: ("in", n) for n, name in enumerate(call.names)}
        definition = defined(gradient.type)
        slots = [gradient.input(slot.name) for slot in definition.inputs]
        read = [name for names in slots for name in names if name in own]
        saved = list(dict.fromkeys(read))
        self.saves = tuple(own[name] for name in saved)
        wanted = [name + GRAD for name in fetched]
        self._results = len(fetched)
        self.wants = tuple(n for n, name in enumerate(wanted) if any(name in one for one in slots))

        def place(name: str) -> Place:
            if name in own:
                return "saved", saved.index(name)
            return ("slope", wanted.index(name)) if name in wanted else ("", 0)

        self.slopeless = [kind == "out" and n not in self.wants for kind, n in self.saves]
        self._slots = tuple(
            ([place(name) for name in names] or None)
            if slot.many
            else (place(names[0]) if names else None)
            for slot, names in zip(definition.inputs, slots, strict=True)
        )
        self._prepare_gradient(call, gradient)
        self._prepare_sum(call, saved)

    def _prepare_sum(self, call: OperatorCall, saved: Sequence[str]) -> None:
        op = self.op
        self.weight, self.rows_of = -1, -1
        self.rows: tuple[bool, ...] = ()
        for weight, rows in ({} if self._lists else sums_rows(call.definition, op)).items():
            self.weight = call.names.index(op.input(weight)[0])
            self.rows_of = call.names.index(op.input(rows)[0])
            beside = {*op.input_arg_names} - {*op.input(rows)}
            self.rows = (*(name not in beside for name in saved), *(True for _ in self.wants))

    def _prepare_gradient(self, call: OperatorCall, gradient: Operator) -> None:
        op, definition = self.op, defined(gradient.type)
        positions = {name + GRAD: n for n, name in enumerate(call.names)}
        self._gives = tuple(
            tuple(positions.get(name, -1) for name in gradient.output(slot.name))
            for slot in definition.outputs
        )
        self._gradient_inputs, self.once = definition.inputs, definition.once
        self.constant = [n for n, name in enumerate(call.names) if name in call.constant]
        self._gradient_outputs, self._inputs = definition.outputs, len(call.names)
        self._needs = "need" in definition.context
        (asked,) = gradient_ops(op)
        known, attrs = definition.attributes, op.attrs if asked.attrs is None else asked.attrs
        options: dict[str, Any] = {
            keyword: _frozen(convert(attrs[name], known[name].kind))
            for name, keyword in definition.keywords.items()
            if attrs.get(name) is not None
        }
        if "device" in definition.context:
            options["device"] = call.device
        if "counts" in definition.context:
            options["counts"] = tuple(len(one) for one in self._gives)
        assert definition.body is not None
        self._options = options
        self._backward = KernelChoice(call.device, TORCHS_CHOICE)(gradient, definition.body)

    @staticmethod
    def usable(call: OperatorCall) -> bool:
        """Whether the gradient is one operator with a body that takes tensors."""
        if call.whole is None or len(call.whole.block.ops) != 1:
            return False
        return defined(call.whole.block.ops[0].type).is_plain(_CONTEXT)

    # -- forward --------------------------------------------------------------

    def run(self, *values: Any) -> Any:
        """What the body returns, for autograd."""
        flat = [*_flat(values)] if self._lists else values
        found = _apply(self, *flat)
        if self._single:
            return found
        rest = iter(found if isinstance(found, tuple) else (found,))
        return [
            flat[source]
            if source >= 0
            else [next(rest) for _ in self.op.output(slot.name)]
            if slot.many
            else next(rest)
            for slot, source in zip(self._outputs, self._sources, strict=True)
        ]

    def forward(self, flat: Sequence[Any]) -> tuple[Any, ...]:
        """The results that are no overwritten inputs, of the inputs one by one."""
        result = self.body(*self._grouped(flat))
        if self._single:
            return (result,)
        parts = zip(by_slot(self._outputs, result), self._sources, strict=True)
        return tuple(one for part, source in parts if source < 0 for one in part)

    def _grouped(self, flat: Sequence[Any]) -> Sequence[Any]:
        if not self._lists:
            return flat
        rest, values = iter(flat), []
        for count in self._counts:
            values.append(next(rest) if count < 0 else [next(rest) for _ in range(count)])
        for number in self._nones:
            values.insert(number, None)
        return values

    # -- backward -------------------------------------------------------------

    def gradient_of_weight(self, kept: Sequence[Any], slopes: Sequence[Any]) -> Tensor:
        """The gradient of the weight alone. slopes: those that are wanted."""
        given: list[Any] = [None] * self._results
        for n, one in zip(self.wants, slopes, strict=True):
            given[n] = one
        needed = [n == self.weight for n in range(self._inputs)]
        found: Tensor = self.backward(kept, given, needed)[self.weight]
        return found

    def backward(
        self, saved: Sequence[Any], slopes: Sequence[Any], needed: Sequence[bool]
    ) -> list[Any]:
        """The gradient of each input."""

        def at(place: Any) -> Any:
            kind, n = place
            return saved[n] if kind == "saved" else slopes[n] if kind == "slope" else None

        values = [
            [at(place) for place in slot]
            if isinstance(slot, list)
            else None
            if slot is None
            else at(slot)
            for slot in self._slots
        ]
        options = self._options
        if self._needs:
            need = tuple(any(needed[n] for n in places if n >= 0) for places in self._gives)
            options = options | {"need": need}
        try:
            result = self._backward(*values, **options)
        except EnforceNotMet:
            raise
        except (IndexError, RuntimeError, TypeError, ValueError) as error:
            raise self._explained(error, values) from error
        gradients: list[Any] = [None] * self._inputs
        for places, part in zip(self._gives, by_slot(self._gradient_outputs, result), strict=True):
            for n, one in zip(places, part, strict=False):
                if n >= 0 and needed[n]:
                    gradients[n] = one.to_dense() if isinstance(one, SelectedRows) else one
        return gradients

    def _explained(self, error: Exception, values: Sequence[Any]) -> EnforceNotMet:
        """What torch or Python refused, with the operator and what it was given."""
        title = f"{self.op.title}_grad"
        shown = [
            f"\n  {slot.name}: {described(one)}"
            for slot, value in zip(self._gradient_inputs, values, strict=True)
            for one in (value if isinstance(value, list) else [value])
            if one is not None
        ]
        return EnforceNotMet(
            f"operator {title} failed: {in_plain_words(error)}{''.join(shown)}"
            f"{fix_line(str(error))}\n  [operator < {title} > error]"
        )


def sums_rows(definition: OperatorDef, op: Operator) -> Mapping[str, str]:
    """The slot of a weight whose gradient may wait for that of its other uses -> that of rows."""
    if not flags.value("refluid_eager_shared_weights"):
        return {}
    found = definition.sums_rows
    return found(op) if callable(found) else found


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list | tuple) else value


def _flat(values: Sequence[Any]) -> Iterator[Any]:
    for one in values:
        if isinstance(one, list):
            yield from one
        elif one is not None:
            yield one


class _WrittenFunction(torch.autograd.Function):
    """A call of an operator with a written gradient."""

    @staticmethod
    def forward(ctx: Any, call: WrittenGradient, *flat: Any) -> Any:
        found = call.forward(flat)
        ctx.call = call
        ctx.weight = flat[call.weight] if call.weight >= 0 else None
        ctx.once = call.once or any(was_cut(flat[n]) for n in call.constant)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*[flat[n] if kind == "in" else found[n] for kind, n in call.saves])
        ctx.shapes = [(found[n].shape, found[n].dtype, found[n].device) for n in call.wants]
        made = tuple(
            one.view_as(one) if any(one is given for given in flat) else one for one in found
        )
        return made if len(made) > 1 else made[0]

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor | None) -> tuple[Any, ...]:
        call, given = ctx.call, list(slopes)
        for n, (shape, dtype, device) in zip(call.wants, ctx.shapes, strict=True):
            if given[n] is None:
                given[n] = torch.zeros(shape, dtype=dtype, device=device)
        saved, needed = ctx.saved_tensors, list(ctx.needs_input_grad[1:])
        if ctx.weight is not None and needed[call.weight]:
            wanted = [given[n] for n in call.wants]
            needed[call.weight] = not shared_weights.waits(call, ctx.weight, saved, wanted)
            if not any(needed):
                return (None, *(None for _ in needed))
        if not torch.is_grad_enabled():
            return (None, *call.backward(saved, given, needed))
        from refluid.eager.second import answered, followed, kept

        saved = kept(saved, call.slopeless, call.op.type)
        return (None, *answered(ctx, followed(call.backward, saved, given, needed), slopes))


_apply: Callable[..., Any] = _WrittenFunction.apply
