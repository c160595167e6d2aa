"""`PaddleTensor`, `PaddleBuf` and `ZeroCopyTensor` as the documentation shows them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from refluid.core.errors import EnforceNotMet
from refluid.fluid.core import (
    PaddleBuf,
    PaddleDType,
    PaddleTensor,
    ZeroCopyTensor,
    paddle_dtype_size,
)


def test_the_documented_tensor() -> None:
    tensor = PaddleTensor(name="tensor", data=np.array([1, 2, 3], dtype="int32"))
    assert (tensor.name, tensor.shape, tensor.lod) == ("tensor", [3], [])
    assert repr(tensor.dtype) == "PaddleDType.INT32"
    np.testing.assert_array_equal(tensor.as_ndarray(), [1, 2, 3])
    assert tensor.data.int32_data() == [1, 2, 3]


def test_copies_and_shared_memory() -> None:
    array = np.zeros(2, "float32")
    copied, shared = PaddleTensor(array), PaddleTensor(array, copy=False)
    array[0] = 5
    assert copied.as_ndarray()[0] == 0 and shared.as_ndarray()[0] == 5


def test_data_shape_and_type_can_be_set() -> None:
    tensor = PaddleTensor()
    tensor.dtype = PaddleDType.INT64
    tensor.data = PaddleBuf(np.arange(6, dtype="int64"))
    tensor.shape = [2, 3]
    np.testing.assert_array_equal(tensor.as_ndarray(), [[0, 1, 2], [3, 4, 5]])
    tensor.shape = [7]
    with pytest.raises(EnforceNotMet, match="6 numbers"):
        tensor.as_ndarray()


def test_data_comes_after_shape_and_type() -> None:
    tensor = PaddleTensor()
    assert tensor.shape == []
    tensor.shape = (2, 2)
    tensor.dtype = PaddleDType.INT64
    assert tensor.shape == [2, 2] and tensor.dtype == PaddleDType.INT64
    tensor.data = PaddleBuf(np.arange(4))
    np.testing.assert_array_equal(tensor.as_ndarray(), [[0, 1], [2, 3]])
    tensor.data = PaddleBuf(np.arange(6))
    assert tensor.shape == [2, 2]
    with pytest.raises(EnforceNotMet, match="6 numbers of int64"):
        tensor.as_ndarray()


def test_a_list_of_whole_numbers_is_read_as_integers_or_float32() -> None:
    """The latter as in Fluid 1.8; ERNIE's scripts of 1.5 rely on the former."""
    buffer = PaddleBuf([2**24 + 1, 3])
    assert buffer.length() == 8 and buffer.float_data() == [2.0**24, 3.0]
    tensor = PaddleTensor()
    tensor.shape = [2, 1]
    tensor.dtype = PaddleDType.INT64
    tensor.data = buffer
    np.testing.assert_array_equal(tensor.as_ndarray(), [[2**24 + 1], [3]])
    buffer.reset([1.0, 2.0])
    assert buffer.int32_data() == np.array([1, 2], "float32").view("int32").tolist()


def test_buffers() -> None:
    buffer = PaddleBuf([1.0, 2.0])
    assert buffer.length() == 8 and buffer.float_data() == [1.0, 2.0]
    buffer.reset(np.array([7], "int64"))
    assert buffer.int64_data() == buffer.tolist("int64") == [7]
    buffer.resize(4)
    assert buffer.int32_data() == [7] and not buffer.empty()
    buffer.resize(16)
    assert buffer.length() == 16
    assert PaddleBuf(0).empty()
    with pytest.raises(ValueError, match="float16"):
        buffer.tolist("float16")
    assert paddle_dtype_size(PaddleDType.INT64) == 8


def test_other_element_types_are_refused() -> None:
    with pytest.raises(EnforceNotMet, match="float64"):
        PaddleTensor(np.zeros(2))


def handle(*, is_input: bool = True) -> ZeroCopyTensor:
    return ZeroCopyTensor("x", torch.device("cpu"), is_input=is_input)


def test_as_many_numbers_are_copied_as_the_shape_has() -> None:
    tensor = handle()
    tensor.copy_from_cpu(np.ones((2, 3), "float32"))
    assert tensor.shape() == [2, 3] and tensor.type() == PaddleDType.FLOAT32
    tensor.reshape([2, 2])
    tensor.copy_from_cpu(np.arange(6, dtype="float32"))
    np.testing.assert_array_equal(tensor.copy_to_cpu(), [[0, 1], [2, 3]])
    with pytest.raises(EnforceNotMet, match="3 numbers"):
        tensor.copy_from_cpu(np.zeros(3, "float32"))
    with pytest.raises(TypeError, match=r"x\.copy_from_cpu takes a NumPy array, not list"):
        tensor.copy_from_cpu([1.0, 2.0])  # type: ignore[arg-type]


def test_what_is_copied_is_no_longer_the_users() -> None:
    tensor, array = handle(), np.zeros(2, "float32")
    tensor.copy_from_cpu(array)
    array[:] = 1
    assert not tensor.copy_to_cpu().any()


def test_wrong_uses_of_handles() -> None:
    with pytest.raises(EnforceNotMet, match="an output"):
        handle(is_input=False).copy_from_cpu(np.zeros(1, "float32"))
    with pytest.raises(EnforceNotMet, match=r"zero_copy_run\(\) first"):
        handle(is_input=False).copy_to_cpu()
    with pytest.raises(EnforceNotMet, match="LoD is invalid"):
        handle().set_lod([[0, 3, 2]])
    with pytest.raises(EnforceNotMet, match="sizes are known"):
        handle().reshape([-1, 2])
