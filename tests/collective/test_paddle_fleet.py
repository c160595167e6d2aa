"""`paddle.distributed.fleet` over two processes, and the functions of `paddle.distributed`."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refluid.paddle import distributed
from refluid.paddle.distributed import fleet
from tests.collective import distributed_calls, fleets
from tests.collective.fleets import CASES, strategy_of
from tests.collective.jobs import as_trainers
from tests.collective.networks import built


def is_own(case: str, name: str) -> bool:
    """Whether each worker has another value: what is merged so far, velocities of LocalSGD."""
    return "@SUM" in name or (case.startswith("local") and "velocity" in name)


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What two workers found."""
    folder = tmp_path_factory.mktemp("fleets")
    found = as_trainers(2, fleets.everything, list(CASES), folder=folder)
    assert all(isinstance(one, dict) for one in found), found
    return found


@pytest.mark.parametrize("case", CASES)
def test_workers_are_as_one(case: str, jobs: list[dict[str, Any]]) -> None:
    """Two workers with a share each train as one with all of it, within 1e-5.

    Gradients of 16 bits have eleven bits of precision, so these come within a hundredth.
    """
    number = list(CASES).index(case)
    ((losses, learned, _),) = fleets.train_all([case])
    found = [one["cases"][number] for one in jobs]
    rtol, atol = (1e-2, 1e-3) if case.startswith("16 bits") else (1e-5, 1e-6)
    np.testing.assert_allclose(np.mean([one for one, _, _ in found], 0), losses, rtol=rtol)
    for _, own, saved in found:
        assert saved.keys() >= learned.keys() | own.keys()
        for name, value in learned.items():
            if not is_own(case, name):
                near = partial(np.testing.assert_allclose, rtol=rtol, atol=atol, err_msg=name)
                near(saved[name], value)
                near(own.get(name, value), value)


def kinds(values: Iterable[str]) -> dict[str, set[str]]:
    """Optimizer state, and parameters."""
    words = ("velocity", "moment", "_pow_acc")
    state = {name for name in values if any(word in name for word in words)}
    rest = {name for name in values if "@SUM" not in name} - state
    return {"state": state, "parameters": {name for name in rest if ".w_" in name}}


@pytest.mark.parametrize("case", [case for case in CASES if case.startswith("stage")])
def test_each_worker_has_its_share(case: str, jobs: list[dict[str, Any]]) -> None:
    number = list(CASES).index(case)
    first, second = (kinds(one["cases"][number][1]) for one in jobs)
    assert first["state"] and second["state"] and not first["state"] & second["state"]
    if case.startswith("stage 3"):
        assert not first["parameters"] & second["parameters"]
    else:
        assert first["parameters"] == second["parameters"]


@pytest.mark.slow
def test_groups_of_workers_own_shares(tmp_path: Path) -> None:
    trained = as_trainers(4, fleets.train_in_groups, folder=tmp_path)
    assert all(isinstance(one, list) for one in trained), trained
    fleet.init(is_collective=True)
    losses, learned, _ = fleets.train(fleets.ADAM, {})
    for number in range(len(fleets.HYBRID)):
        found = [one[number] for one in trained]
        np.testing.assert_allclose(np.mean([one for one, _, _ in found], 0), losses, rtol=1e-5)
        for _, own, saved in found:
            for name, value in learned.items():
                np.testing.assert_allclose(saved[name], value, rtol=1e-5, atol=1e-6)
                np.testing.assert_allclose(own.get(name, value), value, rtol=1e-5, atol=1e-6)
        held = [kinds(own)["state"] for _, own, _ in found]
        assert held[0] == held[2] and held[1] == held[3] and not held[0] & held[1]


def test_workers_know_each_other(jobs: list[dict[str, Any]]) -> None:
    first, second = (one["talk"] for one in jobs)
    assert first["first"] and not second["first"]
    assert first["who"] == (0, 2, 1, True, False) and second["who"] == (1, 2, 1, True, False)
    assert first["ranks"] == (0, 0, 2, 2) and second["ranks"] == (1, 1, 2, 2)
    assert first["endpoints"] == second["endpoints"] and first["endpoints"].count(",") == 1
    for one in (first, second):
        assert one["sum"] == [3.0, 5.0] and one["max"] == [1] and one["gathered"] == [0, 10]
    assert first["files"] + second["files"] == ["a", "b", "c"]


def test_processes_exchange_values(jobs: list[dict[str, Any]]) -> None:
    first, second = (one["exchange"] for one in jobs)
    assert first["env"] == (0, 2) and second["env"] == (1, 2)
    for one in (first, second):
        assert one["sum"] == [3.0, 6.0] and one["prod"] == [2.0] and one["sent"] == [1.0]
        assert one["gathered"] == [[0.0], [1.0]]
        assert one["program"] == [[[3.0, 3.0]], [[1.0, 1.0]], [[2.0, 2.0]]]
    assert first["reduced"] == [1.0] and second["reduced"] == [3.0]
    assert first["scattered"] == [5.0] and second["scattered"] == [6.0]
    assert first["swapped"] == [[0.0], [10.0]] and second["swapped"] == [[1.0], [11.0]]
    assert second["received"] == [7.0]
    assert first["group"] == (-1, 1, False, [1.0]) and second["group"] == (0, 1, True, [1.0])
    assert first["all"] == second["all"] == ["the same"] * 3


