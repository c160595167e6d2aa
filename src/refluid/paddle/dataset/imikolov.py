"""`paddle.dataset.imikolov`: the Penn Treebank's words; a sample is n words, or two sequences."""

from __future__ import annotations

import collections
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from refluid.paddle.dataset import common

__all__ = ["build_dict", "test", "train"]

URL = "https://dataset.bj.bcebos.com/imikolov%2Fsimple-examples.tgz"
MD5 = "30177ea32e27c525793142b6bf2c8e2d"

_TRAIN, _VALID = "simple-examples/data/ptb.train.txt", "simple-examples/data/ptb.valid.txt"
Reader = Callable[[], Iterator[tuple[Any, ...]]]


class DataType:
    """Kinds of samples: windows of n words, or a sentence and the same one word later."""

    NGRAM = 1
    SEQ = 2


def _lines(name: str) -> Iterator[list[str]]:
    """The words of each line of a file of the archive, whose names may begin with `./`."""
    with tarfile.open(common.download(URL, "imikolov", MD5)) as archive:
        for member in archive:
            if member.name.removeprefix("./") == name.removeprefix("./"):
                file = archive.extractfile(member)
                for line in file or ():
                    yield line.decode("utf-8").split()
                return
    raise KeyError(f"{name} is not in the archive of {URL}")


def word_count(
    f: Iterable[str | bytes], word_freq: dict[str, int] | None = None
) -> collections.defaultdict[str, int]:
    """How often each word occurs in lines, with `<s>` and `<e>` once for each line."""
    counts: collections.defaultdict[str, int] = collections.defaultdict(int, word_freq or {})
    for line in f:
        text = line.decode("utf-8") if isinstance(line, bytes) else line
        for word in ("<s>", "<e>", *text.split()):
            counts[word] += 1
    return counts


def build_dict(min_word_freq: int = 50) -> dict[str, int]:
    """Numbers of the words that occur more than `min_word_freq` times, most frequent first.

    They are counted in the training and the validation text; `<unk>` has the last number.
    """
    counts: dict[str, int] = {}
    for name in (_TRAIN, _VALID):
        counts = word_count((" ".join(words) for words in _lines(name)), counts)
    counts.pop("<unk>", None)
    frequent = [(word, count) for word, count in counts.items() if count > min_word_freq]
    numbers = {word: n for n, (word, _) in enumerate(sorted(frequent, key=lambda i: (-i[1], i[0])))}
    numbers["<unk>"] = len(numbers)
    return numbers


def reader_creator(filename: str, word_idx: Mapping[str, int], n: int, data_type: int) -> Reader:
    """A reader of a file of the archive: of windows of `n` words, or of (words, next words).

    Of sequences those of more than `n` words are left out, unless `n` is 0 or less.
    """

    def reader() -> Iterator[tuple[Any, ...]]:
        unknown = word_idx["<unk>"]
        for words in _lines(filename):
            if data_type == DataType.NGRAM:
                if n <= -1:
                    raise ValueError(f"windows need a count of words, not {n}")
                sentence = ["<s>", *words, "<e>"]
                numbers = [word_idx.get(word, unknown) for word in sentence]
                for end in range(n, len(numbers) + 1):
                    yield tuple(numbers[end - n : end])
            elif data_type == DataType.SEQ:
                numbers = [word_idx.get(word, unknown) for word in words]
                source, target = [word_idx["<s>"], *numbers], [*numbers, word_idx["<e>"]]
                if n <= 0 or len(source) <= n:
                    yield source, target
            else:
                raise ValueError(f"data_type is DataType.NGRAM or DataType.SEQ, not {data_type!r}")

    return reader


def train(word_idx: Mapping[str, int], n: int, data_type: int = DataType.NGRAM) -> Reader:
    """A reader of the training text."""
    return reader_creator(_TRAIN, word_idx, n, data_type)


def test(word_idx: Mapping[str, int], n: int, data_type: int = DataType.NGRAM) -> Reader:
    """A reader of the validation text."""
    return reader_creator(_VALID, word_idx, n, data_type)


def fetch() -> None:
    """Looks for the archive, downloading it where that is asked for."""
    common.download(URL, "imikolov", MD5)
