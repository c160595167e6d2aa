"""Sentences of a vocabulary of a hundred words."""

from __future__ import annotations

from pathlib import Path

from zoo.data.lines import Random, write_lines

_WORDS = [f"word{number}" for number in range(100)]


def _sentences(random: Random, rows: int, kinds: int) -> list[tuple[int, str]]:
    """Sentences of one kind draw their words from their own part of the vocabulary."""
    found = []
    for _ in range(rows):
        kind = int(random.integers(0, kinds))
        words = kind * 20 + random.integers(0, 20, int(random.integers(4, 12)))
        found.append((kind, " ".join(_WORDS[one] for one in words)))
    return found


def emotions(folder: Path, random: Random) -> None:
    """Sentences of three kinds, as `label TAB words`."""
    for name, rows in (("train", 640), ("dev", 64), ("test", 64), ("infer", 64)):
        lines = [f"{kind}\t{text}" for kind, text in _sentences(random, rows, 3)]
        write_lines(folder / f"data/{name}.tsv", ["label\ttext_a", *lines])
    write_lines(folder / "data/vocab.txt", ["[PAD]", *_WORDS])


def opinions(folder: Path, random: Random) -> None:
    """Sentences of two kinds, as `words TAB label`."""
    for name, rows in (("train", 320), ("dev", 32), ("test", 32)):
        lines = [f"{text}\t{kind}" for kind, text in _sentences(random, rows, 2)]
        write_lines(folder / f"senta_data/{name}.tsv", ["text_a\tlabel", *lines])
    write_lines(folder / "senta_data/word_dict.txt", ["[PAD]", *_WORDS])


def pairs(folder: Path, random: Random) -> None:
    """A question, a title of its kind and one of another kind; and pairs with a label."""
    kinds: dict[int, list[str]] = {0: [], 1: []}
    for kind, text in _sentences(random, 1200, 2):
        kinds[kind].append(text)
    rows = zip(kinds[0][:500:2], kinds[0][1:500:2], kinds[1], strict=False)
    write_lines(folder / "data/train_pairwise_data", ["\t".join(one) for one in rows])
    two = zip(kinds[0][:80], [*kinds[0][80:120], *kinds[1][80:120]], strict=True)
    labelled = [f"{one}\t{other}\t{int(n < 40)}" for n, (one, other) in enumerate(two)]
    write_lines(folder / "data/test_pairwise_data", labelled)
    write_lines(folder / "data/infer_data", [one.rpartition("\t")[0] for one in labelled])
    write_lines(folder / "data/term2id.dict", [f"{word}\t{n}" for n, word in enumerate(_WORDS, 1)])


def _counting(random: Random, rows: int) -> list[str]:
    starts, lengths = random.integers(0, 80, rows), random.integers(4, 15, rows)
    ends = zip(starts, lengths, strict=True)
    return [" ".join(_WORDS[(one + step) % 100] for step in range(n)) for one, n in ends]


def language(folder: Path, random: Random) -> None:
    """Text in which each word is followed by the next of the vocabulary."""
    for name, rows in (("train", 3000), ("valid", 300), ("test", 300)):
        write_lines(folder / f"data/ptb.{name}.txt", _counting(random, rows))


def translations(folder: Path, random: Random) -> None:
    """Sentences and their words in another order of letters."""
    for name, rows in (("train", 800), ("dev", 64), ("test", 64)):
        lines = _counting(random, rows)
        write_lines(folder / f"data/{name}.en", lines)
        write_lines(folder / f"data/{name}.vi", [line.replace("word", "tu") for line in lines])
    for language_, word in (("en", "word"), ("vi", "tu")):
        known = ["<unk>", "<s>", "</s>", *(f"{word}{n}" for n in range(100))]
        write_lines(folder / f"data/vocab.{language_}", known)


def tagged(folder: Path, random: Random) -> None:
    """Words of single letters, each beginning or inside of a noun by whether it is a vowel."""
    for part, rows in (("train", 320), ("test", 32)):
        lines = ["text_a\tlabel"]
        for _ in range(rows):
            letters = [str(one) for one in random.choice([*"aeioubcd"], int(random.integers(4, 9)))]
            labels = ["n-B" if one in "aeiou" else "n-I" for one in letters]
            lines.append("\002".join(letters) + "\t" + "\002".join(labels))
        write_lines(folder / f"data/{part}.tsv", lines)
