"""`fluid.layers.collective` over real processes, against NumPy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import refluid.fluid as fluid
from refluid.fluid.layers import collective
from tests.collective.jobs import as_trainers
from tests.collective.training import exchange, exchanged


def test_each_gives_what_numpy_does(tmp_path: Path) -> None:
    found = as_trainers(2, exchange, folder=tmp_path)
    one, two = exchanged(0), exchanged(1)
    wanted = {
        "reduced by sum": one + two,
        "reduced by prod": one * two,
        "reduced by max": np.maximum(one, two),
        "reduced by min": np.minimum(one, two),
        "older": np.maximum(one, two),
        "gathered": np.concatenate([one, two]),
        "sent": two,
        "sent too": one,
        "synchronised": one + two,
    }
    for rank, own in enumerate(found):
        assert isinstance(own, dict), own
        shares = {"shared": (one + two)[2 * rank : 2 * rank + 2]}
        for name, value in {**wanted, **shares}.items():
            np.testing.assert_allclose(own[name], value, rtol=1e-6, err_msg=name)


def test_what_is_wrong_is_said() -> None:
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        x = fluid.data("x", [5, 3], "float32")
        with pytest.raises(TypeError, match="reduce type can only be"):
            collective._c_allreduce(x, reduce_type="mean")
        with pytest.raises(ValueError, match="cannot be evenly divided"):
            collective._c_reducescatter(x, 2)
        with pytest.raises(TypeError, match="must be a Variable"):
            collective._c_reducescatter("x", 2)  # type: ignore[arg-type]
