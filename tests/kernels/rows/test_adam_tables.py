"""Adam's updates of several tables are those of one after the other, whoever makes them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor

from refluid.kernels.rows import updates
from refluid.kernels.rows.updates import AdamTables, adam_step_rows
from tests.choices import often
from tests.kernels.rows.drawing import SEEDS, drawn, tensors


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
