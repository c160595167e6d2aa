"""What variables of dygraph keep, and what they are to Python."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

from refluid import fluid
from refluid.eager import VarBase
from refluid.fluid import dygraph

layers = fluid.layers


def test_sequences_go_by_plans() -> None:
    with dygraph.guard():
        for lod in ([], [[0, 1, 3]], [], [[0, 2, 3]]):
            x = dygraph.to_variable(np.arange(3, dtype="float32").reshape(3, 1))
            x.lod = lod
            assert layers.tanh(x).lod == lod


def test_parameters_are_not_named_by_results() -> None:
    with dygraph.guard():
        for _ in range(3):
            layers.relu(dygraph.to_variable(np.ones((1, 1), "float32")))
        names = [one.name for one in dygraph.Linear(1, 1).parameters()]
    assert names == ["linear_0.w_0", "linear_0.b_0"]


def test_statistics_of_a_norm_keep_no_graph() -> None:
    with dygraph.guard():
        norm, x = dygraph.BatchNorm(2), dygraph.to_variable(np.ones((2, 2, 3, 3), "float32"))
        for _ in range(3):
            layers.mean(norm(x) * 2.0).backward()
            assert norm._mean.tensor.grad_fn is None and norm._variance.tensor.grad_fn is None


def test_conditions_on_variables() -> None:
    with dygraph.guard():
        for value, wanted in (([0.0], False), ([2.0], True), ([0.0, 0.0], True)):
            assert bool(dygraph.to_variable(np.array(value, "float32"))) is wanted
        total = layers.create_tensor("int64")
        assert total
        inputs = dygraph.to_variable(np.eye(3, dtype="float32"))
        label = dygraph.to_variable(np.zeros((3, 1), "int64"))
        assert float(layers.accuracy(inputs, label, total=total)) > 0.3 and int(total) == 3


def test_the_gradient_is_a_variable_on_the_same_memory() -> None:
    with dygraph.guard():
        x = dygraph.to_variable(np.array([1.0, 2.0], "float32"))
        x.stop_gradient = False
        assert x.grad is None
        layers.reduce_sum(x * x).backward()
        found = x.grad
        assert isinstance(found, VarBase)
        np.testing.assert_array_equal(found.numpy(), [2.0, 4.0])
        found.set_value(np.array([5.0, 6.0], "float32"))
        np.testing.assert_array_equal(x.gradient(), [5.0, 6.0])
        x.grad = dygraph.to_variable(np.array([7.0, 8.0], "float32"))
        np.testing.assert_array_equal(x.gradient(), [7.0, 8.0])
        x.grad = None
        assert x.gradient() is None


def test_what_replaces_is_sequence_counts_in_all_functions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    utils = layers.utils
    monkeypatch.setattr(utils, "is_sequence", lambda one: isinstance(one, list))
    assert utils.map_structure(lambda one: one, [(1, 2), 3]) == [(1, 2), 3]
    assert utils.flatten([(1, 2), [3]]) == [(1, 2), 3]
    monkeypatch.undo()
    assert utils.flatten([(1, 2), [3]]) == [1, 2, 3]


@pytest.mark.parametrize("retains", [False, True])
def test_a_result_that_is_let_go_of_stays_until_gradients_are_computed(retains: bool) -> None:
    """Else torch, which looks whether it is there before it takes it, may find it gone."""
    with dygraph.guard():
        first = dygraph.to_variable(np.ones((2, 3), np.float32))
        first.stop_gradient = False
        held = [first + 1.0]  # whose gradient needs nothing of it
        gone = weakref.ref(held[0].tensor)
        loss = fluid.layers.reduce_mean(held[0] + 1.0)
        there: list[bool] = []

        def let_go(_slope: object) -> None:
            held.clear()
            gc.collect()
            there.append(gone() is not None)

        loss.tensor.register_hook(let_go)
        if retains:
            loss.backward(retain_graph=True)
            assert there == [True]
        loss.backward()
        assert there[-1] == (not retains) and gone() is None
        assert first.gradient() == pytest.approx(np.full((2, 3), (1 + retains) / 6))


def test_what_is_kept_for_another_pass_is_asked_for_again() -> None:
    with dygraph.guard():
        first = dygraph.to_variable(np.ones((2, 3), np.float32))
        first.stop_gradient = False
        middle = first + 1.0
        held = [first * 2.0]
        loss = fluid.layers.reduce_mean(middle + held[0])
        loss.backward(retain_graph=True)
        middle.clear_gradient()
        gone = weakref.ref(held[0].tensor)
        there: list[bool] = []
        loss.tensor.register_hook(lambda _: there.append((held.clear(), gone() is not None)[1]))
        loss.backward()
        assert there == [True] and gone() is None
        assert middle.gradient() == pytest.approx(np.full((2, 3), 1 / 6))


def test_a_variable_of_an_array() -> None:
    array = np.ones((2, 3), "float32")
    with dygraph.guard():
        copied = VarBase(value=array, place=fluid.CPUPlace(), persistable=True, name="copied")
        shared = VarBase(array, zero_copy=True)
        array[0, 0] = 5.0
        assert copied.numpy()[0, 0] == 1.0 and shared.numpy()[0, 0] == 5.0
        assert copied.name == "copied" and copied.persistable and copied.stop_gradient
        assert layers.relu(copied).numpy().sum() == 6.0
