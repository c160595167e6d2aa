"""Operators on sparse gradients do what they do on the dense tensor those stand for."""

from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np
import pytest
import torch

import refluid.ops  # noqa: F401
from refluid.core.errors import EnforceNotMet
from refluid.core.selected_rows import SelectedRows
from refluid.kernels.rows.draws import RowDraws
from refluid.ops.registry import find

HEIGHT, WIDTH = 7, 3


def rows(seed: int = 0, index: tuple[int, ...] = (5, 2, 5, 0)) -> SelectedRows:
    """Sparse rows, some twice."""
    generator = torch.Generator().manual_seed(seed)
    value = torch.randn(len(index), WIDTH, generator=generator)
    return SelectedRows(list(index), HEIGHT, value)


def run(op_type: str, *inputs: object, **attrs: object) -> object:
    definition = find(op_type)
    assert definition is not None
    assert definition.body is not None
    return definition.body(*inputs, **attrs)


def dense(value: object) -> torch.Tensor:
    return value.to_dense() if isinstance(value, SelectedRows) else value  # type: ignore[return-value]


CASES = {
    "scale": {"scale": 2.5},
    "clip": {"min": -0.4, "max": 0.6},
    "clip_by_norm": {"max_norm": 0.5},
    "squared_l2_norm": {},
    "isfinite": {},
}


@pytest.mark.parametrize("op_type", CASES)
def test_as_on_the_dense_tensor(op_type: str) -> None:
    sparse, attrs = rows(), CASES[op_type]
    found = run(op_type, sparse, **attrs)
    torch.testing.assert_close(dense(found), run(op_type, sparse.to_dense(), **attrs))
    assert isinstance(found, SelectedRows) == (op_type.startswith("clip") or op_type == "scale")


def test_product_with_a_number() -> None:
    factor = torch.tensor([0.25])
    found = run("elementwise_mul", rows(), factor)
    assert isinstance(found, SelectedRows)
    torch.testing.assert_close(found.to_dense(), rows().to_dense() * factor)


@pytest.mark.parametrize("kinds", ["ss", "sd", "ds", "dsd", "d", "s", "ssds"])
def test_sums_of_sparse_and_dense(kinds: str) -> None:
    terms = [rows(seed) for seed in range(len(kinds))]
    mixed = [one if kind == "s" else one.to_dense() for one, kind in zip(terms, kinds, strict=True)]
    before = [dense(one).clone() for one in mixed]
    found = run("sum", mixed)
    assert isinstance(found, SelectedRows) == (set(kinds) == {"s"})
    torch.testing.assert_close(dense(found), sum(before))
    for one, value in zip(mixed, before, strict=True):
        torch.testing.assert_close(dense(one), value, rtol=0, atol=0)


def test_merging() -> None:
    merged = run("merge_selected_rows", rows())
    assert isinstance(merged, SelectedRows)
    assert merged.rows() == [0, 2, 5]
    torch.testing.assert_close(merged.to_dense(), rows().to_dense())
    tensor = run("get_tensor_from_selected_rows", merged)
    torch.testing.assert_close(tensor, merged.value)


def test_splitting_by_height() -> None:
    parts = run("split_selected_rows", rows(), height_sections=[4, 2, 1])
    assert isinstance(parts, list)
    assert [part.rows() for part in parts] == [[2, 0], [1, 1], []]
    assert [part.height() for part in parts] == [4, 2, 1]
    torch.testing.assert_close(torch.cat([dense(part) for part in parts]), rows().to_dense())


def test_ids_are_split_by_remainder() -> None:
    ids = [torch.tensor([[1], [2], [3], [4], [5], [6]]), torch.tensor([[2], [3]])]
    found = run("split_ids", ids, counts=(3,))
    assert [one.reshape(-1).tolist() for one in found] == [[3, 6], [1, 4], [2, 5]]  # type: ignore[attr-defined]
    parts = run("split_ids", [rows()], counts=(2,))
    assert [part.rows() for part in parts] == [[2, 0], [5, 5]]  # type: ignore[attr-defined]
    torch.testing.assert_close(sum(dense(part) for part in parts), rows().to_dense())  # type: ignore[attr-defined]


