"""`paddle.dataset.imdb`: film reviews; a sample is (word numbers, label).

Label 0 is a positive review, 1 a negative one.
"""

from __future__ import annotations

import collections
import re
import string
import tarfile
from collections.abc import Callable, Iterator, Mapping

from refluid.paddle.dataset import common

__all__ = ["build_dict", "test", "train"]

URL = "https://dataset.bj.bcebos.com/imdb%2FaclImdb_v1.tar.gz"
MD5 = "7c2ac02c03563afcf9b574c7e56c153a"

Reader = Callable[[], Iterator[tuple[list[int], int]]]
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def _archive() -> str:
    return common.download(URL, "imdb", MD5)


def tokenize(pattern: re.Pattern[str]) -> Iterator[list[str]]:
    """The words of each review whose name in the archive the pattern matches, in its order.

    Words are lower case, without punctuation.
    """
    with tarfile.open(_archive()) as archive:
        for member in archive:
            if pattern.match(member.name) and (file := archive.extractfile(member)):
                text = file.read().decode("utf-8", "replace").rstrip("\n\r")
                yield text.translate(_NO_PUNCTUATION).lower().split()


def build_dict(pattern: re.Pattern[str], cutoff: int) -> dict[str, int]:
    """Numbers of the words that are more frequent than `cutoff`, most frequent first.

    `<unk>` has the last number.
    """
    counts = collections.Counter(word for words in tokenize(pattern) for word in words)
    frequent = [(word, count) for word, count in counts.items() if count > cutoff]
    numbers = {word: n for n, (word, _) in enumerate(sorted(frequent, key=lambda i: (-i[1], i[0])))}
    numbers["<unk>"] = len(numbers)
    return numbers


def reader_creator(
    pos_pattern: re.Pattern[str], neg_pattern: re.Pattern[str], word_idx: Mapping[str, int]
) -> Reader:
    """A reader of positive reviews (label 0), then of negative ones (label 1), held in memory."""
    unknown = word_idx["<unk>"]
    samples = [
        ([word_idx.get(word, unknown) for word in words], label)
        for label, pattern in enumerate((pos_pattern, neg_pattern))
        for words in tokenize(pattern)
    ]
    return lambda: iter(samples)


def train(word_idx: Mapping[str, int]) -> Reader:
    """A reader of the 25,000 training reviews: 12,500 positive ones, then as many negative ones."""
    return reader_creator(
        re.compile(r"aclImdb/train/pos/.*\.txt$"),
        re.compile(r"aclImdb/train/neg/.*\.txt$"),
        word_idx,
    )


def test(word_idx: Mapping[str, int]) -> Reader:
    """A reader of the 25,000 test reviews."""
    return reader_creator(
        re.compile(r"aclImdb/test/pos/.*\.txt$"), re.compile(r"aclImdb/test/neg/.*\.txt$"), word_idx
    )


def word_dict() -> dict[str, int]:
    """Numbers of the words that occur more than 150 times in all reviews that have a label."""
    return build_dict(re.compile(r"aclImdb/((train)|(test))/((pos)|(neg))/.*\.txt$"), 150)


def fetch() -> None:
    """Looks for the archive, downloading it where that is asked for."""
    _archive()
