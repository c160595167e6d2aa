"""Recorded operators and models, with other values and sizes, give the same in all tiers."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tests.fuzzing.recorded import runs
from tests.fuzzing.recorded_models import model, names
from tests.golden import GOLDEN, needs_golden

PATHS = sorted((GOLDEN / "ops").glob("*/*.npz"))
# Each part has every so-manyth recording; one part of few recordings runs always.
PARTS, FEW = 24, 12
QUICK = {"book_word2vec", "ncf_mlp"}
pytestmark = [needs_golden, pytest.mark.filterwarnings("ignore::RuntimeWarning")]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logger = logging.getLogger("refluid")
    level = logger.level
    logger.setLevel(logging.ERROR)
    yield
    logger.setLevel(level)


def _check(part: int, parts: int, tier: str) -> None:
    different = []
    for path in PATHS[part::parts]:
        for run in runs(path, seed=part):
            found = run.differences(tier)
            different += [f"{run.label}: {'; '.join(found[:3])}"] if found else []
    assert not different, "\n".join(different)


def test_some_operators() -> None:
    _check(part=3, parts=len(PATHS) // FEW, tier="recorded")


@pytest.mark.slow
@pytest.mark.parametrize("tier", ["recorded", "auto"])
@pytest.mark.parametrize("part", range(PARTS))
def test_all_operators(part: int, tier: str) -> None:
    _check(part, PARTS, tier)


@pytest.mark.parametrize("tier", ["recorded", "auto"])
@pytest.mark.parametrize(
    "name",
    [pytest.param(one, marks=[] if one in QUICK else pytest.mark.slow) for one in names()],
)
def test_models(name: str, tier: str) -> None:
    run = model(name, seed=1)
    if run is None:
        pytest.skip("its batches are of one size")
    found = run.differences(tier)
    assert not found, "\n".join(found[:10])
