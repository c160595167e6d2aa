"""How many levels of sequences operators take, and which of them they use."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from refluid.core.errors import EnforceNotMet
from tests.ops.sequences import call, levels, random

X = random(6, 3)
TWO_LEVELS = levels([2, 1], [1, 3, 2])


@pytest.mark.parametrize(
    "op_type, attrs",
    [
        ("sequence_conv", {"contextLength": 1}),
        ("sequence_reverse", {}),
        ("sequence_reshape", {"new_dim": 1}),
        ("sequence_slice", {}),
        ("sequence_scatter", {}),
        ("fused_embedding_seq_pool", {}),
        ("chunk_eval", {"num_chunk_types": 1}),
    ],
)
def test_one_level_is_all_that_some_take(op_type: str, attrs: dict[str, Any]) -> None:
    columns = X.shape[1]
    more: dict[str, Any] = {
        "sequence_conv": {"PaddingData": None, "Filter": random(columns, 2)},
        "sequence_slice": {"Offset": torch.zeros(3, 1), "Length": torch.ones(3, 1)},
        "sequence_scatter": {"Ids": torch.zeros(6, 1).long(), "Updates": random(6, 1)},
        "fused_embedding_seq_pool": {"W": random(4, 3), "Ids": torch.zeros(6, 1).long()},
        "chunk_eval": {"Inference": torch.zeros(6, 1).long(), "Label": torch.zeros(6, 1).long()},
    }
    given = more.get(op_type, {})
    given = given if {"W", "Label"} & given.keys() else {"X": X} | given
    (slot,) = [one for one in ("Ids", "Label", "X") if one in given][:1]
    with pytest.raises(EnforceNotMet, match=f"{slot} must have sequences of 1 level.* 2 levels"):
        call(op_type, given, {slot: TWO_LEVELS}, **attrs)


def test_recurrences_take_one_level() -> None:
    weights = {"Weight": random(2, 8), "Bias": random(1, 8)}
    with pytest.raises(EnforceNotMet, match=r"lstm takes sequences of one level, .* has 2"):
        inputs = {"Input": random(6, 8), "H0": None, "C0": None} | weights
        call("lstm", inputs, {"Input": TWO_LEVELS}, use_peepholes=False)
    with pytest.raises(EnforceNotMet, match=r"gru takes sequences of one level, .* has 2"):
        inputs = {"Input": random(6, 6), "H0": None, "Weight": random(2, 6), "Bias": random(1, 6)}
        call("gru", inputs, {"Input": TWO_LEVELS})


def test_some_count_the_first_level_in_rows() -> None:
    ids = torch.tensor([[0], [1], [1], [2], [2], [0]])
    out, _, lod = call("ctc_align", {"Input": ids, "InputLength": None}, {"Input": TWO_LEVELS})
    assert out.tolist() == [[1], [2], [2]]
    assert lod == levels([2, 1])


@pytest.mark.parametrize("op_type", ["sequence_pad", "sequence_enumerate"])
def test_some_take_the_first_level_for_that_of_rows(op_type: str) -> None:
    attrs = {"win_size": 2} if op_type == "sequence_enumerate" else {}
    given = {"X": torch.arange(6.0).reshape(6, 1)}
    given |= {} if attrs else {"PadValue": torch.zeros(1)}
    with pytest.raises(EnforceNotMet, match="the sequences of X cover 3 rows but it has 6"):
        call(op_type, given, {"X": TWO_LEVELS}, **attrs)
    six = levels([4, 2], [1] * 6)
    found = call(op_type, given, {"X": six}, **attrs)
    assert torch.equal(found[0], call(op_type, given, {"X": six[:1]}, **attrs)[0])


def test_a_pool_needs_as_many_rows_as_there_are_sequences() -> None:
    with pytest.raises(EnforceNotMet, match="X has 2 rows, but 3 sequences need as many"):
        call("sequence_pool", {"X": X[:2]}, {"X": levels([0, 2, 0])}, pooltype="SUM")
