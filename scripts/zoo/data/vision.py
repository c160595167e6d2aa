"""Pictures."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from zoo.data.lines import Random, write_lines


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
        write_lines(folder / f"data/pictures/{part}_list.txt", lines)


def written(folder: Path, random: Random) -> None:
    """Pictures of stripes, and the numbers that tell how each stripe is shaded."""
    from PIL import Image

    for part, rows in (("train", 300), ("test", 16)):
        lines = []
        for number in range(rows):
            marks = random.integers(2, 7, 3)  # 0 and 1 begin and end a text
            picture = np.repeat(np.tile(40 * marks, (48, 1)), 128, axis=1)
            place = folder / f"data/{part}_images/{number}.jpg"
            place.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(picture.astype("uint8")).save(place)
            lines.append(f"384 48 {number}.jpg {','.join(map(str, marks))}")
        write_lines(folder / f"data/{part}.list", lines)


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
        write_lines(where / f"Ebay_{part}.txt", lines)
