"""Errors of operators that run at once."""

from __future__ import annotations

import json
import math
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from refluid import fluid
from refluid.core.errors import EnforceNotMet, GraphFreed
from refluid.eager import calls
from tests.started import refluid

D = fluid.dygraph


@pytest.mark.parametrize("derived_by_torch", [True, False])
def test_errors_name_the_call_and_not_an_earlier_one_alike(
    monkeypatch: pytest.MonkeyPatch, derived_by_torch: bool
) -> None:
    # Which of the two it is depends on how fast products were measured to be.
    monkeypatch.setattr(calls, "torch_derives", lambda: math.inf if derived_by_torch else 0.0)
    with D.guard():
        first, second = (D.Linear(4, 4, bias_attr=False) for _ in range(2))
        first(D.to_variable(np.ones((1, 4), "float32")))
        wrong = D.to_variable(np.ones((1, 8), "float32"))
        with pytest.raises(EnforceNotMet) as caught:
            second(wrong)
    assert "    second(wrong)" in str(caught.value)
    assert "first(" not in str(caught.value)


def test_a_place_that_the_traceback_shows_is_not_said_again(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import numpy as np\n"
        "import paddle.fluid as fluid\n"
        "with fluid.dygraph.guard():\n"
        "    one, two = (fluid.dygraph.Linear(4, 4, bias_attr=False) for _ in range(2))\n"
        "    one(fluid.dygraph.to_variable(np.ones((1, 4), 'float32')))\n"
        "    two(fluid.dygraph.to_variable(np.ones((1, 8), 'float32')))\n"
    )
    ran = refluid("run", "train.py", folder=tmp_path)
    assert ran.stderr.count("line 6") == 1
    assert "line 5" not in ran.stderr
    assert "made here" not in ran.stderr
    assert "matmul failed" in ran.stderr


@pytest.mark.parametrize("directly", [True, False])
def test_a_second_pass_over_freed_results_says_what_to_do(directly: bool) -> None:
    with D.guard():
        weight = D.to_variable(np.ones((2, 3), "float32"))
        weight.stop_gradient = False
        loss = fluid.layers.reduce_sum(weight * weight)
        loss.backward(retain_graph=True)
        loss.backward()  # the last one that may
        np.testing.assert_array_equal(weight.gradient(), np.full((2, 3), 4.0))
        with pytest.raises(GraphFreed, match="pass retain_graph=True to the earlier one"):
            D.grad(loss, weight) if directly else loss.backward()


@pytest.mark.parametrize("given", ["x", None, 3, [1.0]])
@pytest.mark.parametrize("kind", ["Linear", "LayerNorm", "Dropout"])
def test_layers_name_themselves_and_what_they_were_given(kind: str, given: object) -> None:
    makers = {"Linear": lambda: fluid.dygraph.Linear(3, 2), "Dropout": fluid.dygraph.Dropout}
    makers["LayerNorm"] = lambda: fluid.dygraph.LayerNorm(3)
    with fluid.dygraph.guard():
        layer = makers[kind]()
        with pytest.raises(TypeError, match=r"has to be Variable, not|must be Variable, but"):
            layer(given)


def test_a_mistake_in_a_layer_of_the_users_stays_as_python_says_it() -> None:
    class Wrong(fluid.dygraph.Layer):
        def forward(self, x: str) -> object:
            return x.shape  # type: ignore[attr-defined]

    with fluid.dygraph.guard():
        with pytest.raises(AttributeError, match="'str' object has no"):
            Wrong()("x")
        other = fluid.dygraph.Layer()
        other.forward = partial(json.loads)  # type: ignore[method-assign]
        with pytest.raises(TypeError, match=r"^the JSON object"):
            other(3)


@pytest.mark.parametrize("again", [False, True])
def test_messages_name_the_operator_that_users_know(again: bool) -> None:
    """Not `softmax_loss` and `fused_gemm_epilogue`, which compute two of Fluid's at once."""
    with fluid.dygraph.guard():
        scores = fluid.dygraph.to_variable(np.ones((4, 3), "float32"))
        labels = fluid.dygraph.to_variable(np.array([[0], [1], [5], [2]]))
        linear = fluid.dygraph.Linear(5, 2)
        for _ in range(1 + again):
            with pytest.raises(EnforceNotMet) as loss:
                fluid.layers.softmax_with_cross_entropy(scores, labels)
            with pytest.raises(EnforceNotMet) as product:
                linear(scores)
    assert str(loss.value).startswith("operator softmax_with_cross_entropy ")
    assert "< softmax_with_cross_entropy > error" in str(loss.value)
    assert "softmax_loss" not in str(loss.value)
    assert str(product.value).startswith("operator matmul ")
    assert "fused_gemm_epilogue" not in str(product.value)
