"""Texts for pretrained language models, translation and dialogue."""

from __future__ import annotations

import gzip
import json
import pickle
from pathlib import Path

from zoo.data.lines import Random, write_lines

_WORDS = [f"w{number}" for number in range(60)]
_BERT = {
    "attention_probs_dropout_prob": 0.0,
    "hidden_act": "relu",
    "hidden_dropout_prob": 0.0,
    "hidden_size": 32,
    "initializer_range": 0.02,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
    "num_attention_heads": 2,
    "num_hidden_layers": 2,
    "type_vocab_size": 2,
    "vocab_size": 65,
}


def _of_kind(random: Random, kind: int) -> list[int]:
    """Numbers of words from one third of the vocabulary."""
    return (kind * 20 + random.integers(0, 20, int(random.integers(4, 10)))).tolist()


def _text(numbers: list[int]) -> str:
    return " ".join(_WORDS[one] for one in numbers)


def bert(folder: Path, random: Random) -> None:
    """A small network, sentences of two kinds, and pairs to pretrain on."""
    where = folder / "data/small"
    special = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"]
    write_lines(where / "vocab.txt", [*special, *_WORDS])
    (where / "config.json").write_text(json.dumps(_BERT))
    for part, rows in (("train", 320), ("dev", 32), ("test", 32)):
        kinds = [int(one) for one in random.integers(0, 2, rows)]
        marks = "s" if part == "test" else "s\t{}\t*"
        lines = [f"{marks.format(kind)}\t{_text(_of_kind(random, kind))}" for kind in kinds]
        write_lines(where / f"{part}.tsv", lines)
    for part in ("pretrain", "validation"):
        samples = []
        for _ in range(200 if part == "pretrain" else 20):
            kind = int(random.integers(0, 3))
            one, other = ([5 + n for n in _of_kind(random, kind)] for _ in range(2))
            ids = [1, *one, 2, *other, 2]
            segments = [0] * (len(one) + 2) + [1] * (len(other) + 1)
            columns = (ids, segments, range(len(ids)), [1])
            samples.append(";".join(" ".join(map(str, column)) for column in columns))
        (where / part).mkdir()
        (where / part / "part.gz").write_bytes(gzip.compress("\n".join(samples).encode() + b"\n"))


def translated(folder: Path, random: Random) -> None:
    """Sentences and the same words in capitals, in one vocabulary."""
    where = folder / "data"
    (folder / "saved").mkdir()
    words = [*_WORDS, *(word.upper() for word in _WORDS)]
    write_lines(where / "vocab", ["<s>", "<e>", "<unk>", *words])
    pairs = []
    for _ in range(400):
        text = _text(_of_kind(random, int(random.integers(0, 3))))
        pairs.append(f"{text}\t{text.upper()}")
    write_lines(where / "train.both", pairs)
    write_lines(where / "test.both", pairs[:16])


def answers(folder: Path, random: Random) -> None:
    """A context, an answer, and whether both are of the same kind; of ten to judge by the first."""
    lines = []
    for row in range(700):
        kind = int(random.integers(0, 3))
        same = random.random() < 0.6 if row < 600 else row % 10 == 0
        numbers = [_of_kind(random, one) for one in (kind, kind if same else (kind + 1) % 3)]
        texts = [" ".join(str(1 + n) for n in part) for part in numbers]
        lines.append("\t".join([*texts, str(int(same))]))
    write_lines(folder / "data/input/train.ids", lines[:600])
    write_lines(folder / "data/input/test.ids", lines[600:])
    (folder / "saved").mkdir()


def domains(folder: Path, random: Random) -> None:
    """Questions by their characters, and the domain that they belong to."""
    where = folder / "data/input"
    letters = "abcdefghijklmnopqrstuvwx"
    write_lines(
        where / "char.dict", [f"{one}\2{n}" for n, one in enumerate(["PAD", "OOV", *letters])]
    )
    names = ["SYS_OTHER", "music", "weather"]
    write_lines(where / "domain.dict", [f"{one}\2{n}" for n, one in enumerate(names)])
    sizes = ["[model]", "emb_dim = 16", "win_sizes = [2, 3]", "hid_dim = 16", "hid_dim2 = 16"]
    write_lines(where / "model.conf", sizes)
    for part, rows in (("train", 600), ("eval", 60), ("test", 60)):
        lines = []
        for _ in range(rows):
            kind = int(random.integers(0, 3))
            text = "".join(letters[8 * kind + int(n)] for n in random.integers(0, 8, 10))
            lines.append(f"{text}\t{names[kind]}")
        write_lines(where / f"{part}.txt", lines)


def counted(folder: Path, random: Random) -> None:
    """Sentences in which each word is followed by the next, with their vocabulary."""
    where = folder / "data"
    for part, rows in (("train", 640), ("valid", 64), ("test", 64)):
        starts, lengths = random.integers(0, 50, rows), random.integers(4, 9, rows)
        pairs = zip(starts, lengths, strict=True)
        lines = [" ".join(_WORDS[(one + n) % 60] for n in range(length)) for one, length in pairs]
        write_lines(where / f"small.{part}.txt", lines)
    write_lines(where / "small.vocab.txt", _WORDS)


def tagged(folder: Path, random: Random) -> None:
    """Words, and whether each is a noun or a verb."""
    where = folder / "data"
    write_lines(where / "word.dic", [f"{n}\t{word}" for n, word in enumerate(["OOV", *_WORDS])])
    tags = ["n-B", "n-I", "v-B", "v-I", "O"]
    write_lines(where / "tag.dic", [f"{n}\t{tag}" for n, tag in enumerate(tags)])
    write_lines(where / "replaced.dic", ["A\ta"])
    for part, rows in (("train", 300), ("test", 20)):
        lines = ["text_a\tlabel"]
        for _ in range(rows):
            chosen = random.integers(0, len(_WORDS), int(random.integers(4, 12)))
            texts = "\2".join(_WORDS[one] for one in chosen)
            found = "\2".join("n-B" if one % 2 else "v-B" for one in chosen)
            lines.append(f"{texts}\t{found}")
        write_lines(where / f"{part}.tsv", lines)


def turns(folder: Path, random: Random) -> None:
    """Turns of a talk, parted by word 1, and whether the answer is of the same kind.

    Of ten answers to judge by, the first is.
    """
    said: dict[str, dict[bytes, list[object]]] = {}
    for part, rows in (("train", 400), ("val", 160), ("test", 160)):
        kept: dict[bytes, list[object]] = {b"y": [], b"c": [], b"r": []}
        for row in range(rows):
            kind = int(random.integers(0, 3))
            same = random.random() < 0.5 if part == "train" else row % 10 == 0
            answer = kind if same else (kind + 1) % 3
            parts = [[2 + n for n in _of_kind(random, kind)] for _ in range(3)]
            kept[b"y"].append(int(answer == kind))
            kept[b"c"].append([*parts[0], 1, *parts[1], 1, *parts[2]])
            kept[b"r"].append([2 + n for n in _of_kind(random, answer)])
        said[part] = kept
    (folder / "data").mkdir(exist_ok=True)
    (folder / "data/small.pkl").write_bytes(pickle.dumps(tuple(said.values()), protocol=2))