def test_dygraph_averages_gradients(jobs: list[dict[str, Any]]) -> None:
    trained = [one["at once"] for one in jobs]
    losses, learned = fleets.train_at_once()
    np.testing.assert_allclose(np.mean([one for one, _ in trained], 0), losses, rtol=1e-5)
    for _, own in trained:
        for name, value in learned.items():
            np.testing.assert_allclose(own[name], value, rtol=1e-5, atol=1e-6)


def test_what_dgc_chose_is_what_is_sent(jobs: list[dict[str, Any]]) -> None:
    """Each worker keeps what waits; parameters are updated by the mean of what each chose."""
    grads = [fleets.slopes(rank) for rank in range(2)]
    param = jobs[0]["compressed"][0][0] + 0.05 * np.mean([one[0] for one in grads], 0)
    velocity = np.zeros(fleets.WIDE)
    u, v = np.zeros((2, fleets.WIDE)), np.zeros((2, fleets.WIDE))
    for step in range(6):
        mine = np.stack([one[step] for one in grads])
        if step < 2:
            velocity = 0.9 * velocity + mine.mean(0)
            param = param - 0.05 * velocity
        else:
            u = 0.9 * u + mine
            v = v + u
            least = np.sort(np.abs(v), 1)[:, -fleets.WIDE // 100]
            chosen = np.abs(v) >= least[:, None]
            param = param - 0.05 * (v * chosen).mean(0)
            u, v = u * ~chosen, v * ~chosen
        for one in jobs:
            np.testing.assert_allclose(one["compressed"][0][step], param, rtol=1e-4, atol=1e-5)
    for one in jobs:
        sent = one["compressed"][1]
        assert all(bytes_sent > 4 * fleets.WIDE for bytes_sent in sent[:2])
        # An index of 8 bytes and a value of 4 for each of 200 elements, and what they begin with.
        assert all(12 * 200 <= bytes_sent < 12 * 200 + 1000 for bytes_sent in sent[2:])


def test_means_are_taken_as_loss_and_rate_say(jobs: list[dict[str, Any]]) -> None:
    """k = ceil(sqrt(loss / loss_0) * init_k), the learning rate being constant."""
    (due, first), (other, second) = (one["adaptive"] for one in jobs)
    assert due == other and due[:2] == [4, 4]
    losses = np.mean([first, second], 0)
    last, every = 1, 4
    for step in range(2, fleets.STEPS):
        if step - last >= every:
            last, every = step, int(np.clip(np.ceil(4 * np.sqrt(losses[step] / losses[1])), 1, 16))
        assert due[step] == every, step
    assert len(set(due)) > 1


@pytest.mark.slow
def test_spawn(tmp_path: Path) -> None:
    distributed.spawn(distributed_calls.write_rank, (str(tmp_path),), nprocs=2)
    assert (tmp_path / "rank-0").read_text() == "2 [3.0]" == (tmp_path / "rank-1").read_text()


def test_one_that_fails_after_spawn(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"process 1 of 2 failed(.|\n)*no place in"):
        distributed.spawn(distributed_calls.fail_second, (str(tmp_path),), nprocs=2)
    assert (tmp_path / "rank-0").read_text() == "2 [3.0]" == (tmp_path / "rank-1").read_text()
    with pytest.raises(TypeError, match="no option gpu"):
        distributed.spawn(distributed_calls.fail_second, gpu="0")


def test_what_is_wrong_is_said(caplog: pytest.LogCaptureFixture) -> None:
    fleet.init(is_collective=True)
    with pytest.raises(ValueError, match="is_collective"):
        fleet.init(is_collective="yes")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="role_maker"):
        fleet.init("worker")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="strategy must be"):
        fleet.distributed_optimizer(fleets.ADAM(), object())
    with pytest.raises(TypeError, match="optimizer must be"):
        fleet.distributed_optimizer("adam")
    for fields, match in (
        ({"sharding": True, "sharding_configs": {"pp_degree": 2}}, "pp_degree"),
        ({"a_sync": True}, "parameter servers"),
    ):
        optimizer = fleet.distributed_optimizer(fleets.ADAM(), strategy_of(fields))
        with pytest.raises(NotImplementedError, match=match):
            built(lambda made=optimizer: made)
    for fields, match in (
        ({"sharding": True, "sharding_configs": {"mp_degree": 2}}, "mp_degree 2 must be"),
        ({"tensor_parallel": True, "dgc": True}, "tensor_parallel doesn't go with dgc"),
        ({"dgc": True, "lars": True}, "one of lars and dgc"),
        ({"localsgd": True, "gradient_merge": True}, "gradient_merge doesn't go with localsgd"),
        ({"gradient_scale_configs": {"scale_strategy": "mean"}}, "scale_strategy"),
    ):
        optimizer = fleet.distributed_optimizer(fleets.MOMENTUM(), strategy_of(fields))
        with pytest.raises(ValueError, match=match):
            built(lambda made=optimizer: made)
    fields = {"lamb": True, "elastic": True, "lars_configs": {"epsilon": 1e-9}}
    optimizer = fleet.distributed_optimizer(fleets.MOMENTUM(), strategy_of(fields))
    built(lambda: optimizer)
    for text in ("lamb has no effect", "elastic has no effect", "lars is off"):
        assert text in caplog.text
