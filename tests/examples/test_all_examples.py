"""Every example trains on its real data and draws its picture."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from refluid.paddle.cached_files import package_data

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
# The script, its data, its picture, smaller settings, and what the last number before it may be.
EXAMPLES = [
    ("map_words", "brown", "words.png", ["--epochs=1"], r"loss ([\d.]+)", (1.5, 2.9)),
    ("predict_delays", "flights", "delays.png", ["--epochs=1"], r"curve ([\d.]+)", (0.74, 0.85)),
    ("recognize_spam", "spam", "spam.png", ["--epochs=1"], r"([\d.]+)% of unseen", (0.1, 6)),
    ("recommend_films", "ratings", "films.png", ["--epochs=1"], r"error ([\d.]+)", (0.85, 0.98)),
    ("translate", "bible", "translation.png", ["--epochs=2"], r"per word ([\d.]+)", (1.0, 5.0)),
    ("feed_pictures", "photos", "pictures.png", ["--steps=30"], r" (\d+)% right$", (20, 100)),
]


@pytest.mark.parametrize(
    "name, data, picture, settings, pattern, limits", EXAMPLES, ids=[one[0] for one in EXAMPLES]
)
def test_examples_learn_and_draw(
    name: str,
    data: str,
    picture: str,
    settings: list[str],
    pattern: str,
    limits: tuple[float, float],
    tmp_path: Path,
) -> None:
    if not (package_data() / data).is_dir():
        pytest.skip(f"needs `python scripts/fetch_data.py {data}`")
    image = pytest.importorskip("PIL.Image")
    ran = subprocess.run(
        [sys.executable, "-W", "error", f"examples/{name}.py", "--out", str(tmp_path), *settings],
        cwd=ROOT,
        env={**os.environ, "REFLUID_DATA": str(package_data())},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    value = float(re.findall(pattern, ran.stdout, re.MULTILINE)[-1])
    assert limits[0] < value < limits[1], ran.stdout
    drawn = image.open(tmp_path / picture).convert("L")
    assert min(drawn.size) > 400 and drawn.histogram()[255] < 0.97 * drawn.size[0] * drawn.size[1]


def test_missing_data_is_told(tmp_path: Path) -> None:
    for name, data, *_ in EXAMPLES:
        ran = subprocess.run(
            [sys.executable, f"examples/{name}.py", "--out", str(tmp_path / "out")],
            cwd=ROOT,
            env={**os.environ, "REFLUID_DATA": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 1 and f"fetch_data.py {data}" in ran.stderr
        assert "Traceback" not in ran.stderr
