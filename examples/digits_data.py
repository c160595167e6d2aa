"""Handwritten digits as Fluid readers and as whole batches.

A Fluid reader creator is a function that returns a reader; a reader is a function yielding samples:

    for image, label in digits_data.train()():   # image: float32[784] in [-1, 1], label: int
        ...

`batches` gives the same samples many at a time, sliced from one array: what a training loop wants.
The files are put in place by `scripts/fetch_data.py` (`make demo` runs it).
"""

from __future__ import annotations

import functools
import gzip
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

PIXELS = 784
SPLITS = ("train", "test")
SOURCES = ("mnist", "digits5k")
IDX_PREFIX = {"train": "train", "test": "t10k"}

Reader = Callable[[], Iterator[tuple[npt.NDArray[np.float32], int]]]


class DataMissing(Exception):
    """No digits are installed; the message says how to get them."""


@dataclass(frozen=True)
class Digits:
    """`pixels` uint8 [n, 784], 0 is background; `labels` int64 [n]; `source` names the data set."""

    pixels: npt.NDArray[np.uint8]
    labels: npt.NDArray[np.int64]
    source: str

    def __len__(self) -> int:
        return len(self.labels)


def data_folder() -> Path:
    """Where data sets are installed: `$REFLUID_DATA`, or `.data/` in the repository."""
    return Path(os.environ.get("REFLUID_DATA") or Path(__file__).resolve().parent.parent / ".data")


@functools.cache
def load(split: str, source: str = "auto") -> Digits:
    """All digits of a split ("train", "test") from "mnist", "digits5k", or the first one installed.

    Raises DataMissing where that data set is not installed.
    """
    if split not in SPLITS:
        raise ValueError(f"split must be one of {SPLITS}, not {split!r}")
    wanted = SOURCES if source == "auto" else (source,)
    for name in wanted:
        if (data_folder() / name).is_dir():
            return LOADERS[name](data_folder() / name, split)
    raise DataMissing(
        f"no digits ({' or '.join(wanted)}) in {data_folder()}: run `make demo`, "
        "or `python scripts/fetch_data.py`, to install them"
    )


def _load_idx(folder: Path, split: str) -> Digits:
    prefix = folder / IDX_PREFIX[split]
    pixels = _read_idx(Path(f"{prefix}-images-idx3-ubyte"))
    labels = _read_idx(Path(f"{prefix}-labels-idx1-ubyte"))
    return Digits(pixels.reshape(-1, PIXELS), labels.astype(np.int64), "mnist")


def _read_idx(path: Path) -> npt.NDArray[np.uint8]:
    """The array in an idx file: 0, 0, 8 (for uint8), number of dimensions, sizes (big-endian)."""
    raw = path.read_bytes() if path.is_file() else b""
    dimensions = raw[3] if raw[:3] == b"\0\0\x08" else 0
    start = 4 + 4 * dimensions
    shape = np.frombuffer(raw[4:start], ">u4") if len(raw) >= start else ()
    if not dimensions or len(raw) != start + int(np.prod(shape)):
        raise DataMissing(f"{path} is absent or damaged: run `python scripts/fetch_data.py`")
    return np.frombuffer(raw, np.uint8, offset=start).reshape(shape)


def _load_csv(folder: Path, split: str) -> Digits:
    """Rows `784 pixels, label`, sorted by digit there, mixed here; every fifth is a test digit."""
    with gzip.open(folder / "mnist_5k.csv.gz") as file:
        rows = np.loadtxt(file, np.uint8, delimiter=",")
    is_test = np.arange(len(rows)) % 5 == 4
    rows = rows[is_test if split == "test" else ~is_test]
    np.random.default_rng(0).shuffle(rows)
    return Digits(rows[:, :PIXELS], rows[:, PIXELS].astype(np.int64), "digits5k")


LOADERS = {"mnist": _load_idx, "digits5k": _load_csv}


def scaled(pixels: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    """Pixels as the network wants them: float32 of the same shape, 0..255 spread over -1..1."""
    return pixels * np.float32(2 / 255) - np.float32(1)


def _creator(split: str) -> Reader:
    def reader() -> Iterator[tuple[npt.NDArray[np.float32], int]]:
        digits = load(split)
        for pixels, label in zip(digits.pixels, digits.labels, strict=True):
            yield scaled(pixels), int(label)

    return reader


def train() -> Reader:
    """A reader of the training digits: (float32[784] in [-1, 1], label)."""
    return _creator("train")


def test() -> Reader:
    """A reader of the test digits: (float32[784] in [-1, 1], label)."""
    return _creator("test")


def batches(digits: Digits, size: int, shuffle_seed: int | None = None) -> Iterator[dict[str, Any]]:
    """Feeds `{"image": float32 [b, 1, 28, 28], "label": int64 [b, 1]}` of up to `size` digits each.

    With `shuffle_seed` the digits come in a random order fixed by it, and a short last batch is
    left out: every training step has the same shape. Without, all come in the order of the file.
    """
    order = np.arange(len(digits))
    end = len(digits)
    if shuffle_seed is not None:
        np.random.default_rng(shuffle_seed).shuffle(order)
        end -= end % size
    for start in range(0, end, size):
        chosen = order[start : min(start + size, end)]
        yield {
            "image": scaled(digits.pixels[chosen]).reshape(-1, 1, 28, 28),
            "label": digits.labels[chosen].reshape(-1, 1),
        }
