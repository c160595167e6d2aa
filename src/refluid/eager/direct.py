"""Operators called without a plan: the body on the tensors themselves.

A plan of one operator does nothing to tensors without LoDs but call the body with attributes,
device and the like. So a call that looks like a former one calls the body at once. Gradients are
autograd's where the body's derivative is Fluid's gradient (`by_autograd`, or no gradient written);
else those of the gradient operator that somebody wrote, called likewise (`written`).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from refluid.core.dtypes import DIFFERENTIABLE
from refluid.eager.apart import apart, cut, detached
from refluid.eager.bodies import SUPPLIED, bound, of_ranks
from refluid.eager.calls import OperatorCall
from refluid.eager.results import Asked, ResultVariables, Run, SlotValues
from refluid.eager.shared_weights import shared_weights
from refluid.eager.written import WrittenGradient
from refluid.ir.attributes import AttrType, convert
from refluid.ir.checks import check
from refluid.ir.operator import Operator
from refluid.ir.variable import Variable
from refluid.kernels.products import torch_derives
from refluid.ops.definition import OperatorDef
from refluid.ops.effects import Effect

_LISTS = (list, tuple)


class Direct:
    """An operator with attributes, called as `asked`. run: its results, of values by slot."""

    def __init__(
        self, call: OperatorCall, asked: Asked, attrs: Mapping[str, Any] | None = None
    ) -> None:
        self.call, self.asked = call, asked
        self.op = call.op if attrs is None else _changed(call.op, attrs)
        self.run = self._made()

    def differs_in_numbers(self, attrs: Mapping[str, Any]) -> bool:
        """Whether each attribute that is a number with a point is one by its type."""
        known = self.call.definition.attributes
        return all(
            name in known and known[name].kind == AttrType.FLOAT
            for name, value in attrs.items()
            if isinstance(value, float)
        )

    def with_numbers(self, attrs: Mapping[str, Any]) -> Direct:
        """The same with other numbers as attributes. EnforceNotMet for those that can't be."""
        return Direct(self.call, self.asked, attrs)

    def _made(self) -> Run:
        definition, asked = self.call.definition, self.asked
        arrange = _arrange(definition, asked.given)
        compute = _after(arrange, bound(definition, self.op, self.call))
        places = _constant(self.call, asked) if asked.takes else ()
        watched = asked.takes and places is not None
        derived = compute
        if watched:
            quick = of_ranks(definition, self.op, self.call)
            derived = compute if quick is None else _after(arrange, quick)
        if places is None:
            compute = _cutting(places, compute)
        if watched:
            compute = self._with_gradient(compute, derived)
            compute = _cutting(places, compute) if places else compute
        if definition.views:
            compute = _anew(compute, definition.copies)
        return ResultVariables(definition, asked, _apart(self.call, asked), watched).of(compute)

    def _with_gradient(
        self, compute: Callable[..., Any], derived: Callable[..., Any]
    ) -> Callable[..., Any]:
        """The body, for autograd: as it is, or with the gradient operator that somebody wrote.

        derived: the body where autograd's gradient is Fluid's.
        """
        call = self.call
        if call.derived and not (call.definition.sums_rows and WrittenGradient.usable(call)):
            return derived
        written = WrittenGradient(call, self.op, self.asked.given, compute)
        if call.derived:
            return _by_use(derived, written)
        if call.definition.by_autograd == "products":
            return _product(derived, written)
        return written.run


def usable(call: OperatorCall, asked: Asked) -> bool:
    """Whether a body called on tensors is all that there is to the operator."""
    definition = call.definition
    if (
        definition.body is None
        or definition.levels
        or definition.makes_lod
        or definition.untouched
        or definition.nested is not None
        or call.op.attrs.get("is_sparse")
        or definition.effects & (Effect.COMM | Effect.HOST)
        or not definition.context <= SUPPLIED
        or call.lods
    ):
        return False
    if definition.mutates and (asked.makes is None or definition.uses is None):
        return False
    if any(
        isinstance(one, Variable)
        for several in (asked.makes.values() if isinstance(asked.makes, Mapping) else ())
        if isinstance(several, _LISTS)
        for one in several
    ):
        return False
    constant = _constant(call, asked) is None
    return not asked.takes or constant or call.derived or WrittenGradient.usable(call)


def _changed(op: Operator, attrs: Mapping[str, Any]) -> Operator:
    made = copy.copy(op)
    numbers = {name: value for name, value in attrs.items() if isinstance(value, float)}
    made.attrs = op.attrs | {name: convert(one, AttrType.FLOAT) for name, one in numbers.items()}
    check(made)
    return made


