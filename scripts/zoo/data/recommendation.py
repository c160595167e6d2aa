"""Clicks, ratings and sessions."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np

from zoo.data.lines import Random, write_lines


def ratings(folder: Path, random: Random) -> None:
    """User, item and whether it was clicked: what is even goes together."""
    users, items = random.integers(0, 200, 2000), random.integers(0, 150, 2000)
    rows = [f"{u},{i},{int((u + i) % 2 == 0)}" for u, i in zip(users, items, strict=True)]
    write_lines(folder / "Data/train_data.csv", rows)
    write_lines(folder / "Data/ml-1m.test.rating", [f"{u}\t{u % 150}\t5\t0" for u in range(50)])
    negatives = ["\t".join([f"({u},{u % 150})", *map(str, range(99))]) for u in range(50)]
    write_lines(folder / "Data/ml-1m.test.negative", negatives)


def census(folder: Path, random: Random) -> None:
    """Two labels and 499 columns; both labels follow from the first columns."""
    for name, rows in (("train_data", 400), ("test_data", 100)):
        x = random.random((rows, 499))
        labels = np.stack([x[:, 0] > 0.5, x[:, 1] + x[:, 2] > 1], 1).astype(int)
        lines = [
            ",".join([*map(str, y), *(f"{v:.3f}" for v in row)])
            for y, row in zip(labels, x, strict=True)
        ]
        write_lines(folder / name / "part.csv", ["header", *lines])


def adult(folder: Path, random: Random) -> None:
    """8 wide columns, 58 deep ones, and a label that follows from two of them."""
    for name, rows in (("train_data/train_data.csv", 1200), ("test_data/test_data.csv", 200)):
        x = random.random((rows, 66))
        y = (x[:, 0] + x[:, 10] > 1).astype(int)
        lines = [
            ",".join([*(f"{v:.3f}" for v in row), str(label)])
            for row, label in zip(x, y, strict=True)
        ]
        write_lines(folder / name, ["header", *lines])


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
        write_lines(
            folder / place / ("part-0" if place != "data/raw" else "train.txt"),
            _criteo_rows(random, 2000),
        )
    for place in ("test_data", "data/test_data", "data/raw"):
        write_lines(
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
        write_lines(folder / f"data/train/part-{part}", _criteo_rows(random, 200))
    write_lines(folder / "data/test_valid/part-0", _criteo_rows(random, 400))
    for column in range(1, 27):
        write_lines(folder / f"data/vocab/C{column}.txt", [f"{word:08x}" for word in range(40)])
    write_lines(folder / "data/cat_feature_num.txt", [f"C{column} 41" for column in range(1, 27)])


def criteo_indices(folder: Path, random: Random) -> None:
    """Click logs as a label and 39 indices; the label follows from the first index."""
    for place, rows in (("data/train_data/part-0", 2000), ("data/test_data/part-0", 400)):
        at = 1 + 50 * np.arange(39) + random.integers(0, 50, (rows, 39))
        write_lines(folder / place, ["\t".join(map(str, [one[0] % 2, *one])) for one in at])


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
        write_lines(folder / name, [" ".join(map(str, range(one, one + n))) for one, n in ends])
    write_lines(folder / "vocab.txt", ["100"])


def word_pairs(folder: Path, random: Random) -> None:
    """Lines of word numbers, each word followed by those near to it, and how often each occurs."""
    starts = random.integers(0, 90, 60)
    write_lines(
        folder / "data/convert_text8/part",
        [" ".join(str(s + n) for n in range(10)) for s in starts],
    )
    counts = sorted(random.integers(5, 50, 100).tolist(), reverse=True)
    write_lines(
        folder / "data/test_build_dict", [f"w{n} {count}" for n, count in enumerate(counts)]
    )
    write_lines(folder / "data/test_build_dict_word_to_id_", [f"w{n} {n}" for n in range(100)])


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
    write_lines(folder / "data/paddle_train.txt", lines)
    write_lines(folder / "data/paddle_test.txt", lines[:100])
    write_lines(folder / "data/config.txt", ["10", "90", "20"])


def fields(folder: Path, random: Random) -> None:
    """Lines of number, clicked, bought, number and `field:feature`; even features are clicked."""
    for name, rows in (("train_data", 1280), ("test_data", 80)):
        rest = []
        for number in range(rows):
            features = random.integers(1, 400, 3)
            clicked = int(features[0] % 2 == 0)
            bought = int(clicked and features[1] % 2 == 0)
            pairs = zip(("101", "205", "301"), features, strict=True)
            given = ",".join(f"{field}:{one}" for field, one in pairs)
            rest.append(f"{number},{clicked},{bought},{number},{given}")
        write_lines(folder / name / "part-0", rest)
