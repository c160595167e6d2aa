"""`paddle.dataset.sentiment`: NLTK's 2,000 film reviews; a sample is (word numbers, 1 positive)."""

from __future__ import annotations

import collections
import re
import zipfile
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import chain

from refluid.paddle.dataset import common

__all__ = ["get_word_dict", "test", "train"]

URL = "https://corpora.bj.bcebos.com/movie_reviews%2Fmovie_reviews.zip"
MD5 = "155de2b77c6834dd8eea7cbe88e93acb"
NUM_TRAINING_INSTANCES = 1600
NUM_TOTAL_INSTANCES = 2000

# As NLTK's reader of this corpus parts words.
_WORD = re.compile(r"\w+|[^\w\s]+")
_KINDS = ("neg", "pos")
Sample = tuple[list[int], int]


@lru_cache(maxsize=2)
def _reviews(path: str) -> dict[str, list[str]]:
    """The words of each review by its name, such as `neg/cv000_29416.txt`."""
    found = {}
    with zipfile.ZipFile(path) as archive:
        for name in sorted(archive.namelist()):
            kind = name.split("/")[-2] if name.endswith(".txt") and "/" in name else ""
            if kind in _KINDS:
                text = archive.read(name).decode("utf-8", "replace")
                found["/".join(name.split("/")[-2:])] = _WORD.findall(text.lower())
    return found


def download_data_if_not_yet() -> str:
    """The path of the archive, downloaded where that is asked for."""
    return common.download(URL, "corpora", MD5)


def get_word_dict() -> list[tuple[str, int]]:
    """(word, number) of every word, the most frequent first."""
    reviews = _reviews(download_data_if_not_yet())
    counts = collections.Counter(chain.from_iterable(reviews.values()))
    words = sorted(counts, key=lambda word: -counts[word])
    return [(word, number) for number, word in enumerate(words)]


def sort_files() -> list[str]:
    """Names of the reviews: a negative and a positive one in turn."""
    reviews = _reviews(download_data_if_not_yet())
    of_kind = [[name for name in reviews if name.startswith(f"{kind}/")] for kind in _KINDS]
    return list(chain.from_iterable(zip(*of_kind, strict=True)))


def load_sentiment_data() -> list[Sample]:
    """All samples, in the order of `sort_files`."""
    reviews = _reviews(download_data_if_not_yet())
    numbers = dict(get_word_dict())
    return [
        ([numbers[word] for word in reviews[name]], int(name.startswith("pos/")))
        for name in sort_files()
    ]


def reader_creator(data: list[Sample]) -> Iterator[Sample]:
    """The samples, one by one."""
    yield from data


def train() -> Callable[[], Iterator[Sample]]:
    """A reader of the first 1,600 reviews."""
    data = load_sentiment_data()[:NUM_TRAINING_INSTANCES]
    return lambda: reader_creator(data)


def test() -> Callable[[], Iterator[Sample]]:
    """A reader of the other 400 reviews."""
    data = load_sentiment_data()[NUM_TRAINING_INSTANCES:]
    return lambda: reader_creator(data)


def fetch() -> None:
    """Looks for the archive, downloading it where that is asked for."""
    download_data_if_not_yet()
