"""The mean of one number for each sample is the same as that of all elements, gradients too."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from refluid.core import flags
from refluid.fluid import dygraph, layers


def mean_of(values: torch.Tensor, *, direct: bool) -> tuple[np.ndarray, np.ndarray]:
    with flags.override({"FLAGS_refluid_eager_direct": direct}), dygraph.guard():
        x = dygraph.base.VarBase(values.clone())
        x.stop_gradient = False
        for _ in range(2):  # the first call goes by its plan
            found = layers.mean(x * 2.0)
        found.backward()
        return found.numpy(), x.gradient()


@pytest.mark.parametrize("seed", range(12))
def test_means_are_the_same_to_the_bit(seed: int) -> None:
    draw = np.random.RandomState(seed)
    rows, columns = draw.choice([1, 7, 64, 1000, 70000]), draw.choice([1, 1, 2, 9])
    values = torch.from_numpy(draw.randn(rows, columns).astype(draw.choice(["f4", "f8"])))
    found, wanted = mean_of(values, direct=True), mean_of(values, direct=False)
    assert found[0].shape == (1,)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)
