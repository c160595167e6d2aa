"""Fused operators on sequences are what their parts make; matching against loops."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from refluid.core.selected_rows import SelectedRows
from tests.ops.sequences import call, levels, random, split

LENGTHS = [2, 0, 3, 1]
LOD = levels(LENGTHS)
X = random(6, 4)
IDS = torch.tensor([[1, 0], [1, 2], [0, 3], [2, 2], [3, 1], [3, 1]])


def _same(found: torch.Tensor, wanted: torch.Tensor) -> None:
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("pooltype", ["SUM", "AVERAGE", "SQRT"])
def test_pool_and_concat(pooltype: str) -> None:
    other, lod = random(5, 3, seed=1), levels([1, 2, 0, 2])
    pooled = [
        call("sequence_pool", {"X": rows}, {"X": one}, pooltype=pooltype)[0]
        for rows, one in ((X, LOD), (other, lod))
    ]
    inputs, lods = {"X": [X, other]}, {"X": [LOD, lod]}
    (out,) = call("fusion_seqpool_concat", inputs, lods, pooltype=pooltype)
    _same(out, torch.cat(pooled, 1))


def test_pool_of_shows_and_clicks() -> None:
    rows = X.abs()
    pooled = call("sequence_pool", {"X": rows}, {"X": LOD}, pooltype="SUM")[0]
    logs = (pooled[:, :2] + 1).log()
    inputs, lods = {"X": [rows], "CVM": X[:4, :2]}, {"X": [LOD]}
    (out,) = call("fusion_seqpool_cvm_concat", inputs, lods)
    _same(out, torch.cat((logs[:, :1], logs[:, 1:] - logs[:, :1], pooled[:, 2:]), 1))
    (out,) = call("fusion_seqpool_cvm_concat", inputs, lods, use_cvm=False)
    _same(out, pooled[:, 2:])


def test_conv_bias_and_relu() -> None:
    attrs = {"contextLength": 3, "contextStart": -1}
    inputs = {"X": X, "Filter": random(12, 5), "Bias": random(1, 5, seed=1)}
    out, contexts = call("fusion_seqconv_eltadd_relu", inputs, {"X": LOD}, **attrs)
    (plain,) = call("sequence_conv", inputs, {"X": LOD}, **attrs)
    _same(out, torch.relu(plain + inputs["Bias"]))
    _same(contexts @ inputs["Filter"], plain)


@pytest.mark.parametrize("act", ["identity", "relu", "sigmoid", "tanh"])
def test_expand_concat_and_fc(act: str) -> None:
    per_sequence, weights, bias = random(4, 3), random(7, 5, seed=1), random(5, seed=2)
    inputs = {"X": [X, per_sequence], "FCWeight": weights, "FCBias": bias}
    lods = {"X": [LOD, ()]}
    out, _ = call("fusion_seqexpand_concat_fc", inputs, lods, fc_activation=act)
    wide = call("sequence_expand_as", {"X": per_sequence, "Y": X}, {"Y": LOD})[0]
    plain = torch.cat((X, wide), 1) @ weights + bias
    _same(out, plain if act == "identity" else getattr(torch, act)(plain))


def test_embedding_and_pool() -> None:
    table = random(4, 5)
    inputs = {"W": table, "Ids": IDS}
    (out,) = call("fused_embedding_seq_pool", inputs, {"Ids": LOD})
    wanted = [part.sum(0) for part in split(table[IDS].flatten(1), LENGTHS)]
    np.testing.assert_allclose(out, wanted, rtol=1e-9, atol=1e-12)


def test_sparse_gradient_of_embedding_and_pool() -> None:
    inputs = {"W": random(4, 5), "Ids": IDS, "Out@GRAD": random(4, 10, seed=1)}
    (dense,) = call("fused_embedding_seq_pool_grad", inputs, {"Ids": LOD}, padding_idx=2)
    (sparse,) = call(
        "fused_embedding_seq_pool_grad", inputs, {"Ids": LOD}, padding_idx=2, is_sparse=True
    )
    assert isinstance(sparse, SelectedRows)
    _same(sparse.to_dense(), dense)


def test_matching() -> None:
    other, weights, lod = random(5, 3, seed=1), random(4, 2, 3, seed=2), levels([1, 2, 0, 2])
    inputs, lods = {"X": X, "Y": other, "W": weights}, {"X": LOD, "Y": lod}
    out, _, found = call("match_matrix_tensor", inputs, lods, dim_t=2)
    pairs = zip(split(X, LENGTHS), split(other, [1, 2, 0, 2]), strict=True)
    parts = [np.einsum("xd,dte,ye->txy", one, weights, two).flatten() for one, two in pairs]
    np.testing.assert_allclose(out.flatten(), np.concatenate(parts), rtol=1e-9)
    assert found == levels([4, 0, 0, 4])


def test_means_of_the_greatest() -> None:
    matrices = random(2 * (1 * 2 + 2 * 3), 1)
    inputs = {"X": matrices, "ROW": X[:3], "COLUMN": X[:5]}
    lods = {"ROW": levels([1, 2]), "COLUMN": levels([2, 3]), "X": levels([4, 12])}
    out, places, lod = call("sequence_topk_avg_pooling", inputs, lods, topks=[1, 3], channel_num=2)
    values = matrices.flatten().numpy()
    one, two = values[:4].reshape(2, 1, 2), values[4:].reshape(2, 2, 3)
    wanted = [
        [sum(sorted(channel[row])[::-1][:k]) / k for channel in matrix for k in (1, 3)]
        for matrix in (one, two)
        for row in range(matrix.shape[1])
    ]
    np.testing.assert_allclose(out, wanted, rtol=1e-9)
    assert places.shape == (3, 6)
    assert places[0, 2] == -1
    assert lod == lods["ROW"]


def test_convolution_of_images_of_any_size() -> None:
    images, weights = random(2 * (2 + 6), 1), random(3, 12, seed=1)
    inputs = {"X": images, "ROW": X[:3], "COLUMN": X[:5], "W": weights}
    lods = {"ROW": levels([1, 2]), "COLUMN": levels([2, 3]), "X": levels([4, 12])}
    attrs = {"InputChannel": 2, "OutputChannel": 3, "KernelH": 3, "KernelW": 2, "StrideW": 2}
    out, _, lod, _ = call("var_conv_2d", inputs, lods, **attrs)
    parts = []
    for flat, shape in ((images[:4], (2, 1, 2)), (images[4:], (2, 2, 3))):
        padded = torch.nn.functional.pad(flat.reshape(1, *shape), (1, 0, 1, 1))
        kernel = weights.reshape(3, 2, 3, 2)
        parts.append(torch.nn.functional.conv2d(padded, kernel, stride=(1, 2)).flatten())
    _same(out.flatten(), torch.cat(parts))
    assert lod == levels([3, 12])
