"""What projects besides PaddlePaddle/models read: pictures with boxes and words, sentences."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np

from zoo.data.lines import Random, write_lines


def _picture(random: Random, height: int, width: int) -> np.ndarray[Any, Any]:
    return random.integers(0, 60, (height, width, 3)).astype("uint8")


def _save(picture: np.ndarray[Any, Any], place: Path) -> None:
    from PIL import Image

    place.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(picture).save(place)


def written(folder: Path, random: Random) -> None:
    """Words: in boxes of a picture, and alone in one, upright or upside down."""
    from PIL import Image, ImageDraw

    lines = []
    for number in range(8):
        picture = Image.fromarray(_picture(random, 320, 320))
        draw, marks = ImageDraw.Draw(picture), []
        for row in range(3):
            x, y, width = int(random.integers(10, 150)), 20 + 100 * row, 140
            draw.rectangle((x, y, x + width, y + 40), fill="white")
            corners = [[x, y], [x + width, y], [x + width, y + 40], [x, y + 40]]
            marks.append({"transcription": f"word{row}", "points": corners})
        place = folder / f"train_data/icdar2015/text_localization/{number}.jpg"
        place.parent.mkdir(parents=True, exist_ok=True)
        picture.save(place)
        lines.append(f"{number}.jpg\t{json.dumps(marks)}")
    for part in ("train", "test"):
        where = folder / "train_data/icdar2015/text_localization"
        write_lines(where / f"{part}_icdar2015_label.txt", lines)
    sides = []
    for number in range(32):
        picture = Image.new("RGB", (100, 32), "white")
        text = "".join(random.choice(list("abc12"), 4))
        ImageDraw.Draw(picture).text((8, 4), text, fill="black", font_size=22)
        place = folder / f"train_data/cls/{number}.png"
        place.parent.mkdir(parents=True, exist_ok=True)
        picture.rotate(180 * (number % 2)).save(place)
        sides.append(f"{number}.png\t{180 * (number % 2)}")
    for part in ("train", "test"):
        write_lines(folder / f"train_data/cls/{part}.txt", sides)


def eyes(folder: Path, random: Random) -> None:
    """Bright discs, and which points are theirs."""
    rows, columns = np.mgrid[:96, :96]
    names = []
    for number in range(10):
        y, x = random.integers(25, 70, 2)
        disc = (rows - y) ** 2 + (columns - x) ** 2 < 324
        picture = _picture(random, 96, 96)
        picture[disc] += 150
        _save(picture, folder / f"data/eyes/{number}.jpg")
        _save(disc.astype("uint8"), folder / f"data/eyes/{number}.png")
        names.append(f"{number}.jpg {number}.png")
    write_lines(folder / "data/eyes/train.txt", names[:8])
    write_lines(folder / "data/eyes/val.txt", names[8:])


def detected(folder: Path, random: Random) -> None:
    """Coloured boxes as in COCO; the readers' settings ask for small pictures and batches."""
    for part, many in (("train", 8), ("val", 2)):
        images: list[dict[str, Any]] = []
        marks: list[dict[str, Any]] = []
        for number in range(many):
            picture = _picture(random, 160, 200)
            for _ in range(2):
                x, y, width, height, kind = (
                    int(random.integers(*ends))
                    for ends in ((0, 100), (0, 90), (40, 90), (40, 65), (1, 4))
                )
                picture[y : y + height, x : x + width, kind - 1] = 255
                box = {"bbox": [x, y, width, height], "area": width * height, "iscrowd": 0}
                corners = [x, y, x + width, y, x + width, y + height, x, y + height]
                ids = {"id": len(marks) + 1, "image_id": number + 1, "category_id": kind}
                marks.append({**ids, **box, "segmentation": [corners]})
            name = f"{number}.jpg"
            _save(picture, folder / f"dataset/coco/{part}2017/{name}")
            images.append({"id": number + 1, "file_name": name, "width": 200, "height": 160})
        kinds = [{"id": number + 1, "name": f"kind {number}"} for number in range(80)]
        known = {"images": images, "annotations": marks, "categories": kinds}
        place = folder / f"dataset/coco/annotations/instances_{part}2017.json"
        write_lines(place, [json.dumps(known)])
    for place in (folder / "configs").rglob("*.yml"):
        place.write_text(_smaller(place.read_text(encoding="utf-8")), encoding="utf-8")


# Settings of readers, and what stands for them.
_SMALL = {
    r"worker_num: \d+": "worker_num: 1",
    r"use_process: true": "use_process: false",
    r"batch_size: \d+": "batch_size: 2",
    r"max_size: \d{4}": "max_size: 192",
    r"target_size: (800|\[[^\]]*\])": "target_size: 128",
    r"\bsizes: \[\d{3},[^\]]*\]": "sizes: [96, 128]",
}


def _smaller(text: str) -> str:
    for setting, small in _SMALL.items():
        text = re.sub(setting, small, text)
    return text


def sentences(folder: Path, random: Random) -> None:
    """Sentences of two kinds of characters, names in them, and a network of two small layers."""
    signs = [chr(0x4E00 + number) for number in range(160)]
    words = ["[PAD]", "[CLS]", "[SEP]", "[MASK]", "[UNK]", *signs]
    write_lines(folder / "data/vocab.txt", [f"{word}\t{n}" for n, word in enumerate(words)])
    for part, many in (("train", 48), ("dev", 8)):
        rows = ["".join(random.choice(signs[n % 2 * 80 :][:80], 12)) for n in range(many)]
        lines = [f"{row}\t{n % 2}" for n, row in enumerate(rows)]
        write_lines(folder / f"data/{part}.tsv", ["text_a\tlabel", *lines])
    rows = ["\x02".join(random.choice(signs, 12)) for _ in range(48)]
    marks = "\x02".join(["B-PER", "I-PER", *["O"] * 10])
    write_lines(folder / "data/named.tsv", ["text_a\tlabel", *(f"{r}\t{marks}" for r in rows)])
    labels = {"B-PER": 0, "I-PER": 1, "O": 2}
    write_lines(folder / "data/labels.json", [json.dumps(labels)])
    sizes = {"hidden_size": 32, "num_attention_heads": 4, "num_hidden_layers": 2}
    sizes |= {"vocab_size": len(words), "max_position_embeddings": 64, "type_vocab_size": 2}
    sizes |= {"sent_type_vocab_size": 4, "task_type_vocab_size": 16}
    rates = {"attention_probs_dropout_prob": 0.1, "hidden_dropout_prob": 0.1}
    network = {"hidden_act": "relu", "initializer_range": 0.02, **sizes, **rates}
    write_lines(folder / "data/small.json", [json.dumps(network)])
