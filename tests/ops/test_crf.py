"""CRF by trying every path, and chunks by going through the tags one by one."""

from __future__ import annotations

import itertools
import random

import pytest
import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.core.offsets import Offsets
from refluid.ops.loss.crf import crf_decoding, linear_chain_crf, linear_chain_crf_grad
from refluid.ops.metric.chunks import chunk_eval

LENGTHS, TAGS, LONGEST = [2, 0, 4, 1, 3], 3, 5
LOD = (Offsets.of_lengths(LENGTHS),)
INSIDE = torch.arange(LONGEST) < torch.tensor(LENGTHS).view(-1, 1)


def _by_all_paths(x: Tensor, w: Tensor, label: Tensor) -> tuple[Tensor, list[int]]:
    costs, best = [], []
    for rows, labels in zip(x.split(LENGTHS), label.split(LENGTHS), strict=True):
        if not len(rows):
            costs.append(x.sum() * 0)
            continue
        paths = list(itertools.product(range(TAGS), repeat=len(rows)))
        scores = torch.stack([_score(rows, w, path) for path in paths])
        given = _score(rows, w, tuple(labels.view(-1).tolist()))
        costs.append(torch.logsumexp(scores, 0) - given)
        best += paths[int(scores.argmax())]
    return torch.stack(costs).view(-1, 1), best


def _score(rows: Tensor, w: Tensor, path: tuple[int, ...]) -> Tensor:
    score = w[0, path[0]] + w[1, path[-1]]
    for step, tag in enumerate(path):
        score = score + rows[step, tag] + (w[2 + path[step - 1], tag] if step else 0.0)
    return score


def _padded(rows: Tensor) -> Tensor:
    out = torch.randn(len(LENGTHS), LONGEST, *rows.shape[1:]).to(rows.dtype)
    out[INSIDE] = rows.detach()
    return out


@pytest.mark.parametrize("padded", [False, True])
def test_likelihood_gradient_and_path(padded: bool) -> None:
    torch.manual_seed(0)
    x = torch.randn(sum(LENGTHS), TAGS, dtype=torch.float64, requires_grad=True)
    w = torch.randn(TAGS + 2, TAGS, dtype=torch.float64, requires_grad=True)
    label = torch.randint(0, TAGS, (sum(LENGTHS), 1))
    wanted, best = _by_all_paths(x, w, label)
    grad = torch.randn_like(wanted)
    d_x, d_w = torch.autograd.grad(wanted, [x, w], grad)
    given = (_padded(x), w.detach(), _padded(label) % TAGS) if padded else (x, w.detach(), label)
    length = torch.tensor(LENGTHS).view(-1, 1) if padded else None
    lod = () if padded else LOD
    with torch.no_grad():
        *kept, cost = linear_chain_crf(*given, length, lod_Emission=lod)
        found = linear_chain_crf_grad(*given, length, *kept, grad, lod_Emission=lod)
        path = crf_decoding(*given[:2], None, length, lod_Emission=lod)
        right = crf_decoding(*given[:2], given[2], length, lod_Emission=lod)
    torch.testing.assert_close(cost, wanted.detach())
    assert found[0] is not None
    torch.testing.assert_close(found[0][INSIDE] if padded else found[0], d_x)
    torch.testing.assert_close(found[1], d_w)
    rows = path[INSIDE] if padded else path.view(-1)
    assert rows.tolist() == best
    assert right.sum() == (rows == label.view(-1)).sum()
    if padded:
        assert not found[0][~INSIDE].any()
        assert not path[~INSIDE].any()


def test_length_must_fit() -> None:
    given = torch.zeros(2, 3, TAGS), torch.zeros(TAGS + 2, TAGS), torch.zeros(2, 3).long()
    with pytest.raises(EnforceNotMet, match="does not fit"):
        linear_chain_crf(*given, torch.tensor([4, 1]), lod_Emission=())


KINDS = {"IOB": "BI", "IOE": "IE", "IOBES": "BIES", "plain": "I"}


def _chunks(tags: list[int], scheme: str, types: int) -> set[tuple[int, int, int]]:
    """Chunks of one sequence: first row, last row, type."""
    kinds = KINDS[scheme]
    found: set[tuple[int, int, int]] = set()
    start: int | None = None
    before = ("O", types)
    for row, tag in enumerate([*tags, types * len(kinds)]):
        label = min(tag // len(kinds), types)
        kind = "O" if label == types else kinds[tag % len(kinds)]
        goes_on = (
            start is not None
            and kind != "O"
            and label == before[1]
            and kind not in "BS"
            and before[0] not in "ES"
        )
        if start is not None and not goes_on:
            found.add((start, row - 1, before[1]))
            start = None
        if start is None and kind != "O":
            start = row
        before = (kind, label)
    return found


@pytest.mark.parametrize("excluded", [[], [1], [0, 2]])
@pytest.mark.parametrize("scheme", KINDS)
def test_chunks(scheme: str, excluded: list[int]) -> None:
    draw = random.Random(0)
    types, most = 3, 3 * len(KINDS[scheme])
    for _ in range(20):
        lengths = [draw.randint(0, 9) for _ in range(4)] + [1]
        label = [draw.randint(0, most) for _ in range(sum(lengths))]
        inferred = [one if draw.random() < 0.7 else draw.randint(0, most) for one in label]
        offsets = Offsets.of_lengths(lengths)
        sets = [
            {
                (number, *chunk)
                for number, (start, length) in enumerate(zip(offsets.values, lengths, strict=False))
                for chunk in _chunks(tags[start : start + length], scheme, types)
                if chunk[2] not in excluded
            }
            for tags in (inferred, label)
        ]
        attrs = {"num_chunk_types": types, "chunk_scheme": scheme}
        rows = [torch.tensor(tags).view(-1, 1) for tags in (inferred, label)]
        result = chunk_eval(
            *rows, None, **attrs, excluded_chunk_types=excluded, lod_Label=(offsets,)
        )
        wanted = [len(sets[0]), len(sets[1]), len(sets[0] & sets[1])]
        assert [int(one) for one in result[3:]] == wanted
        dense = [torch.zeros(5, 9, dtype=torch.long) for _ in rows]
        mask = torch.arange(9) < torch.tensor(lengths).view(-1, 1)
        for one, other in zip(dense, rows, strict=True):
            one[mask] = other.view(-1)
        again = chunk_eval(
            *dense,
            torch.tensor(lengths),
            **attrs,
            excluded_chunk_types=excluded,
            lod_Label=(),
        )
        assert all(map(torch.equal, result, again))
