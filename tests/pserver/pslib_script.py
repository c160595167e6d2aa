"""A script as written for pslib, of two servers and two workers: `pslib_script.py FOLDER`."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch

import refluid.fluid as fluid
from refluid.fluid.incubate.fleet.base.role_maker import MPISymetricRoleMaker
from refluid.fluid.incubate.fleet.parameter_server.pslib import fleet
from tests.pserver.tables import network


def train(folder: Path, loss: object) -> None:
    executor = fluid.Executor(fluid.CPUPlace())
    executor.run(fluid.default_startup_program())
    fleet.init_worker()
    total = np.zeros(1, "int64")
    fleet._role_maker._node_type_comm.Allreduce(np.array([fleet.worker_index() + 1]), total)
    gathered = fleet._role_maker._all_gather(fleet.worker_index() + 1)
    main = fluid.default_main_program()
    for step in range(5):
        ids = np.array([[step], [500 + fleet.worker_index()]])
        executor.run(main, feed={"ids": ids, "x": np.ones((2, 3), "float32")})
    fleet.barrier_worker()
    client = main._servers.link.client
    fleet.save_model(str(folder / "model"))
    fleet.save_model(str(folder / "xbox"), mode=2)
    fleet.save_one_table(0, str(folder / "one"), prefix="part")
    ids = torch.tensor([0, 3, 500, 501])
    before = client.rows("emb", ids, read_only=True)
    fleet.save_inference_model(executor, str(folder / "serving"), ["ids", "x"], [loss])
    fleet.print_table_stat(0)
    fleet.clear_model()
    cleared = sum(one["rows"]["emb"] for one in client.state())
    fleet.barrier_worker()
    fleet.load_model(str(folder / "model"))
    same = torch.equal(client.rows("emb", ids, read_only=True), before) and bool(before.any())
    told = f"gathered {total[0]} of {gathered}, rows back {same}, cleared {cleared}"
    (folder / f"done-{fleet.worker_index()}").write_text(told)
    fleet.stop_worker()


def main() -> None:
    fleet.init(MPISymetricRoleMaker())
    main, startup, loss = network(train=False)
    with fluid.program_guard(main, startup):
        adam = fluid.optimizer.Adam(0.1, lazy_mode=True)
        fleet.distributed_optimizer(adam, strategy={"use_cvm": False}).minimize([loss])
        if fleet.is_server():
            fleet.run_server()
            fleet.stop_worker()
        else:
            train(Path(sys.argv[1]), loss)
    fleet._role_maker._barrier_all()


if __name__ == "__main__":
    main()
