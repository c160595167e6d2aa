"""One trainer of `benchmarks/collective.py`: runs every measurement, the first one prints JSON."""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import numpy as np
import torch

from refluid import fluid
from refluid.collective.job import job_of_environment, joined
from refluid.comm.link import PeerLink, Purpose
from refluid.comm.topology import Hierarchical
from refluid.comm.world import world
from refluid.core import flags

MEGA = 1 << 20


class Counted:
    """Bytes of tensors that this trainer has begun to send to members on other hosts."""

    def __init__(self) -> None:
        self.total = 0
        self.apart: dict[int, set[int]] = {}
        usual = PeerLink.sending

        def sending(link: PeerLink, tensor: Any, to: int, purpose: Purpose) -> Any:
            if to in self.apart.get(id(link), ()):
                self.total += tensor.nbytes
            return usual(link, tensor, to, purpose)

        PeerLink.sending = sending  # type: ignore[method-assign]

    def watch(self, comm: Any, hosts: list[int]) -> None:
        """hosts: of the communicator's members, by rank."""
        here = hosts[comm.rank]
        self.apart[id(comm.link)] = {one for one, host in enumerate(hosts) if host != here}


def timed(does: Callable[[], Any], repeats: int) -> float:
    """Median seconds, each begun together."""
    found = []
    for _ in range(repeats):
        world().barrier()
        begin = time.perf_counter()
        does()
        world().barrier()
        found.append(time.perf_counter() - begin)
    return statistics.median(found)


