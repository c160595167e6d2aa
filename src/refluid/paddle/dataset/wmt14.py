"""`paddle.dataset.wmt14`: French to English; a sample is (source, target, next target words)."""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Iterator, Mapping
from typing import IO, Any

from refluid.paddle.dataset import common

__all__ = ["get_dict", "test", "train"]

URL_DEV_TEST = "http://www-lium.univ-lemans.fr/~schwenk/cslm_joint_paper/data/dev+test.tgz"
MD5_DEV_TEST = "7d7897317ddd8ba0ae5c5fa7248d3ff5"
URL_TRAIN = "http://paddlemodels.bj.bcebos.com/wmt/wmt14.tgz"
MD5_TRAIN = "0791583d57d5beb693b9414c5b36798c"
URL_MODEL = "http://paddlemodels.bj.bcebos.com/wmt%2Fwmt14.tgz"
MD5_MODEL = "0cb4a5366189b6acba876491c8724fa3"

START = "<s>"
END = "<e>"
UNK = "<unk>"
UNK_IDX = 2
_LONGEST = 80

Sample = tuple[list[int], list[int], list[int]]
Reader = Callable[[], Iterator[Sample]]
Numbers = dict[str, int]


def _words(file: IO[bytes], count: int) -> Numbers:
    """The first `count` lines of a dictionary and their numbers."""
    return {
        line.decode("utf-8").strip(): number
        for number, line in zip(range(count), file, strict=False)
    }


def _dictionaries(tar_file: str, dict_size: int) -> tuple[Numbers, Numbers]:
    """Those of both languages, by what the names of the archive's files end with."""
    found: dict[str, Numbers] = {}
    with tarfile.open(tar_file) as archive:
        for member in archive:
            ending = member.name[-len("src.dict") :]
            if ending in ("src.dict", "trg.dict") and (file := archive.extractfile(member)):
                found[ending] = _words(file, dict_size)
    return found["src.dict"], found["trg.dict"]


def reader_creator(tar_file: str, file_name: str, dict_size: int) -> Reader:
    """A reader of the sentences in files of the archive whose names end with `file_name`.

    A line is a source and a target sentence with a tab between. Pairs with more than 80 words are
    left out; the source has `<s>` and `<e>` around it.
    """

    def reader() -> Iterator[Sample]:
        source_words, target_words = _dictionaries(tar_file, dict_size)
        with tarfile.open(tar_file) as archive:
            for member in archive:
                if member.name.endswith(file_name) and (file := archive.extractfile(member)):
                    for line in file:
                        yield from _sample(line.decode("utf-8"), source_words, target_words)

    return reader


def _sample(line: str, source_words: Numbers, target_words: Numbers) -> Iterator[Sample]:
    parts = line.strip().split("\t")
    if len(parts) != 2:
        return
    source = [source_words.get(word, UNK_IDX) for word in (START, *parts[0].split(), END)]
    target = [target_words.get(word, UNK_IDX) for word in parts[1].split()]
    if max(len(source), len(target)) <= _LONGEST:
        yield source, [target_words[START], *target], [*target, target_words[END]]


def _archive() -> str:
    return common.download(URL_TRAIN, "wmt14", MD5_TRAIN)


def train(dict_size: int) -> Reader:
    """A reader of the training sentences, with dictionaries of `dict_size` words."""
    return reader_creator(_archive(), "train/train", dict_size)


def test(dict_size: int) -> Reader:
    """A reader of the test sentences."""
    return reader_creator(_archive(), "test/test", dict_size)


def gen(dict_size: int) -> Reader:
    """A reader of the sentences to translate."""
    return reader_creator(_archive(), "gen/gen", dict_size)


def get_dict(dict_size: int, reverse: bool = True) -> tuple[Mapping[Any, Any], ...]:
    """The source and the target dictionary: words by number, or with `reverse=False` numbers."""
    both = _dictionaries(_archive(), dict_size)
    if not reverse:
        return both
    return tuple({number: word for word, number in one.items()} for one in both)


def fetch() -> None:
    """Looks for the archive, downloading it where that is asked for."""
    _archive()
