"""gather_nd and scatter_nd_add on a CPU: what indexing gives, and errors for what isn't there."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from refluid import fluid
from refluid.core.errors import EnforceNotMet
from refluid.ops.tensor.arranging import gather_nd, scatter_nd_add, scatter_nd_add_grad

X = torch.arange(60.0).reshape(3, 4, 5)
INDICES = (
    torch.tensor([[2], [0], [2]]),
    torch.tensor([[[1, 3], [0, 0]], [[2, 2], [1, 3]]]),
    torch.tensor([[0, 1, 4], [2, 3, 0]], dtype=torch.int32),
    torch.tensor([[-1, 1], [2, -4]]),
    torch.empty((0, 2), dtype=torch.long),
)


@pytest.mark.parametrize("index", INDICES, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.bool], ids=str)
def test_names_what_indexing_names(index: torch.Tensor, dtype: torch.dtype) -> None:
    x = X.to(dtype)
    assert torch.equal(gather_nd(x, index), x[tuple(index.long().unbind(-1))])


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_adds_where_indexing_would(index: torch.Tensor) -> None:
    where = tuple(index.long().unbind(-1))
    updates = torch.ones_like(X[where])
    expected = X.index_put(where, updates, accumulate=True)
    assert torch.equal(scatter_nd_add(X, index, updates), expected)
    assert torch.equal(scatter_nd_add_grad(index, updates, X)[1], X[where])


@pytest.mark.parametrize("index", [[[0, 4]], [[3, 0]], [[-4, 0]]], ids=str)
def test_what_is_not_there_is_an_error(index: list[list[int]]) -> None:
    with pytest.raises(EnforceNotMet, match="outside of \\[3, 4, 5\\]"):
        gather_nd(X, torch.tensor(index))


@pytest.mark.parametrize("index", [[1], [2, 0], [1, 3, 2]], ids=str)
def test_an_index_of_one_dimension_names_one_part(index: list[int]) -> None:
    """As in paddle 2.6.2; an element has shape (1,), as all that have no dimension."""
    wanted = X[tuple(index)]
    wanted = wanted if wanted.dim() else wanted.reshape(1)
    with fluid.dygraph.guard():
        x = fluid.dygraph.to_variable(X.numpy())
        x.stop_gradient = False
        found = fluid.layers.gather_nd(x, fluid.dygraph.to_variable(np.array(index)))
        assert np.array_equal(found.numpy(), wanted.numpy())
        fluid.layers.reduce_sum(found).backward()
        slopes = np.zeros_like(X.numpy())
        slopes[tuple(index)] = 1.0
        assert np.array_equal(x.gradient(), slopes)
    main = fluid.Program()
    with fluid.program_guard(main):
        given = fluid.data("x", [3, 4, 5]), fluid.data("index", [len(index)], "int64")
        out = fluid.layers.gather_nd(*given)
    assert out.shape == tuple(wanted.shape)
    feed = {"x": X.numpy(), "index": np.array(index)}
    assert np.array_equal(fluid.Executor().run(main, feed, [out])[0], wanted.numpy())
