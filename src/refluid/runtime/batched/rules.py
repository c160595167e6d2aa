"""How products, and what is done to each element, are called once for all replicas.

Their values lie one after the other: a value of shape [3, 4] in each of 2 replicas is then one
tensor of shape [2, 3, 4], or a matrix [6, 4]. A rule gives the call, WRITTEN if it wrote that down
itself, or None where it has no way. What no rule is for is called as vmap does (`batched`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from refluid.kernels.watching import name_of
from refluid.runtime.batched.values import BatchedValues
from refluid.runtime.recorded.graph import Kernel, Value
from refluid.runtime.trees import Tree, method

CallRule = Callable[[BatchedValues, Kernel], Tree | None]

RULES: dict[str, CallRule] = {}
SUMMED: dict[str, CallRule] = {}
# What torch's table of what is done to each element lacks.
_TAGLESS = """
    zeros_like ones_like full_like _to_copy copy_ fill_ zero_ masked_fill _add_relu
"""
_ELEMENTWISE = frozenset(_TAGLESS.split())


def rule(*names: str, table: dict[str, CallRule] = RULES) -> Callable[[CallRule], CallRule]:
    """Registers the rule of these kernels."""

    def decorate(function: CallRule) -> CallRule:
        table.update(dict.fromkeys(names, function))
        return function

    return decorate


def rule_of(kernel: Kernel) -> CallRule | None:
    """The rule of a kernel."""
    return _elementwise if _is_elementwise(kernel) else RULES.get(name_of(kernel.func))


def _is_elementwise(kernel: Kernel) -> bool:
    if len(kernel.outs) != 1:
        return False
    if name_of(kernel.func) in _ELEMENTWISE or torch.Tag.pointwise in kernel.func.tags:
        return True
    packet = kernel.func.overloadpacket  # one that writes to `out` has no tag of its own
    return "default" in packet.overloads() and torch.Tag.pointwise in packet.default.tags


def _dims(value: Value) -> int:
    assert value.layout is not None
    return len(value.layout.shape)


def _flat(to: BatchedValues, kernel: Kernel, call: Tree) -> Tree:
    """The call of one that returns a matrix, a new one or one that it was given."""
    (out,) = kernel.outs
    return call if out is None or out in set(kernel.uses) else to.made_flat(out, call)


def _elementwise(to: BatchedValues, kernel: Kernel) -> Tree | None:
    if to.is_flat(kernel):
        options = {name: to.rows(one) for name, one in kernel.kwargs.items()}
        return _flat(to, kernel, to.call(kernel, *map(to.rows, kernel.args), **options))
    dims = max(_dims(value) for value in kernel.uses if value.layout is not None)

    def part(one: Any) -> Tree:
        return to.stacked(one, dims) if isinstance(one, Value) else to.written(one)

    options = {name: part(one) for name, one in kernel.kwargs.items()}
    return to.call(kernel, *map(part, kernel.args), **options)


@rule("addmm", "mm", "mkldnn::_linear_pointwise")
def _product(to: BatchedValues, kernel: Kernel) -> Tree | None:
    if name_of(kernel.func) == "mm" and to.differs(kernel.args[1]):
        return _matrices(to, kernel)
    given, (out,) = list(kernel.args), kernel.outs
    place = 1 if name_of(kernel.func) == "addmm" else 0
    rows = given.pop(place)
    if kernel.kwargs or out is None or to.differs(given) or not to.differs(rows):
        return None
    if place and _dims(given[0]) > 1:
        return None
    parts = [to.written(one) for one in given]
    return to.made_flat(out, to.call(kernel, *parts[:place], to.flat(rows), *parts[place:]))


def _matrices(to: BatchedValues, kernel: Kernel) -> Tree | None:
    one, other = kernel.args
    if to.differs(one):
        return method(to.stacked(one), "bmm", to.stacked(other))
    rows = to.flat_columns(other)
    assert other.layout is not None
    product = to.call(kernel, to.written(one), rows)
    parts = method(product, "unflatten", 1, (to.size, other.layout.shape[1]))
    return method(parts, "transpose", 0, 1)


@rule("mm", table=SUMMED)
def _summed_product(to: BatchedValues, kernel: Kernel) -> Tree | None:
    one, other = kernel.args
    if not (to.differs(one) and to.differs(other)):
        return None
    return to.call(kernel, to.flat_columns(one), to.flat(other))


@rule("mkldnn::_linear_pointwise", table=SUMMED)
def _summed_linear(to: BatchedValues, kernel: Kernel) -> Tree | None:
    one, other, bias, *rest = kernel.args
    if not (to.differs(one) and to.differs(other)) or bias is not None:
        return None
    given = to.flat_columns(one), to.flat_columns(other), None
    return to.call(kernel, *given, *map(to.written, rest))


@rule("sum", table=SUMMED)
def _summed_sum(to: BatchedValues, kernel: Kernel) -> Tree | None:
    value, *rest = kernel.args
    if len(rest) != 1 or not rest[0] or kernel.kwargs:
        return None
    if rest[0] == [0] and _dims(value) == 2:
        return to.call(kernel, to.flat(value), [0])
    dims = [0, *(dim + 1 if dim >= 0 else dim for dim in rest[0])]
    return to.call(kernel, to.stacked(value), to.written(dims))


@rule("embedding_dense_backward", table=SUMMED)
def _summed_rows(to: BatchedValues, kernel: Kernel) -> Tree | None:
    slopes, ids, *rest = kernel.args
    if kernel.kwargs or rest[-1]:  # scaled by how often an id comes
        return None
    if not (to.differs(slopes) and to.differs(ids)):
        return None
    given = [to.stacked(one, _dims(one)) for one in (slopes, ids)]
    return to.call(kernel, *given, *map(to.written, rest))
