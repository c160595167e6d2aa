"""Evaluators add up over runs, and start again after reset."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from refluid import fluid
from refluid.fluid.evaluator import ChunkEvaluator, EditDistance, Evaluator

L = fluid.layers


@pytest.fixture
def executor() -> Any:
    with (
        fluid.scope_guard(fluid.Scope()),
        fluid.program_guard(fluid.Program(), fluid.Program()),
        fluid.unique_name.guard(),
    ):
        yield fluid.Executor(fluid.CPUPlace())


def _rows(*values: int) -> Any:
    return np.array(values, dtype="int64").reshape(-1, 1)


def _sequence(values: Any, lengths: list[int]) -> Any:
    return fluid.create_lod_tensor(values, [lengths], fluid.CPUPlace())


def _sequences(*names: str) -> list[fluid.Variable]:
    return [fluid.data(name, [None, 1], "int64", lod_level=1) for name in names]


def test_chunks_over_batches(executor: Any) -> None:
    inferred, label = _sequences("inferred", "label")
    evaluator = ChunkEvaluator(inferred, label, "IOB", 2)
    batches = [
        ([0, 1, 2, 4], [0, 1, 2, 4], [4]),
        ([0, 1, 0, 4], [0, 4, 0, 2], [2, 2]),
    ]
    evaluator.reset(executor)
    for one, other, lengths in batches:
        feed = {
            "inferred": _sequence(_rows(*one), lengths),
            "label": _sequence(_rows(*other), lengths),
        }
        last = executor.run(feed=feed, fetch_list=evaluator.metrics)
    assert [float(one[0]) for one in last] == pytest.approx([1 / 2, 1 / 3, 0.4])
    whole = evaluator.eval(executor)
    assert [float(one[0]) for one in whole] == pytest.approx([3 / 4, 3 / 5, 2 / 3])
    evaluator.reset(executor)
    assert [float(one[0]) for one in evaluator.eval(executor)] == [0.0, 0.0, 0.0]


def test_edit_distances_over_batches(executor: Any) -> None:
    guess, label = _sequences("guess", "label")
    evaluator = EditDistance(guess, label)
    evaluator.reset(executor)
    for guessed in ([1, 2, 3, 9], [1, 5, 5, 9]):
        feed = {
            "guess": _sequence(_rows(*guessed), [3, 1]),
            "label": _sequence(_rows(1, 2, 3, 9), [3, 1]),
        }
        executor.run(feed=feed, fetch_list=evaluator.metrics)
    distance, wrong = evaluator.eval(executor)
    assert wrong[0] == pytest.approx(1 / 4)
    assert distance[0] > 0


def test_an_evaluator_belongs_to_the_root_block(executor: Any) -> None:
    inferred, label = _sequences("inferred", "label")
    program = fluid.default_main_program()
    program._create_block()
    with pytest.raises(ValueError, match="root block"):
        ChunkEvaluator(inferred, label, "IOB", 2)
    program._rollback()


def test_the_base_class_does_not_evaluate(executor: Any) -> None:
    with pytest.raises(NotImplementedError, match="does not say"):
        Evaluator("some").eval(executor)
