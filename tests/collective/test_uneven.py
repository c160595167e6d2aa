"""Trainers with fewer batches neither wait for more nor change what the others learn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import refluid.fluid as fluid
from tests.collective.jobs import as_trainers
from tests.collective.networks import parameters
from tests.collective.training import OPTIMIZERS, at_once
from tests.collective.uneven import (
    COUNTS,
    EPOCHS,
    KINDS,
    ROWS,
    alone,
    data_of,
    from_datasets,
    linear,
    something_new,
    statistics,
    together,
    train_layers_unevenly,
    train_unevenly,
)

# All gradients, sparse ones, shares of them, and groups; what is read by a loop, and by a program.
SOME = ["sparse", "reduce", "in threes", "a reader of the program"]


@pytest.mark.parametrize(
    ("size", "kinds"),
    [
        (2, SOME),
        pytest.param(2, [one for one in KINDS if one not in SOME], marks=pytest.mark.slow),
        pytest.param(3, ["a loop", "in threes", "a loader"], marks=pytest.mark.slow),
    ],
    ids=["some", "others", "three"],
)
def test_sums_are_over_those_with_data(size: int, kinds: list[str], tmp_path: Path) -> None:
    trained = as_trainers(size, train_unevenly, kinds, folder=tmp_path)
    for rank, own in enumerate(trained):
        assert isinstance(own, list), own
        for kind, (steps, learned) in zip(kinds, own, strict=True):
            assert steps == [COUNTS[size][rank]] * EPOCHS, kind
            optimizer, _, sparse = KINDS[kind]
            for name, value in alone(size, optimizer, sparse).items():
                if name in learned:  # in Reduce mode each has the state of its own share
                    np.testing.assert_allclose(
                        learned[name], value, rtol=2e-5, atol=1e-6, err_msg=f"{kind} {name}"
                    )


@pytest.mark.parametrize("size", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_layers_of_dygraph(size: int, tmp_path: Path) -> None:
    """Sums are over those with data; optimizers and schedules take the steps of the others too."""
    trained = as_trainers(size, train_layers_unevenly, folder=tmp_path)
    for number, (sparse, optimizer) in enumerate(((False, "scheduled"), (True, "SGD"))):
        _, wanted = at_once(sparse, [together(size)] * EPOCHS, optimizer)
        for rank, own in enumerate(trained):
            assert isinstance(own, list), own
            losses, learned = own[number]
            assert len(losses) == COUNTS[size][rank] * EPOCHS
            for name, value in wanted.items():
                np.testing.assert_allclose(
                    learned[name], value, rtol=2e-5, atol=1e-6, err_msg=f"{optimizer} {name}"
                )


def test_statistics_of_a_batch_are_not_counted_twice(tmp_path: Path) -> None:
    for found in as_trainers(2, statistics, folder=tmp_path):
        assert isinstance(found, list), found
        np.testing.assert_array_equal(found[0], found[1])


def test_what_cannot_be_repeated_is_said(tmp_path: Path) -> None:
    found = as_trainers(2, something_new, folder=tmp_path)
    for said in found:
        assert "without data while others begin to run" in said, found


@pytest.mark.slow
def test_datasets_of_different_lengths(tmp_path: Path) -> None:
    parts = [data_of(rank, 2) for rank in range(2)]
    for rank, part in enumerate(parts):
        lines = [
            f"3 {' '.join(map(str, x[:3]))} 1 {y[0]}"
            for one in part
            for x, y in zip(one["x"], one["y"], strict=True)
        ]
        (tmp_path / f"part-{rank}").write_text("\n".join(lines) + "\n")
    wanted = _of_datasets(parts)
    for found in as_trainers(2, from_datasets, str(tmp_path), folder=tmp_path):
        assert isinstance(found, tuple), found
        for name, value in wanted.items():
            np.testing.assert_allclose(found[0][name], value, rtol=2e-5, atol=1e-6, err_msg=name)


def _of_datasets(parts: list[list[dict[str, Any]]]) -> dict[str, Any]:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        loss = linear()[-1]
        OPTIMIZERS["momentum"]().minimize(loss)
    executor = fluid.Executor()
    with fluid.scope_guard(fluid.Scope()):
        executor.run(startup)
        for _ in range(EPOCHS):
            for step in range(max(map(len, parts))):
                present = [one[step] for one in parts if step < len(one)]
                x = np.concatenate([one["x"][:, :3] for one in present])
                y = np.concatenate([one["y"] for one in present])
                assert len(x) % ROWS == 0
                executor.run(main, feed={"x": x, "y": y}, fetch_list=[loss])
        return parameters(main)
