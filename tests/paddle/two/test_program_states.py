"""`Program.state_dict`, `Variable.get_value` and what sets them, through files too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import refluid.paddle as paddle
from refluid import fluid


def _trained() -> tuple[Any, Any, Any, Any]:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x = paddle.static.data("x", [None, 3])
        loss = paddle.mean(paddle.static.nn.fc(x, 2))
        paddle.optimizer.Momentum(0.1).minimize(loss)
    exe = paddle.static.Executor()
    exe.run(startup)
    return main, startup, exe, loss


def test_states_go_and_come_back(tmp_path: Path) -> None:
    feed = {"x": np.ones([2, 3], "float32")}
    with fluid.scope_guard(fluid.Scope()):
        main, _, exe, loss = _trained()
        exe.run(main, feed=feed)
        state = main.state_dict()
        assert set(state) == {*main.state_dict("param"), *main.state_dict("opt")}
        assert set(main.state_dict("param")) == {one.name for one in main.all_parameters()}
        paddle.save(state, str(tmp_path / "all.pdparams"))
        expected = [exe.run(main, feed=feed, fetch_list=[loss])[0] for _ in range(3)]
    with fluid.scope_guard(fluid.Scope()):
        main, _, exe, loss = _trained()
        main.set_state_dict(paddle.load(str(tmp_path / "all.pdparams")))
        again = [exe.run(main, feed=feed, fetch_list=[loss])[0] for _ in range(3)]
    np.testing.assert_array_equal(expected, again)


def test_values_of_variables() -> None:
    scope = fluid.Scope()
    with fluid.scope_guard(scope):
        main, *_ = _trained()
    weight = main.all_parameters()[0]
    with pytest.raises(ValueError, match="no value"):
        weight.get_value(fluid.Scope())
    weight.set_value(np.full([3, 2], 2, "float32"), scope)
    assert np.array(weight.get_value(scope)).tolist() == [[2.0, 2.0]] * 3
    weight.set_value(weight.get_value(scope), scope)
    with pytest.raises(ValueError, match="shape"):
        weight.set_value(np.ones([2, 3], "float32"), scope)
    with pytest.raises(ValueError, match="not float64"):
        weight.set_value(np.ones([3, 2]), scope)
    with pytest.raises(ValueError, match="mode"):
        main.state_dict("some")
    with pytest.warns(UserWarning, match="'other' is not in the program"):
        main.set_state_dict({"other": np.ones([1])}, scope)
