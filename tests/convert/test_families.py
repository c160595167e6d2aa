"""Operators with parts of their own against refluid's kernels, at random sizes and attributes."""

from __future__ import annotations

from pathlib import Path

import pytest

from refluid.convert import folder as folders
from refluid.convert.source import read_model
from tests.convert import drawn_images, drawn_sequences
from tests.convert.drawing import CASES, Random
from tests.convert.networks import Built

SEEDS = range(4)
assert drawn_images and drawn_sequences  # they fill the table


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", CASES)
def test_parts_agree_with_kernels(name: str, seed: int, tmp_path: Path) -> None:
    build, feeds = CASES[name](Random(seed))
    source = read_model(Built(build).save(tmp_path))
    converted = folders.convert(source)
    assert folders.check(converted, {one: feeds[one] for one in source.feeds}) < 2e-6, (
        converted.text
    )
