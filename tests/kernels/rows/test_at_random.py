"""Row kernels on plain tensors do what numpy does, row by row."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from refluid.kernels.rows import lookup, updates
from refluid.kernels.rows.lookup import look_up
from refluid.kernels.rows.merging import ascending, merge_rows
from refluid.kernels.rows.updates import (
    AdamTables,
    adam_rows,
    adam_step_rows,
    descend_rows,
    takes,
)
from tests.choices import often

Array = NDArray[Any]
SEEDS = range(40)
ALONE, SHARED = "by one thread", "shared among threads"
FITS = {np.float32: 1e-5, np.float64: 1e-12}


class Case(NamedTuple):
    table: Array
    rows: Array
    value: Array
    draws: np.random.Generator

    @property
    def height(self) -> int:
        return len(self.table)

    def fits(self, found: Tensor, wanted: Array) -> None:
        close = FITS[self.table.dtype.type]
        np.testing.assert_allclose(found.numpy(), wanted, rtol=close, atol=close)
        assert found.numpy().dtype == self.table.dtype


def drawn(seed: int) -> Case:
    draws = np.random.default_rng(seed)
    kind = (np.float32, np.float64)[seed % 2]
    height = int(draws.choice([1, 2, 7, 300, 5000, 3_000_000]))
    width, count = int(draws.integers(1, 20 if height < 10_000 else 3)), int(draws.integers(0, 200))
    near = draws.integers(0, min(height, 9), count)
    rows = np.where(draws.random(count) < 0.5, near, draws.integers(0, height, count))
    table = draws.standard_normal((height, width)).astype(kind)
    return Case(table, rows, draws.standard_normal((count, width)).astype(kind), draws)


@pytest.fixture(params=[ALONE, SHARED])
def sharing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """By one thread, or by three, however few the rows are."""
    before = torch.get_num_threads()
    torch.set_num_threads(1 if request.param == ALONE else 3)
    monkeypatch.setattr(updates, "_MUCH", 0)
    yield
    torch.set_num_threads(before)


def tensors(*arrays: Array) -> list[Tensor]:
    return [torch.from_numpy(one.copy()) for one in arrays]


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


class AdamTable(NamedTuple):
    """A table, what Adam keeps for it, and a step's gradient."""

    param: Tensor
    moment1: Tensor
    moment2: Tensor
    power1: Tensor
    power2: Tensor
    rows: Tensor
    value: Tensor
    rate: Tensor


BETAS, EPSILON = (0.9, 0.99), 1e-6


def adam_tables(seed: int) -> list[AdamTable]:
    """Some tables of one type with a step's gradients."""
    draws = np.random.default_rng(seed)
    cases = [drawn(2 * int(number) + seed % 2) for number in draws.integers(0, 40, 1 + seed % 5)]
    found = []
    for case in cases:
        kept = case.table, 0.1 * case.table, case.table**2
        state = (np.full(1, one, case.table.dtype) for one in (0.8, 0.99))
        rate = np.full(1, draws.random(), case.table.dtype)
        found.append(AdamTable(*tensors(*kept, *state, case.rows, case.value, rate)))
    return found


def kept_of(tables: list[AdamTable]) -> AdamTables:
    return AdamTables(*(list(part) for part in zip(*(one[:5] for one in tables), strict=True)))


def stepped(kept: AdamTables, tables: list[AdamTable]) -> bool:
    return kept.step(*map(list, zip(*(one[5:] for one in tables), strict=True)), BETAS, EPSILON)


def other_gradient(one: AdamTable, draws: np.random.Generator) -> AdamTable:
    """The table with other rows, as many or not; values lie apart, or in another order."""
    count = len(one.rows) if draws.random() < 0.7 else int(draws.integers(0, 30))
    (height, width), spread = one.param.shape, int(draws.integers(3))
    rows = torch.from_numpy(draws.integers(0, height, (count, 2)))
    made = torch.from_numpy(draws.normal(size=(count, 2 * width + spread))).to(one.param.dtype)
    columns = [made[:, spread : spread + width], made[:, spread::2], made[:, :width].contiguous()]
    value = [*columns, made.t().contiguous().t()[:, :width]][int(draws.integers(4))]
    return one._replace(rows=rows[:, 0] if spread else rows[:, 0].contiguous(), value=value)


@pytest.mark.parametrize("seed", often(SEEDS, SEEDS[:20]))
def test_tables_in_one_call_are_those_one_by_one(seed: int) -> None:
    together, apart = adam_tables(seed), adam_tables(seed)
    kept, draws = kept_of(together), np.random.default_rng(seed)
    for step in range(6):
        if step % 3:  # the same rows come twice
            gradients = [other_gradient(one, draws) for one in together]
            together = gradients
            apart = [
                one._replace(rows=other.rows, value=other.value)
                for one, other in zip(apart, gradients, strict=True)
            ]
        assert stepped(kept, together)
        for one in apart:
            adam_step_rows(*one[:7], one.rate, BETAS, EPSILON)
        for one, other in zip(together, apart, strict=True):
            assert all(map(torch.equal, one, other))


