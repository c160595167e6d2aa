"""Gradients of operators on sequences, written by hand, against autograd of what they compute."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tests.ops.sequences import by_autograd, by_hand, levels, random

LENGTHS = [2, 0, 3, 1]
LOD = levels(LENGTHS)
X = random(6, 4)
SIDE = levels([1, 2, 0, 2])
FEW = levels([1, 2])
POOLS = ("SUM", "AVERAGE", "SQRT", "MAX", "FIRST", "LAST")
IDS = torch.tensor([[1], [1], [0], [2], [3], [3]])
CONV = {"contextStart": -2, "contextLength": 3}
GRADIENTS: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    **{
        f"sequence_pool {kind}": ({"X": X}, {"X": LOD}, {"pooltype": kind, "pad_value": 3.0})
        for kind in POOLS
    },
    "sequence_conv": ({"X": X, "Filter": random(12, 5)}, {"X": LOD}, CONV),
    "sequence_conv learned": (
        {"X": X, "Filter": random(12, 5), "PaddingData": random(2, 4)},
        {"X": LOD},
        {**CONV, "paddingTrainable": True},
    ),
    "row_conv": ({"X": X, "Filter": random(3, 4)}, {"X": LOD}, {}),
    "sequence_softmax": ({"X": X[:, :1]}, {"X": LOD}, {}),
    "sequence_expand": ({"X": X[:4], "Y": X}, {"Y": LOD}, {}),
    "sequence_expand nested": (
        {"X": X, "Y": X},
        {"X": levels([1, 2, 3]), "Y": levels([2, 0, 2], LENGTHS)},
        {"ref_level": 0},
    ),
    "sequence_expand_as": ({"X": X[:4], "Y": X}, {"Y": LOD}, {}),
    "sequence_pad": ({"X": X, "PadValue": X[0]}, {"X": LOD}, {"padded_length": 4}),
    "sequence_unpad": (
        {"X": random(4, 3, 2), "Length": torch.tensor(LENGTHS)},
        {},
        {},
    ),
    "sequence_reshape": ({"X": X}, {"X": LOD}, {"new_dim": 2}),
    "sequence_slice": (
        {"X": X, "Offset": torch.tensor([1, 0, 0, 0]), "Length": torch.tensor([1, 0, 2, 1])},
        {"X": LOD},
        {},
    ),
    "sequence_concat": ({"X": [X, random(5, 4)]}, {"X": [LOD, SIDE]}, {}),
    "sequence_scatter": ({"X": X[:4], "Ids": IDS, "Updates": random(6, 1)}, {"Ids": LOD}, {}),
    "lod_reset": ({"X": X}, {"X": LOD}, {"target_lod": [0, 6]}),
    "im2sequence": (
        {"X": random(2, 3, 4, 5)},
        {},
        {"kernels": [2, 3], "strides": [2, 1], "paddings": [1, 0, 0, 2]},
    ),
    "fused_embedding_seq_pool": (
        {"W": random(4, 5), "Ids": IDS},
        {"Ids": LOD},
        {"padding_idx": 1},
    ),
    "match_matrix_tensor": (
        {"X": X, "Y": random(5, 3), "W": random(4, 2, 3)},
        {"X": LOD, "Y": SIDE},
        {"dim_t": 2},
    ),
    "sequence_topk_avg_pooling": (
        {"X": random(16, 1), "ROW": X[:3], "COLUMN": X[:5]},
        {"X": levels([4, 12]), "ROW": FEW, "COLUMN": levels([2, 3])},
        {"topks": [1, 3], "channel_num": 2},
    ),
    "var_conv_2d": (
        {"X": random(16, 1), "ROW": X[:3], "COLUMN": X[:5], "W": random(3, 12)},
        {"X": levels([4, 12]), "ROW": FEW, "COLUMN": levels([2, 3])},
        {"InputChannel": 2, "OutputChannel": 3, "KernelH": 3, "KernelW": 2, "StrideW": 2},
    ),
}


@pytest.mark.parametrize("case", GRADIENTS)
def test_gradient(case: str) -> None:
    inputs, lods, attrs = GRADIENTS[case]
    op_type = case.split()[0]
    wanted = by_autograd(op_type, inputs, lods, **attrs)
    found = by_hand(op_type, inputs, lods, **attrs)
    for name, gradients in wanted.items():
        for one, other in zip(found[name], gradients, strict=True):
            assert one.shape == other.shape
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
