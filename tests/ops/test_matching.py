"""Matching of priors with ground truth, against the algorithm told step by step."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

import refluid.ops  # noqa: F401
from refluid.core.errors import EnforceNotMet
from refluid.core.offsets import Offsets
from tests.ops.running import run_op
from tests.ops.test_nms import body


def _greedy(table: Tensor) -> list[int]:
    """The row of each column, taking the largest distance of all again and again."""
    left, found = table.clone(), [-1] * table.shape[1]
    while left.numel() and left.max() > 1e-6:
        column = int(left.amax(0).argmax())
        row = int(left[:, column].argmax())
        found[column] = row
        left[row, :] = left[:, column] = -1
    return found


@pytest.mark.parametrize("levels", [4, 1000])
@pytest.mark.parametrize("kind", ["bipartite", "per_prediction"])
def test_bipartite_match(kind: str, levels: int) -> None:
    """Distances of few levels are often equal."""
    random = np.random.RandomState(levels)
    offsets = Offsets([0, 3, 3, 10])
    table = torch.from_numpy(random.randint(0, levels, (10, 6)) / levels)
    index, distance = body("bipartite_match")(
        table, lod_DistMat=(offsets,), match_type=kind, dist_threshold=0.6
    )
    assert index.dtype == torch.int32
    for number, (start, end) in enumerate(((0, 3), (3, 3), (3, 10))):
        own = table[start:end]
        wanted = _greedy(own)
        if kind == "per_prediction" and end > start:
            for column, row in enumerate(wanted):
                best = int(own[:, column].argmax())
                if row == -1 and own[best, column] >= 0.6:
                    wanted[column] = best
        assert index[number].tolist() == wanted
        expected = [float(own[row, col]) if row >= 0 else 0.0 for col, row in enumerate(wanted)]
        assert distance[number].tolist() == expected


def test_bipartite_match_without_lod_is_one_instance() -> None:
    index, distance = body("bipartite_match")(torch.tensor([[0.2, 0.9], [0.0, 0.8]]))
    assert index.tolist() == [[-1, 0]] and distance.tolist() == [[0, pytest.approx(0.9)]]


def test_target_assign() -> None:
    rows = torch.arange(12.0).reshape(3, 2, 2)
    matches = torch.tensor([[-1, 1, 0, -1], [0, -1, -1, -1]], dtype=torch.int32)
    negative = torch.tensor([[3], [1], [2]], dtype=torch.int32)
    out, weight = body("target_assign")(
        rows,
        matches,
        negative,
        lod_X=(Offsets([0, 2, 3]),),
        lod_NegIndices=(Offsets([0, 1, 3]),),
        mismatch_value=7,
    )
    assert out[0].tolist() == [[7, 7], [6, 7], [0, 1], [7, 7]]
    assert out[1].tolist() == [[8, 9], [7, 7], [7, 7], [7, 7]]
    assert weight.dtype == torch.float32
    assert weight[..., 0].tolist() == [[0, 1, 1, 1], [1, 1, 1, 0]]
    with pytest.raises(EnforceNotMet, match="LoD"):
        body("target_assign")(rows, matches)


def test_target_assign_without_ground_truth() -> None:
    matches = torch.full((2, 3), -1, dtype=torch.int32)
    empty = torch.zeros((0, 1, 1), dtype=torch.int32)
    out, weight = body("target_assign")(empty, matches, lod_X=(Offsets([0, 0, 0]),))
    assert out.dtype == torch.int32 and out.shape == (2, 3, 1) and not out.any()
    assert not weight.any()


def test_max_negative_takes_the_highest_losses() -> None:
    loss = torch.tensor([[0.1, 0.9, 0.8, 0.7, 0.6], [0.5, 0.4, 0.3, 0.2, 0.1]])
    match = torch.tensor([[0, -1, -1, -1, -1], [-1, -1, -1, -1, -1]], dtype=torch.int32)
    distance = torch.tensor([[0.9, 0.6, 0.1, 0.0, 0.2], [0.0, 0.0, 0.0, 0.0, 0.0]])
    negative, updated, lod = body("mine_hard_examples")(
        loss, None, match, distance, neg_pos_ratio=2.0, neg_dist_threshold=0.5
    )
    assert negative.tolist() == [[2], [3]] and negative.dtype == torch.int32
    assert lod[0].lengths == [2, 0]
    assert torch.equal(updated, match)


def test_hard_example_takes_the_highest_losses_of_all() -> None:
    loss, more = torch.tensor([[0.1, 0.9, 0.8, 0.2]]), torch.tensor([[0.9, 0.0, 0.0, 0.0]])
    match = torch.tensor([[0, -1, 1, 2]], dtype=torch.int32)
    negative, updated, lod = body("mine_hard_examples")(
        loss, more, match, torch.zeros(1, 4), mining_type="hard_example", sample_size=2
    )
    assert updated.tolist() == [[0, -1, -1, -1]]
    assert negative.tolist() == [[1]] and lod[0].lengths == [1]
    with pytest.raises(EnforceNotMet, match="mining_type"):
        body("mine_hard_examples")(loss, more, match, match, mining_type="easy")


def test_boxes_without_an_area_have_nothing_in_common() -> None:
    empty = np.array([[1.0, 1.0, 0.5, 0.0], [0.2, 0.2, 0.2, 0.2]], "float32")
    for normalized in (True, False):
        found = run_op("iou_similarity", {"X": empty, "Y": empty}, {"box_normalized": normalized})
        assert np.isfinite(found["Out"]).all()
