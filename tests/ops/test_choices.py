"""Distinct elements, hashes, greatest elements and random order."""

from __future__ import annotations

import numpy as np
import pytest

from refluid import fluid
from refluid.fluid.contrib import layers as contrib
from refluid.ops.nn.hashing import xxhash64
from tests.ops.running import Array, run_op

RANDOM = np.random.RandomState(4)


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32"])
def test_unique_keeps_the_order_of_appearance(dtype: str) -> None:
    x = np.array([7, 3, 3, 1, 7, 9, 3], dtype)
    found = run_op("unique_with_counts", {"X": x}, {"dtype": 2})
    np.testing.assert_array_equal(found["Out"], [7, 3, 1, 9])
    np.testing.assert_array_equal(found["Index"], [0, 1, 1, 2, 0, 3, 1])
    np.testing.assert_array_equal(found["Count"], [2, 3, 1, 1])
    assert found["Out"].dtype == dtype
    assert found["Index"].dtype == found["Count"].dtype == np.int32
    assert run_op("unique", {"X": x}, {"dtype": 3})["Index"].dtype == np.int64


# Published test vectors of xxHash64: input, seed, hash.
HASHES = [
    (b"", 0, 0xEF46DB3751D8E999),
    (b"abc", 0, 0x44BC2CF5AD770999),
    (b"xxhash", 0, 3665147885093898016),
    (b"xxhash", 20141025, 13067679811253438005),
]


@pytest.mark.parametrize(("text", "seed", "expected"), HASHES)
def test_xxhash64(text: bytes, seed: int, expected: int) -> None:
    rows = np.frombuffer(text, np.uint8).reshape(1, -1)
    assert int(xxhash64(rows, seed)[0]) == expected


def test_hash_of_rows() -> None:
    x = RANDOM.randint(0, 1000, (5, 9)).astype("int64")
    found = run_op("hash", {"X": (x, [[2, 3]])}, {"num_hash": 3, "mod_by": 1000})
    assert found["Out"].shape == (5, 3, 1)
    assert found["Out.lod"] == [[2, 3]]
    for seed in range(3):
        expected = xxhash64(x.view(np.uint8), seed) % 1000
        np.testing.assert_array_equal(found["Out"][:, seed, 0], expected.astype("int64"))


def _focus(x: Array, axis: int, indexes: list[int]) -> Array:
    mask = np.zeros_like(x)
    for sample in range(len(x)):
        for index in indexes:
            plane = np.take(x[sample], index, axis - 1)
            rows, columns = set[int](), set[int]()
            for place in np.argsort(-plane, axis=None):
                row, column = np.unravel_index(place, plane.shape)
                if row not in rows and column not in columns:
                    rows.add(int(row))
                    columns.add(int(column))
                    where = [row, column]
                    where.insert(axis - 1, slice(None))
                    mask[(sample, *where)] = 1
    return mask


@pytest.mark.parametrize(("axis", "indexes"), [(1, [0]), (2, [1, 3]), (3, [0, 2])])
def test_similarity_focus(axis: int, indexes: list[int]) -> None:
    x = RANDOM.standard_normal((2, 3, 4, 5))
    found = run_op("similarity_focus", {"X": x}, {"axis": axis, "indexes": indexes})
    np.testing.assert_array_equal(found["Out"], _focus(x, axis, indexes))


def _rows(seed: int | None, runs: int) -> list[Array]:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        out = contrib.shuffle_batch(fluid.data("x", [6, 1]), seed=seed)
    executor = fluid.Executor(fluid.CPUPlace())
    feed = {"x": np.arange(6, dtype="float32").reshape(6, 1)}
    with fluid.scope_guard(fluid.Scope()):
        return [executor.run(main, feed, [out])[0][:, 0] for _ in range(runs)]


def test_shuffles_repeat_from_their_seed_and_differ_from_run_to_run() -> None:
    first = _rows(3, 4)
    for one, again in zip(first, _rows(3, 4), strict=True):
        np.testing.assert_array_equal(one, again)
        np.testing.assert_array_equal(np.sort(one), np.arange(6))
    assert any((one != first[0]).any() for one in first[1:])


def test_shuffled_rows_have_their_gradients_in_place() -> None:
    x = RANDOM.standard_normal((5, 3, 2))
    inputs = {"X": x, "Seed": np.array([4], "int64")}
    found = run_op("shuffle_batch", inputs, {"startup_seed": 1}, gradients=["X"])
    rows = x.reshape(15, 2)
    np.testing.assert_array_equal(found["Out"].reshape(15, 2), rows[found["ShuffleIdx"]])
    np.testing.assert_allclose(found["X@GRAD"], np.cos(x))


def test_random_crop_takes_whole_parts() -> None:
    x = np.arange(4 * 3 * 8 * 9).reshape(4, 3, 8, 9).astype("float32")
    seed = np.array([9], "int64")
    found = run_op("random_crop", {"X": x, "Seed": seed}, {"shape": [3, 5, 4]})["Out"]
    assert found.shape == (4, 3, 5, 4)
    for sample in range(4):
        start = int(found[sample, 0, 0, 0]) - sample * 216
        row, column = divmod(start, 9)
        part = x[sample, :, row : row + 5, column : column + 4]
        np.testing.assert_array_equal(found[sample], part)


def test_randperm() -> None:
    for dtype, kind in ((2, np.int32), (3, np.int64)):
        out = run_op("randperm", {}, {"n": 50, "dtype": dtype, "seed": 3})["Out"]
        np.testing.assert_array_equal(np.sort(out), np.arange(50))
        assert out.dtype == kind
