"""Forward operators are found for gradients that nobody wrote."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import refluid.fluid as fluid
from refluid.ir.program import Program
from refluid.runtime import pairing


def _sines(count: int) -> Program:
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        x = fluid.data("x", [2, 3])
        x.stop_gradient = False
        parts = [fluid.layers.sin(x) for _ in range(count)]
        fluid.backward.append_backward(fluid.layers.mean(fluid.layers.sums(parts)))
    return main


def test_each_gradient_has_the_operator_that_made_its_variable() -> None:
    ops = _sines(4).global_block().ops
    pairs = pairing.pair_gradients(ops)
    assert len(pairs) == 8
    for pair in pairs.values():
        forward = ops[pair.forward]
        assert pair.gradient_op is ops[pair.gradient]
        assert pair.gradient_op.input("Out@GRAD") == [f"{forward.output('Out')[0]}@GRAD"]


def test_operators_of_one_type_are_not_gone_through_for_each_gradient(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    matches, looked = pairing._matches, []

    def counted(*given: Any) -> bool:
        looked.append(given[0])
        return matches(*given)

    monkeypatch.setattr(pairing, "_matches", counted)
    assert len(pairing.pair_gradients(_sines(50).global_block().ops)) == 100
    assert len(looked) == 50


def test_inputs_that_were_overwritten_are_stale() -> None:
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        x = fluid.data("x", [2, 3])
        x.stop_gradient = False
        y = x * 2.0
        loss = fluid.layers.mean(fluid.layers.sin(y))
        fluid.layers.assign(x, output=y)
        (gradient,) = fluid.gradients(loss, x)
    assert pairing.pair_gradients(main.global_block().ops) == {}
    exe = fluid.Executor(fluid.CPUPlace())
    fed = np.arange(1.0, 7.0, dtype="float32").reshape(2, 3)
    (found,) = exe.run(main, feed={"x": fed}, fetch_list=[gradient])
    assert found.shape == (2, 3)
