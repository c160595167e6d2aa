"""Batch norm of no elements."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from refluid import fluid


@pytest.mark.parametrize("shape", [(0, 3), (0, 3, 4, 4), (2, 3, 0, 4)])
def test_its_gradient_is_zero(shape: Sequence[int]) -> None:
    """torch's kernel divides by the number of elements, which ended the process."""
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        x = fluid.data("x", [-1, 3, *[-1] * (len(shape) - 2)], "float32")
        y = fluid.layers.batch_norm(x, use_global_stats=True, param_attr="scale", bias_attr="bias")
        fluid.optimizer.SGD(0.1).minimize(fluid.layers.reduce_sum(y))
    executor, scope = fluid.Executor(), fluid.Scope()
    executor.run(startup, scope=scope)
    feed = {"x": np.zeros(shape, "float32")}
    gradients = executor.run(main, feed, ["scale@GRAD", "bias@GRAD"], scope=scope)
    assert [one.tolist() for one in gradients] == [[0, 0, 0], [0, 0, 0]]
