"""Small data for public scripts, in the formats their readers take, with something to learn."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np

Random = np.random.Generator


def _lines(path: Path, lines: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def none(_folder: Path, _random: Random) -> None:
    """The script comes with data, or makes it."""


def ratings(folder: Path, random: Random) -> None:
    """User, item and whether it was clicked: what is even goes together."""
    users, items = random.integers(0, 200, 2000), random.integers(0, 150, 2000)
    rows = [f"{u},{i},{int((u + i) % 2 == 0)}" for u, i in zip(users, items, strict=True)]
    _lines(folder / "Data/train_data.csv", rows)
    _lines(folder / "Data/ml-1m.test.rating", [f"{u}\t{u % 150}\t5\t0" for u in range(50)])
    negatives = ["\t".join([f"({u},{u % 150})", *map(str, range(99))]) for u in range(50)]
    _lines(folder / "Data/ml-1m.test.negative", negatives)


def census(folder: Path, random: Random) -> None:
    """Two labels and 499 columns; both labels follow from the first columns."""
    for name, rows in (("train_data", 400), ("test_data", 100)):
        x = random.random((rows, 499))
        labels = np.stack([x[:, 0] > 0.5, x[:, 1] + x[:, 2] > 1], 1).astype(int)
        lines = [
            ",".join([*map(str, y), *(f"{v:.3f}" for v in row)])
            for y, row in zip(labels, x, strict=True)
        ]
        _lines(folder / name / "part.csv", ["header", *lines])


def adult(folder: Path, random: Random) -> None:
    """8 wide columns, 58 deep ones, and a label that follows from two of them."""
    for name, rows in (("train_data/train_data.csv", 1200), ("test_data/test_data.csv", 200)):
        x = random.random((rows, 66))
        y = (x[:, 0] + x[:, 10] > 1).astype(int)
        lines = [
            ",".join([*(f"{v:.3f}" for v in row), str(label)])
            for row, label in zip(x, y, strict=True)
        ]
        _lines(folder / name, ["header", *lines])


def _criteo_rows(random: Random, rows: int) -> list[str]:
    lines = []
    for _ in range(rows):
        words = [f"{random.integers(0, 40):08x}" for _ in range(26)]
        numbers = [str(random.integers(0, 10)) for _ in range(13)]
        label = int(int(words[0], 16) % 2 == 0)
        lines.append("\t".join([str(label), *numbers, *words]))
    return lines


def criteo(folder: Path, random: Random) -> None:
    """Click logs: a label, 13 numbers, 26 words; the label follows from the first word."""
    for place in ("train_data", "data/train_data", "data/raw"):
        _lines(
            folder / place / ("part-0" if place != "data/raw" else "train.txt"),
            _criteo_rows(random, 2000),
        )
    for place in ("test_data", "data/test_data", "data/raw"):
        _lines(
            folder / place / ("part-220" if place != "data/raw" else "valid.txt"),
            _criteo_rows(random, 400),
        )
    known: dict[object, int] = {number: number for number in range(1, 14)}
    known |= {f"{word:08x}": 14 + word for word in range(40)}
    for name in ("feat_dict_10.pkl2",):
        (folder / "data/aid_data").mkdir(parents=True, exist_ok=True)
        (folder / "data/aid_data" / name).write_bytes(pickle.dumps(known, protocol=2))


def criteo_vocabulary(folder: Path, random: Random) -> None:
    """Click logs with a file of words for each column."""
    for part in range(10):
        _lines(folder / f"data/train/part-{part}", _criteo_rows(random, 200))
    _lines(folder / "data/test_valid/part-0", _criteo_rows(random, 400))
    for column in range(1, 27):
        _lines(folder / f"data/vocab/C{column}.txt", [f"{word:08x}" for word in range(40)])
    _lines(folder / "data/cat_feature_num.txt", [f"C{column} 41" for column in range(1, 27)])


def criteo_indices(folder: Path, random: Random) -> None:
    """Click logs as a label and 39 indices; the label follows from the first index."""
    for place, rows in (("data/train_data/part-0", 2000), ("data/test_data/part-0", 400)):
        at = 1 + 50 * np.arange(39) + random.integers(0, 50, (rows, 39))
        _lines(folder / place, ["\t".join(map(str, [one[0] % 2, *one])) for one in at])


def sessions(folder: Path, random: Random) -> None:
    """Sessions of items, each followed by the next number; what comes after is learnt."""

    def some(rows: int) -> tuple[list[list[int]], list[int]]:
        starts = random.integers(1, 60, rows)
        lengths = random.integers(2, 6, rows)
        items = [list(range(int(s), int(s + n))) for s, n in zip(starts, lengths, strict=True)]
        return items, [one[-1] + 1 for one in items]

    where = folder / "data/diginetica"
    where.mkdir(parents=True, exist_ok=True)
    for name, rows in (("train.txt", 1200), ("test.txt", 200)):
        (where / name).write_bytes(pickle.dumps(some(rows), protocol=2))
    (where / "config.txt").write_text("70\n")


def sequences(folder: Path, random: Random) -> None:
    """Lines of item numbers, each the one after the former."""
    for name, rows in (("train_data/small_train.txt", 600), ("test_data/small_test.txt", 60)):
        starts, lengths = random.integers(1, 90, rows), random.integers(2, 9, rows)
        ends = zip(starts, lengths, strict=True)
        _lines(folder / name, [" ".join(map(str, range(one, one + n))) for one, n in ends])
    _lines(folder / "vocab.txt", ["100"])


def word_pairs(folder: Path, random: Random) -> None:
    """Lines of word numbers, each word followed by those near to it, and how often each occurs."""
    starts = random.integers(0, 90, 60)
    _lines(
        folder / "data/convert_text8/part",
        [" ".join(str(s + n) for n in range(10)) for s in starts],
    )
    counts = sorted(random.integers(5, 50, 100).tolist(), reverse=True)
    _lines(folder / "data/test_build_dict", [f"w{n} {count}" for n, count in enumerate(counts)])
    _lines(folder / "data/test_build_dict_word_to_id_", [f"w{n} {n}" for n in range(100)])


def amazon(folder: Path, random: Random) -> None:
    """Items and categories seen, a target and whether it was bought: even goes with even."""
    lines = []
    for _ in range(800):
        length = int(random.integers(2, 8))
        parity = int(random.integers(0, 2))
        items = 2 * random.integers(1, 40, length) + parity
        target = int(random.integers(2, 80))
        row = [" ".join(map(str, items)), " ".join(str(i % 20) for i in items)]
        lines.append(
            ";".join([*row, str(target), str(target % 20), str(int(target % 2 == parity))])
        )
    _lines(folder / "data/paddle_train.txt", lines)
    _lines(folder / "data/paddle_test.txt", lines[:100])
    _lines(folder / "data/config.txt", ["10", "90", "20"])


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
        _lines(folder / f"data/{name}.tsv", ["label\ttext_a", *lines])
    _lines(folder / "data/vocab.txt", ["[PAD]", *_WORDS])


def opinions(folder: Path, random: Random) -> None:
    """Sentences of two kinds, as `words TAB label`."""
    for name, rows in (("train", 320), ("dev", 32), ("test", 32)):
        lines = [f"{text}\t{kind}" for kind, text in _sentences(random, rows, 2)]
        _lines(folder / f"senta_data/{name}.tsv", ["text_a\tlabel", *lines])
    _lines(folder / "senta_data/word_dict.txt", ["[PAD]", *_WORDS])


def pairs(folder: Path, random: Random) -> None:
    """A question, a title of its kind and one of another kind; and pairs with a label."""
    kinds: dict[int, list[str]] = {0: [], 1: []}
    for kind, text in _sentences(random, 1200, 2):
        kinds[kind].append(text)
    rows = zip(kinds[0][:500:2], kinds[0][1:500:2], kinds[1], strict=False)
    _lines(folder / "data/train_pairwise_data", ["\t".join(one) for one in rows])
    two = zip(kinds[0][:80], [*kinds[0][80:120], *kinds[1][80:120]], strict=True)
    labelled = [f"{one}\t{other}\t{int(n < 40)}" for n, (one, other) in enumerate(two)]
    _lines(folder / "data/test_pairwise_data", labelled)
    _lines(folder / "data/infer_data", [one.rpartition("\t")[0] for one in labelled])
    _lines(folder / "data/term2id.dict", [f"{word}\t{n}" for n, word in enumerate(_WORDS, 1)])


def _counting(random: Random, rows: int) -> list[str]:
    starts, lengths = random.integers(0, 80, rows), random.integers(4, 15, rows)
    ends = zip(starts, lengths, strict=True)
    return [" ".join(_WORDS[(one + step) % 100] for step in range(n)) for one, n in ends]


def language(folder: Path, random: Random) -> None:
    """Text in which each word is followed by the next of the vocabulary."""
    for name, rows in (("train", 3000), ("valid", 300), ("test", 300)):
        _lines(folder / f"data/ptb.{name}.txt", _counting(random, rows))


def translations(folder: Path, random: Random) -> None:
    """Sentences and their words in another order of letters."""
    for name, rows in (("train", 800), ("dev", 64), ("test", 64)):
        lines = _counting(random, rows)
        _lines(folder / f"data/{name}.en", lines)
        _lines(folder / f"data/{name}.vi", [line.replace("word", "tu") for line in lines])
    for language_, word in (("en", "word"), ("vi", "tu")):
        known = ["<unk>", "<s>", "</s>", *(f"{word}{n}" for n in range(100))]
        _lines(folder / f"data/vocab.{language_}", known)


def images(folder: Path, random: Random) -> None:
    """Pictures of two classes, bright and dark, with lists of names and labels."""
    from PIL import Image

    for part, rows in (("train", 96), ("val", 16)):
        lines = []
        for number in range(rows):
            label = int(random.integers(0, 2))
            noise = random.integers(0, 80, (64, 64, 3)) + 160 * label
            place = folder / f"data/pictures/{part}/{number}.jpg"
            place.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(noise.astype("uint8")).save(place)
            lines.append(f"{part}/{number}.jpg {label}")
        _lines(folder / f"data/pictures/{part}_list.txt", lines)


def written(folder: Path, random: Random) -> None:
    """Pictures of stripes, and the numbers that tell how each stripe is shaded."""
    from PIL import Image

    for part, rows in (("train", 300), ("test", 16)):
        lines = []
        for number in range(rows):
            marks = random.integers(0, 5, 3)
            picture = np.repeat(np.tile(50 * marks, (48, 1)), 128, axis=1)
            place = folder / f"data/{part}_images/{number}.jpg"
            place.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(picture.astype("uint8")).save(place)
            lines.append(f"384 48 {number}.jpg {','.join(map(str, marks))}")
        _lines(folder / f"data/{part}.list", lines)


def products(folder: Path, random: Random) -> None:
    """Pictures of two classes, in lists of number, class, class and path."""
    from PIL import Image

    where = folder / "data/Stanford_Online_Products"
    for part, rows in (("train", 60), ("test", 12)):
        lines = ["image_id class_id super_class_id path"]
        for number in range(rows):
            label = number % 2
            noise = random.integers(0, 80, (80, 80, 3)) + 160 * label
            place = where / part / f"{number}.jpg"
            place.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(noise.astype("uint8")).save(place)
            lines.append(f"{number} {label + 1} 1 {part}/{number}.jpg")
        _lines(where / f"Ebay_{part}.txt", lines)
