"""The digit readers, on small files made here."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from examples import digits_data

COUNTS = {"train": 10, "t10k": 5}


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("REFLUID_DATA", str(tmp_path))
    digits_data.load.cache_clear()
    yield tmp_path
    digits_data.load.cache_clear()


def write_idx(folder: Path) -> None:
    folder.mkdir()
    for prefix, count in COUNTS.items():
        sizes = np.array([count, 28, 28], ">u4").tobytes()
        pixels = np.arange(count * 784, dtype=np.uint8).tobytes()
        (folder / f"{prefix}-images-idx3-ubyte").write_bytes(b"\0\0\x08\x03" + sizes + pixels)
        labels = np.arange(count, dtype=np.uint8).tobytes()
        (folder / f"{prefix}-labels-idx1-ubyte").write_bytes(b"\0\0\x08\x01" + sizes[:4] + labels)


def write_csv(folder: Path) -> None:
    folder.mkdir()
    rows = np.full((20, 785), 255, np.uint8)
    rows[:, -1] = np.arange(20) // 2
    with gzip.open(folder / "mnist_5k.csv.gz", "wt") as file:
        np.savetxt(file, rows, "%d", ",")


def test_reader_yields_fluid_samples(data: Path) -> None:
    write_idx(data / "mnist")
    samples = list(digits_data.train()())
    image, label = samples[3]
    assert (image.shape, image.dtype, label) == ((784,), np.float32, 3)
    assert image.min() == -1 and image.max() == 1
    assert len(samples) == 10
    assert len(list(digits_data.test()())) == 5


def test_training_batches_are_full_and_their_order_is_fixed(data: Path) -> None:
    write_idx(data / "mnist")
    digits = digits_data.load("train")
    once, again = (list(digits_data.batches(digits, 4, shuffle_seed=1)) for _ in range(2))
    assert [feed["image"].shape for feed in once] == [(4, 1, 28, 28)] * 2
    assert [feed["label"].tolist() for feed in once] == [feed["label"].tolist() for feed in again]
    other = next(digits_data.batches(digits, 8, shuffle_seed=2))
    assert other["label"][:4].tolist() != once[0]["label"].tolist()


def test_plain_batches_hold_every_digit_in_order(data: Path) -> None:
    write_idx(data / "mnist")
    feeds = list(digits_data.batches(digits_data.load("train"), 4))
    assert np.concatenate([feed["label"] for feed in feeds]).ravel().tolist() == list(range(10))


def test_csv_is_split_four_to_one(data: Path) -> None:
    write_csv(data / "digits5k")
    train, test = digits_data.load("train"), digits_data.load("test")
    assert (len(train), len(test), train.source) == (16, 4, "digits5k")
    together = np.concatenate([train.labels, test.labels])
    assert np.bincount(together).tolist() == [2] * 10


def test_says_how_to_get_absent_data(data: Path) -> None:
    with pytest.raises(digits_data.DataMissing, match="make demo"):
        digits_data.load("train")


def test_says_which_file_is_damaged(data: Path) -> None:
    write_idx(data / "mnist")
    (data / "mnist" / "train-images-idx3-ubyte").write_bytes(b"\0\0\x08\x03short")
    with pytest.raises(digits_data.DataMissing, match=r"train-images.*damaged"):
        digits_data.load("train")
