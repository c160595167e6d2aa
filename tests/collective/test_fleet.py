"""Collective fleets of Fluid 1.x: every strategy, over real processes, against one process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import refluid.fluid as fluid
from refluid.core.errors import EnforceNotMet
from refluid.fluid.incubate.fleet.base import role_maker
from refluid.fluid.incubate.fleet.collective import (
    Collective,
    DistributedStrategy,
    TrainStatus,
)
from tests.choices import often
from tests.collective.jobs import as_trainers
from tests.collective.networks import batches, built, parameters, share
from tests.collective.training import FLEETS, OPTIMIZERS, train, train_by_fleet


def alone(steps: int) -> dict[str, Any]:
    """Local SGD of two trainers computed in one process: each on its own, then their mean."""
    main, startup, loss = built(OPTIMIZERS["momentum"])
    executor = fluid.Executor()
    scopes = [fluid.Scope(), fluid.Scope()]
    for scope in scopes:
        with fluid.scope_guard(scope):
            executor.run(startup)
    for number, batch in enumerate(batches(), 1):
        for rank, scope in enumerate(scopes):
            with fluid.scope_guard(scope):
                executor.run(main, feed=share(batch, rank, 2), fetch_list=[loss])
        if number % steps == 0 or number <= 1:
            for param in main.all_parameters():
                cells = [scope.find_var(param.name).get_tensor() for scope in scopes]
                mean = np.mean([np.array(cell) for cell in cells], 0)
                for cell in cells:
                    cell.set(mean, fluid.CPUPlace())
    with fluid.scope_guard(scopes[0]):
        return parameters(main)


SOME = ["nccl2", "reduce", "collective", "local sgd of 3"]


@pytest.mark.parametrize("fleets", often([SOME, FLEETS], [SOME]), ids=["some", "all"])
def test_every_kind_of_fleet(fleets: list[str], tmp_path: Path) -> None:
    trained = as_trainers(2, train_by_fleet, fleets, folder=tmp_path)
    for own in trained:
        assert isinstance(own, list), own
    losses, learned = train("momentum", {}, 1, False)
    for number, kind in enumerate(fleets):
        found = [own[number] for own in trained]
        wanted = learned
        if kind.startswith("local sgd"):
            wanted = alone(3 if kind.endswith("3") else 1)
        else:
            mean = np.mean([one[0] for one in found], 0)
            np.testing.assert_allclose(mean, losses, rtol=1e-5, err_msg=kind)
        for _, own in found:
            for name, value in wanted.items():
                if "velocity" not in name or not kind.startswith("local sgd"):
                    np.testing.assert_allclose(own[name], value, rtol=2e-5, atol=1e-6, err_msg=kind)


def fleet_of_one() -> Collective:
    fleet = Collective()
    fleet.init(role_maker.UserDefinedCollectiveRoleMaker(0, ["127.0.0.1:6170"]))
    return fleet


def test_a_fleet_of_one_trains_and_saves(tmp_path: Path) -> None:
    fleet = fleet_of_one()
    main, startup, loss = built(lambda: OPTIMIZERS["adam"]())
    executor = fluid.Executor()
    fleet._origin_program = main
    with fluid.scope_guard(fluid.Scope()):
        executor.run(startup)
        assert fleet.load_check_point(executor, str(tmp_path), 0) is None
        saved = []
        for epoch, batch in enumerate(batches(3)):
            executor.run(main, feed=batch, fetch_list=[loss])
            fleet.save_check_point(executor, str(tmp_path), TrainStatus(epoch))
            saved.append(parameters(main))
        broken = tmp_path / "__paddle_fleet_checkpoint__.3.begun"
        broken.mkdir()  # a save that was ended in between
        executor.run(startup)
        status = fleet.load_check_point(executor, str(tmp_path), 0)
        assert status == TrainStatus(2) and status.next() == 3
        for name, value in parameters(main).items():
            np.testing.assert_array_equal(value, saved[-1][name])
        fleet.save_check_point(executor, str(tmp_path), TrainStatus(3), remain_all_checkpoint=False)
        assert [one.name for one in tmp_path.iterdir()] == ["__paddle_fleet_checkpoint__.3"]
    with pytest.raises(EnforceNotMet, match="no checkpoint"):
        fleet.load_check_point(executor, str(tmp_path / "none"), 0, ignore_empty=False)
    with pytest.raises(TypeError, match="saves a Program"):
        fleet.save_persistables(executor, str(tmp_path), fluid.CompiledProgram(main))


def test_files_are_parted_among_workers() -> None:
    files = [f"part-{number}" for number in range(7)]
    parts = []
    for rank in range(3):
        fleet = Collective()
        endpoints = [f"127.0.0.1:{6170 + one}" for one in range(3)]
        fleet._role_maker = role_maker.UserDefinedCollectiveRoleMaker(rank, endpoints)
        parts.append(fleet.split_files(files))
    assert [len(one) for one in parts] == [3, 2, 2] and [
        one for part in parts for one in part
    ] == files
    with pytest.raises(TypeError, match="files should be a list"):
        fleet.split_files("part-0")  # type: ignore[arg-type]


def test_what_is_wrong_is_said() -> None:
    fleet = Collective()
    with pytest.raises(ValueError, match=r"fleet\.init"):
        fleet.worker_num()
    with pytest.raises(TypeError, match="role_maker must be"):
        fleet.init("worker")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="optimizer must be"):
        fleet.distributed_optimizer("sgd")
    with pytest.raises(EnforceNotMet, match="strategy must be DistributedStrategy"):
        fleet.distributed_optimizer(OPTIMIZERS["adam"](), fluid.BuildStrategy())
    for name in ("init_worker", "init_server", "run_server", "stop_worker"):
        with pytest.raises(NotImplementedError, match="collective mode"):
            getattr(fleet, name)()
    strategy = DistributedStrategy()
    with pytest.raises(TypeError, match="use_amp must be bool"):
        strategy.use_amp = "yes"
    with pytest.raises(AttributeError, match="no option"):
        strategy.use_local_sdg = True
    strategy.fuse_all_reduce_ops = False
    assert not strategy.fuse_all_reduce_ops and strategy.mode == "nccl2"