def test_tables_that_one_call_does_not_take_stay_as_they_are() -> None:
    whole, other = adam_tables(4), adam_tables(5)
    one = whole[-1]
    others = torch.float64 if one.rate.dtype is torch.float32 else torch.float32
    odd = [
        [*whole, other[0]],
        [*whole, one._replace(rate=one.rate.to(others))],
        [*whole, one._replace(power1=torch.ones(2, dtype=one.param.dtype))],
        [*whole, one._replace(value=one.value.half())],
        [*whole, one._replace(value=one.value[:, 1:])],
        [*whole, one._replace(rows=one.rows.int())],
        [*whole, one._replace(rows=one.rows[1:])],
        [*whole, one._replace(moment2=one.moment2[1:])],
    ]
    for tables in odd:
        assert not stepped(kept_of(tables), tables)
    kept = kept_of(whole)
    whole[0].param.resize_(1, whole[0].param.shape[1])
    assert not stepped(kept, whole)
    for found, wanted in zip(whole[1:], adam_tables(4)[1:], strict=True):
        assert all(map(torch.equal, found, wanted))


def test_tables_that_are_taken_once_are_looked_at_again() -> None:
    tables = adam_tables(4)
    kept = kept_of(tables)
    assert stepped(kept, tables)
    odd = [*tables[:-1], tables[-1]._replace(value=tables[-1].value.half())]
    before = [[one.clone() for one in table] for table in tables]
    assert not stepped(kept, odd)
    for found, wanted in zip(tables, before, strict=True):
        assert all(map(torch.equal, found, wanted))
    assert stepped(kept, tables)


def test_a_row_that_one_of_the_tables_lacks_is_an_error_of_that_table() -> None:
    first, second, third = (adam_tables(seed)[0] for seed in (0, 2, 4))
    wrong = torch.tensor([0, second.param.shape[0]])
    bad = second._replace(rows=wrong, value=torch.ones(2, second.param.shape[1]))
    before = bad.param.clone(), third.param.clone(), third.power1.clone()
    with pytest.raises(IndexError, match=f"the parameter has {second.param.shape[0]} rows"):
        stepped(kept_of([first, bad, third]), [first, bad, third])
    assert all(map(torch.equal, before, (bad.param, third.param, third.power1)))


@pytest.mark.parametrize("seed", often(SEEDS, SEEDS[:20]))
def test_threads_change_no_number(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one table, and of several in one call: rows that come many times, too."""
    alone, shared = adam_tables(seed), adam_tables(seed)
    kept, before = kept_of(shared), torch.get_num_threads()
    largest = max(one.value.numel() for one in shared)
    for much, size in ((0, 2), (0, 5), (largest + 1, 3)):
        for one in alone:
            adam_step_rows(*one[:7], one.rate, BETAS, EPSILON)
        monkeypatch.setattr(updates, "_MUCH", much)
        torch.set_num_threads(size)
        try:
            if not stepped(kept, shared):
                assert not much
                for one in shared:
                    adam_step_rows(*one[:7], one.rate, BETAS, EPSILON)
        finally:
            torch.set_num_threads(before)
            monkeypatch.undo()
        for one, other in zip(shared, alone, strict=True):
            assert all(map(torch.equal, one, other))


@pytest.mark.parametrize("seed", range(4))
def test_shared_tables_stop_before_the_one_that_lacks_a_row(
    seed: int, sharing: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = [one for number in range(8) for one in adam_tables(2 * number)]
    place = seed * (len(tables) - 1) // 3
    bad = tables[place]
    wrong = torch.tensor([0, bad.param.shape[0]])
    bad = bad._replace(rows=wrong, value=torch.ones(2, bad.param.shape[1]))
    asked = [*tables[:place], bad, *tables[place + 1 :]]
    twins = [AdamTable(*(part.clone() for part in one)) for one in asked]
    monkeypatch.setattr(updates, "_MUCH", 1 + max(one.value.numel() for one in asked))
    with pytest.raises(IndexError, match=f"the parameter has {bad.param.shape[0]} rows"):
        stepped(kept_of(asked), asked)
    for number, (one, twin) in enumerate(zip(asked, twins, strict=True)):
        if number < place:
            adam_step_rows(*twin[:7], twin.rate, BETAS, EPSILON)
        assert number == place or all(map(torch.equal, one, twin))
        assert torch.equal(one.param, twin.param)


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
