"""Pipelines: each worker trains one stage, with the numbers of one process."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import refluid.fluid as fluid
from refluid.comm.local import LocalGroup
from refluid.core.errors import EnforceNotMet
from refluid.engine.pipelined.micro_batches import SCHEDULES
from refluid.paddle.distributed import fleet
from refluid.paddle.distributed.fleet.base import pipelining
from refluid.paddle.distributed.fleet.base.running import Workers
from refluid.paddle.distributed.fleet.base.wrapping import wrapped
from tests.collective import pipelines
from tests.collective.jobs import as_trainers
from tests.collective.networks import parameters
from tests.collective.pipelines import OPTIMIZERS, alone, built, chain, fed, on, strategy

# -- workers as threads ---------------------------------------------------------------------------


class Worker:
    """A worker's programs, variables and executor."""

    def __init__(self, rank: int, workers: int, asked: Any, make: Any, optimizer: Any) -> None:
        endpoints = [f"127.0.0.1:{7000 + one}" for one in range(workers)]

        def minimize(loss: Any) -> None:
            inner = wrapped(optimizer(), asked, workers)
            startup = fluid.default_startup_program()
            pipelining.minimize_stage(inner, asked, Workers(rank, endpoints), None, loss, startup)

        self.main, self.startup, self.loss = built(make, minimize)
        self.scope, self.executor = fluid.Scope(), fluid.Executor()

    def train(self, steps: int, pipelines: int, pipeline: int) -> list[Any]:
        self.executor.run(self.startup, scope=self.scope)
        found = []
        for step in range(steps):
            batch = {one: np.array_split(x, pipelines)[pipeline] for one, x in fed(step).items()}
            found += self.executor.run(self.main, batch, [self.loss], scope=self.scope)
        return found

    def held(self) -> dict[str, Any]:
        with fluid.scope_guard(self.scope):
            return parameters(self.main)


