"""Updates by rows agree with updates of whole tables; sorted merging with torch's."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from refluid.core.selected_rows import SelectedRows
from refluid.kernels.rows.updates import takes
from refluid.ops.optimizer.adam import BETA2, adam
from refluid.ops.optimizer.gradient_descent import sgd

KINDS = [torch.float32, torch.float64]
# Height, rows, width: few rows, many equal ones, none, and numbers of two and three digits.
TABLES = [(7, 3, 4), (5, 40, 3), (9, 0, 2), (3000, 500, 1), (5_000_000, 60, 1)]


def _gradient(height: int, rows: int, width: int, kind: torch.dtype) -> SelectedRows:
    generator = torch.Generator().manual_seed(height + rows)
    index = torch.randint(0, height, (rows,), generator=generator)
    return SelectedRows(index, height, torch.randn(rows, width, generator=generator, dtype=kind))


def _table(height: int, width: int, kind: torch.dtype) -> Tensor:
    return torch.linspace(-1.0, 1.0, height * width, dtype=kind).reshape(height, width)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("sizes", TABLES, ids=str)
def test_sgd(sizes: tuple[int, int, int], kind: torch.dtype) -> None:
    grad, param = _gradient(*sizes, kind), _table(sizes[0], sizes[2], kind)
    wanted = param - 0.5 * grad.to_dense()
    assert takes(grad.index, grad.value, param)
    assert sgd(param, torch.tensor([0.5], dtype=kind), grad) is param
    torch.testing.assert_close(param, wanted)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("sizes", TABLES, ids=str)
def test_lazy_adam(sizes: tuple[int, int, int], kind: torch.dtype) -> None:
    grad, param = _gradient(*sizes, kind), _table(sizes[0], sizes[2], kind)
    moment1, moment2 = torch.zeros_like(param) + 0.1, torch.zeros_like(param) + 0.2
    powers = [torch.tensor([power], dtype=kind) for power in (0.9, BETA2)]
    slope, touched = grad.to_dense(), grad.index.unique()
    first, second = 0.9 * moment1 + 0.1 * slope, BETA2 * moment2 + (1 - BETA2) * slope * slope
    rate = 0.01 * (1 - BETA2 * float(powers[1])) ** 0.5 / (1 - 0.9 * float(powers[0]))
    moved = param - rate * first / (second.sqrt() + 1e-8)
    wanted = [one.clone() for one in (param, moment1, moment2)]
    for one, new in zip(wanted, (moved, first, second), strict=True):
        one[touched] = new[touched]
    rates = torch.tensor([0.01], dtype=kind)
    adam(param, grad, rates, moment1, moment2, *powers, lazy_mode=True)
    for one, right in zip((param, moment1, moment2), wanted, strict=True):
        torch.testing.assert_close(one, right)


@pytest.mark.parametrize("sizes", TABLES, ids=str)
def test_rows_are_summed_as_often_as_they_are_there(sizes: tuple[int, int, int]) -> None:
    """As GPUs have them: what an update does to such rows is what it does to merged ones."""
    grad = _gradient(*sizes, torch.float64)
    found, merged = grad.summed(), grad.merged()
    assert torch.equal(found.index, grad.index.sort().values)
    table = torch.zeros(sizes[0], sizes[2], dtype=torch.float64)
    torch.testing.assert_close(
        table.index_copy(0, found.index, found.value),
        table.index_copy(0, merged.index, merged.value),
    )


@pytest.mark.parametrize("row", [-1, 5])
def test_rows_outside_the_table(row: int) -> None:
    param = torch.zeros(5, 2)
    grad = SelectedRows([0, row], 5, torch.ones(2, 2))
    with pytest.raises(IndexError, match="the parameter has 5 rows"):
        sgd(param, torch.tensor([1.0]), grad)
    state = torch.zeros(5, 2), torch.zeros(5, 2), torch.tensor([0.9]), torch.tensor([0.999])
    with pytest.raises(IndexError, match="the parameter has 5 rows"):
        adam(param, grad, torch.tensor([1.0]), *state, lazy_mode=True)
    assert not param.any()


def test_what_is_laid_out_otherwise_is_left_to_torch() -> None:
    grad = _gradient(6, 4, 3, torch.float32)
    param = torch.zeros(3, 6).t()
    assert not takes(grad.index, grad.value, param)
    sgd(param, torch.tensor([1.0]), grad)
    torch.testing.assert_close(param, -grad.to_dense())


@pytest.mark.parametrize("sizes", TABLES, ids=str)
def test_merged(sizes: tuple[int, int, int]) -> None:
    grad = _gradient(*sizes, torch.float64)
    merged = grad.merged()
    rows, where = torch.unique(grad.index, return_inverse=True)
    assert torch.equal(merged.index, rows)
    values = torch.zeros(len(rows), sizes[2], dtype=torch.float64)
    torch.testing.assert_close(merged.value, values.index_add_(0, where, grad.value))
