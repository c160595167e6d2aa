"""Operators on sequences against loops over the sequences, and gradients against autograd."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from tests.ops.sequences import call, levels, random, split

LENGTHS = [2, 0, 3, 1]
LOD = levels(LENGTHS)
X = random(6, 4)
SIDE = levels([1, 2, 0, 2])


def _close(found: Tensor, wanted: Any) -> None:
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-9, atol=1e-12)


def _joined(parts: list[Any]) -> Any:
    return np.concatenate([part for part in parts if len(part)])


POOLS = {
    "SUM": lambda part: part.sum(0),
    "AVERAGE": lambda part: part.mean(0),
    "SQRT": lambda part: part.sum(0) / np.sqrt(len(part)),
    "MAX": lambda part: part.max(0),
    "FIRST": lambda part: part[0],
    "LAST": lambda part: part[-1],
}


@pytest.mark.parametrize("pooltype", POOLS)
def test_pool(pooltype: str) -> None:
    out, index, lod = call("sequence_pool", {"X": X}, {"X": LOD}, pooltype=pooltype, pad_value=7.0)
    parts = split(X, LENGTHS)
    _close(out, [POOLS[pooltype](part) if len(part) else np.full(4, 7.0) for part in parts])
    assert lod == ()
    if pooltype == "MAX":
        assert index.dtype == torch.int32
        assert (index[1] == -1).all()
        _close(X.gather(0, index[[0, 2, 3]].long()), out[[0, 2, 3]].numpy())
    else:
        assert index is None


def test_pool_keeps_the_upper_levels() -> None:
    nested = levels([1, 3], LENGTHS)
    out, _, lod = call("sequence_pool", {"X": X.reshape(6, 2, 2)}, {"X": nested}, pooltype="SUM")
    assert out.shape == (4, 2, 2)
    assert lod == nested[:1]


def test_a_value_without_sequences_is_an_error() -> None:
    with pytest.raises(EnforceNotMet, match="X has no sequences"):
        call("sequence_pool", {"X": X}, {})
    with pytest.raises(EnforceNotMet, match="cover 6 rows but it has 5"):
        call("sequence_pool", {"X": X[:5]}, {"X": LOD})


def _contexts(parts: list[Any], start: int, length: int, edges: Any = None) -> list[Any]:
    before = max(-start, 0)
    found = []
    for part in parts:
        for place in range(len(part)):
            row = []
            for shift in range(start, start + length):
                at = place + shift
                if 0 <= at < len(part):
                    row.append(part[at])
                elif edges is None:
                    row.append(np.zeros(part.shape[1]))
                else:
                    row.append(edges[before + at if at < 0 else before + at - len(part)])
            found.append(np.concatenate(row))
    return found


@pytest.mark.parametrize("start, length", [(-1, 3), (0, 1), (-2, 2), (1, 2), (-4, 6)])
def test_conv(start: int, length: int) -> None:
    weights = random(length * 4, 5, seed=1)
    attrs = {"contextStart": start, "contextLength": length}
    (out,) = call("sequence_conv", {"X": X, "Filter": weights}, {"X": LOD}, **attrs)
    _close(out, np.stack(_contexts(split(X, LENGTHS), start, length)) @ weights.numpy())


def test_conv_with_learned_edges() -> None:
    weights, edges = random(12, 5, seed=1), random(3, 4, seed=2)
    attrs = {"contextStart": -2, "contextLength": 3, "paddingTrainable": True}
    inputs = {"X": X, "Filter": weights, "PaddingData": edges}
    (out,) = call("sequence_conv", inputs, {"X": LOD}, **attrs)
    _close(out, np.stack(_contexts(split(X, LENGTHS), -2, 3, edges.numpy())) @ weights.numpy())


def test_row_conv() -> None:
    weights = random(3, 4, seed=1)
    (out,) = call("row_conv", {"X": X, "Filter": weights}, {"X": LOD})
    contexts = np.stack(_contexts(split(X, LENGTHS), 0, 3)).reshape(6, 3, 4)
    _close(out, (contexts * weights.numpy()).sum(1))
    (dense,) = call("row_conv", {"X": X.reshape(2, 3, 4), "Filter": weights}, {})
    (rows,) = call("row_conv", {"X": X, "Filter": weights}, {"X": levels([3, 3])})
    assert torch.equal(dense.reshape(6, 4), rows)


def test_softmax() -> None:
    (out,) = call("sequence_softmax", {"X": X[:, :1]}, {"X": LOD})
    parts = [np.exp(part) / np.exp(part).sum() for part in split(X[:, :1], LENGTHS) if len(part)]
    _close(out, _joined(parts))


def test_expand_rows_and_sequences() -> None:
    rows = random(2, 3)
    out, lod = call("sequence_expand", {"X": rows, "Y": X}, {"Y": levels([2, 4])})
    _close(out, np.repeat(rows.numpy(), [2, 4], 0))
    assert lod == ()
    nested = levels([2, 0, 2], LENGTHS)
    inner = levels([1, 2, 3])
    out, lod = call("sequence_expand", {"X": X, "Y": X}, {"X": inner, "Y": nested}, ref_level=0)
    _close(out, X[[0, 0, 3, 4, 5, 3, 4, 5]].numpy())
    assert lod == levels([1, 1, 3, 3])


def test_expand_as() -> None:
    rows = random(4, 3)
    out, lod = call("sequence_expand_as", {"X": rows, "Y": X}, {"Y": LOD})
    _close(out, np.repeat(rows.numpy(), LENGTHS, 0))
    assert lod == LOD
    with pytest.raises(EnforceNotMet, match="3 rows but Y 4 sequences"):
        call("sequence_expand_as", {"X": rows[:3], "Y": X}, {"Y": LOD})


@pytest.mark.parametrize("length, value", [(-1, [9.0]), (5, [1.0, 2.0, 3.0, 4.0])])
def test_pad_and_unpad(length: int, value: list[float]) -> None:
    fill = torch.tensor(value, dtype=torch.float64)
    inputs = {"X": X, "PadValue": fill}
    out, lengths = call("sequence_pad", inputs, {"X": LOD}, padded_length=length)
    assert out.shape == (4, 3 if length == -1 else 5, 4)
    assert lengths.tolist() == LENGTHS
    for part, row in zip(split(X, LENGTHS), out.numpy(), strict=True):
        assert np.array_equal(row[: len(part)], part)
        assert (row[len(part) :] == fill.numpy()).all()
    back, lod = call("sequence_unpad", {"X": out, "Length": lengths}, {})
    assert torch.equal(back, X)
    assert lod == LOD


def test_padding_too_short() -> None:
    with pytest.raises(EnforceNotMet, match="padded_length 2"):
        call("sequence_pad", {"X": X, "PadValue": X[0]}, {"X": LOD}, padded_length=2)
    with pytest.raises(EnforceNotMet, match="a length of 4"):
        call("sequence_unpad", {"X": X.reshape(2, 3, 4), "Length": torch.tensor([4, 1])}, {})


def test_mask() -> None:
    lengths = torch.tensor([[1, 3], [0, 2]])
    (mask,) = call("sequence_mask", {"X": lengths}, {}, out_dtype=5)
    assert mask.dtype == torch.float32
    assert mask.tolist() == [[[1, 0, 0], [1, 1, 1]], [[0, 0, 0], [1, 1, 0]]]
    (mask,) = call("sequence_mask", {"X": lengths[0]}, {}, out_dtype=3, maxlen=2)
    assert mask.tolist() == [[1, 0], [1, 1]]
    given = {"X": lengths[0], "MaxLenTensor": torch.tensor([1])}
    assert call("sequence_mask", given, {}, out_dtype=0, maxlen=2)[0].tolist() == [[True]] * 2


def test_reshape() -> None:
    out, lod = call("sequence_reshape", {"X": X}, {"X": LOD}, new_dim=2)
    assert torch.equal(out, X.reshape(12, 2))
    assert lod == levels([4, 0, 6, 2])
    with pytest.raises(EnforceNotMet, match="do not fill rows of 8"):
        call("sequence_reshape", {"X": X}, {"X": LOD}, new_dim=8)


def test_reverse_slice_and_concat() -> None:
    (out,) = call("sequence_reverse", {"X": X}, {"X": LOD})
    _close(out, _joined([part[::-1] for part in split(X, LENGTHS)]))
    first, count = torch.tensor([[1], [0], [0], [0]]), torch.tensor([[1], [0], [2], [1]])
    out, lod = call("sequence_slice", {"X": X, "Offset": first, "Length": count}, {"X": LOD})
    assert torch.equal(out, X[[1, 2, 3, 5]])
    assert lod == levels([1, 0, 2, 1])
    other = random(5, 4, seed=3)
    out, lod = call("sequence_concat", {"X": [X, other]}, {"X": [LOD, SIDE]})
    pairs = zip(split(X, LENGTHS), split(other, [1, 2, 0, 2]), strict=True)
    _close(out, _joined([part for pair in pairs for part in pair]))
    assert lod == levels([3, 2, 3, 3])


def test_slice_outside() -> None:
    first, count = torch.tensor([1, 0, 0, 0]), torch.tensor([2, 0, 2, 1])
    with pytest.raises(EnforceNotMet, match="sequence 0 has 2 rows"):
        call("sequence_slice", {"X": X, "Offset": first, "Length": count}, {"X": LOD})


def test_enumerate_and_erase() -> None:
    ids = torch.tensor([[3], [1], [4], [1], [5], [9]])
    (out,) = call("sequence_enumerate", {"X": ids}, {"X": LOD}, win_size=2, pad_value=-1)
    assert out.tolist() == [[3, 1], [1, -1], [4, 1], [1, 5], [5, -1], [9, -1]]
    out, lod = call("sequence_erase", {"X": ids}, {"X": LOD}, tokens=[1, 9])
    assert out.tolist() == [[3], [4], [5]]
    assert lod == levels([1, 0, 2, 0])


def test_scatter() -> None:
    ids, updates = torch.tensor([[1], [1], [0], [2], [3], [3]]), random(6, 1)
    (out,) = call("sequence_scatter", {"X": X[:4], "Ids": ids, "Updates": updates}, {"Ids": LOD})
    wanted = X[:4].numpy().copy()
    for row, column, value in zip([0, 0, 2, 2, 2, 3], ids[:, 0], updates[:, 0], strict=True):
        wanted[row, column] += value
    _close(out, wanted)


@pytest.mark.parametrize(
    "attrs, y, lod_y, wanted",
    [
        ({"target_lod": [0, 4, 6]}, None, (), levels([4, 2])),
        ({}, torch.tensor([[0, 2, 6]], dtype=torch.int32), (), levels([2, 4])),
        ({"target_lod": [6]}, X, levels([2, 1], [1, 2, 3]), levels([2, 1], [1, 2, 3])),
        ({"append": True, "target_lod": [*range(7)]}, None, (), levels(LENGTHS, [1] * 6)),
    ],
)
def test_lod_reset(attrs: dict[str, Any], y: Any, lod_y: Any, wanted: Any) -> None:
    out, lod = call("lod_reset", {"X": X, "Y": y}, {"X": LOD, "Y": lod_y}, **attrs)
    assert torch.equal(out, X)
    assert lod == wanted


def test_lod_that_does_not_fit() -> None:
    with pytest.raises(EnforceNotMet, match="no sequences of 6 rows"):
        call("lod_reset", {"X": X}, {}, target_lod=[0, 4, 7])


@pytest.mark.parametrize("append", [False, True])
def test_lengths_are_no_offsets(append: bool) -> None:
    with pytest.raises(EnforceNotMet, match=r"starting from 0, such as \[0, 4, 6\]"):
        call("lod_reset", {"X": X}, {"X": LOD}, target_lod=[4, 2], append=append)


def test_patches_of_images() -> None:
    images = torch.tensor([[6, 2, 1, 8, 3, 5, 0, 2, 6, 2, 4, 4, 6, 3, 0, 6, 4, 7]]).double()
    images = images.reshape(1, 2, 3, 3)
    out, lod = call("im2sequence", {"X": images}, {}, kernels=[2, 2])
    assert out[0].tolist() == [6, 2, 8, 3, 2, 4, 6, 3]
    assert lod == levels([4])
    pads = {"kernels": [2, 2], "strides": [2, 2], "paddings": [1, 0, 0, 0]}
    out, lod = call("im2sequence", {"X": images}, {}, **pads)
    assert out[0].tolist() == [0, 0, 6, 2, 0, 0, 2, 4]
    assert out[1].tolist() == [8, 3, 0, 2, 6, 3, 6, 4]
    assert lod == levels([2])
    sizes = torch.tensor([[4.0, 3.0]])
    out, lod = call("im2sequence", {"X": images, "Y": sizes}, {}, kernels=[1, 1], out_stride=[2, 1])
    assert lod == levels([6])
    assert torch.equal(out[:, 0], images[0, 0, :2].flatten())
