"""LoDTensor, LoDTensorArray and SelectedRows behave as Fluid's."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch

from refluid.core.dtypes import VarType
from refluid.core.errors import EnforceNotMet
from refluid.core.places import CPUPlace
from refluid.core.values import (
    LoDTensor,
    LoDTensorArray,
    SelectedRows,
    as_lod_tensor,
    lengths_to_offsets,
    lod_error,
    offsets_to_lengths,
)


def filled(rows: int = 5) -> LoDTensor:
    tensor = LoDTensor()
    tensor.set(np.arange(rows * 2, dtype="float32").reshape(rows, 2), CPUPlace())
    return tensor


@pytest.mark.parametrize(
    ("lengths", "offsets"),
    [
        ([], []),
        ([[2, 3]], [[0, 2, 5]]),
        ([[2, 1], [2, 3, 1]], [[0, 2, 3], [0, 2, 5, 6]]),
        ([[]], [[0]]),
        ([[0, 2, 0]], [[0, 0, 2, 2]]),
    ],
)
def test_lengths_and_offsets(lengths: list[list[int]], offsets: list[list[int]]) -> None:
    assert lengths_to_offsets(lengths) == offsets
    assert offsets_to_lengths(offsets) == lengths
    assert lod_error(offsets, offsets[-1][-1] if offsets else 9) is None


@pytest.mark.parametrize(
    ("lod", "message"),
    [
        ([[]], "must start at 0"),
        ([[1, 5]], "must start at 0"),
        ([[0, 3, 2, 5]], "must not decrease"),
        ([[0, 2, 4]], "covers 4 but there are 5 rows"),
        ([[0, 3], [0, 2, 5]], "covers 3 but there are 2 sequences"),
    ],
)
def test_invalid_lod(lod: list[list[int]], message: str) -> None:
    tensor = filled()
    tensor.set_lod([[0, 2, 5]])
    with pytest.raises(EnforceNotMet, match=message):
        tensor.set_lod(lod)
    assert tensor.lod() == [[0, 2, 5]]
    assert not LoDTensor(tensor.tensor, lod).has_valid_recursive_sequence_lengths()


def test_lod_of_a_tensor() -> None:
    tensor = filled()
    assert tensor.has_valid_recursive_sequence_lengths()
    tensor.set_recursive_sequence_lengths([[2, 3]])
    assert tensor.lod() == [[0, 2, 5]]
    assert tensor.recursive_sequence_lengths() == [[2, 3]]
    tensor.set(np.zeros([4, 2], "float32"), CPUPlace())
    assert not tensor.has_valid_recursive_sequence_lengths()
    with pytest.raises(EnforceNotMet, match="recursive_sequence_lengths info is invalid"):
        tensor.set_recursive_sequence_lengths([[2, 3]])


def test_empty() -> None:
    tensor = LoDTensor()
    assert not tensor._is_initialized()
    assert tensor.shape() == [0]
    assert "not initialized" in str(tensor)
    with pytest.raises(EnforceNotMet, match="call set"):
        tensor._dtype()
    assert LoDTensor([[0, 2]]).lod() == [[0, 2]]


def test_the_array_of_no_data_is_empty_and_can_be_set() -> None:
    """Scripts copy every variable of a scope, those of results too, before anything has run."""
    found = np.array(LoDTensor())
    assert found.shape == (0,)
    tensor = filled()
    tensor.set(found, CPUPlace())
    assert tensor.shape() == [0]


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint8", "int16", "int32", "int64", "float16", "float32", "float64"]
)
def test_every_element_type(dtype: str) -> None:
    array = np.array([[0, 1], [1, 0]], dtype)
    tensor = LoDTensor()
    tensor.set(array, CPUPlace())
    assert (
        tensor._dtype()
        == VarType[
            {"f2": "FP16", "f4": "FP32", "f8": "FP64"}.get(array.dtype.str[1:], dtype.upper())
        ]
    )
    back = np.array(tensor)
    assert back.dtype == array.dtype
    assert np.array_equal(back, array)


def test_set_copies_unless_told() -> None:
    array = np.zeros(3, "float32")
    copied, shared = LoDTensor(), LoDTensor()
    copied.set(array, CPUPlace())
    shared.set(array, CPUPlace(), zero_copy=True)
    array[0] = 1
    assert np.array(copied).tolist() == [0, 0, 0]
    assert np.array(shared).tolist() == [1, 0, 0]


def test_set_any_layout() -> None:
    array = np.arange(6, dtype=">i4").reshape(2, 3).T[::-1]
    tensor = LoDTensor()
    tensor.set(array, CPUPlace())
    assert np.array_equal(np.array(tensor), array)
    assert tensor.shape() == [3, 2]
    with pytest.raises(TypeError):
        tensor.set(np.array(["text"]), CPUPlace())


def test_numpy_protocol() -> None:
    tensor = filled()
    view = np.asarray(tensor)
    view[0, 0] = 9
    assert tensor.tensor[0, 0] == 9
    copy = np.array(tensor)
    copy[0, 0] = 1
    assert tensor.tensor[0, 0] == 9
    assert np.asarray(tensor, dtype="float64").dtype == np.float64
    if np.lib.NumpyVersion(np.__version__) >= "2.0.0":  # the first that can ask for no copy
        with pytest.raises(ValueError, match="copy"):
            np.asarray(tensor, dtype="float64", copy=False)
    with pytest.raises(TypeError, match="bfloat16"):
        np.array(LoDTensor(torch.zeros(2, dtype=torch.bfloat16)))
    assert np.array(LoDTensor(torch.zeros(2, requires_grad=True))).tolist() == [0, 0]


def test_parts() -> None:
    tensor = filled()
    tensor.set_lod([[0, 2, 5]])
    part = tensor[1:3]
    assert np.array(part).tolist() == [[2, 3], [4, 5]]
    assert part.lod() == []


def test_text() -> None:
    tensor = filled(2)
    tensor.set_lod([[0, 1, 2]])
    assert str(tensor) == (
        "\tlod: {{0, 1, 2}}\n\tdim: 2, 2\n\tlayout: NCHW\n\tdtype: float\n\tdata: [0 1 2 3]"
    )
    assert "int64_t" in str(LoDTensor(torch.tensor([12345678901])))
    assert "[12345678901]" in str(LoDTensor(torch.tensor([12345678901])))
    assert "... 2000 values" in str(LoDTensor(torch.zeros(2000)))
    assert "[1 0]" in str(LoDTensor(torch.tensor([True, False])))


def test_pickled() -> None:
    tensor = filled()
    tensor.set_lod([[0, 5]])
    back = pickle.loads(pickle.dumps(tensor))
    assert back.lod() == [[0, 5]]
    assert torch.equal(back.tensor, tensor.tensor)


def test_array_of_tensors() -> None:
    array = LoDTensorArray()
    array.append(filled())
    array.append(torch.zeros(1))
    assert len(array) == 2
    assert as_lod_tensor(array[1]).shape() == [1]
    assert as_lod_tensor(array[0]) is array[0]
    with pytest.raises(TypeError, match="holds LoDTensors"):
        array.append(np.zeros(1))  # type: ignore[arg-type]


def test_selected_rows_as_in_fluid() -> None:
    rows = SelectedRows([7, 1, 4], 20)
    rows.get_tensor().set(np.ones([3, 2], "float32"), CPUPlace())
    assert rows.rows() == [7, 1, 4]
    assert rows.height() == 20
    assert rows.numel() == 6
    rows.set_rows([0, 1, 2])
    rows.set_height(3)
    rows.sync_index()
    assert torch.equal(rows.to_dense(), torch.ones(3, 2))
    assert str(rows).startswith("\trows: [0, 1, 2]\n\theight: 3\n\tlod: {}")


@pytest.mark.parametrize("index", [[3, 1, 3, 0, 1, 3], [4, 0, 2, 1, 3, 5], []])
def test_equal_rows_add_up(index: list[int]) -> None:
    value = torch.arange(2.0 * len(index)).reshape(-1, 2)
    rows = SelectedRows(torch.tensor(index, dtype=torch.int64), 6, value)
    expected = torch.zeros(6, 2)
    for row, part in zip(index, value, strict=True):
        expected[row] += part
    assert torch.equal(rows.to_dense(), expected)
    merged = rows.merged()
    assert merged.rows() == sorted(set(index))
    assert torch.equal(merged.to_dense(), expected)


@pytest.mark.parametrize(
    ("rows", "height", "message"),
    [([0, 1], 9, "2 row numbers but 3"), ([0, 1, 9], 9, "0..9"), ([-1, 0, 1], 9, "-1..1")],
)
def test_inconsistent_rows(rows: list[int], height: int, message: str) -> None:
    with pytest.raises(EnforceNotMet, match=message):
        SelectedRows(rows, height, torch.zeros(3, 2)).to_dense()
    with pytest.raises(EnforceNotMet, match="flat list"):
        SelectedRows(torch.zeros(2, 2), 4)
    with pytest.raises(EnforceNotMet, match="no data"):
        SelectedRows(rows, height).to_dense()
