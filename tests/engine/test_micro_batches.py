"""Micro-batches: schedules that never wait for themselves, batches that are cut, sums."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from refluid.engine.pipelined.micro_batches import SCHEDULES, MicroBatches
from refluid.engine.pipelined.step import Sums
from tests.collective.pipelines import built, chain, fed


def test_sums_leave_what_was_given_as_it_is() -> None:
    """Both terms of a sum may have one gradient tensor."""
    shared, sums = torch.ones(3), Sums()
    for _ in range(3):
        sums.add("a", shared)
        sums.add("b", shared)
    assert shared.tolist() == [1, 1, 1]
    assert [sums.values[name].tolist() for name in "ab"] == [[3, 3, 3]] * 2


@pytest.mark.parametrize("seed", range(20))
def test_no_schedule_waits_for_itself(seed: int) -> None:
    """Each stage takes each micro-batch once each way, and what one waits for another gives."""
    draws = np.random.default_rng(seed)
    stages, steps = int(draws.integers(1, 9)), int(draws.integers(1, 20))
    micro = MicroBatches(steps, 0, str(draws.choice(SCHEDULES)))
    waiting: list[Iterator[bool]] = [micro.turns(one, stages) for one in range(stages)]
    turns = [next(one, None) for one in waiting]
    done = np.zeros((2, stages), int)
    most = np.zeros(stages, int)
    while any(one is not None for one in turns):
        able = [one for one, turn in enumerate(turns) if turn is not None and _can(done, one, turn)]
        assert able, (turns, done)
        for one in able:
            done[0 if turns[one] else 1, one] += 1
            most[one] = max(most[one], done[0, one] - done[1, one])
            turns[one] = next(waiting[one], None)
    assert (done == steps).all()
    if micro.schedule == "1F1B":
        assert (most <= stages - np.arange(stages)).all()


def _can(done: Any, stage: int, forward: bool) -> bool:
    """Whether what a stage waits for was given."""
    last = done.shape[1] - 1
    if forward:
        return stage == 0 or done[0, stage - 1] > done[0, stage]
    return done[0, stage] > done[1, stage] and (
        stage == last or done[1, stage + 1] > done[1, stage]
    )


@pytest.mark.parametrize(
    "config", [{"accumulate_steps": 5}, {"accumulate_steps": 4, "micro_batch_size": 5}]
)
def test_rows_that_make_no_micro_batches(config: dict[str, Any]) -> None:
    micro = MicroBatches(config["accumulate_steps"], config.get("micro_batch_size", 0))
    main, _, _ = built(lambda: chain(2), lambda _loss: None)
    with pytest.raises(ValueError, match="accumulate_steps times micro_batch_size"):
        micro.cut(fed(0), main)
