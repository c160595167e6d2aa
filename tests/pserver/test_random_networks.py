"""Random networks train on two servers' tables as in one process, also after they were saved."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refluid import fluid
from tests.choices import often
from tests.pserver.jobs import Job, Trainer
from tests.pserver.random_networks import TRAINERS, RandomNetwork, fed
from tests.pserver.test_saved_before import Resumed

HALF, FAST = 3, (2, 21, 23, 26)


def alone(network: RandomNetwork) -> list[float]:
    """The losses of one process that trains on the batches of all."""
    main, startup, loss = network.build()
    scope, executor = fluid.Scope(), fluid.Executor()
    executor.run(startup, scope=scope)
    given = [fed(network.joined(step)) for step in network.steps]
    return [executor.run(main, one, [loss], scope=scope)[0].item() for one in given]


def served(job: Job, steps: list[list[Any]], saved: Path) -> list[float]:
    """The mean losses of trainers; the first one saves all after its last step."""
    trained = threading.Barrier(TRAINERS)

    def train(trainer: Trainer) -> list[float]:
        given = [fed(step[trainer.number]) for step in steps]
        losses = [trainer.step(one, [trainer.loss])[0].item() for one in given]
        trained.wait(60)
        if trainer.number == 0:
            with fluid.scope_guard(trainer.scope):
                fluid.io.save_persistables(trainer.executor, str(saved), trainer.main)
        trained.wait(60)
        return losses

    return [float(one) for one in np.mean(job.run(train), axis=0)]


@pytest.mark.filterwarnings("ignore:set_gradient_clip")
@pytest.mark.parametrize("seed", often(range(30), FAST))
def test_a_random_network(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network = RandomNetwork(seed)
    monkeypatch.setattr(Resumed, "folder", tmp_path, raising=False)
    losses = []
    for kind, servers, part in (
        (Job, network.servers[0], slice(HALF)),
        (Resumed, network.servers[1], slice(HALF, None)),
    ):
        job = kind(network.build, servers, TRAINERS, sync=True, **network.settings)
        losses += served(job, network.steps[part], tmp_path)
    expected = alone(network)
    np.testing.assert_allclose(losses, expected, rtol=1e-4, atol=1e-5)
    assert np.ptp(expected) > 1e-3
