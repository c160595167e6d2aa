"""Compiled programs over several processes: N trainers with a share each are one with it all."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.collective.compiled_cases import CASES
from tests.collective.jobs import as_trainers
from tests.collective.training import train, train_all, train_fetching_apart

SOME = ["one by one", "reduce", "two places, reduce", "hierarchical"]


@pytest.mark.parametrize(
    ("size", "cases"),
    [
        (2, SOME),
        pytest.param(2, [one for one in CASES if one not in SOME], marks=pytest.mark.slow),
        pytest.param(3, ["plain"], marks=pytest.mark.slow),
    ],
    ids=["some", "others", "three"],
)
def test_trainers_are_as_one(size: int, cases: list[str], tmp_path: Path) -> None:
    """Parameters begin as trainer 0's, though each has drawn its own."""
    trained = as_trainers(size, train_all, cases, folder=tmp_path)
    for own in trained:
        assert isinstance(own, list), own
    for number, case in enumerate(cases):
        optimizer, _, _, sparse = CASES[case]
        losses, learned = train(optimizer, {}, 1, sparse)
        found = [own[number] for own in trained]
        np.testing.assert_allclose(np.mean([one[0] for one in found], 0), losses, rtol=1e-5)
        if case == "reduce":  # each has the optimizer's state of its own share
            shares = [{name for name in own if "moment" in name} for _, own in found]
            assert not shares[0] & shares[1]
            assert set().union(*shares) == {name for name in learned if "moment" in name}
        for _, own in found:
            for name, value in learned.items():
                if name in own:
                    np.testing.assert_allclose(own[name], value, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("reduces", [False, True])
def test_one_trainer_may_fetch_what_others_do_not(reduces: bool, tmp_path: Path) -> None:
    _, learned = train("momentum", {}, 1, False)
    for found in as_trainers(2, train_fetching_apart, reduces, folder=tmp_path):
        assert isinstance(found, dict), found
        for name in found:
            np.testing.assert_allclose(found[name], learned[name], rtol=1e-5, atol=1e-6)
