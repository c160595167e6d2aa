"""What processes of a test call of `paddle.distributed`."""

from __future__ import annotations

from typing import Any

import numpy as np

import refluid.fluid as fluid
from tests.collective.exchanged import exchange_all


def exchange() -> dict[str, Any]:
    """What the functions of `paddle.distributed` give this process, at once."""
    from refluid.paddle import distributed as dist

    dist.init_parallel_env()
    rank, size = dist.get_rank(), dist.get_world_size()
    found: dict[str, Any] = {"env": (dist.ParallelEnv().rank, dist.ParallelEnv().world_size)}
    with fluid.dygraph.guard():

        def own(*values: float) -> Any:
            return fluid.dygraph.to_variable(np.array(values, "float32"))

        value = own(1.0 + rank, 3.0)
        work = dist.all_reduce(value, sync_op=False)
        work.wait()
        found["sum"] = value.numpy().tolist()
        value = own(1.0 + rank)
        dist.all_reduce(value, op=dist.ReduceOp.PROD)
        found["prod"] = value.numpy().tolist()
        value = own(float(rank))
        dist.broadcast(value, 1)
        found["sent"] = value.numpy().tolist()
        value = own(1.0 + rank)
        dist.reduce(value, 1)
        found["reduced"] = value.numpy().tolist()
        gathered: list[Any] = []
        dist.all_gather(gathered, own(float(rank)))
        found["gathered"] = [one.numpy().tolist() for one in gathered]
        value = own(0.0)
        dist.scatter(value, [own(5.0), own(6.0)] if rank == 0 else None, src=0)
        found["scattered"] = value.numpy().tolist()
        swapped: list[Any] = []
        dist.alltoall([own(10.0 * rank), own(10.0 * rank + 1)], swapped)
        found["swapped"] = [one.numpy().tolist() for one in swapped]
        if rank == 0:
            dist.send(own(7.0), 1)
        else:
            value = own(0.0)
            dist.recv(value, 0)
            found["received"] = value.numpy().tolist()
        last = dist.new_group([1])
        value = own(1.0)
        dist.all_reduce(value, group=last)
        found["group"] = (last.rank, last.nranks, last.is_member(), value.numpy().tolist())
    dist.barrier()
    found["program"] = exchange_in_program(rank, size)
    found["all"] = [exchange_all(rank, size, seed) for seed in range(3)]
    return found


def exchange_in_program(rank: int, size: int) -> list[Any]:
    """What operators of `paddle.distributed` give this process."""
    from refluid.paddle import distributed as dist

    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        x = fluid.data("x", [1, 2], "float32")
        total = fluid.layers.assign(x)
        dist.all_reduce(total)
        parts: list[Any] = []
        dist.all_gather(parts, x)
    assert size == len(parts)
    fed = {"x": np.full((1, 2), rank + 1, "float32")}
    results = fluid.Executor().run(main, feed=fed, fetch_list=[total, *parts])
    return [one.tolist() for one in results]


def write_rank(folder: str) -> None:
    """What `spawn` calls: leaves a file that says who this is."""
    from refluid.paddle import distributed as dist

    dist.init_parallel_env()
    value = [0.0]
    with fluid.dygraph.guard():
        total = fluid.dygraph.to_variable(np.array([1.0 + dist.get_rank()], "float32"))
        dist.all_reduce(total)
        value = total.numpy().tolist()
    with open(f"{folder}/rank-{dist.get_rank()}", "w", encoding="utf-8") as file:
        file.write(f"{dist.get_world_size()} {value}")


def fail_second(folder: str) -> None:
    """What `spawn` calls: the second process fails after the same."""
    from refluid.paddle import distributed as dist

    write_rank(folder)
    if dist.get_rank() == 1:
        raise ValueError(f"no place in {folder}")
