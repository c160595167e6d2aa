"""An optimizer's formula written once, for lists: the operator and its multi-tensor form."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

from torch import Tensor

from refluid.kernels import lists
from refluid.ops.optimizer.fused import groups_by_rate
from refluid.ops.registry import many, operator
from refluid.ops.signature import Body
from refluid.ops.sparse.sparse import as_dense, by_rows

Tensors = list[Tensor]
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
    type: str, kept: str, *, renamed: Mapping[str, str] | None = None, rows: bool = False
) -> Callable[[Body], Body]:
    """Registers a body that takes a list per slot, writes in place and returns nothing.

    kept: the inputs it overwrites. renamed: their output slots where not `SlotOut`. rows: of a
    sparse gradient it touches the rows that are there and no others; else all rows move.
    """

    def decorate(body: Body) -> Body:
        single = _single(body, kept.split())
        lifted = by_rows(kept)(single) if rows else as_dense(single)
        operator(type, **update_flags(kept, renamed))(lifted)
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


def decay_to(values: Tensors, news: Tensors, keep: float) -> None:
    """value = keep * value + (1 - keep) * new."""
    lists.mul_(values, keep)
    lists.add_(values, news, alpha=1.0 - keep)


def decay_to_square(values: Tensors, news: Tensors, keep: float) -> None:
    """value = keep * value + (1 - keep) * new²."""
    lists.mul_(values, keep)
    lists.addcmul_(values, news, news, value=1.0 - keep)
