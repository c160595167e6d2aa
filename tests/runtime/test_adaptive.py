"""Steps of plans run by the threads that were chosen for them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from refluid import fluid
from refluid.core import flags, threads
from refluid.engine.pipelined.run import PipelineRun
from refluid.runtime import adaptive
from refluid.runtime.adaptive import AdaptiveThreads
from tests.interrupting import interrupted_at_each_call
from tests.runtime.replica_training import Training


class Chosen:
    """Stands for a ThreadChoice: steps by the numbers in turn; counts those that it was told of."""

    def __init__(self, *turns: int) -> None:
        self.most, self.threads, self.turns, self.ended = 2, turns[-1], list(turns), 0
        self.changes = ""

    def begin(self, now: float) -> int:
        self.threads = self.turns.pop(0) if len(self.turns) > 1 else self.turns[0]
        return self.threads

    def end(self, now: float, seconds: float) -> None:
        assert seconds >= 0
        self.ended += 1


@pytest.fixture(autouse=True)
def two_free_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    former = torch.get_num_threads()
    torch.set_num_threads(2)
    monkeypatch.setattr(threads, "_AT_START", 2)
    monkeypatch.setattr(threads, "_CHOSEN", False)
    monkeypatch.setattr(adaptive, "_latest", (0, 0))
    with flags.override({"FLAGS_refluid_adaptive_threads": True}):
        yield
    torch.set_num_threads(former)


def choosing(monkeypatch: pytest.MonkeyPatch, *turns: int) -> list[Chosen]:
    """What all plans made from now on choose; filled as they do."""
    made: list[Chosen] = []

    def begun(most: int) -> Chosen:
        made.append(Chosen(*turns))
        return made[-1]

    monkeypatch.setattr(adaptive, "_begun", begun)
    return made


def test_a_step_runs_by_what_was_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    made = choosing(monkeypatch, 1, 2, 1)
    steps = AdaptiveThreads()
    assert [steps.run(torch.get_num_threads) for _ in range(4)] == [1, 2, 1, 1]
    assert torch.get_num_threads() == 2
    assert made[0].ended == 4


def test_a_step_that_fails_gives_the_threads_back(monkeypatch: pytest.MonkeyPatch) -> None:
    made = choosing(monkeypatch, 1)
    steps = AdaptiveThreads()
    with pytest.raises(ZeroDivisionError):
        steps.run(divmod, 1, 0)
    assert torch.get_num_threads() == 2 and made[0].ended == 0
    assert steps.run(torch.get_num_threads) == 1


def test_ctrl_c_at_any_call_gives_the_threads_back_and_lets_others_be_timed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = choosing(monkeypatch, 1)
    steps = AdaptiveThreads()
    steps.run(torch.get_num_threads)
    for _ in interrupted_at_each_call(lambda: steps.run(torch.get_num_threads)):
        assert torch.get_num_threads() == 2
        before = made[-1].ended
        assert steps.run(torch.get_num_threads) == 1
        assert made[-1].ended == before + 1


def test_a_step_inside_another_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    made = choosing(monkeypatch, 2)
    inner, outer = AdaptiveThreads(), AdaptiveThreads()
    assert outer.run(inner.run, torch.get_num_threads) == 2
    assert [one.ended for one in made] == [1, 0]


def test_steps_side_by_side_use_what_was_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    choosing(monkeypatch, 1)
    found: list[int] = []
    other = AdaptiveThreads()

    def beside() -> None:
        torch.set_num_threads(2)
        found.append(other.run(torch.get_num_threads))
        found.append(torch.get_num_threads())

    def step() -> None:
        thread = threading.Thread(target=beside)
        thread.start()
        thread.join()

    AdaptiveThreads().run(step)
    assert found == [1, 2]


def test_nothing_is_chosen_where_threads_are_not_free(monkeypatch: pytest.MonkeyPatch) -> None:
    made = choosing(monkeypatch, 1)
    with flags.override({"FLAGS_refluid_adaptive_threads": False}):
        assert AdaptiveThreads().run(torch.get_num_threads) == 2
    assert not made


def test_a_plan_begins_with_what_another_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adaptive, "_latest", (1, 2))
    assert AdaptiveThreads().run(torch.get_num_threads) == 1


def seen_threads(wrap: Any = None) -> list[int]:
    """Torch's threads during six runs of a program, as an operator of the user sees them."""
    seen: list[int] = []

    def look(x: Any) -> None:
        seen.append(torch.get_num_threads())

    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        x = fluid.data("x", [None, 3])
        loss = fluid.layers.mean(fluid.layers.fc(x, 2))
        fluid.layers.py_func(look, loss, None)
        fluid.optimizer.SGD(0.1).minimize(loss)
    executor, scope = fluid.Executor(), fluid.Scope()
    with fluid.scope_guard(scope):
        executor.run(startup)
        program = main if wrap is None else wrap(main, loss)
        for _ in range(6):
            executor.run(program, feed={"x": np.ones((2, 3), "float32")}, fetch_list=[loss])
    return seen


def test_the_steps_of_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    made = choosing(monkeypatch, 1)
    assert seen_threads() == [1] * 6
    assert [one.ended for one in made] == [1, 6]  # the startup program, the steps


def test_the_steps_of_a_compiled_program(monkeypatch: pytest.MonkeyPatch) -> None:
    choosing(monkeypatch, 1)

    def compiled(main: Any, loss: Any) -> Any:
        made = fluid.CompiledProgram(main)
        return made.with_data_parallel(loss.name, places=fluid.cpu_places(1))

    assert seen_threads(compiled) == [1] * 6


def test_the_batched_steps_of_replicas(monkeypatch: pytest.MonkeyPatch) -> None:
    made = choosing(monkeypatch, 1)
    training = Training(places=2)
    training.steps()
    assert training.batched
    assert made[-1].ended >= 2, "and replicas in threads of their own have one thread each"
    assert len(made) == 2  # the startup program, the batched steps


def test_the_steps_that_go_through_a_batch_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    made, whole, seen = choosing(monkeypatch, 1), PipelineRun.run, list[int]()

    def run(*given: Any) -> Any:
        seen.append(torch.get_num_threads())
        return whole(*given)

    monkeypatch.setattr(PipelineRun, "run", run)
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        loss = fluid.layers.mean(fluid.layers.fc(fluid.data("x", [None, 3]), 2))
        fluid.optimizer.SGD(0.1).minimize(loss)
    executor, scope = fluid.Executor(), fluid.Scope()
    executor.run(startup, scope=scope)
    with flags.override({"FLAGS_refluid_batch_parts": 2}):
        for _ in range(3):
            executor.run(main, {"x": np.ones((2, 3), "float32")}, [loss], scope=scope)
    assert seen == [1] * 3 and made[-1].ended == 3, "nothing within a step chooses for itself"


def test_watched_steps_keep_their_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    choosing(monkeypatch, 1)
    with flags.override({"FLAGS_check_nan_inf": True}):
        assert seen_threads() == [2] * 6