def _flat(given: Sequence[tuple[str, int | None]]) -> Iterator[tuple[int, int | None]]:
    """For each variable where it stands: number of its slot, and its place in the slot's list."""
    for number, (_, count) in enumerate(given):
        if count is not None:
            yield from [(number, None)] if count < 0 else [(number, n) for n in range(count)]


def _constant(call: OperatorCall, asked: Asked) -> Sequence[tuple[int, int | None]] | None:
    """Where the inputs are that Fluid gives no gradient, but may take one; None for all inputs."""
    if asked.stops is True or not call.gradients or call.constant.issuperset(call.names):
        return None
    return [
        place
        for name, place in zip(call.names, _flat(asked.given), strict=True)
        if name in call.constant
        and call.block.var(name).dtype in DIFFERENTIABLE
        and (call.derived or name not in call.changed)  # statistics, which nobody computed
    ]


def _apart(call: OperatorCall, asked: Asked) -> frozenset[str]:
    """The output slots that pass no gradient on."""
    slots = [slot.name for slot in call.definition.outputs]
    if isinstance(asked.stops, bool):
        stops = slots if asked.stops else []
    else:
        stops = list(asked.stops)
    silent = [slot for slot in slots if call.silent.issuperset(call.op.output(slot))]
    return frozenset((*stops, *silent))


def _arrange(
    definition: OperatorDef, given: Sequence[tuple[str, int | None]]
) -> Callable[[SlotValues], SlotValues] | None:
    """Makes the body's arguments of the values as they were given; None where they are."""
    natural = [(slot.name, slot.many) for slot in definition.inputs[: len(given)]]
    if natural == [(slot, count is not None and count >= 0) for slot, count in given]:
        return None
    position = {slot: number for number, (slot, _) in enumerate(given)}
    counts = dict(given)
    steps: list[Callable[[SlotValues], Any]] = []
    for slot in definition.inputs:
        number, count = position.get(slot.name), counts.get(slot.name)
        if number is None or count is None or count == 0:
            steps.append(lambda _: None)
        elif slot.many == (count >= 0):
            steps.append(lambda values, n=number: values[n])  # type: ignore[misc]
        elif slot.many:
            steps.append(lambda values, n=number: [values[n]])  # type: ignore[misc]
        else:
            steps.append(lambda values, n=number: values[n][0])  # type: ignore[misc]
    return lambda values: [step(values) for step in steps]


def _after(
    arrange: Callable[[SlotValues], SlotValues] | None, body: Callable[..., Any]
) -> Callable[..., Any]:
    return body if arrange is None else lambda *values: body(*arrange(values))


def _anew(body: Callable[..., Any], copies: bool) -> Callable[..., Any]:
    """The body, but that what it returns is `apart` from what it was given."""

    def run(*values: Any) -> Any:
        result = body(*values)
        if isinstance(result, _LISTS):
            return [apart(one, values, copies=copies) for one in result]
        return apart(result, values, copies=copies)

    return run


def _by_use(first: Callable[..., Any], written: WrittenGradient) -> Callable[..., Any]:
    """Taking a weight for the first time as `first`; from then on so that its gradient waits."""
    if written.weight < 0:
        return first
    weight, rows = written.weight, written.rows_of
    taken, again, run = shared_weights.taken, shared_weights.again, written.run

    def compute(*values: Any) -> Any:
        key = id(values[weight])
        if key not in taken:
            taken.add(key)
        elif again(values[weight], values[rows]):
            return run(*values)
        return first(*values)

    return compute


def _product(torchs: Callable[..., Any], written: WrittenGradient) -> Callable[..., Any]:
    """A product of matrices by autograd, but where refluid multiplies faster than torch, and where
    the weight's gradient waits, which is taken again."""
    weight, rows = written.weight, written.rows_of
    taken, again = shared_weights.taken, shared_weights.again
    run, most = written.run, torch_derives()

    def compute(*values: Any) -> Any:
        if weight >= 0:
            key = id(values[weight])
            if key not in taken:
                taken.add(key)
            elif again(values[weight], values[rows]):
                return run(*values)
        x, y = values[0], values[1]
        shape = y.shape
        plain = len(shape) == 2 and shape[0] == x.shape[-1]
        size = x.numel() * (shape[1] if plain else max(shape))
        return (torchs if size < most else run)(*values)

    return compute


def _cutting(
    places: Sequence[tuple[int, int | None]] | None, body: Callable[..., Any]
) -> Callable[..., Any]:
    """The body on values of which some, or all, are apart from what made them."""

    def run(*values: Any) -> Any:
        if places is None:
            return body(*map(detached, values))
        changed = [list(one) if isinstance(one, _LISTS) else one for one in values]
        for number, n in places:
            if n is None:
                changed[number] = cut(changed[number])
            else:
                changed[number][n] = cut(changed[number][n])
        return body(*changed)

    return run
