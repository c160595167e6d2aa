"""Replicas of a program with several losses train as one place."""

from __future__ import annotations

import numpy as np
import pytest

from refluid import fluid
from tests.fluid.test_data_parallel import Net, Reduce


class Players(Net):
    """Two losses in one program, each with an optimizer; their parameters may be the same."""

    def __init__(self, apart: bool) -> None:
        super().__init__(train=False)
        params = [param.name for param in self.main.all_parameters()]
        with fluid.program_guard(self.main, self.startup), fluid.unique_name.guard("players"):
            other = fluid.layers.mean(fluid.layers.square(self.out - 1.0))
            fluid.optimizer.SGD(0.1).minimize(self.loss, parameter_list=params[: 2 if apart else 4])
            fluid.optimizer.SGD(0.3).minimize(other, parameter_list=params[2:])
        with self.here():
            for number in range(2):
                name = f"playerslearning_rate_{number}"
                rate = np.array([0.1 + 0.2 * number], "float32")
                self.scope.var(name).get_tensor().set(rate, fluid.CPUPlace())


@pytest.mark.parametrize("apart", [True, False])
@pytest.mark.parametrize("reduce", Reduce)
def test_every_loss_is_the_mean_of_all_replicas(reduce: Reduce, apart: bool) -> None:
    alone, many = Players(apart), Players(apart)
    program = many.compiled(3, reduce_strategy=reduce)
    for _ in range(4):
        alone.run(alone.main)
        many.run(program)
    for name, value in alone.weights().items():
        np.testing.assert_allclose(many.weights()[name], value, rtol=1e-4, atol=1e-6)
