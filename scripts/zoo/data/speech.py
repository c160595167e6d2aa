"""Frames of sound with a label each, in the binary files of DeepASR."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from zoo.data.lines import Random, write_lines

_DIM, _CLASSES = 12, 8


def frames(folder: Path, random: Random) -> None:
    """Sentences of frames; each frame is loud at the place of its label."""
    write_lines(folder / "data/mean_var", ["0.0 1.0"] * (3 * _DIM))
    for part, blocks in (("", 6), ("val_", 1)):
        listed: dict[str, list[str]] = {"feature": [], "label": []}
        for block in range(blocks):
            _block(folder, f"{part}{block}", random, listed)
        for kind, paths in listed.items():
            write_lines(folder / f"data/{part}{kind}.lst", paths)


def _block(folder: Path, name: str, random: Random, listed: dict[str, list[str]]) -> None:
    """12 sentences: numbers as 4 bytes each, and where each sentence begins."""
    data: dict[str, bytes] = {"feature": b"", "label": b""}
    about: dict[str, list[str]] = {"feature": ["sentences 12"], "label": ["sentences 12"]}
    for number in range(12):
        count = int(random.integers(20, 30))
        labels = np.repeat(random.integers(0, _CLASSES, 6), 5)[:count]
        features = random.normal(0, 0.3, (count, _DIM))
        features[np.arange(count), labels] += 2
        values = {"feature": features.astype("<f4"), "label": labels.astype("<u4")}
        for kind, value in values.items():
            one = value.tobytes()
            width = _DIM if kind == "feature" else 1
            about[kind].append(f"s{number} - {len(data[kind])} {len(one)} {count} {width}")
            data[kind] += one
    for kind in data:
        (folder / "data").mkdir(exist_ok=True)
        (folder / f"data/{kind}{name}.bin").write_bytes(data[kind])
        write_lines(folder / f"data/{kind}{name}.txt", about[kind])
        listed[kind] += [f"data/{kind}{name}.bin", f"data/{kind}{name}.txt"]
