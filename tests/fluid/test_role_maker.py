"""What a process is in a fleet: as the environment says, or as told."""

from __future__ import annotations

import numpy as np
import pytest

from refluid.core.errors import EnforceNotMet
from refluid.fluid.incubate.fleet.base.role_maker import (
    PaddleCloudRoleMaker,
    Role,
    UserDefinedCollectiveRoleMaker,
    UserDefinedRoleMaker,
)

SERVERS = "10.0.0.1:80,10.0.0.2:80"


def _set(monkeypatch: pytest.MonkeyPatch, **values: str) -> None:
    for name, value in values.items():
        monkeypatch.setenv(name, value)


def test_a_trainer_of_a_collective(monkeypatch: pytest.MonkeyPatch) -> None:
    _set(monkeypatch, PADDLE_TRAINER_ID="0", PADDLE_TRAINER_ENDPOINTS="127.0.0.1:6170")
    role = PaddleCloudRoleMaker(is_collective=True)
    assert role.is_first_worker()
    assert (role.worker_num(), role.worker_index(), role.is_server()) == (1, 0, False)
    assert role.get_trainer_endpoints() == ["127.0.0.1:6170"]
    assert role.all_gather(3) == [3]
    total = np.zeros(2)
    role.all_reduce_worker(np.ones(2), total)
    assert total.tolist() == [1, 1]
    role.barrier_worker()


def test_trainers_and_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    _set(monkeypatch, PADDLE_PSERVERS_IP_PORT_LIST=SERVERS, PADDLE_TRAINERS_NUM="3")
    _set(monkeypatch, TRAINING_ROLE="TRAINER", PADDLE_TRAINER_ID="2")
    trainer = PaddleCloudRoleMaker()
    assert (trainer.is_worker(), trainer.worker_index(), trainer.worker_num()) == (True, 2, 3)
    with pytest.raises(EnforceNotMet, match="trainer 2 of 3 doesn't know where the others are"):
        trainer.barrier_worker()
    _set(monkeypatch, TRAINING_ROLE="PSERVER", POD_IP="10.0.0.2", PADDLE_PORT="80")
    server = PaddleCloudRoleMaker()
    assert (server.is_server(), server.server_index()) == (True, 1)
    assert server.get_pserver_endpoints() == SERVERS.split(",")
    monkeypatch.setenv("TRAINING_ROLE", "OTHER")
    with pytest.raises(ValueError, match="PSERVER or TRAINER"):
        PaddleCloudRoleMaker().generate_role()
    monkeypatch.delenv("PADDLE_PSERVERS_IP_PORT_LIST")
    with pytest.raises(ValueError, match="PADDLE_PSERVERS_IP_PORT_LIST"):
        PaddleCloudRoleMaker().is_worker()


def test_roles_as_told() -> None:
    role = UserDefinedRoleMaker(1, Role.SERVER, 2, SERVERS.split(","))
    assert (role.is_server(), role.server_index(), role.worker_num()) == (True, 1, 2)
    assert UserDefinedCollectiveRoleMaker(0, ["a:1"]).is_first_worker()
    for wrong in ((5, Role.SERVER, 2), (-1, Role.WORKER, 2), (0, Role.WORKER, 0)):
        with pytest.raises(ValueError, match="should be"):
            UserDefinedRoleMaker(*wrong, SERVERS.split(","))
    with pytest.raises(ValueError, match="each process once"):
        UserDefinedCollectiveRoleMaker(0, ["a:1", "a:1"])