def in_threads(
    monkeypatch: pytest.MonkeyPatch, stages: int, pipes: int, asked: Any, make: Any, optimizer: Any
) -> list[tuple[list[Any], Worker]]:
    """What each worker fetched, by rank."""
    group, size = LocalGroup(stages * pipes), stages * pipes
    monkeypatch.setattr(pipelining, "trainers_of", lambda wanted: group.member(wanted.trainer_id))
    workers = [Worker(rank, size, asked, make, optimizer) for rank in range(size)]
    with ThreadPoolExecutor(size) as pool:
        begun = [
            pool.submit(one.train, pipelines.STEPS, pipes, rank // stages)
            for rank, one in enumerate(workers)
        ]
        try:
            results = [one.result(timeout=300) for one in begun]
        finally:
            for one in range(size):
                group.member(one).close()
    return list(zip(results, workers, strict=True))


def drawn(seed: int) -> dict[str, Any]:
    """A network, an optimizer, and how they are trained, at random."""
    draws = np.random.default_rng(seed)
    tied = bool(draws.integers(2))
    return {
        "stages": int(draws.integers(2, 5)),
        "pipes": int(draws.choice([1, 1, 2, 3])),
        "optimizer": str(draws.choice([*OPTIMIZERS])),
        "network": {
            "tied": tied,
            "skip": bool(draws.integers(2)),
            "sparse": not tied and bool(draws.integers(2)),
        },
        "config": {
            "accumulate_steps": int(draws.choice([1, 2, 4])),
            "schedule_mode": str(draws.choice(SCHEDULES)),
        },
    }


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(one, marks=pytest.mark.slow) for one in range(2, 50))]
)
def test_stages_are_as_one_process(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Losses and parameters within 1e-5 after 20 steps, whatever stands on which stage."""
    case = drawn(seed)
    stages, name, network = case["stages"], case["optimizer"], case["network"]
    losses, learned = alone(name, stages, **network)
    asked = strategy(pipeline_configs=case["config"])
    make, pipes = (lambda: chain(stages, **network)), case["pipes"]
    found = in_threads(monkeypatch, stages, pipes, asked, make, OPTIMIZERS[name])
    own = [[float(one.item()) for one in got] for got, _ in found[stages - 1 :: stages]]
    np.testing.assert_allclose(np.mean(own, 0), losses, rtol=1e-5, err_msg=str(case))
    assert all(
        one is None
        for rank, (got, _) in enumerate(found)
        if rank % stages < stages - 1
        for one in got
    )
    seen = set()
    for _, worker in found:
        for key, value in worker.held().items():
            seen.add(key)
            np.testing.assert_allclose(value, learned[key], rtol=1e-5, atol=1e-6, err_msg=key)
    assert seen == learned.keys()


def test_stages_have_their_own_variables_only(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = strategy(pipeline_configs={"accumulate_steps": 2})
    found = in_threads(monkeypatch, 2, 1, asked, lambda: chain(2), OPTIMIZERS["momentum"])
    first, second = (worker.held().keys() for _, worker in found)
    assert first & second == {"learning_rate_0"}
    assert {"table", "table_velocity_0"} < first and "fc_1.w_0_velocity_0" in second


def gradients_at_zero(stages: int) -> Any:
    """A network where only the first stage's gradients are infinite in the first step."""
    with on(0):
        x, y = fluid.data("x", [None, 6], "float32"), fluid.data("y", [None, 1], "int64")
        start = fluid.ParamAttr(initializer=fluid.initializer.Constant(0.0))
        hidden = fluid.layers.sqrt(fluid.layers.square(fluid.layers.fc(x, 8, param_attr=start)))
    for stage in range(1, stages):
        with on(stage):
            hidden = fluid.layers.fc(hidden, pipelines.WORDS if stage == stages - 1 else 8)
    with on(stages - 1):
        return fluid.layers.mean(fluid.layers.softmax_with_cross_entropy(hidden, y))


def test_an_infinite_gradient_at_one_stage_leaves_all_as_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = strategy(amp=True, pipeline_configs={"accumulate_steps": 2})
    monkeypatch.setattr(pipelines, "STEPS", 3)
    make = lambda: gradients_at_zero(3)  # noqa: E731
    found = in_threads(monkeypatch, 3, 1, asked, make, OPTIMIZERS["sgd"])
    for _, worker in found:
        held = worker.held()
        assert held["loss_scaling_0"].item() < 2**15
        biases = [value for name, value in held.items() if ".b_" in name]
        assert biases and not any(value.any() for value in biases)


# -- workers as processes -------------------------------------------------------------------------

CASES = [
    ("clipped", 2, {"accumulate_steps": 4, "micro_batch_size": 6}, {}, {"tied": True}),
    ("adam", 2, {"accumulate_steps": 3, "schedule_mode": "F-then-B"}, {}, {"skip": True}),
    (
        "sgd",
        2,
        {"accumulate_steps": 2},
        {"recompute": True, "recompute_configs": {"checkpoints": ["fc_0.tmp_2"]}},
        {},
    ),
]


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What two workers found."""
    folder = tmp_path_factory.mktemp("pipelines")
    found = as_trainers(2, pipelines.everything, CASES, 40, str(folder / "saved"), folder=folder)
    assert all(isinstance(one, dict) for one in found), found
    return found


@pytest.mark.parametrize("number", range(len(CASES)))
def test_processes_are_as_one(number: int, job: list[dict[str, Any]]) -> None:
    optimizer, stages, _, _, network = CASES[number]
    losses, learned = alone(optimizer, stages, **network)
    found = [one["trained"][number] for one in job]
    np.testing.assert_allclose(found[1][0], losses, rtol=1e-5)
    for _, held in found:
        missing = learned.keys() - held["all"].keys()
        assert all(re.search("velocity|_acc_|moment", name) for name in missing)
        for name, value in held["all"].items():
            near = {"rtol": 1e-5, "atol": 1e-6, "err_msg": name}
            np.testing.assert_allclose(value, learned[name], **near)


def test_all_stages_end_with_the_data(job: list[dict[str, Any]]) -> None:
    """Of ten batches a step takes three: three steps each pass, and EOFException at both stages."""
    (none, all_none), (losses, both) = (one["read"] for one in job)
    assert all_none and both
    assert none == [None] * 6 and len(losses) == 6
    assert losses[5].item() < losses[0].item()


def test_saved_files_have_all_stages(job: list[dict[str, Any]]) -> None:
    before, after, names = job[1]["saved"]
    assert before == after and {"table_moment1_0", "fc_2.w_0_moment1_0", "fc_1.b_0"} < {*names}


# -- what is refused ------------------------------------------------------------------------------


def there_and_back() -> Any:
    with on(0):
        x = fluid.data("x", [None, 6], "float32")
        first = fluid.layers.fc(x, 4)
    with on(1):
        second = fluid.layers.fc(first, 4)
    with on(0):
        return fluid.layers.mean(fluid.layers.fc(second, 4))


def overwritten() -> Any:
    with on(0):
        first = fluid.layers.fc(fluid.data("x", [None, 6], "float32"), 4)
    with on(1):
        fluid.layers.assign(first, first)
        return fluid.layers.mean(first)


def nowhere() -> Any:
    return fluid.layers.mean(fluid.layers.fc(fluid.data("x", [None, 6], "float32"), 4))


def with_a_gap() -> Any:
    with on(2):
        return nowhere()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (there_and_back, "data can't return to a stage that was left"),
        (overwritten, "give its result a variable of its own"),
        (nowhere, "device_guard"),
        (with_a_gap, r"none is on \[0, 1\]"),
    ],
)
def test_what_is_no_pipeline(make: Any, said: str) -> None:
    fleet.init(is_collective=True)
    with pytest.raises(EnforceNotMet, match=said):
        Worker(0, 2, strategy(), make, OPTIMIZERS["sgd"])


def test_workers_are_a_multiple_of_stages() -> None:
    with pytest.raises(ValueError, match=r"3 stages.*workers, which is 4"):
        Worker(0, 4, strategy(), lambda: chain(3), OPTIMIZERS["sgd"])


def without_parameters_at_the_end() -> Any:
    with on(0):
        out = fluid.layers.fc(fluid.data("x", [None, 6], "float32"), 4)
    with on(1):
        return fluid.layers.mean(out)


def test_mixed_precision_needs_parameters_at_each_stage() -> None:
    with pytest.raises(ValueError, match="stage 1 has no parameters"):
        Worker(0, 2, strategy(amp=True), without_parameters_at_the_end, OPTIMIZERS["sgd"])


def test_unknown_schedules_are_refused() -> None:
    asked = strategy(pipeline_configs={"schedule_mode": "interleaved"})
    with pytest.raises(ValueError, match="1F1B or F-then-B"):
        Worker(0, 2, asked, lambda: chain(2), OPTIMIZERS["sgd"])
