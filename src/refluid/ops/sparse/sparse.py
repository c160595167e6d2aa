"""Sparse gradients: operators written for tensors, made to take `SelectedRows` too."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from torch import Tensor

from refluid.core.dtypes import VarType
from refluid.core.selected_rows import SelectedRows
from refluid.ir.operator import Operator
from refluid.ops.infer import Infer
from refluid.ops.registry import OperatorDef
from refluid.ops.required import require_equal
from refluid.ops.signature import Body

Gradient = Tensor | SelectedRows
_GRAD = "Grad"


def dense(value: Gradient) -> Tensor:
    """The whole tensor, rows that are not there zero."""
    return value.to_dense() if isinstance(value, SelectedRows) else value


def keeps_rows(*, merge: bool = False) -> Callable[[Body], Body]:
    """Lifts an elementwise body: of `SelectedRows` it takes the values and gives such rows back.

    merge: rows of one number are added up first, where f(a) + f(b) isn't f(a + b).
    """

    def lift(body: Body) -> Body:
        @functools.wraps(body)
        def run(X: Any, *others: Any, **attrs: Any) -> Any:
            if not isinstance(X, SelectedRows):
                return body(X, *others, **attrs)
            rows = X.merged() if merge else X
            return rows.with_value(body(rows.value, *others, **attrs))

        return run

    return lift


def on_values(*, merge: bool = False) -> Callable[[Body], Body]:
    """Lifts a body that reduces X to a number: rows that are not there don't count."""

    def lift(body: Body) -> Body:
        @functools.wraps(body)
        def run(X: Any, *others: Any, **attrs: Any) -> Any:
            if isinstance(X, SelectedRows):
                X = (X.merged() if merge else X).value
            return body(X, *others, **attrs)

        return run

    return lift


def update_rows(step: Callable[..., Any], grad: SelectedRows, *kept: Tensor) -> None:
    """`step(grad, *kept)`, which writes in place, on the rows that `grad` has and no others.

    The rows are gathered, updated as a small dense parameter, and put back: the time does not
    depend on the height of the table. On a GPU a row that is there twice is updated twice, to the
    same elements.
    """
    rows = grad.merged() if grad.index.device.type == "cpu" else grad.summed()
    gathered = [one.index_select(0, rows.index) for one in kept]
    step(rows.value, *gathered)
    for one, new in zip(kept, gathered, strict=True):
        one.index_copy_(0, rows.index, new)


def by_rows(kept: str) -> Callable[[Body], Body]:
    """Lifts an update: of a sparse `Grad` it touches those rows of the inputs `kept` only."""

    def lift(body: Body) -> Body:
        place, kept_places = _places(body, kept)

        @functools.wraps(body)
        def run(*inputs: Any, **attrs: Any) -> Any:
            if not isinstance(inputs[place], SelectedRows):
                return body(*inputs, **attrs)

            def step(*tensors: Tensor) -> None:
                given = dict(zip((place, *kept_places), tensors, strict=True))
                body(*(given.get(index, one) for index, one in enumerate(inputs)), **attrs)

            whole = tuple(inputs[index] for index in kept_places)
            update_rows(step, inputs[place], *whole)
            return whole if len(whole) > 1 else whole[0]

        return run

    return lift


def as_dense(body: Body) -> Body:
    """Lifts an update in which rows without a gradient move as well: their gradient is zero."""
    place, _ = _places(body, "")

    @functools.wraps(body)
    def run(*inputs: Any, **attrs: Any) -> Any:
        if isinstance(inputs[place], SelectedRows):
            inputs = (*inputs[:place], inputs[place].to_dense(), *inputs[place + 1 :])
        return body(*inputs, **attrs)

    return run


def _places(body: Body, kept: str) -> tuple[int, list[int]]:
    names = list(inspect.signature(body).parameters)
    return names.index(_GRAD), [names.index(name) for name in kept.split()]


def total(terms: list[Gradient], *, over: bool = False) -> Gradient:
    """The sum of sparse and dense terms: sparse where all are.

    over: the first term, a tensor, may be overwritten.
    """
    full = [term for term in terms if isinstance(term, Tensor)]
    rows = [term for term in terms if isinstance(term, SelectedRows)]
    if not full:
        return SelectedRows.sum(rows)
    for number, term in enumerate(full):
        require_equal(f"term {number}", term, "the first", full[0].shape)
    if over or len(full) == 1:
        out, rest = full[0] if over else full[0].clone(), full[1:]
    else:
        out, rest = full[0] + full[1], full[2:]
    for term in rest:
        out += term
    for one in rows:
        add_rows(out, one)
    return out


def add_rows(out: Tensor, rows: SelectedRows) -> None:
    """Adds sparse rows to a table, in place; on a GPU in the same order every time."""
    value = rows.value.reshape(-1, *out.shape[1:])
    if out.device.type == "cpu":
        out.index_add_(0, rows.index, value)
    else:
        out.index_put_((rows.index,), value, accumulate=True)


def same_kind(rule: Infer) -> Infer:
    """An inference rule that also makes outputs `SelectedRows` where all inputs of X are."""

    def infer(definition: OperatorDef, op: Operator) -> None:
        rule(definition, op)
        kinds = {op.block.var_recursive(name).type for name in op.input("X")}
        if kinds == {VarType.SELECTED_ROWS}:
            for name in op.output_arg_names:
                op.block.var_recursive(name).type = VarType.SELECTED_ROWS

    return infer
