"""`run_check`: whether refluid trains here."""

from __future__ import annotations

import numpy as np

from refluid.core.places import CPUPlace, CUDAPlace, is_compiled_with_cuda
from refluid.core.scope import Scope
from refluid.fluid import layers, optimizer
from refluid.fluid.executor import Executor, scope_guard
from refluid.ir.defaults import program_guard
from refluid.ir.program import Program

__all__ = ["run_check"]


def run_check() -> None:
    """Trains a small network for a step, on the GPU where there is one, and says how it went."""
    place = CUDAPlace(0) if is_compiled_with_cuda() else CPUPlace()
    main, startup = Program(), Program()
    with program_guard(main, startup), scope_guard(Scope()):
        x = layers.data("x", [2])
        loss = layers.mean(layers.fc(x, 3))
        optimizer.SGD(0.1).minimize(loss)
        executor = Executor(place)
        executor.run(startup)
        executor.run(main, feed={"x": np.ones((4, 2), "float32")}, fetch_list=[loss])
    print(f"refluid works well on {place}: it built a network and trained it for a step")
