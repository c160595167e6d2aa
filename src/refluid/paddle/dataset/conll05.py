"""`paddle.dataset.conll05`: who does what to whom, for each verb of a sentence.

A sample is nine lists as long as the sentence: its words, the words from two before the verb to two
after it (each repeated), the verb (repeated), 1 for words that near it, and labels such as B-A0.
Only the test sentences are free; they are what one trains with too.
"""

from __future__ import annotations

import gzip
import tarfile
from collections.abc import Callable, Iterator, Mapping
from itertools import zip_longest
from pathlib import Path

from refluid.paddle.dataset import common

# Fluid's own list; its first name is a slip of the pen there.
__all__ = ["get_dict", "get_embedding", "test"]

DATA_URL = "http://paddlemodels.bj.bcebos.com/conll05st/conll05st-tests.tar.gz"
DATA_MD5 = "387719152ae52d60422c016e92a742fc"
WORDDICT_URL = "http://paddlemodels.bj.bcebos.com/conll05st%2FwordDict.txt"
WORDDICT_MD5 = "ea7fb7d4c75cc6254716f0177a506baa"
VERBDICT_URL = "http://paddlemodels.bj.bcebos.com/conll05st%2FverbDict.txt"
VERBDICT_MD5 = "0d2977293bbb6cbefab5b0f97db1e77c"
TRGDICT_URL = "http://paddlemodels.bj.bcebos.com/conll05st%2FtargetDict.txt"
TRGDICT_MD5 = "d8c7f03ceb5fc2e5a0fa7503a4353751"
EMB_URL = "http://paddlemodels.bj.bcebos.com/conll05st%2Femb"
EMB_MD5 = "bf436eb0faa1f6f9103017f8be57cdb7"
UNK_IDX = 0

_WORDS = "conll05st-release/test.wsj/words/test.wsj.words.gz"
_PROPS = "conll05st-release/test.wsj/props/test.wsj.props.gz"
_NEAR = range(-2, 3)
_OUTSIDE = ("bos", "eos")

Sentences = Callable[[], Iterator[tuple[list[str], str, list[str]]]]
Reader = Callable[[], Iterator[tuple[list[int], ...]]]


def load_dict(filename: str) -> dict[str, int]:
    """Numbers of the lines of a file, from 0."""
    lines = Path(filename).read_text(encoding="utf-8").splitlines()
    return {line.strip(): number for number, line in enumerate(lines)}


def load_label_dict(filename: str) -> dict[str, int]:
    """Numbers of labels: B-X and I-X for each X of the file, in its order, then O."""
    lines = Path(filename).read_text(encoding="utf-8").splitlines()
    marked = [line.strip()[2:] for line in lines if line.startswith(("B-", "I-"))]
    labels = [f"{place}-{kind}" for kind in dict.fromkeys(marked) for place in "BI"]
    return {label: number for number, label in enumerate([*labels, "O"])}


def _labels(column: list[str]) -> list[str]:
    """B-A0, I-A0, O, .. for what the file writes as `(A0*`, `*)` and `*`."""
    labels, inside = [], ""
    for mark in column:
        if mark.startswith("("):
            kind = mark[1 : mark.index("*")]
            labels.append(f"B-{kind}")
            inside = "" if mark.endswith(")") else kind
        else:
            labels.append(f"I-{inside}" if inside else "O")
            inside = "" if mark.endswith(")") else inside
    return labels


def corpus_reader(data_path: str, words_name: str, props_name: str) -> Sentences:
    """A reader of (words, verb, labels): as often for a sentence as it has verbs."""

    def reader() -> Iterator[tuple[list[str], str, list[str]]]:
        with tarfile.open(data_path) as archive:
            words_file, props_file = (archive.extractfile(n) for n in (words_name, props_name))
            if words_file is None or props_file is None:
                raise KeyError(f"{data_path} has no files {words_name} and {props_name}")
            with gzip.open(words_file) as words, gzip.open(props_file) as props:
                yield from _sentences(words, props)

    return reader


def _sentences(
    words: Iterator[bytes], props: Iterator[bytes]
) -> Iterator[tuple[list[str], str, list[str]]]:
    """An empty line ends a sentence; the first column names the verbs, one follows for each."""
    sentence: list[str] = []
    rows: list[list[str]] = []
    for word, line in zip_longest(words, props, fillvalue=b""):
        row = line.decode("utf-8").split()
        if row:
            sentence.append(word.decode("utf-8").strip())
            rows.append(row)
        if not row and rows:
            yield from _of_sentence(sentence, rows)
            sentence, rows = [], []
    if rows:
        yield from _of_sentence(sentence, rows)


def _of_sentence(
    sentence: list[str], rows: list[list[str]]
) -> Iterator[tuple[list[str], str, list[str]]]:
    verbs = [row[0] for row in rows if row[0] != "-"]
    for verb, column in zip(verbs, list(zip(*rows, strict=True))[1:], strict=True):
        yield sentence, verb, _labels(list(column))


def reader_creator(
    corpus_reader: Sentences,
    word_dict: Mapping[str, int] | None = None,
    predicate_dict: Mapping[str, int] | None = None,
    label_dict: Mapping[str, int] | None = None,
) -> Reader:
    """A reader of the nine lists of numbers, made of (words, verb, labels)."""
    words_of, verbs_of, labels_of = word_dict or {}, predicate_dict or {}, label_dict or {}

    def reader() -> Iterator[tuple[list[int], ...]]:
        for sentence, verb, labels in corpus_reader():
            size, at = len(sentence), labels.index("B-V")
            near = [at + step for step in _NEAR]
            around = [
                sentence[place] if 0 <= place < size else _OUTSIDE[place >= size] for place in near
            ]
            yield (
                [words_of.get(word, UNK_IDX) for word in sentence],
                *([words_of.get(word, UNK_IDX)] * size for word in around),
                [verbs_of[verb]] * size,
                [int(place in near) for place in range(size)],
                [labels_of[label] for label in labels],
            )

    return reader


def get_dict() -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
    """Numbers of words, of verbs and of labels."""
    return (
        load_dict(common.download(WORDDICT_URL, "conll05st", WORDDICT_MD5)),
        load_dict(common.download(VERBDICT_URL, "conll05st", VERBDICT_MD5)),
        load_label_dict(common.download(TRGDICT_URL, "conll05st", TRGDICT_MD5)),
    )


def get_embedding() -> str:
    """The path of the words' vectors, trained on Wikipedia."""
    return common.download(EMB_URL, "conll05st", EMB_MD5)


def test() -> Reader:
    """A reader of the test sentences."""
    words, verbs, labels = get_dict()
    archive = common.download(DATA_URL, "conll05st", DATA_MD5)
    return reader_creator(corpus_reader(archive, _WORDS, _PROPS), words, verbs, labels)


def fetch() -> None:
    """Looks for all five files, downloading them where that is asked for."""
    get_dict()
    get_embedding()
    common.download(DATA_URL, "conll05st", DATA_MD5)
