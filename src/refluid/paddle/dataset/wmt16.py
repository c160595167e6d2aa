"""`paddle.dataset.wmt16`: captions in English and German; a sample is (source, target, next)."""

from __future__ import annotations

import collections
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

from refluid.core.writing import write_file
from refluid.paddle.dataset import common

__all__ = ["fetch", "get_dict", "test", "train", "validation"]

DATA_URL = "http://paddlemodels.bj.bcebos.com/wmt/wmt16.tar.gz"
DATA_MD5 = "0c38be43600334966403524a40dcd81e"
TOTAL_EN_WORDS = 11250
TOTAL_DE_WORDS = 19220
START_MARK = "<s>"
END_MARK = "<e>"
UNK_MARK = "<unk>"
_MARKS = (START_MARK, END_MARK, UNK_MARK)

Reader = Callable[[], Iterator[tuple[list[int], list[int], list[int]]]]


def _column(lang: str) -> int:
    if lang not in ("en", "de"):
        raise ValueError(f"the languages are 'en' and 'de', not {lang!r}")
    return 0 if lang == "en" else 1


def _pairs(tar_file: str, file_name: str) -> Iterator[list[str]]:
    """The English and the German sentence of each line, which has a tab between them."""
    with tarfile.open(tar_file) as archive:
        for line in archive.extractfile(file_name) or ():
            parts = line.decode("utf-8").strip().split("\t")
            if len(parts) == 2:
                yield parts


def _dictionary_file(tar_file: str, dict_size: int, lang: str) -> Path:
    """`wmt16/en_3000.dict` in the cache folder: a word per line, made of the training sentences."""
    path = Path(common.DATA_HOME) / "wmt16" / f"{lang}_{dict_size}.dict"
    if not path.is_file():
        column = _column(lang)
        counts = collections.Counter(
            word for pair in _pairs(tar_file, "wmt16/train") for word in pair[column].split()
        )
        words = sorted(counts, key=lambda word: -counts[word])[: dict_size - len(_MARKS)]
        path.parent.mkdir(parents=True, exist_ok=True)
        text = "".join(f"{word}\n" for word in (*_MARKS, *words))
        write_file(path, lambda file: file.write(text.encode("utf-8")))
    return path


def _numbers(tar_file: str, dict_size: int, lang: str) -> dict[str, int]:
    lines = _dictionary_file(tar_file, dict_size, lang).read_text(encoding="utf-8").splitlines()
    return {word: number for number, word in enumerate(lines)}


def _size(dict_size: int, lang: str) -> int:
    return min(dict_size, TOTAL_EN_WORDS if lang == "en" else TOTAL_DE_WORDS)


def reader_creator(
    tar_file: str, file_name: str, src_dict_size: int, trg_dict_size: int, src_lang: str
) -> Reader:
    """A reader of the sentences in a file of the archive; the source has `<s>` and `<e>` around."""

    def reader() -> Iterator[tuple[list[int], list[int], list[int]]]:
        column = _column(src_lang)
        languages = (src_lang, "de" if src_lang == "en" else "en")
        sizes = (src_dict_size, trg_dict_size)
        source_words, target_words = (
            _numbers(tar_file, size, lang) for size, lang in zip(sizes, languages, strict=True)
        )
        start, end, unknown = (source_words[mark] for mark in _MARKS)
        for pair in _pairs(tar_file, file_name):
            source = [source_words.get(word, unknown) for word in pair[column].split()]
            target = [target_words.get(word, unknown) for word in pair[1 - column].split()]
            yield [start, *source, end], [start, *target], [*target, end]

    return reader


def _reader(name: str, src_dict_size: int, trg_dict_size: int, src_lang: str) -> Reader:
    _column(src_lang)
    other = "de" if src_lang == "en" else "en"
    sizes = _size(src_dict_size, src_lang), _size(trg_dict_size, other)
    return reader_creator(fetch(), f"wmt16/{name}", *sizes, src_lang)


def train(src_dict_size: int, trg_dict_size: int, src_lang: str = "en") -> Reader:
    """A reader of the training sentences, with dictionaries of at most these sizes."""
    return _reader("train", src_dict_size, trg_dict_size, src_lang)


def test(src_dict_size: int, trg_dict_size: int, src_lang: str = "en") -> Reader:
    """A reader of the test sentences."""
    return _reader("test", src_dict_size, trg_dict_size, src_lang)


def validation(src_dict_size: int, trg_dict_size: int, src_lang: str = "en") -> Reader:
    """A reader of the validation sentences."""
    return _reader("val", src_dict_size, trg_dict_size, src_lang)


def get_dict(lang: str, dict_size: int, reverse: bool = False) -> dict[str, int] | dict[int, str]:
    """Numbers of a language's words, or with `reverse` words by number."""
    _column(lang)
    numbers = _numbers(fetch(), _size(dict_size, lang), lang)
    return {number: word for word, number in numbers.items()} if reverse else numbers


def fetch() -> str:
    """The path of the archive, downloaded where that is asked for."""
    return common.download(DATA_URL, "wmt16", DATA_MD5)
