"""DataFeeder: mini-batches of samples become feeds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from refluid import fluid
from refluid.fluid import data_feeder


@pytest.fixture
def feeder() -> Iterator[Any]:
    """A feeder of a picture, a label and a sequence of words."""
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard():
        image = fluid.data("image", [None, 1, 2, 2])
        label = fluid.data("label", [None, 1], dtype="int64")
        words = fluid.data("words", [None, 1], dtype="int64", lod_level=1)
        yield fluid.DataFeeder([image, label, words], fluid.CPUPlace())


def test_dense_and_sequence_values(feeder: fluid.DataFeeder) -> None:
    feed = feeder.feed([([1, 2, 3, 4], [9], [5, 6]), (np.arange(4.0), [8], [7])])
    assert feed["image"].shape() == [2, 1, 2, 2]
    assert np.array(feed["image"]).dtype == np.float32
    assert np.array(feed["label"]).tolist() == [[9], [8]]
    assert np.array(feed["words"]).tolist() == [[5], [6], [7]]
    assert feed["words"].recursive_sequence_lengths() == [[2, 1]]


def test_nested_sequences() -> None:
    with fluid.program_guard(fluid.Program()):
        words = fluid.data("words", [None, 1], dtype="int64", lod_level=2)
        feed = fluid.DataFeeder(["words"], None).feed([([[1, 2], [3]],), ([[4]],)])
    assert words.name in feed
    assert feed["words"].recursive_sequence_lengths() == [[2, 1], [2, 1, 1]]
    assert feed["words"].shape() == [4, 1]


def test_errors_name_the_variable(feeder: fluid.DataFeeder) -> None:
    with pytest.raises(AssertionError, match="number of fields"):
        feeder.feed([([1, 2, 3, 4], [9])])
    with pytest.raises(ValueError, match="'image'"):
        feeder.feed([([1, 2, 3], [9], [5])])
    with pytest.raises(ValueError, match=r"'image'.*different shapes"):
        feeder.feed([([1, 2, 3, 4], 9, [5]), ([1], 9, [5])])
    with pytest.raises(TypeError, match="feed_list"):
        fluid.DataFeeder([3], fluid.CPUPlace())  # type: ignore[list-item]


def test_reader_for_several_devices(feeder: fluid.DataFeeder) -> None:
    batch = [([1, 2, 3, 4], [9], [5])]

    def reader() -> Iterator[Any]:
        yield from [batch] * 5

    decorated = feeder.decorate_reader(reader, multi_devices=True, num_places=2)
    assert [len(feeds) for feeds in decorated()] == [2, 2]
    strict = feeder.decorate_reader(reader, multi_devices=True, num_places=2, drop_last=False)
    with pytest.raises(ValueError, match="drop_last"):
        list(strict())
    assert len(list(feeder.decorate_reader(reader, multi_devices=False)())) == 5
    with pytest.raises(AssertionError, match="3 mini-batches for 2 devices"):
        feeder.feed_parallel([batch] * 3, 2)


def test_checks_say_what_was_expected(feeder: fluid.DataFeeder) -> None:
    var = feeder.feed_vars[0]
    data_feeder.check_variable_and_dtype(var, "x", ["float32"], "relu")
    with pytest.raises(TypeError, match=r"'x' in relu must be.*but received float32"):
        data_feeder.check_variable_and_dtype(var, "x", ["int32", "int64"], "relu")
    with pytest.raises(TypeError, match="'x' in relu must be"):
        data_feeder.check_variable_and_dtype(3, "x", "int32", "relu")
    assert data_feeder.convert_dtype(var.dtype) == "float32"
