"""What users do between the steps of batched replicas."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from refluid import fluid
from refluid.core.errors import EnforceNotMet
from refluid.core.threads import threads_of_all
from tests.runtime.replica_training import (
    ROWS,
    STEPS,
    Training,
    agree,
    as_in_threads,
    in_threads_only,
    normalised,
    sparse,
)

layers = fluid.layers


def test_the_test_program_run_by_a_plain_executor() -> None:
    def train(run: Training) -> list[Any]:
        losses = []
        for seed in range(STEPS):
            losses.append(run.step(seed))
            feed = run.feed(100 + seed)
            losses.append(run.executor.run(run.test, feed, [run.loss, run.out], scope=run.scope))
        return losses

    as_in_threads(train)


def test_saved_parameters_are_those_that_training_goes_on_with(tmp_path: Path) -> None:
    run = Training(sparse)
    run.steps()
    with fluid.scope_guard(run.scope):
        fluid.io.save_persistables(run.executor, str(tmp_path), run.main)
    expected = [run.step(seed) for seed in range(50, 56)]
    with fluid.scope_guard(run.scope):
        fluid.io.load_persistables(run.executor, str(tmp_path), run.main)
    assert run.batched
    agree([run.step(seed) for seed in range(50, 56)], expected)
    assert run.batched


def test_a_parameter_set_before_the_replicas_run_apart_is_used_by_all() -> None:
    run = Training()
    run.steps()
    for parameter in run.main.all_parameters():
        run.set(parameter.name, np.zeros(parameter.shape, "float32"))
    _, out = run.step(99, ROWS - 1)
    assert not out.any()


def test_a_flag_that_keeps_replicas_in_threads_for_a_while() -> None:
    def train(run: Training) -> list[Any]:
        losses = run.steps(6)
        fluid.set_flags({"FLAGS_check_nan_inf": True})
        losses += run.steps(2)
        fluid.set_flags({"FLAGS_check_nan_inf": False})
        return losses + run.steps(6)

    as_in_threads(train)


def test_variables_that_differ_before_replicas_join_stay_so() -> None:
    def train(run: Training) -> list[Any]:
        losses = [run.step(0)]
        run.set("fc_0.w_0", np.zeros((6, 16), "float32"))
        losses += run.steps()
        assert not np.array_equal(run.value("fc_0.w_0", 0), run.value("fc_0.w_0", 1))
        return losses

    as_in_threads(train)


def test_replicas_that_run_apart_have_variables_of_their_own() -> None:
    run = Training(normalised, "momentum")
    run.steps()
    held = run.program._replicated
    assert held is not None
    name = run.main.all_parameters()[0].name
    cells = [scope.find_var(name) for scope in held.scopes]
    assert cells[0].value is cells[1].value
    run.step(1, ROWS - 1)
    assert cells[0].value is not cells[1].value
    np.testing.assert_array_equal(run.value(name, 0), run.value(name, 1))
    run.step(2)
    assert cells[0].value is cells[1].value


def test_variables_that_the_user_erased() -> None:
    run = Training()
    run.steps()
    name = run.main.all_parameters()[0].name
    value = run.value(name)
    run.scope.erase([name])
    with pytest.raises(EnforceNotMet, match=name):
        run.step(0)
    run.scope.var(name)
    run.set(name, np.zeros_like(value))
    first = [run.step(seed) for seed in range(6)]
    assert all(np.isfinite(loss).all() for loss, _ in first)


def test_fetched_variables_are_nobody_elses_memory() -> None:
    run = Training(normalised, "momentum")
    names = [v.name for v in run.main.list_vars() if v.persistable and "w_" in v.name]
    fetched = [run.run(run.feed(seed), fetch_list=names) for seed in range(STEPS)]
    assert run.batched
    copies = [[value.copy() for value in one] for one in fetched]
    for seed in range(3):
        run.run(run.feed(seed), fetch_list=names)
    for one, other in zip(fetched, copies, strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a, b)


def test_fetches_of_each_place() -> None:
    with in_threads_only():
        other = Training()
        expected = [other.run(other.feed(seed), return_merged=False) for seed in range(STEPS)]
    run = Training()
    found = [run.run(run.feed(seed), return_merged=False) for seed in range(STEPS)]
    assert run.batched
    for one, two in zip(found, expected, strict=True):
        agree(one, two)
    assert [len(values) for values in found[-1]] == [2, 2]
    assert found[-1][1][0].shape == (ROWS // 2, 5)


def test_a_dict_for_each_place() -> None:
    run, other = Training(), Training()
    for seed in range(STEPS):
        feed = run.feed(seed)
        half = ROWS // 2
        parts = [{k: v[:half] for k, v in feed.items()}, {k: v[half:] for k, v in feed.items()}]
        copies = [{k: v.copy() for k, v in part.items()} for part in parts]
        agree([run.run(parts if seed % 2 else copies)], [other.run(feed)])
    assert run.batched
    assert other.batched


BAD: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "dtype": ({"x": np.zeros((ROWS, 6), "float64")}, ValueError, "data type of fed Variable 'x'"),
    "shape": ({"x": np.zeros((ROWS, 7), "f4")}, ValueError, "fed Variable 'x' should have"),
    "rows": ({"x": np.zeros((1, 6), "f4")}, EnforceNotMet, "fewer than the 2 devices"),
    "number": ({"x": np.float32(1)}, EnforceNotMet, "number without dimensions"),
    "name": ({"y": np.zeros((ROWS, 7), "f4")}, ValueError, "names 'y'"),
}


@pytest.mark.parametrize("bad", BAD)
def test_wrong_feeds_are_the_same_errors(bad: str) -> None:
    run = Training()
    run.steps()
    given, kind, message = BAD[bad]
    with pytest.raises(kind, match=message):
        run.run(run.feed(0) | given)
    run.step(1)
    assert run.batched


def test_operators_have_the_threads_of_all_replicas() -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        assert threads_of_all(1) == 1
        torch.set_num_threads(4)
        assert (threads_of_all(2), threads_of_all(3)) == (4, 3)
    finally:
        torch.set_num_threads(before)
