"""An optimizer's formula written once, for lists: the operator and its multi-tensor form."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any, get_type_hints

from torch import Tensor

from refluid.kernels import lists
from refluid.ops.optimizer.fused import groups_by_rate
from refluid.ops.registry import many, operator
from refluid.ops.signature import Body
from refluid.ops.sparse.sparse import as_dense, by_rows

Tensors = list[Tensor]
# What an update is given, by the names that its body has: lists of tensors, and numbers.
Given = Mapping[str, Any]
UpdateAtOnce = Callable[[Given], None]
_ONE = {Tensors: Tensor, Tensors | None: Tensor | None}


def update_flags(kept: str, renamed: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Flags of an operator that overwrites the inputs `kept`; outputs are named `SlotOut`."""
    names = {(renamed or {}).get(slot, f"{slot}Out"): slot for slot in kept.split()}
    return {
        "outputs": " ".join(names),
        "uses": None,
        "lod": "",
        "mutates": names,
    }


def update(
    type: str,
    kept: str,
    *,
    renamed: Mapping[str, str] | None = None,
    rows: bool = False,
    at_once: UpdateAtOnce | None = None,
    decays: bool = False,
) -> Callable[[Body], Body]:
    """Registers a body that takes a list per slot, writes in place and returns nothing.

    kept: the inputs it overwrites. renamed: their output slots where not `SlotOut`. rows: of a
    sparse gradient it touches the rows that are there and no others; else all rows move. at_once:
    the same for parameters that pass over memory once (`kernels/one_pass.py`). decays: it has an
    attribute `l2_decay`, which passes set: so many times Param are added to Grad before.
    """
    flags: dict[str, Any] = {"decays": "l2_decay"} if decays else {}

    def decorate(body: Body) -> Body:
        if at_once is not None:
            body = _some_at_once(body, at_once, {"Grad", *kept.split()})
        single = _single(body, kept.split())
        lifted = by_rows(kept)(single) if rows else as_dense(single)
        operator(type, **update_flags(kept, renamed), **flags)(lifted)
        many(type)(body)
        return body

    return decorate


def _single(body: Body, kept: list[str]) -> Body:
    """The body for one parameter: lists of one, and what it overwrote as results."""
    hints = {
        name: _ONE.get(hint, hint)
        for name, hint in get_type_hints(body, include_extras=True).items()
    }
    signature = inspect.signature(body)
    places = [list(signature.parameters).index(name) for name in kept]

    @functools.wraps(body)
    def run(*inputs: Any, **attrs: Any) -> Any:
        body(*([] if one is None else [one] for one in inputs), **attrs)
        results = tuple(inputs[place] for place in places)
        return results if len(results) > 1 else results[0]

    del run.__wrapped__
    run.__annotations__ = hints
    run.__signature__ = signature  # type: ignore[attr-defined]
    return run


def _some_at_once(body: Body, at_once: UpdateAtOnce, alike: Set[str]) -> Body:
    """The body, with another one for parameters that pass over memory once.

    alike: the inputs that are laid out as the parameters are.
    """
    signature = inspect.signature(body)
    names = list(signature.parameters)
    first = names.index("Param")

    @functools.wraps(body)
    def run(*inputs: Any, **attrs: Any) -> None:
        params = inputs[first]
        if not lists.is_large(params):
            body(*inputs, **attrs)
            return
        from refluid.kernels.one_pass import suited  # few optimizers have such

        pairs = zip(names, inputs, strict=False)
        found = suited(params, *[one for name, one in pairs if name in alike and one])
        others = sorted({*range(len(params))} - {*found})
        if found:
            bound = signature.bind(*_at(found, inputs), **attrs)
            bound.apply_defaults()
            at_once(bound.arguments)
        if others:
            body(*_at(others, inputs), **attrs)

    return run


def _at(places: Sequence[int], inputs: Sequence[Any]) -> list[Any]:
    """Of each list the tensors at those places; what isn't given stays away."""
    return [[one[place] for place in places] if one else one for one in inputs]


def numbers_of(rates: Tensors) -> list[float]:
    """Rates on the CPU as numbers; one that several parameters have is read once."""
    known = {id(rate): float(rate.item()) for rate in {id(one): one for one in rates}.values()}
    return [known[id(one)] for one in rates]


def in_one_pass(loop: str, given: Given, kinds: str, numbers: str, rates: Sequence[float]) -> Any:
    """Runs a loop of `kernels/update_loops.py`; gives its sums, [2, parameters].

    kinds, numbers: the names of what it is told of each parameter, and of all.
    """
    from refluid.kernels import one_pass, update_loops  # few optimizers have such

    parts = one_pass.Parts(*(given[name] for name in kinds.split()))
    told = tuple(float(given[name]) for name in numbers.split())
    return parts.run(getattr(update_loops, loop), rates, told)


def by_loop(loop: str, kinds: str, numbers: str) -> UpdateAtOnce:
    """An update that is one such loop, at the learning rates if it has any."""

    def run(given: Given) -> None:
        params, rates = given["Param"], given.get("LearningRate")
        known = numbers_of(rates) if rates else [0.0] * len(params)
        in_one_pass(loop, given, kinds, numbers, known)

    return run


def take_steps(params: Tensors, steps: Tensors, rates: Tensors) -> None:
    """param -= rate * step."""
    for rate, group in groups_by_rate(rates):
        chosen, moves = [params[i] for i in group], [steps[i] for i in group]
        if isinstance(rate, float):
            lists.add_(chosen, moves, alpha=-rate)
        else:
            lists.sub_(chosen, lists.mul(moves, rate))


def add_quotients(
    values: Tensors, above: Tensors, below: Tensors, rates: Tensors, sign: float = 1.0
) -> None:
    """value += sign * rate * above / below."""
    for rate, group in groups_by_rate(rates):
        chosen, over, under = ([one[i] for i in group] for one in (values, above, below))
        if isinstance(rate, float):
            lists.addcdiv_(chosen, over, under, value=sign * rate)
        else:
            quotients = lists.div(over, under)
            lists.add_(chosen, lists.mul(quotients, sign * rate))


def penalized(grads: Tensors, params: Tensors, times: float) -> Tensors:
    """grad + times * param."""
    return list(lists.add(grads, lists.mul(params, times))) if times else grads


def decay_to(values: Tensors, news: Tensors, keep: float) -> None:
    """value = keep * value + (1 - keep) * new."""
    lists.mul_(values, keep)
    lists.add_(values, news, alpha=1.0 - keep)


def decay_to_square(values: Tensors, news: Tensors, keep: float) -> None:
    """value = keep * value + (1 - keep) * new²."""
    lists.mul_(values, keep)
    lists.addcmul_(values, news, news, value=1.0 - keep)
