"""Reader decorators against what the lists say."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refluid import paddle
from refluid.paddle import reader

Reader = Callable[[], Iterator[Any]]


def numbers(count: int) -> Reader:
    return lambda: iter(range(count))


@given(count=st.integers(0, 30), size=st.integers(1, 10), drop_last=st.booleans())
def test_batch(count: int, size: int, drop_last: bool) -> None:
    batches = list(paddle.batch(numbers(count), size, drop_last)())
    kept = count - count % size if drop_last else count
    assert [sample for group in batches for sample in group] == list(range(kept))
    assert all(len(group) == size for group in batches[:-1])


@pytest.mark.parametrize("size", [0, -3, 1.5])
def test_batch_size_must_be_positive(size: Any) -> None:
    with pytest.raises(ValueError, match="batch_size should be a positive integer"):
        paddle.batch(numbers(3), size)


@given(count=st.integers(0, 30), size=st.integers(1, 10))
def test_shuffle_permutes_within_each_buffer(count: int, size: int) -> None:
    shuffled = list(reader.shuffle(numbers(count), size)())
    for start in range(0, count, size):
        block = shuffled[start : start + size]
        assert sorted(block) == list(range(start, min(start + size, count)))


def test_shuffle_follows_the_seed() -> None:
    def once() -> list[int]:
        random.seed(7)
        return list(reader.shuffle(numbers(50), 50)())

    assert once() == once() != list(range(50))


def test_map_chain_firstn() -> None:
    assert list(reader.map_readers(lambda a, b: a * b, numbers(4), numbers(3))()) == [0, 1, 4]
    assert list(reader.chain(numbers(2), numbers(3))()) == [0, 1, 0, 1, 2]
    assert list(reader.firstn(numbers(9), 2)()) == [0, 1]


def test_compose_flattens_tuples() -> None:
    pairs: Reader = lambda: iter([(1, 2), (3, 4)])  # noqa: E731
    assert list(reader.compose(pairs, numbers(2), pairs)()) == [(1, 2, 0, 1, 2), (3, 4, 1, 3, 4)]


def test_compose_checks_alignment() -> None:
    with pytest.raises(reader.ComposeNotAligned, match="number 1"):
        list(reader.compose(numbers(3), numbers(2))())
    unchecked = reader.compose(numbers(3), numbers(2), check_alignment=False)
    assert list(unchecked()) == [(0, 0), (1, 1)]
    with pytest.raises(TypeError, match="aligned"):
        reader.compose(numbers(1), aligned=True)


def test_cache_reads_once() -> None:
    passes = []

    def counted() -> Iterator[int]:
        passes.append(1)
        yield from range(3)

    cached = reader.cache(counted)
    assert [list(cached()), list(cached())] == [[0, 1, 2]] * 2
    assert len(passes) == 1


@given(count=st.integers(0, 20), size=st.integers(1, 5))
def test_buffered_keeps_order(count: int, size: int) -> None:
    assert list(reader.buffered(numbers(count), size)()) == list(range(count))


def test_buffered_passes_on_errors_after_the_samples() -> None:
    def failing() -> Iterator[int]:
        yield 1
        raise KeyError("broken file")

    samples = reader.buffered(failing, 4)()
    assert next(samples) == 1
    with pytest.raises(KeyError, match="broken file"):
        next(samples)


def test_buffered_thread_ends_with_its_consumer() -> None:
    samples: Any = reader.buffered(numbers(1000), 2)()
    assert next(samples) == 0
    samples.close()
    for thread in threading.enumerate():
        if thread.name == "paddle.reader.buffered":
            thread.join(timeout=60)
            assert not thread.is_alive()