def exchanges(asked: dict[str, Any], counted: Counted) -> dict[str, Any]:
    """Seconds and bytes for gradients of so many megabytes, in buckets, direct and by hosts."""
    plain, hosts = world().split(0), asked["hosts"]
    direct: Any = plain
    by_host: Any = Hierarchical(world().split(0), hosts[plain.rank])
    counted.watch(direct, hosts)
    # Hosts have equally many trainers: each carries a part to its counterparts.
    counted.watch(by_host._across, sorted(set(hosts)))
    found: dict[str, Any] = {}
    for name, comm in (("direct", direct), ("by host", by_host)):
        for size in asked["sizes"]:
            buckets = list(torch.zeros(size * MEGA // 4).split(asked["bucket"] * MEGA // 4))

            def run(comm: Any = comm, buckets: Any = buckets) -> None:
                for work in [comm.all_reduce([one], wait=False) for one in buckets]:
                    work.wait()

            run()
            before = counted.total
            seconds = timed(run, asked["repeats"])
            found[f"{name} {size}"] = {
                "seconds": seconds,
                "bytes": (counted.total - before) // asked["repeats"],
            }
    return found


def mlp(layers: int, width: int, naps: float = 0.0) -> tuple[Any, Any, Any]:
    """Programs and the loss; naps: seconds that each layer's backward pass sleeps."""
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        hidden = fluid.data("x", [None, width], "float32")
        hidden.stop_gradient = False
        for number in range(layers):
            hidden = fluid.layers.fc(hidden, width, act="relu", bias_attr=False)
            if naps:
                hidden = _napping(main, hidden, number, naps)
        loss = fluid.layers.reduce_mean(hidden)
        fluid.optimizer.SGD(0.001).minimize(loss)
    return main, startup, loss


def _napping(main: Any, hidden: Any, number: int, naps: float) -> Any:
    out = main.current_block().create_var(
        name=f"nap{number}", dtype="float32", shape=list(hidden.shape)
    )

    def backward(_x: Any, _out: Any, gradient: Any) -> Any:
        time.sleep(naps)
        return np.array(gradient)

    return fluid.layers.py_func(lambda x: np.array(x), hidden, out, backward)


# What `steps` is asked for by each knob, besides what it sets as a strategy.
KNOBS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "none": ({}, {}),
    "`fuse_all_reduce_ops=False`": ({"fuse_all_reduce_ops": False}, {}),
    "`FLAGS_fuse_parameter_memory_size=1`": ({}, {"FLAGS_fuse_parameter_memory_size": 1.0}),
    "`FLAGS_fuse_parameter_memory_size=25`": ({}, {"FLAGS_fuse_parameter_memory_size": 25.0}),
    "`FLAGS_refluid_overlap_exchange=0`": ({}, {"FLAGS_refluid_overlap_exchange": False}),
    "`nccl_comm_num=2`": ({"nccl_comm_num": 2}, {}),
    "`use_hierarchical_allreduce`": ({"use_hierarchical_allreduce": True}, {}),
    "the same, `nccl_comm_num=2`": ({"use_hierarchical_allreduce": True, "nccl_comm_num": 2}, {}),
    "`fp16_allreduce`": ({"exchange_type": "float16"}, {}),
    "the same, `use_hierarchical_allreduce`": (
        {"exchange_type": "float16", "use_hierarchical_allreduce": True},
        {},
    ),
}


def by_knob(asked: dict[str, Any]) -> dict[str, float]:
    """Seconds of a step of the MLP for each of `KNOBS`, the best of three rounds in turn."""
    found: dict[str, list[float]] = {}
    for _ in range(3):
        for name, (options, settings) in KNOBS.items():
            with flags.override({"FLAGS_fuse_parameter_memory_size": 4.0, **settings}):
                found.setdefault(name, []).append(steps(asked, 0.0, options=options))
    return {name: min(times) for name, times in found.items()}


HIERARCHICAL = {"use_hierarchical_allreduce": True, "nccl_comm_num": 2}


def steps(
    asked: dict[str, Any],
    naps: float,
    alone: bool = False,
    options: Mapping[str, Any] = HIERARCHICAL,
) -> float:
    """Seconds of a training step of refluid. options: of its strategy."""
    main, startup, loss = mlp(asked["layers"], asked["width"], naps)
    strategy = fluid.BuildStrategy()
    strategy.num_trainers, strategy.trainer_id = world().size, world().rank
    for name, value in options.items():
        if name == "exchange_type":  # fleets of Paddle 2 have it in their strategy
            job = job_of_environment()
            assert job is not None
            main._trainers, main._exchange_options = (job.rank, job.endpoints), {name: value}
        else:
            setattr(strategy, name, value)
    program = fluid.CompiledProgram(main).with_data_parallel(
        loss.name, strategy, places=[fluid.CPUPlace()]
    )
    executor, fed = fluid.Executor(), {"x": np.ones((asked["rows"], asked["width"]), "float32")}
    with fluid.scope_guard(fluid.Scope()):
        executor.run(startup)
        ran = main if alone else program

        def step() -> None:
            executor.run(ran, feed=fed, fetch_list=[loss])

        for _ in range(5):
            step()
        return timed(step, asked["steps"])


def with_ddp(asked: dict[str, Any], caps: list[float]) -> dict[str, float]:
    """Seconds of a step of DistributedDataParallel, by bucket_cap_mb."""
    store = torch.distributed.PrefixStore("ddp", world()._inner.store)  # type: ignore[attr-defined]
    torch.distributed.init_process_group(
        "gloo",
        store=store,
        rank=world().rank,
        world_size=world().size,
        timeout=timedelta(seconds=300),
    )
    found = {}
    width = asked["width"]
    for cap in caps:
        parts: list[Any] = []
        for _ in range(asked["layers"]):
            parts += [torch.nn.Linear(width, width, bias=False), torch.nn.ReLU()]
        model = torch.nn.parallel.DistributedDataParallel(
            torch.nn.Sequential(*parts), bucket_cap_mb=cap
        )
        optimizer, x = torch.optim.SGD(model.parameters(), 0.001), torch.ones(asked["rows"], width)

        def step(model: Any = model, optimizer: Any = optimizer, x: Any = x) -> None:
            optimizer.zero_grad()
            model(x).mean().backward()
            optimizer.step()

        for _ in range(5):
            step()
        found[f"{cap:g}"] = timed(step, asked["steps"])
    torch.distributed.destroy_process_group()
    return found


def main() -> None:
    """Measures what is asked for as JSON."""
    asked = json.loads(sys.argv[1])
    torch.set_num_threads(1)
    counted = Counted()
    job = job_of_environment()
    assert job is not None
    joined(job)
    if asked.get("knobs"):
        _end(job.rank, {"knobs": by_knob({**asked, "steps": asked["steps"] // 2})})
    found: dict[str, Any] = {"exchanges": exchanges(asked, counted)}
    fluid.set_flags({"FLAGS_fuse_parameter_memory_size": float(asked["fuse"])})
    found["computes"] = steps(asked, 0.0, alone=True)
    found["refluid"] = steps(asked, 0.0)
    found["ddp"] = with_ddp(asked, asked["caps"])
    naps = asked["naps"]
    found["alone"] = steps(asked, naps, alone=True)
    found["overlapped"] = steps(asked, naps)
    fluid.set_flags({"FLAGS_refluid_overlap_exchange": False})
    found["one after the other"] = steps(asked, naps)
    _end(job.rank, found)


def _end(rank: int, found: dict[str, Any]) -> None:
    if rank == 0:
        print(json.dumps(found), flush=True)
    world().barrier()
    os._exit(0)


if __name__ == "__main__":
    main()
