"""Arguments and places of names that Fluid 1.4 to 1.7 had and 1.8 doesn't."""

from __future__ import annotations

import inspect
import logging
from typing import Any

import numpy as np
import pytest

from refluid import fluid
from refluid.core import former


@pytest.fixture(autouse=True)
def _afresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(former, "_said", set())


def _updated(**options: Any) -> np.ndarray[Any, Any]:
    """A weight of ones after a step of SGD by gradients of 3."""
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.scope_guard(fluid.Scope()):
        x = fluid.data("x", [1, 4], "float32")
        ones = fluid.initializer.Constant(1.0)
        attr = fluid.ParamAttr(name="w", initializer=ones, **options)
        out = fluid.layers.fc(x, 1, param_attr=attr, bias_attr=False, is_test=False)  # type: ignore[call-arg]
        fluid.optimizer.SGD(1.0).minimize(fluid.layers.mean(out), grad_clip=None)  # type: ignore[call-arg]
        exe = fluid.Executor()
        exe.run(startup)
        exe.run(main, feed={"x": np.full((1, 4), 3, "float32")})
        weight = fluid.global_scope().find_var("w")
        assert weight is not None
        return np.array(weight.get_tensor())[:, 0]


def test_a_parameters_own_clipping_works_as_it_did() -> None:
    assert _updated().tolist() == [-2.0] * 4
    clip = fluid.clip.GradientClipByValue(0.5)
    assert _updated(gradient_clip=clip).tolist() == [0.5] * 4


def test_each_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "refluid"):
        for _ in range(2):
            _updated(gradient_clip=None)
    said = sorted(one.getMessage() for one in caplog.records)
    assert len(said) == 3
    assert "Optimizer.minimize" in said[0]
    assert "'grad_clip'" in said[0]
    assert "ParamAttr: Fluid 1.8 has no argument 'gradient_clip' any more; it works" in said[1]
    assert "fc: Fluid 1.8 has no argument 'is_test' any more; it changes nothing" in said[2]


def test_other_arguments_are_refused_as_ever() -> None:
    assert "is_test" not in inspect.signature(fluid.layers.fc).parameters
    with pytest.raises(TypeError, match="is_tset"):
        fluid.layers.fc(None, 1, is_tset=True)  # type: ignore[call-arg]


def test_functions_that_have_a_module_of_their_own_since() -> None:
    assert fluid.layers.nn.sequence_pool is fluid.layers.sequence_pool
    assert fluid.layers.nn.dynamic_gru is fluid.layers.dynamic_gru
    with pytest.raises(AttributeError, match="no_such"):
        _ = fluid.layers.nn.no_such
