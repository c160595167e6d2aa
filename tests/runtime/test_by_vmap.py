"""The calls that vmap makes of one kernel give what each replica's own call gives."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from refluid.runtime.batched.by_vmap import batched, empty
from refluid.runtime.recorded.graph import Kernel, Layout, Value
from refluid.runtime.trees import mapped

SIZE = 3
aten = torch.ops.aten


def _value(name: str, tensor: Tensor) -> Value:
    layout = Layout(tensor.shape, tensor.stride(), tensor.dtype, tensor.device)
    return Value(name, hash(name), layout)


X, Y = Value("x"), Value("y")
CASES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "softmax": (aten._softmax.default, (X, -1, False)),
    "sum": (aten.sum.dim_IntList, (X, [0], True)),
    "all": (aten.sum.default, (X,)),
    "cumsum": (aten.cumsum.default, (X, 1)),
    "largest": (aten.topk.default, (X, 2)),
    "transposed": (aten.transpose.int, (X, 0, 1)),
    "cat": (aten.cat.default, ([X, Y], 0)),
    "split": (aten.split.Tensor, (X, 2, 1)),
    "norm": (aten.native_layer_norm.default, (X, [4], None, None, 1e-5)),
    "typed": (aten._to_copy.default, (X,)),
    "shared": (aten.mm.default, (X, Y)),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("turned", [False, True])
def test_as_each_alone(name: str, turned: bool) -> None:
    func, args = CASES[name]
    given = {one: torch.randn(SIZE, 4, 4) for one in (X, Y)}
    given[X] = given[X].mT if turned else given[X]
    differing = {X} if name == "shared" else {X, Y}
    known = {one: given[one] if one in differing else given[one][0] for one in (X, Y)}
    kwargs = {"dtype": torch.float64, "device": torch.device("cpu")} if name == "typed" else {}
    values = {one: _value(one.name, given[one][0]) for one in (X, Y)}
    args_of_values, _ = mapped(
        (args, {}), lambda leaf: values.get(leaf, leaf) if leaf in (X, Y) else leaf
    )
    kernel = Kernel(func, args_of_values, kwargs, [], frozenset())
    empties = {
        value: empty(value.layout, SIZE if value is not values[Y] or name != "shared" else 0)
        for value in kernel.uses
        if value.layout is not None
    }
    found = batched(kernel, empties, {values[one] for one in differing}, 2 * SIZE)
    assert found is not None
    calls, results = found
    held = {id(one): known[X if value is values[X] else Y] for value, one in empties.items()}
    for call in calls:
        own, options = mapped(call.given, partial(_real, held))
        made = call.func(*own, **options)
        pairs = zip(_listed(call.made), _listed(made), strict=True)
        held |= {id(one): real for one, real in pairs}
    for rank in range(SIZE):
        own = mapped(args, partial(_own, known=known, differing=differing, rank=rank))
        alone = func(*own, **kwargs)
        for one, wanted in zip(results, _listed(alone), strict=True):
            torch.testing.assert_close(held[id(one)][rank], wanted)


def _own(leaf: Any, known: dict[Value, Tensor], differing: set[Value], rank: int) -> Any:
    if not isinstance(leaf, Value):
        return leaf
    return known[leaf][rank] if leaf in differing else known[leaf]


def _real(held: dict[int, Tensor], leaf: Any) -> Any:
    return held.get(id(leaf), leaf)


def _listed(made: Any) -> list[Any]:
    return list(made) if isinstance(made, list | tuple) else [made]


@pytest.mark.parametrize(
    "make",
    [
        lambda x: Kernel(aten.nonzero.default, (x,), {}, [], frozenset()),
        lambda x: Kernel(aten.histc.default, (x,), {}, [], frozenset()),
    ],
)
def test_what_vmap_cannot(make: Callable[[Value], Kernel]) -> None:
    """Shapes that follow from elements; a kernel without a rule, which is called for each."""
    value = _value("x", torch.randn(4, 4))
    assert value.layout is not None
    assert batched(make(value), {value: empty(value.layout, SIZE)}, {value}, SIZE) is None
