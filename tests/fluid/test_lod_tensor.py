"""create_lod_tensor and create_random_int_lodtensor."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from refluid.core.places import CPUPlace
from refluid.fluid.lod_tensor import create_lod_tensor, create_random_int_lodtensor

PLACE = CPUPlace()


def test_from_an_array() -> None:
    array = np.random.rand(5, 30)
    tensor = create_lod_tensor(array, [[2, 3]], PLACE)
    assert tensor.lod() == [[0, 2, 5]]
    assert np.array_equal(np.array(tensor), array)


def test_from_a_tensor_copies() -> None:
    first = create_lod_tensor(np.zeros((3, 1), "int64"), [[3]], PLACE)
    second = create_lod_tensor(first, [[1, 2]], PLACE)
    second.tensor[0] = 1
    assert first.recursive_sequence_lengths() == [[3]]
    assert first.tensor.sum() == 0


@pytest.mark.parametrize(
    ("data", "lengths", "shape", "dtype"),
    [
        ([[1, 2], [3, 4, 5]], [[2, 3]], [5, 1], "int64"),
        ([[[1], [2, 3]], [[4, 5]]], [[2, 1], [1, 2, 2]], [5, 1], "int64"),
        ([[0.5, 2]], [[2]], [2, 1], "float32"),
        ([[[1, 2], [3, 4]], [[5, 6]]], [[2, 1]], [3, 2], "int64"),
    ],
)
def test_from_a_list(data: list[Any], lengths: list[Any], shape: list[int], dtype: str) -> None:
    tensor = create_lod_tensor(data, lengths, PLACE)
    assert tensor.shape() == shape
    assert tensor.recursive_sequence_lengths() == lengths
    assert np.array(tensor).dtype == dtype


@pytest.mark.parametrize(
    ("data", "lengths", "error", "message"),
    [
        ((1, 2), [[2]], TypeError, "data should be"),
        ([[1, 2], [3]], [[1, 2]], AssertionError, "do not match"),
        (np.zeros((5, 1)), [[2, 2]], AssertionError, "lod info is invalid"),
        (np.zeros((5, 1)), [[3], [2, 3]], AssertionError, "lod info is invalid"),
    ],
)
def test_refused(data: Any, lengths: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        create_lod_tensor(data, lengths, PLACE)


def test_random() -> None:
    tensor = create_random_int_lodtensor([[2, 3]], [30], PLACE, 0, 2)
    assert tensor.shape() == [5, 30]
    array = np.array(tensor)
    assert array.dtype == np.int64
    assert set(np.unique(array)) == {0, 1, 2}
    with pytest.raises(AssertionError, match="base_shape"):
        create_random_int_lodtensor([[2]], 30, PLACE, 0, 2)  # type: ignore[arg-type]
