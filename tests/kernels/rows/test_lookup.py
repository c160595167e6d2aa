"""Lookups by compiled code are torch's, bit for bit, with its errors."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from refluid import fluid
from refluid.kernels.rows import lookup
from refluid.kernels.rows.lookup import look_up, take_rows


@pytest.fixture(autouse=True)
def by_the_compiled_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """However few the rows are."""
    monkeypatch.setattr(lookup, "_FEW", 0)


KINDS = [torch.float32, torch.float64]


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("shape", [(0,), (3,), (40, 3), (2, 5, 7)], ids=str)
@pytest.mark.parametrize("width", [1, 3, 64])
def test_rows(shape: tuple[int, ...], width: int, kind: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(width)
    table = torch.randn(50, width, generator=generator, dtype=kind)
    ids = torch.randint(0, 50, shape, generator=generator)
    assert torch.equal(look_up(table, ids), torch.nn.functional.embedding(ids, table))


def test_what_is_laid_out_otherwise() -> None:
    table, ids = torch.randn(4, 9).t(), torch.tensor([[0, 8], [3, 3]]).t()
    assert torch.equal(look_up(table, ids), table[ids])
    whole = torch.arange(12, dtype=torch.int32).reshape(4, 3)
    assert torch.equal(look_up(whole, torch.tensor([3, 0])), whole[[3, 0]])
    assert torch.equal(
        look_up(torch.eye(3), torch.tensor([2], dtype=torch.int32)), torch.eye(3)[2:]
    )


@pytest.mark.parametrize("seed", range(6))
def test_rows_that_are_written_where_they_are_wanted(seed: int) -> None:
    """Also by torch: of other types, to other layouts."""
    generator = torch.Generator().manual_seed(seed)
    height, width, count = torch.randint(1, 40, (3,), generator=generator).tolist()
    kind = [torch.float32, torch.float64, torch.int32][seed % 3]
    table = (100 * torch.randn(height, width, generator=generator)).to(kind)
    ids = torch.randint(0, height, (count,), generator=generator)
    for out in (torch.full((count, width), 7).to(kind), torch.empty(width, count, dtype=kind).t()):
        assert take_rows(table, ids, out) is out
        assert torch.equal(out, table[ids])
        for row in (-1, height):
            with pytest.raises(IndexError):
                take_rows(table, torch.full((count,), row), out)
    assert torch.equal(take_rows(table, ids, None), table[ids])


@pytest.mark.parametrize("row", [-1, 5])
def test_rows_outside_the_table(row: int) -> None:
    with pytest.raises(IndexError):
        look_up(torch.zeros(5, 2), torch.tensor([0, row]))


def test_autograd_gets_torchs_own() -> None:
    table = torch.randn(6, 2, requires_grad=True)
    look_up(table, torch.tensor([1, 1, 4])).sum().backward()
    assert table.grad is not None
    assert table.grad.sum(1).tolist() == [0.0, 4.0, 0.0, 0.0, 2.0, 0.0]


@pytest.mark.parametrize("sparse", [True, False])
def test_recorded_steps_look_up_sparse_tables_so(
    sparse: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[torch.Size] = []
    ours = lookup._is_ours

    def watched(table: torch.Tensor, ids: torch.Tensor) -> bool:
        calls.append(ids.shape)
        return ours(table, ids)

    monkeypatch.setattr(lookup, "_is_ours", watched)
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        ids = fluid.data("ids", [None, 4], "int64")
        rows = fluid.embedding(ids, [30, 5], is_sparse=sparse, padding_idx=2)
        loss = fluid.layers.mean(fluid.layers.square(rows))
        fluid.optimizer.SGD(1.0).minimize(loss)
    exe, scope = fluid.Executor(fluid.CPUPlace()), fluid.Scope()
    exe.run(startup, scope=scope)
    feed = {"ids": np.array([[0, 1, 2, 29], [29, 5, 5, 2]])}
    losses = [exe.run(main, feed, [loss], scope=scope)[0].item() for _ in range(8)]
    assert losses == sorted(losses, reverse=True)
    assert calls == ([torch.Size([2, 4])] * 4 if sparse else [])
