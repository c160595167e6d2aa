"""Sequences as arrays of steps, ranked, cut, parted by masks: by the definition, row by row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.core.lod_tensor import LoDTensor, LoDTensorArray
from refluid.core.offsets import Levels, Offsets, as_lod
from refluid.ops.control.arrays import tensor_array_to_tensor, tensor_array_to_tensor_grad
from refluid.ops.control.branching import merge_lod_tensor, select_input, split_lod_tensor
from refluid.ops.control.lod_arrays import (
    array_to_lod_tensor,
    data_of,
    levels_of,
    lod_tensor_to_array,
)
from refluid.ops.control.ranks import (
    RankTable,
    lod_rank_table,
    max_sequence_len,
    reorder_lod_tensor_by_rank,
    reorder_lod_tensor_by_rank_grad,
    shrink_rnn_memory,
    shrink_rnn_memory_grad,
)

CPU = torch.device("cpu")


def _levels(*lengths: Sequence[int]) -> Levels:
    return tuple(Offsets.of_lengths(one) for one in lengths)


def _rows(count: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.arange(count * 2, dtype=dtype).reshape(count, 2)


def _table(lod: Levels, level: int = 0) -> RankTable:
    table = lod_rank_table(torch.zeros(lod[-1].total), lod_X=lod, level=level)
    assert isinstance(table, RankTable)
    return table


def _naive_steps(x: Tensor, lengths: Sequence[int]) -> list[Tensor]:
    starts = [sum(lengths[:i]) for i in range(len(lengths))]
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    return [
        torch.stack([x[starts[i] + step] for i in order if lengths[i] > step])
        for step in range(max(lengths))
    ]


@pytest.mark.parametrize("lengths", [[2, 1, 3], [1, 1], [4], [0, 3, 0, 1]])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_steps_and_back(lengths: list[int], dtype: torch.dtype) -> None:
    lod = _levels(lengths)
    x = _rows(sum(lengths), dtype)
    table = _table(lod)
    array = lod_tensor_to_array(x, table, lod_X=lod)
    for step, wanted in zip(array, _naive_steps(x, lengths), strict=True):
        assert torch.equal(data_of(step), wanted)
    back, levels = array_to_lod_tensor(array, table)
    assert torch.equal(back, x) and levels == lod
    assert int(max_sequence_len(table, device=CPU)) == max(lengths)


def test_steps_of_sequences_of_sequences() -> None:
    lod = _levels([2, 1], [1, 2, 3])
    x = _rows(6)
    table = _table(lod)
    array = lod_tensor_to_array(x, table, lod_X=lod)
    assert [as_lod(levels_of(one)) for one in array] == [[[0, 1, 4]], [[0, 2]]]
    assert torch.equal(data_of(array[0]), x[[0, 3, 4, 5]])
    assert torch.equal(data_of(array[1]), x[[1, 2]])
    back, levels = array_to_lod_tensor(array, table)
    assert torch.equal(back, x) and levels == lod


def test_steps_below_a_coarse_level() -> None:
    lod = _levels([2, 1], [1, 2, 3])
    table = _table(lod, level=1)
    array = lod_tensor_to_array(_rows(6), table, lod_X=lod)
    assert [data_of(one).shape[0] for one in array] == [3, 2, 1]
    assert array_to_lod_tensor(array, table)[1] == lod


def test_gradients_that_never_came_are_zeros() -> None:
    lod = _levels([2, 1])
    array = LoDTensorArray([LoDTensor(), torch.ones(1, 2)])
    back, _ = array_to_lod_tensor(array, _table(lod))
    assert back.tolist() == [[0, 0], [1, 1], [0, 0]]


def test_memory_shrinks_with_the_batch() -> None:
    table = _table(_levels([2, 1, 3]))
    x = _rows(3)
    for step, rows in ((0, 3), (1, 2), (2, 1), (3, 0)):
        out, _ = shrink_rnn_memory(x, table, torch.tensor([step]), lod_X=())
        assert torch.equal(out, x[:rows])
        grad = shrink_rnn_memory_grad(x, torch.ones_like(out))
        assert grad.sum(1).tolist() == [2.0] * rows + [0.0] * (3 - rows)
    out, levels = shrink_rnn_memory(_rows(6), table, torch.tensor([1]), lod_X=_levels([1, 2, 3]))
    assert out.shape[0] == 3 and levels == _levels([1, 2])


@pytest.mark.parametrize("lengths", [None, [1, 3, 2]])
def test_reordering_and_its_gradient(lengths: list[int] | None) -> None:
    table = _table(_levels([2, 1, 3]))
    lod = () if lengths is None else _levels(lengths)
    x = _rows(3 if lengths is None else 6)
    out, levels = reorder_lod_tensor_by_rank(x, table, lod_X=lod)
    wanted = [2, 0, 1] if lengths is None else [4, 5, 0, 1, 2, 3]
    assert torch.equal(out, x[wanted])
    assert levels == (() if lengths is None else _levels([2, 1, 3]))
    back, again = reorder_lod_tensor_by_rank_grad(out, table, lod_X=levels)
    assert torch.equal(back, x) and again == lod


@pytest.mark.parametrize("mask", [[1, 0, 1], [0, 0, 0], [1, 1, 1]])
@pytest.mark.parametrize(
    ("lod", "level"),
    [((), 0), (_levels([2, 1, 3]), 0), (_levels([1, 2], [2, 1, 3]), 1)],
)
def test_split_and_merge(mask: list[int], lod: Levels, level: int) -> None:
    x = _rows(6 if lod else 3)
    holds = torch.tensor(mask, dtype=torch.bool).reshape(-1, 1)
    one, other, one_lod, other_lod = split_lod_tensor(x, holds, lod_X=lod, level=level)
    owners = lod[-1].owners() if lod else torch.arange(3)
    taken = holds.reshape(-1)[owners]
    assert torch.equal(one, x[taken]) and torch.equal(other, x[~taken])
    if lod:
        assert one_lod[level].lengths == [n for n, m in zip([2, 1, 3], mask, strict=True) if m]
    back, levels = merge_lod_tensor(
        x, holds, one, other, lod_X=lod, lod_InTrue=one_lod, lod_InFalse=other_lod, level=level
    )
    assert torch.equal(back, x) and levels == lod


def test_select_input_passes_on_what_has_no_value() -> None:
    value: list[Any] = [None, torch.ones(2)]
    assert select_input(value, torch.tensor([1]), lods_X=[(), ()])[0] is value[1]
    assert select_input(value, torch.tensor([0]), lods_X=[(), ()])[0] is None


@pytest.mark.parametrize("stack", [True, False])
@pytest.mark.parametrize("axis", [0, 1])
def test_array_as_one_tensor(stack: bool, axis: int) -> None:
    array = LoDTensorArray([_rows(2), _rows(2) + 1, _rows(2) - 1])
    out, sizes = tensor_array_to_tensor(array, axis=axis, use_stack=stack)
    parts = [data_of(one) for one in array]
    assert torch.equal(out, torch.stack(parts, axis) if stack else torch.cat(parts, axis))
    assert sizes.tolist() == [2] * 3 and sizes.dtype == torch.int32
    grads = tensor_array_to_tensor_grad(array, out, axis=axis, use_stack=stack)
    assert all(torch.equal(data_of(a), b) for a, b in zip(grads, parts, strict=True))


def test_mistakes_say_what_is_wrong() -> None:
    with pytest.raises(EnforceNotMet, match="LoD level 0 of X, but X has 0 levels"):
        lod_rank_table(torch.zeros(2), lod_X=())
    table = _table(_levels([2, 1]))
    with pytest.raises(EnforceNotMet, match="must have the same sequences"):
        lod_tensor_to_array(_rows(3), table, lod_X=_levels([1, 2]))
    with pytest.raises(EnforceNotMet, match="has 1 elements"):
        array_to_lod_tensor(LoDTensorArray([_rows(2)]), table)
    with pytest.raises(EnforceNotMet, match="has 2 sequences but X has 3"):
        reorder_lod_tensor_by_rank(_rows(3), table, lod_X=())
    with pytest.raises(EnforceNotMet, match="2 elements for 3"):
        split_lod_tensor(_rows(3), torch.ones(2, 1, dtype=torch.bool), lod_X=())
