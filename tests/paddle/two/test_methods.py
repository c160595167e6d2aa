"""Functions on variables as methods."""

from __future__ import annotations

import numpy as np
import pytest

from refluid.core.places import CPUPlace
from refluid.eager import mode
from refluid.paddle import static
from refluid.paddle.tensor.creation import to_tensor
from tests.paddle.two.networks import fresh

X = np.arange(6, dtype="float32").reshape(2, 3)


def test_in_programs() -> None:
    with fresh() as (main, _):
        x = static.data("x", [2, 3])
        found = [x.reshape([3, 2]).sum(0), x.add(x).max(), x.unsqueeze(0).transpose([2, 1, 0])]
        values = static.Executor("cpu").run(main, {"x": X}, found)
    assert values[0].tolist() == [6, 9]
    assert float(values[1]) == 10
    assert values[2].shape == (3, 2, 1)


def test_at_once() -> None:
    with mode.eager(CPUPlace()):
        x = to_tensor(X)
        assert x.matmul(x.t()).numpy().tolist() == [[5, 14], [14, 50]]
        assert x.mean(axis=1).numpy().tolist() == [1, 4]


def test_what_is_none() -> None:
    with fresh():
        x = static.data("x", [2, 3])
        with pytest.raises(AttributeError, match="no attribute 'no_such'"):
            _ = x.no_such
        assert not hasattr(x, "zeros")
        assert not hasattr(x, "_private")
