"""Parameters: names, sharing, attributes and initializers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from refluid import fluid
from refluid.fluid import initializer, regularizer
from refluid.fluid.param_attr import to_attr


@pytest.fixture(autouse=True)
def startup() -> Iterator[fluid.Program]:
    """A startup program of its own for each test, and a main program with `x`, (N, 4)."""
    main, begin = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, begin), fluid.unique_name.guard():
        fluid.data("x", [None, 4])
        yield begin


def _x() -> fluid.Variable:
    return fluid.default_main_program().global_block().var("x")


def _names(program: fluid.Program) -> list[str]:
    return [name for op in program.global_block().ops for name in op.output_arg_names]


def test_what_was_made_last_is_initialised_first(startup: fluid.Program) -> None:
    fluid.layers.fc(fluid.layers.fc(_x(), 3), 2, bias_attr=False)
    assert _names(startup) == ["fc_1.w_0", "fc_0.b_0", "fc_0.w_0"]


def test_one_name_is_one_parameter(startup: fluid.Program) -> None:
    fluid.layers.fc(_x(), 4, param_attr="shared", bias_attr=False)
    fluid.layers.fc(_x(), 4, param_attr="shared", bias_attr=False)
    assert _names(startup) == ["shared"]
    assert len(fluid.default_main_program().all_parameters()) == 1
    with pytest.raises(ValueError, match="'shared' exists with shape"):
        fluid.layers.fc(_x(), 5, param_attr="shared")


def test_attributes_reach_the_parameter() -> None:
    decay = regularizer.L2Decay(0.1)
    attr = fluid.ParamAttr("w", learning_rate=0.5, regularizer=decay, trainable=False)
    fluid.layers.fc(_x(), 3, param_attr=attr)
    weight = fluid.default_main_program().global_block().var("w")
    assert (weight.trainable, weight.stop_gradient, weight.regularizer) == (False, True, decay)
    assert weight.optimize_attr == {"learning_rate": 0.5}
    assert attr.name == "w"


def test_what_stands_for_an_attribute() -> None:
    uniform, decay = initializer.Uniform(), regularizer.L1Decay()
    assert to_attr("name").name == "name"
    assert to_attr(uniform).initializer is uniform
    assert to_attr(decay).regularizer is decay
    assert to_attr(False) is False
    assert [one.name for one in to_attr(["a", None])] == ["a", None]
    for wrong in (3, object()):
        with pytest.raises(TypeError, match="ParamAttr"):
            to_attr(wrong)
    with pytest.raises(TypeError, match="initializer must be"):
        fluid.ParamAttr(initializer=3)  # type: ignore[arg-type]


@pytest.mark.parametrize("dim", [None, 0, 1, -1])
def test_weight_normalisation(dim: int | None) -> None:
    main, startup, scope = fluid.Program(), fluid.Program(), fluid.Scope()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x = fluid.data("x", [None, 4])
        attr = fluid.WeightNormParamAttr(dim=dim, name="w")
        loss = fluid.layers.mean(fluid.layers.fc(x, 3, param_attr=attr, bias_attr=False))
        fluid.optimizer.SGD(0.1).minimize(loss)
    assert {one.name for one in main.all_parameters()} == {"w_v", "w_g"}
    executor = fluid.Executor(fluid.CPUPlace())
    executor.run(startup, scope=scope)
    data = np.random.RandomState(0).randn(5, 4).astype("float32")

    def value(name: str) -> np.ndarray:
        return np.array(scope.find_var(name).get_tensor()).astype(np.float64)

    axes = None if dim is None else tuple({0, 1} - {dim % 2})
    for _ in range(3):
        v, g = value("w_v"), value("w_g")
        weight = g * v / np.sqrt((v**2).sum(axis=axes, keepdims=dim is not None))
        (found,) = executor.run(main, feed={"x": data}, fetch_list=[loss], scope=scope)
        np.testing.assert_allclose(found[0], (data @ weight).mean(), rtol=1e-4, atol=1e-6)
    assert not np.allclose(value("w_g"), g)
    assert not np.allclose(value("w_v"), v)


def test_whole_numbers_need_an_initializer() -> None:
    with pytest.raises(TypeError, match="initializer"):
        fluid.layers.create_parameter([3], "int64")


@pytest.mark.parametrize("unknown", [None, -1, 0])
def test_every_dimension_must_be_known(unknown: int | None) -> None:
    ids = fluid.data("ids", [None, 1], "int64")
    with pytest.raises(ValueError, match="every dimension of a parameter must be given"):
        fluid.layers.embedding(ids, size=[unknown, 4])


def test_the_programs_seed_is_used_where_none_is_given(startup: fluid.Program) -> None:
    startup.random_seed = 7
    fluid.layers.fc(_x(), 3, param_attr=initializer.Normal(), bias_attr=False)
    fluid.layers.fc(_x(), 3, param_attr=initializer.Normal(seed=5), bias_attr=False)
    assert [op.attr("seed") for op in startup.global_block().ops] == [5, 7]


def _made(start: Any, shape: list[int], dtype: str = "float32") -> Any:
    fluid.layers.create_parameter(shape, dtype, default_initializer=start)
    return fluid.default_startup_program().global_block().ops


def test_half_precision_is_drawn_in_single() -> None:
    ops = _made(initializer.Xavier(), [3, 4], "float16")
    assert [op.type for op in ops] == ["uniform_random", "cast"]
    assert ops[0].output("Out") == ops[1].input("X")


@pytest.mark.parametrize("dtype", ["float16", "float64", "float32", "int64"])
def test_an_array_gives_a_parameter_of_the_type_that_is_asked_for(dtype: str) -> None:
    ops = _made(initializer.NumpyArrayInitializer(np.array([1.5, 2.0])), [2], dtype)
    assert [op.type for op in ops] == ["assign_value", "cast"][
        : 2 if dtype in ("float16", "float64") else 1
    ]
    scope = fluid.Scope()
    with fluid.scope_guard(scope):
        fluid.Executor(fluid.CPUPlace()).run(fluid.default_startup_program())
    (name,) = ops[-1].output("Out")
    found = np.array(scope.find_var(name).get_tensor())
    assert found.dtype == dtype
    assert found.tolist() == ([1, 2] if dtype == "int64" else [1.5, 2.0])


def test_bilinear_weights_interpolate() -> None:
    (op,) = _made(initializer.Bilinear(), [1, 1, 4, 4])
    line = np.array([0.25, 0.75, 0.75, 0.25])
    assert op.attr("fp32_values") == np.outer(line, line).ravel().tolist()
    with pytest.raises(ValueError, match="Bilinear"):
        _made(initializer.Bilinear(), [1, 1, 4, 3])


def test_initializers_refuse_nonsense() -> None:
    with pytest.raises(ValueError, match="low <= high"):
        initializer.Uniform(2.0, 1.0)
    with pytest.raises(TypeError, match="array"):
        initializer.NumpyArrayInitializer([1.0])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="can't hold"):
        _made(initializer.NumpyArrayInitializer(np.zeros(3)), [3], "uint8")


def test_constants_may_be_forced_onto_the_host(startup: fluid.Program) -> None:
    with initializer.init_on_cpu():
        fluid.layers.create_global_var([1], 1.0, "float32", persistable=True, name="host")
    assert startup.global_block().ops[0].attr("force_cpu") is True


def test_a_global_of_unknown_sizes_is_filled_later(startup: fluid.Program) -> None:
    """As rewards that a Python function gives: the variable is made before they are counted."""
    reward = fluid.layers.create_global_var([-1, -1], 2, "float32", name="reward")
    assert reward.shape == (-1, -1)
    exe = fluid.Executor(fluid.CPUPlace())
    assert exe.run(startup, fetch_list=["reward"])[0].tolist() == [[2.0]]
    fluid.layers.py_func(lambda x: np.array(x) + 1, x=_x(), out=reward)
    (made,) = exe.run(feed={"x": np.zeros((2, 4), "float32")}, fetch_list=[reward])
    assert made.tolist() == [[1.0] * 4] * 2
