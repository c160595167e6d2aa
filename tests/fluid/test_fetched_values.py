"""Whatever gives users an array gives one that converts to a number where it has one element."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from refluid import fluid
from refluid.core.fetched import FetchedArray
from refluid.engine.dataset_training import _watched
from refluid.fluid.executor import FetchHandler
from tests.fluid.small_net import INNER, ROWS, Net

FEED = {"x": np.ones((ROWS, INNER), "float32")}


def _run(net: Net, program: Any = None, **options: Any) -> Any:
    program = net.main if program is None else program
    (value,) = net.executor.run(program, FEED, [net.loss], scope=net.scope, **options)
    return value


def _parallel_executor(net: Net) -> Any:
    with fluid.scope_guard(net.scope):
        parallel = fluid.ParallelExecutor(
            use_cuda=False, loss_name=net.loss.name, main_program=net.main, scope=net.scope
        )
        (value,) = parallel.run([net.loss], feed=FEED)
    return value


def _state(net: Net, folder: Path) -> Any:
    with fluid.scope_guard(net.scope):
        fluid.save(net.main, str(folder / "net"))
    state = fluid.load_program_state(str(folder / "net"))
    return next(value for value in state.values() if value.size == 1)


def _parameter(net: Net) -> Any:
    with fluid.scope_guard(net.scope):
        return fluid.io.get_parameter_value_by_name("w", net.executor, net.main)[:1, :1]


def _accuracy() -> Any:
    metric = fluid.metrics.Accuracy()
    metric.update(np.ones(1, "float32"), np.array([2]))
    return metric.eval()


def _average() -> Any:
    average = fluid.average.WeightedAverage()
    average.add(np.ones((1, 1)), 2)
    return average.eval()


VALUES: dict[str, Callable[[Net, Path], Any]] = {
    "run": lambda net, folder: _run(net),
    "compiled": lambda net, folder: _run(net, net.compiled(1)),
    "one of the replicas": lambda net, folder: _run(net, net.compiled(2))[:1],
    "not merged": lambda net, folder: _run(net, net.compiled(2), return_merged=False)[0],
    "ParallelExecutor": lambda net, folder: _parallel_executor(net)[:1],
    "parameter": lambda net, folder: _parameter(net),
    "state": _state,
    "Accuracy": lambda net, folder: _accuracy(),
    "WeightedAverage": lambda net, folder: _average(),
}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES.keys())
def test_arrays_for_users_convert(value: Callable[[Net, Path], Any], tmp_path: Path) -> None:
    found = value(Net(), tmp_path)
    assert isinstance(found, FetchedArray)
    assert "%.9f" % found == "%.9f" % found.item()  # noqa: UP031


def test_fetched_values_are_fed() -> None:
    net = Net()
    first = _run(net) * 0 + 1
    (again,) = net.executor.run(
        net.main, {"x": np.ones((ROWS, INNER), "float32") * first}, [net.loss], scope=net.scope
    )
    assert np.isfinite(again)


def test_a_fetch_handler_gets_them() -> None:
    latest = SimpleNamespace(latest={"auc": SimpleNamespace(value=np.full(1, 0.5))})
    found = _watched(FetchHandler({"key": "auc"}), latest)  # type: ignore[arg-type]
    assert float(found["key"]) == 0.5


def test_elements_of_a_fetched_array_are_lod_tensors() -> None:
    layers = fluid.layers
    with fluid.program_guard(fluid.Program()):
        array = layers.create_array("float32")
        for place, number in enumerate((1.5, 2.5)):
            index = layers.fill_constant([1], "int64", place)
            layers.array_write(layers.fill_constant([1], "float32", number), index, array)
        (found,) = fluid.Executor().run(fetch_list=[array])
    assert [type(one) for one in found] == [fluid.LoDTensor] * 2
    assert [np.array(one).tolist() for one in found] == [[1.5], [2.5]]


def test_lists_in_a_list_are_fetched_one_by_one_and_operators_left_out() -> None:
    """As Paddle 2.6.2 does; PaddleHelix evaluates with a tuple of one list."""
    net = Net()
    first, last = net.main.global_block().ops[0], net.main.global_block().ops[-1]
    listed = [net.loss.name], (net.loss, last), [first, last], net.loss, []
    values = net.executor.run(net.main.clone(for_test=True), FEED, listed, scope=net.scope)
    assert len(values) == 3
    assert values[0] == values[1] == values[2]
    with pytest.raises(TypeError, match="holds variables or their names, not list"):
        net.executor.run(net.main, FEED, [[[net.loss]]], scope=net.scope)
