"""Reviews, sentences, translations and roles of words, read from archives made here."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from refluid.paddle.dataset import conll05, imdb, imikolov, sentiment, wmt14, wmt16
from tests.paddle.dataset.archives import write, write_tar, write_zip


def test_reviews(home: Path) -> None:
    files = {
        "aclImdb/train/pos/0_9.txt": b"Good, good FILM.\n",
        "aclImdb/train/neg/1_2.txt": b"bad film",
        "aclImdb/test/pos/2_9.txt": b"good!",
        "aclImdb/test/neg/3_1.txt": b"strange film",
        "aclImdb/train/unsup/4_0.txt": b"good good good good",
    }
    write_tar(home / "imdb" / "imdb%2FaclImdb_v1.tar.gz", files)
    assert imdb.word_dict() == {"<unk>": 0}
    words = imdb.build_dict(imdb.re.compile(r"aclImdb/((train)|(test))/((pos)|(neg))/.*\.txt$"), 0)
    assert words == {"film": 0, "good": 1, "bad": 2, "strange": 3, "<unk>": 4}
    del words["strange"]
    assert list(imdb.train(words)()) == [([1, 1, 0], 0), ([2, 0], 1)]
    assert list(imdb.test(words)()) == [([1], 0), ([4, 0], 1)]


def test_sentences(home: Path) -> None:
    files = {
        "./simple-examples/data/ptb.train.txt": b" the cat <unk> the mouse \n the cat \n",
        "./simple-examples/data/ptb.valid.txt": b" the dog \n",
    }
    write_tar(home / "imikolov" / "simple-examples.tgz", files)
    words = imikolov.build_dict(1)
    assert words == {"<e>": 1, "<s>": 2, "the": 0, "cat": 3, "<unk>": 4}
    three = list(imikolov.train(words, 3)())
    assert three[:2] == [(2, 0, 3), (0, 3, 4)] and len(three) == 5 + 2
    kind = imikolov.DataType.SEQ
    assert list(imikolov.test(words, 0, kind)()) == [([2, 0, 4], [0, 4, 1])]
    assert len(list(imikolov.train(words, 3, kind)())) == 1
    counted = imikolov.word_count([b"a b", "a"])
    assert dict(counted) == {"<s>": 2, "<e>": 2, "a": 2, "b": 1}


def test_french_to_english(home: Path) -> None:
    marks = b"<s>\n<e>\n<unk>\n"
    files = {
        "wmt14/src.dict": marks + b"le\nchat\n",
        "wmt14/trg.dict": marks + b"the\ncat\n",
        "wmt14/train/train": b"le chat\tthe cat\nno tab\n" + b"le " * 80 + b"\tthe\n",
        "wmt14/test/test": b"le chien\tthe dog\n",
        "wmt14/gen/gen": b"chat\tcat\n",
    }
    write_tar(home / "wmt14" / "wmt14.tgz", files)
    assert list(wmt14.train(5)()) == [([0, 3, 4, 1], [0, 3, 4], [3, 4, 1])]
    assert list(wmt14.test(5)()) == [([0, 3, 2, 1], [0, 3, 2], [3, 2, 1])]
    assert list(wmt14.gen(4)()) == [([0, 2, 1], [0, 2], [2, 1])]
    source, target = wmt14.get_dict(5)
    assert source[4] == "chat" and target[4] == "cat"
    assert wmt14.get_dict(5, reverse=False)[0]["chat"] == 4


def test_english_and_german(home: Path) -> None:
    files = {
        "wmt16/train": "a dog\tein Hund\na cat\teine Mäuschen\n".encode(),
        "wmt16/test": b"a bird\tein Vogel\n",
        "wmt16/val": b"a\tein\n",
    }
    write_tar(home / "wmt16" / "wmt16.tar.gz", files)
    assert wmt16.get_dict("en", 4) == {"<s>": 0, "<e>": 1, "<unk>": 2, "a": 3}
    assert wmt16.get_dict("de", 100, reverse=True)[6] == "Mäuschen"
    assert next(wmt16.train(6, 5)()) == ([0, 3, 4, 1], [0, 3, 4], [3, 4, 1])
    assert list(wmt16.test(6, 5, src_lang="de")()) == [([0, 3, 2, 1], [0, 3, 2], [3, 2, 1])]
    assert len(list(wmt16.validation(6, 5)())) == 1
    with pytest.raises(ValueError, match="'fr'"):
        wmt16.train(6, 5, src_lang="fr")


def test_reviews_of_nltk(home: Path) -> None:
    folder = "movie_reviews"
    files = {f"{folder}/neg/cv{n:03d}.txt": b"bad , it's bad" for n in range(3)}
    files |= {f"{folder}/pos/cv{n:03d}.txt": b"good film ." for n in range(3)}
    files[f"{folder}/README"] = b"no review"
    write_zip(home / "corpora" / "movie_reviews.zip", files)
    words = dict(sentiment.get_word_dict())
    assert sorted(words.values()) == list(range(8)) and words["bad"] == 0
    assert sentiment.sort_files()[:2] == ["neg/cv000.txt", "pos/cv000.txt"]
    samples = list(sentiment.train()())
    assert [label for _, label in samples] == [0, 1] * 3
    assert samples[0][0] == [words[one] for one in ("bad", ",", "it", "'", "s", "bad")]
    assert list(sentiment.test()()) == []


WORDS = b"The\ncat\nsat\ndown\n.\n\n"
PROPS = b"""-     (A1*    (A0*
-         *)      *)
sit     (V*)      *
-     (AM-LOC*)    *
move       *     (V*)

"""


def test_roles_of_words(home: Path) -> None:
    folder = "conll05st-release/test.wsj"
    files = {
        f"{folder}/words/test.wsj.words.gz": gzip.compress(WORDS),
        f"{folder}/props/test.wsj.props.gz": gzip.compress(PROPS),
    }
    write_tar(home / "conll05st" / "conll05st-tests.tar.gz", files)
    write(home / "conll05st" / "wordDict.txt", b"UNK\nThe\ncat\nsat\ndown\nbos\neos\n")
    write(home / "conll05st" / "verbDict.txt", b"move\nsit\n")
    write(home / "conll05st" / "targetDict.txt", b"B-A0\nI-A0\nB-A1\nB-V\nB-AM-LOC\nO\n")
    labels = conll05.get_dict()[2]
    assert list(labels) == [
        *("B-A0", "I-A0", "B-A1", "I-A1", "B-V", "I-V", "B-AM-LOC", "I-AM-LOC", "O"),
    ]
    first, second = conll05.test()()
    assert len(first) == 9 and {len(column) for column in first} == {5}
    assert first[0] == [1, 2, 3, 4, 0]
    assert [column[0] for column in first[1:6]] == [1, 2, 3, 4, 0]
    assert first[6] == [1] * 5 and first[7] == [1] * 5
    assert first[8] == [labels[one] for one in ("B-A1", "I-A1", "B-V", "B-AM-LOC", "O")]
    assert [column[0] for column in second[1:6]] == [3, 4, 0, 6, 6]
    assert second[7] == [0, 0, 1, 1, 1]
    assert second[8] == [labels[one] for one in ("B-A0", "I-A0", "O", "O", "B-V")]
