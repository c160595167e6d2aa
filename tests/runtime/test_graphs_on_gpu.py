"""Steps that a GPU runs as CUDA graphs train as steps do that aren't captured."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from refluid import fluid
from refluid.core import flags
from refluid.runtime.recorded.capture import CudaGraph, GraphMemory

pytestmark = pytest.mark.gpu


def test_training_by_a_graph_is_training_without(caplog: pytest.LogCaptureFixture) -> None:
    def losses(*, graphs: bool) -> list[float]:
        fluid.set_flags({"FLAGS_refluid_cuda_graphs": graphs})
        main, startup = fluid.Program(), fluid.Program()
        main.random_seed = startup.random_seed = 5
        with fluid.program_guard(main, startup), fluid.unique_name.guard():
            x = fluid.data("x", [None, 8])
            loss = fluid.layers.mean(fluid.layers.fc(fluid.layers.fc(x, 16, act="relu"), 1))
            fluid.optimizer.Adam(0.01).minimize(loss)
        exe, scope = fluid.Executor(fluid.CUDAPlace(0)), fluid.Scope()
        exe.run(startup, scope=scope)
        draw = np.random.default_rng(1)
        return [
            float(exe.run(main, {"x": draw.random((4, 8), "float32")}, [loss], scope=scope)[0][0])
            for _ in range(12)
        ]

    caplog.set_level("INFO", "refluid")
    try:
        with_graphs = losses(graphs=True)
        assert "captured a step as a CUDA graph" in caplog.text
        np.testing.assert_allclose(with_graphs, losses(graphs=False), rtol=1e-5)
    finally:
        fluid.set_flags({"FLAGS_refluid_cuda_graphs": True})


class Drawn:
    """A program, its sizes and what is done to it in between, drawn by a seed; its losses."""

    def __init__(self, seed: int) -> None:
        self.draw = draw = np.random.default_rng(seed)
        self.main, startup = fluid.Program(), fluid.Program()
        self.main.random_seed = startup.random_seed = seed + 1
        self.width = int(draw.integers(3, 9))
        with fluid.program_guard(self.main, startup), fluid.unique_name.guard():
            self.loss = self._network()
            self.rate = fluid.layers.create_global_var([1], 0.02, "float32", persistable=True)
            self._optimizer().minimize(self.loss)
        self.exe, self.scope = fluid.Executor(fluid.CUDAPlace(0)), fluid.Scope()
        self.exe.run(startup, scope=self.scope)

    def _network(self) -> Any:
        layers, draw = fluid.layers, self.draw
        x = fluid.data("x", [None, self.width])
        ids = fluid.data("ids", [None, 3], "int64")
        looked_up = fluid.embedding(ids, [50, self.width], is_sparse=bool(draw.integers(2)))
        hidden = layers.concat([x, layers.reduce_sum(looked_up, dim=1)], axis=1)
        for _ in range(draw.integers(1, 4)):
            hidden = layers.fc(hidden, int(draw.integers(2, 9)), act=draw.choice(["relu", "tanh"]))
        if draw.integers(2):
            hidden = self._looped(layers.transpose(looked_up, [1, 0, 2]))
        if draw.integers(2):
            hidden = layers.batch_norm(hidden)
        return layers.mean(layers.square(layers.fc(hidden, 1)))

    def _looped(self, steps: Any) -> Any:
        rnn = fluid.layers.StaticRNN()
        with rnn.step():
            one = rnn.step_input(steps)
            before = rnn.memory(shape=[-1, self.width], batch_ref=one)
            after = fluid.layers.fc([one, before], self.width, act="tanh")
            rnn.update_memory(before, after)
            rnn.output(after)
        return fluid.layers.reduce_mean(rnn(), dim=0)

    def _optimizer(self) -> Any:
        kinds = [
            fluid.optimizer.SGD,
            lambda rate: fluid.optimizer.Momentum(rate, 0.9),
            lambda rate: fluid.optimizer.Adam(rate, lazy_mode=bool(self.draw.integers(2))),
            fluid.optimizer.Adagrad,
        ]
        return kinds[self.draw.integers(len(kinds))](self.rate)

    def losses(self, steps: int) -> list[float]:
        found = []
        sizes = self.draw.integers(1, 6, size=2)
        for _ in range(steps):
            count = int(self.draw.choice(sizes))
            feed = {
                "x": self.draw.random((count, self.width), "float32"),
                "ids": self.draw.integers(0, 50, (count, 3)),
            }
            if self.draw.integers(6) == 0:
                rate = np.array([self.draw.choice([0.01, 0.03])], "float32")
                self.scope.var(self.rate.name).get_tensor().set(rate, fluid.CUDAPlace(0))
            fetched = self.exe.run(self.main, feed, [self.loss], scope=self.scope)
            found.append(float(fetched[0][0]))
        return found


@pytest.mark.parametrize("seed", range(12))
def test_random_programs_train_by_graphs_as_without(seed: int) -> None:
    """Sizes in any order, rates that the user sets, sparse tables, loops: the same losses."""
    with flags.override({"FLAGS_refluid_cuda_graphs": False}):
        without = Drawn(seed).losses(40)
    np.testing.assert_allclose(Drawn(seed).losses(40), without, rtol=1e-4, atol=1e-6)


def test_a_step_that_reads_elements_leaves_random_numbers_as_they_were() -> None:
    """Captures that fail leave torch's generators asking for a capture."""
    device = torch.device("cuda", 0)
    generator = torch.Generator(device)
    with pytest.raises(RuntimeError):
        CudaGraph([generator], GraphMemory()).capture(
            lambda: torch.rand(3, device=device, generator=generator).sum().item()  # type: ignore[arg-type,return-value]
        )
    generator.manual_seed(3)
    drawn = torch.rand(2, device=device, generator=generator)
    assert torch.rand(2, device=device).shape == drawn.shape
