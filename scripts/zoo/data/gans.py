"""Pictures to draw others by."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np

from zoo.data.lines import Random, write_lines

_TRAITS = (
    "Bald Bangs Black_Hair Blond_Hair Brown_Hair Bushy_Eyebrows Eyeglasses Male "
    "Mouth_Slightly_Open Mustache No_Beard Pale_Skin Young"
)


def digits(folder: Path, random: Random) -> None:
    """400 pictures in MNIST's format: a bright square whose place is the label."""
    where = folder / "data/mnist"
    where.mkdir(parents=True, exist_ok=True)
    labels = random.integers(0, 10, 400)
    pictures = random.integers(0, 40, (400, 28, 28)).astype("u1")
    for picture, label in zip(pictures, labels, strict=True):
        picture[5 : 5 + 2 * int(label), 8:20] = 220
    head = struct.pack(">IIII", 2051, 400, 28, 28)
    packed = {"train-images-idx3-ubyte": head + pictures.tobytes()}
    packed["train-labels-idx1-ubyte"] = (
        struct.pack(">II", 2049, 400) + labels.astype("u1").tobytes()
    )
    for name, data in packed.items():
        (where / f"{name}.gz").write_bytes(gzip.compress(data))


def _save(path: Path, picture: np.ndarray) -> None:
    from PIL import Image

    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(picture.astype("uint8")).save(path)


def pairs(folder: Path, random: Random) -> None:
    """Pictures in two styles, dark on bright and bright on dark, of the same shapes."""
    where = folder / "data/pairs"
    names: dict[str, list[str]] = {"A": [], "B": []}
    for number in range(14):
        picture = np.full((40, 40, 3), 40) + random.integers(0, 20, (40, 40, 3))
        picture[8:30, 8 + number : 14 + number] = 200
        for style, drawn in (("A", picture), ("B", 255 - picture)):
            _save(where / f"{style}{number}.png", drawn)
            names[style].append(f"{style}{number}.png")
    for style in "AB":
        write_lines(where / f"train{style}.txt", names[style])
        write_lines(where / f"test{style}.txt", names[style][:2])
    write_lines(where / "both.txt", ["\t".join(two) for two in zip(*names.values(), strict=True)])


def streets(folder: Path, random: Random) -> None:
    """`pairs`, where cycle_gan's dygraph script looks for its pictures of streets."""
    pairs(folder, random)
    (folder / "data/pairs").rename(folder / "data/cityscapes")


def faces(folder: Path, random: Random) -> None:
    """Pictures with a mark for each of thirteen traits, in CelebA's list of attributes."""
    where = folder / "data/celeba"
    lines = []
    for number in range(1, 49):
        traits = random.integers(0, 2, 13)
        picture = random.integers(0, 30, (80, 80, 3)) + 80
        for place in np.flatnonzero(traits):
            picture[10 + 4 * place : 14 + 4 * place, 15:65] = 240
        _save(where / f"img_align_celeba/{number:06d}.jpg", picture)
        marks = " ".join("1" if one else "-1" for one in traits)
        lines.append(f"{number:06d}.jpg {marks}")
    write_lines(where / "list.txt", [str(len(lines)), _TRAITS, *lines])
