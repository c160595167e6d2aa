"""Row kernels on plain tensors do what numpy does, row by row."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from refluid.kernels.rows import lookup
from refluid.kernels.rows.lookup import look_up
from refluid.kernels.rows.merging import ascending, merge_rows
from refluid.kernels.rows.updates import adam_rows, adam_step_rows, descend_rows, takes
from tests.choices import often
from tests.kernels.rows.drawing import SEEDS, drawn, tensors


@pytest.mark.parametrize("seed", often(SEEDS, SEEDS[:20]))
def test_lookup(seed: int) -> None:
    case = drawn(seed)
    shape = (len(case.rows) // 3, 3) if len(case.rows) % 3 == 0 else (len(case.rows),)
    table, rows = tensors(case.table, case.rows.reshape(shape))
    wanted = case.table[case.rows.reshape(shape)]
    assert (look_up(table, rows).numpy() == wanted).all()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(lookup, "_FEW", 0)  # by the compiled loop, which few rows don't take
        assert (look_up(table, rows).numpy() == wanted).all()


@pytest.mark.parametrize("seed", often(SEEDS, SEEDS[:20]))
def test_descent(seed: int) -> None:
    case = drawn(seed)
    param, rows, value = tensors(case.table, case.rows, case.value)
    assert takes(rows, value, param)
    descend_rows(param, rows, value, 0.25)
    wanted = case.table.copy()
    np.subtract.at(wanted, case.rows, 0.25 * case.value)
    case.fits(param, wanted)


@pytest.mark.parametrize("seed", often(SEEDS, SEEDS[:20]))
def test_adam(seed: int, sharing: None) -> None:
    case = drawn(seed)
    first, second = 0.1 * case.table, case.table**2
    betas, rate, epsilon = (0.9, 0.99), 0.3, 1e-3
    param, one, two, rows, value = tensors(case.table, first, second, case.rows, case.value)
    assert takes(rows, value, param, one, two)
    adam_rows(param, one, two, rows, value, rate, betas, epsilon)
    wanted = case.table.copy()
    for row in np.unique(case.rows):
        slope = case.value[case.rows == row].sum(0)
        first[row] = betas[0] * first[row] + (1 - betas[0]) * slope
        second[row] = betas[1] * second[row] + (1 - betas[1]) * slope**2
        wanted[row] -= rate * first[row] / (np.sqrt(second[row]) + epsilon)
    for found, right in ((param, wanted), (one, first), (two, second)):
        case.fits(found, right)


@pytest.mark.parametrize("seed", often(SEEDS, SEEDS[:20]))
def test_a_step_of_adam_is_its_powers_and_its_rows(seed: int, sharing: None) -> None:
    case = drawn(seed)
    betas, epsilon = (0.8 + 0.19 * case.draws.random(), 0.999), 1e-6
    one, other = (
        tensors(case.table, 0.1 * case.table, case.table**2, case.rows, case.value) for _ in "ab"
    )
    kind = one[0].dtype
    rate = torch.tensor([0.3], dtype=kind)
    for _ in range(3):
        powers = [torch.tensor([beta], dtype=kind) for beta in betas]
        twins = [power * beta for power, beta in zip(powers, betas, strict=True)]
        now = rate.item() * math.sqrt(1.0 - twins[1].item()) / (1.0 - twins[0].item())
        adam_step_rows(*one[:3], *powers, *one[3:], rate, betas, epsilon)
        adam_rows(*other, now, betas, epsilon)
        assert all(map(torch.equal, (*one, *powers), (*other, *twins)))


@pytest.mark.parametrize("seed", often(SEEDS, SEEDS[:20]))
def test_order_and_sums(seed: int) -> None:
    case = drawn(seed)
    rows, value = tensors(case.rows, case.value)
    order = ascending(rows, case.height)
    assert order.dtype is torch.int32
    assert (order.numpy() == np.argsort(case.rows, kind="stable")).all()
    unique, sums = merge_rows(rows, value, case.height)
    wanted, where = np.unique(case.rows, return_inverse=True)
    total = np.zeros((len(wanted), case.value.shape[1]), case.value.dtype)
    np.add.at(total, where, case.value)
    assert (unique.numpy() == wanted).all()
    case.fits(sums, total)
    half = merge_rows(rows, value.to(torch.int64), case.height)  # by torch, for other types
    assert (half[0].numpy() == wanted).all()


@pytest.mark.parametrize("outside", [-1, 0])
@pytest.mark.parametrize("seed", SEEDS[::5])
def test_rows_that_are_none_change_nothing(seed: int, outside: int, sharing: None) -> None:
    case = drawn(seed)
    wrong = np.append(case.rows, outside if outside < 0 else case.height)
    case.draws.shuffle(wrong)
    value = np.zeros((len(wrong), case.table.shape[1]), case.table.dtype) + 1
    param, one, two, rows, ones = tensors(case.table, case.table, case.table, wrong, value)
    with pytest.raises(IndexError, match=f"the parameter has {case.height} rows"):
        descend_rows(param, rows, ones, 1.0)
    with pytest.raises(IndexError, match=f"the parameter has {case.height} rows"):
        adam_rows(param, one, two, rows, ones, 1.0, (0.9, 0.9), 1e-8)
    state = [torch.ones(1, dtype=param.dtype) for _ in range(3)]
    with pytest.raises(IndexError, match=f"the parameter has {case.height} rows"):
        adam_step_rows(param, one, two, *state[:2], rows, ones, state[2], (0.9, 0.9), 1e-8)
    with pytest.raises(IndexError, match=f"a table of {case.height} rows"):
        ascending(rows, case.height)
    with pytest.raises(IndexError):
        look_up(param, rows)
    assert all((each.numpy() == case.table).all() for each in (param, one, two))


def test_what_the_loops_do_not_take() -> None:
    rows, value, param = torch.tensor([1]), torch.ones(1, 2), torch.zeros(3, 2)
    assert takes(rows, value, param)
    assert not takes(rows, value.half(), param.half())
    assert not takes(rows, value, param.double())
    assert not takes(rows, value, torch.zeros(2, 3).t())
    assert not takes(rows, value, torch.zeros(3, 4))
    assert not takes(rows, value, param, torch.zeros(4, 2))
    assert not takes(torch.tensor([1, 2]), value, param)
