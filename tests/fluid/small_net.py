"""A small network for tests of what watches programs; no pass has anything to fuse in it."""

from __future__ import annotations

import numpy as np

from refluid import fluid

ROWS, INNER, WIDTH = 8, 4, 16


class Net:
    """relu(x * w), its mean and the logarithm of the sum of x, trained with Momentum."""

    def __init__(self) -> None:
        self.main, self.startup, self.scope = fluid.Program(), fluid.Program(), fluid.Scope()
        with fluid.program_guard(self.main, self.startup), fluid.unique_name.guard():
            x = fluid.data("x", [None, INNER])
            w = fluid.layers.create_parameter([INNER, WIDTH], "float32", name="w")
            hidden = fluid.layers.relu(fluid.layers.mul(x, w))
            for _ in range(2):
                hidden = fluid.layers.relu(fluid.layers.square(hidden))
            logarithm = fluid.layers.log(fluid.layers.reduce_sum(x))
            self.loss = fluid.layers.elementwise_sub(fluid.layers.mean(hidden), logarithm)
            fluid.optimizer.Momentum(0.1, 0.9).minimize(self.loss)
        self.executor = fluid.Executor()
        self.executor.run(self.startup, scope=self.scope)
        values = np.linspace(-1, 1, INNER * WIDTH, dtype="float32").reshape(INNER, WIDTH)
        self.scope.find_var("w").get_tensor().set(values, fluid.CPUPlace())

    def run(self, value: float = 1.0, program: object = None) -> float:
        """The loss of one step with all of x being `value`."""
        feed = {"x": np.full((ROWS, INNER), value, "float32")}
        program = self.main if program is None else program
        (loss,) = self.executor.run(program, feed, [self.loss], scope=self.scope)
        return float(loss[0])

    def compiled(self, places: int) -> fluid.CompiledProgram:
        """The program replicated over CPUs."""
        return fluid.CompiledProgram(self.main).with_data_parallel(
            loss_name=self.loss.name, places=fluid.cpu_places(places)
        )
