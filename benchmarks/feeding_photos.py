"""Photographs decoded, cropped, flipped and batched by worker processes: refluid and torch."""

from __future__ import annotations

import io
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from refluid import fluid

SIZE, BATCH = 224, 64
# JPEG files are decoded at the smallest scale that is at least that large.
_DECODED = (320, 320)


def folder() -> Path:
    """Where `scripts/fetch_data.py photos` puts them."""
    root = Path(__file__).resolve().parent.parent
    return Path(os.environ.get("REFLUID_DATA") or root / ".data") / "photos"


class Photos(Dataset[Any]):
    """Random crops of JPEG files, flipped at random: uint8 [3, 224, 224], and the file's number."""

    def __init__(self, count: int) -> None:
        self._files = [path.read_bytes() for path in sorted(folder().glob("*.jpg"))]
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> Any:
        from PIL import Image

        number = index % len(self._files)
        with Image.open(io.BytesIO(self._files[number])) as image:
            image.draft("RGB", _DECODED)
            pixels = np.asarray(image.convert("RGB"))
        top = np.random.randint(0, pixels.shape[0] - SIZE + 1)
        left = np.random.randint(0, pixels.shape[1] - SIZE + 1)
        crop = pixels[top : top + SIZE, left : left + SIZE]
        if np.random.randint(2):
            crop = crop[:, ::-1]
        return np.ascontiguousarray(crop.transpose(2, 0, 1)), np.array([number])


def available() -> str:
    """Why this can't be measured here; empty if it can."""
    try:
        import PIL  # noqa: F401
    except ImportError:
        return "needs Pillow: pip install pillow"
    return "" if any(folder().glob("*.jpg")) else "needs: python scripts/fetch_data.py photos"


@dataclass(frozen=True)
class Rate:
    """Samples per second, and per second of processor time of all processes."""

    wall: float
    cpu: float


def _rate(batches: Any, samples: int) -> Rate:
    cpu, start = sum(os.times()[:4]), time.perf_counter()
    for _ in batches:
        pass
    wall = time.perf_counter() - start
    return Rate(samples / wall, samples / (sum(os.times()[:4]) - cpu))


def photos(workers: int, samples: int, rounds: int) -> list[tuple[Rate, Rate]]:
    """The rates of each round: refluid's DataLoader, torch's; the same dataset.

    The second of two loaders is the first of the next round.
    """
    dataset = Photos(samples)
    with fluid.program_guard(fluid.Program()):
        feeds = [
            fluid.data("image", [None, 3, SIZE, SIZE], "uint8"),
            fluid.data("label", [None, 1], "int64"),
        ]
    place = fluid.CPUPlace()
    ours = fluid.io.DataLoader(dataset, feeds, place, batch_size=BATCH, num_workers=workers)
    theirs: Any = DataLoader(dataset, batch_size=BATCH, num_workers=workers)
    found = []
    for number in range(rounds):
        pair = [_rate(one, samples) for one in ([theirs, ours] if number % 2 else [ours, theirs])]
        found.append((pair[number % 2], pair[1 - number % 2]))
    return found


def main() -> None:
    reason = available()
    if reason:
        raise SystemExit(reason)
    torch.set_num_threads(1)
    for ours, theirs in photos(2, 512, 4):
        print(
            f"samples/s: refluid {ours.wall:,.0f}, torch's DataLoader {theirs.wall:,.0f}; "
            f"per CPU second: {ours.cpu:.1f}, {theirs.cpu:.1f}"
        )


if __name__ == "__main__":
    main()
