"""Runs of the part of a program that is fetched: `use_prune`, and what `minimize` returned."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from refluid import fluid

L = fluid.layers
X = np.arange(12, dtype="float32").reshape(4, 3)


class _Net:
    """A loss of x and one of y too, a rate that decays, and the update of the first."""

    def __init__(self) -> None:
        self.main, self.startup = fluid.Program(), fluid.Program()
        with fluid.program_guard(self.main, self.startup), fluid.unique_name.guard():
            x, y = fluid.data("x", [None, 3]), fluid.data("y", [None, 1])
            w = L.create_parameter([3, 1], "float32", "w")
            self.guess = L.mul(x, w)
            self.loss = L.mean(self.guess)
            self.other = L.mean(L.square_error_cost(self.guess, y))
            rate = L.exponential_decay(0.1, 1, 0.5)
            self.update: Any = fluid.optimizer.SGD(rate).minimize(self.loss)
        self.executor, self.scope = fluid.Executor(), fluid.Scope()
        self.executor.run(self.startup, scope=self.scope)

    def run(self, program: Any, *fetches: Any, prune: bool = False) -> list[Any]:
        return self.executor.run(
            program, {"x": X}, list(fetches), scope=self.scope, use_prune=prune
        )

    @property
    def weight(self) -> Any:
        return np.array(self.scope.find_var("w").get_tensor())


@pytest.fixture(params=[1, 2])
def net(request: Any) -> Any:
    """The network and what is run of it: the program, or replicas of it."""
    made = _Net()
    if request.param == 1:
        return made, made.main
    places = [fluid.CPUPlace()] * request.param
    compiled = fluid.CompiledProgram(made.main).with_data_parallel(made.loss.name, places=places)
    return made, compiled


def test_only_what_is_fetched_runs(net: Any) -> None:
    made, program = net
    former = made.weight
    for _ in range(3):
        (guess,) = made.run(program, made.guess, prune=True)
        np.testing.assert_allclose(guess, X @ former, rtol=1e-6)
    np.testing.assert_array_equal(made.weight, former)


def test_the_update_that_is_fetched_runs_with_what_it_needs(net: Any) -> None:
    made, program = net
    expected = made.weight
    for step in range(3):
        results = made.run(program, made.loss, made.update)
        assert len(results) == 1
        assert results[0].mean() == pytest.approx(float((X @ expected).mean()), rel=1e-5)
        expected = expected - 0.1 * 0.5**step * X.mean(0).reshape(3, 1)
        np.testing.assert_allclose(made.weight, expected, rtol=1e-5)
        made.run(program, made.loss, prune=True)
        np.testing.assert_allclose(made.weight, expected, rtol=1e-5)


def test_a_change_of_the_program_prunes_anew() -> None:
    made = _Net()
    (former,) = made.run(made.main, made.loss, prune=True)
    with fluid.program_guard(made.main):
        L.assign(L.scale(made.loss, 2.0), made.loss)
    (found,) = made.run(made.main, made.loss, prune=True)
    assert found == pytest.approx(2.0 * former)


def test_operators_alone_prune_too() -> None:
    made = _Net()
    former = made.weight
    assert made.run(made.main, made.update[0]) == []
    assert np.abs(made.weight - former).max() > 0.1


def test_updates_within_a_block_run_with_the_whole_program() -> None:
    main, startup, scope = fluid.Program(), fluid.Program(), fluid.Scope()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        loss = L.mean(L.mul(fluid.data("x", [4, 3]), L.create_parameter([3, 1], "float32", "w")))
        merging = fluid.optimizer.GradientMergeOptimizer(fluid.optimizer.SGD(0.1), k_steps=2)
        update = merging.minimize(loss)
    executor = fluid.Executor()
    executor.run(startup, scope=scope)
    former = np.array(scope.find_var("w").get_tensor())
    for _ in range(2):
        executor.run(main, {"x": X}, [loss, update], scope=scope)
    expected = former - 0.1 * X.mean(0).reshape(3, 1)
    np.testing.assert_allclose(np.array(scope.find_var("w").get_tensor()), expected, rtol=1e-5)
