"""Distributions whose parameters are a batch of which only the run knows the size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from refluid import fluid

L = fluid.layers
LOW = np.arange(12, dtype="float32").reshape(3, 4) * 100


def _drawn(kind: Any, first: list[int]) -> tuple[fluid.Variable, np.ndarray]:
    main = fluid.Program()
    main.random_seed = 3
    with fluid.program_guard(main, fluid.Program()):
        one, other = fluid.data("one", [None, 4]), fluid.data("other", [None, 4])
        sample = kind(one, other).sample(first)
    fed = {"one": LOW, "other": LOW + 1 if kind is L.Uniform else np.full_like(LOW, 0.01)}
    (found,) = fluid.Executor(fluid.CPUPlace()).run(main, feed=fed, fetch_list=[sample])
    return sample, found


@pytest.mark.parametrize("kind", [L.Normal, L.Uniform])
@pytest.mark.parametrize("first", [[1], [500], [2, 3]])
def test_draws_are_of_each_rows_own_distribution(kind: Any, first: list[int]) -> None:
    sample, found = _drawn(kind, first)
    assert found.shape == (*first, 3, 4)
    assert sample.shape[-1] == 4 and len(sample.shape) == len(found.shape)
    assert np.abs(found - LOW).max() <= 1
    if first == [500]:
        middle = np.broadcast_to(found, (500, 3, 4)).mean(0) - LOW
        assert np.abs(middle - (0.5 if kind is L.Uniform else 0)).max() < 0.1


def test_one_of_them_goes_on_into_layers_that_want_its_width() -> None:
    main, start = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, start):
        state = fluid.data("state", [None, 3])
        action = L.Normal(L.fc(state, 2), L.exp(L.fc(state, 2))).sample([1])[0]
        assert action.shape == (-1, 2)
        value = L.mean(L.fc(L.concat([state, action], axis=1), 1))
        fluid.optimizer.SGD(0.1).minimize(value)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(start)
    (found,) = exe.run(main, feed={"state": np.ones((5, 3), "float32")}, fetch_list=[value])
    assert np.isfinite(found).all()