def test_ids_are_put_back_in_order() -> None:
    ids = [torch.tensor([[3], [1], [3]]), torch.tensor([[2]])]
    spread = [torch.tensor([[2]]), torch.tensor([[1], [3]])]
    values = [one.float() * torch.ones(1, 2) for one in spread]
    found = run("merge_ids", ids, spread, values)
    assert [one[:, 0].tolist() for one in found] == [[3.0, 1.0, 3.0], [2.0]]  # type: ignore[attr-defined]
    with pytest.raises(EnforceNotMet, match="none of Rows"):
        run("merge_ids", [torch.tensor([[9]])], spread, values)


def test_a_table_grows_by_what_it_meets() -> None:
    table = SelectedRows([4], 100, torch.full((1, 2), 7.0))
    ids = torch.tensor([[9], [4], [9]])
    unknown = run("lookup_sparse_table", table, ids, is_test=True, random=lambda seed: None)
    assert dense(unknown).tolist() == [[0.0, 0.0], [7.0, 7.0], [0.0, 0.0]]
    found = dense(run("lookup_sparse_table", table, ids, random=lambda seed: None))
    assert sorted(table.rows()) == [4, 9]
    assert torch.equal(found[0], found[2])
    again = run("lookup_sparse_table", table, ids, padding_idx=4, random=lambda seed: None)
    assert torch.equal(dense(again)[0], found[0])
    assert dense(again)[1].tolist() == [0.0, 0.0]


def test_a_table_reads_what_it_has_not_met() -> None:
    source = np.random.RandomState(0)
    for count in (0, 1, 300):
        known = torch.from_numpy(source.randint(-(2**62), 2**62, count))
        known = torch.cat([known, known[: count // 3]])  # the first of equal rows is read
        table = SelectedRows(known, 100, torch.from_numpy(source.rand(len(known), 3)))
        others = torch.from_numpy(source.randint(-(2**62), 2**62, 40))
        ids = torch.cat([known, others])[torch.from_numpy(source.permutation(len(known) + 40))]
        draws = RowDraws("uniform", -1.0, 1.0, 5)
        begun = torch.empty(len(ids), 3, dtype=torch.float64)
        draws.fill(ids, begun)
        rows = dict(zip(reversed(known.tolist()), reversed(table.value.tolist()), strict=True))
        pairs = zip(ids.tolist(), begun.tolist(), strict=True)
        wanted = [rows.get(one, first) for one, first in pairs]
        for shape, version in (((-1, 2, 1), "lookup_table"), ((-1, 2), "lookup_table_v2")):
            even = ids[: len(ids) // 2 * 2]
            found = dense(
                run(
                    "lookup_rows",
                    table,
                    even.reshape(shape),
                    lookup_table_version=version,
                    first_rows=json.dumps(asdict(draws)),
                )
            )
            assert found.shape == (len(even) // 2, 2, 3)
            assert found.reshape(-1, 3).tolist() == wanted[: len(even)]
        assert len(table.rows()) == len(known)


@pytest.mark.parametrize("op_type", ["lookup_table", "lookup_table_v2"])
@pytest.mark.parametrize("padding", [-1, 2])
def test_gradient_of_a_lookup(op_type: str, padding: int) -> None:
    ids = torch.tensor([[1, 2], [2, 5]])
    ids = ids.unsqueeze(-1) if op_type == "lookup_table" else ids
    grad = torch.randn(2, 2, WIDTH)
    arguments = torch.zeros(HEIGHT, WIDTH), ids, grad
    found = run(f"{op_type}_grad", *arguments, is_sparse=True, padding_idx=padding)
    whole = run(f"{op_type}_grad", *arguments, padding_idx=padding)
    assert isinstance(found, SelectedRows)
    assert found.rows() == [1, 2, 2, 5]
    kept = found.to_dense()
    if padding != -1:  # only the sparse gradient keeps its row
        torch.testing.assert_close(kept[padding], grad.reshape(-1, WIDTH)[1:3].sum(0))
        assert not whole[padding].any()
        kept[padding] = 0.0
    torch.testing.assert_close(kept, whole)
