"""Which exchanges go by NCCL, and which stream waits for what; NCCL itself where there is a GPU."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from refluid.comm import Communicator, by_nccl
from refluid.comm.by_nccl import ByNccl, GpuLane, of_their_own
from refluid.comm.processes import Processes, meet
from refluid.core import flags
from refluid.core.errors import EnforceNotMet
from refluid.engine.exchanging import by_strategy
from refluid.engine.strategy import Strategy
from tests.comm.groups import as_processes, free_address

CPU = torch.device("cpu")


class Streams:
    """In place of `torch.cuda`: notes what each stream does, in order."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.events = 0
        self.entered = ["caller"]
        outer = self

        class Stream:
            def __init__(self, _device: Any = None, name: str = "lane") -> None:
                self.name = name

            def wait_event(self, event: Any) -> None:
                outer.notes.append(f"{self.name} waits for {event.what}")

        class Event:
            def record(self, stream: Stream) -> None:
                outer.events += 1
                self.what = f"{stream.name} {outer.events}"
                outer.notes.append(f"mark {self.what}")

        self.Stream, self.Event = Stream, Event

    def current_stream(self, _device: Any) -> Any:
        return self.Stream(name="caller")

    @contextmanager
    def stream(self, stream: Any) -> Any:
        self.entered.append(stream.name)
        yield
        self.entered.pop()


class Group:
    """In place of NCCL: sums by another group of the same members."""

    def __init__(self, comm: Communicator, streams: Streams) -> None:
        self.comm, self.streams = comm, streams

    def allreduce(self, tensors: list[Tensor], options: Any) -> Any:
        (one,) = tensors
        self.streams.notes.append(f"{self.streams.entered[-1]} reduces {one.numel()}")
        kinds = {torch.distributed.ReduceOp.SUM: "sum", torch.distributed.ReduceOp.MAX: "max"}
        reduction = next(name for kind, name in kinds.items() if options.reduceOp == kind)
        return self.comm.all_reduce([one], reduction)


def on_gpus(comm: Communicator) -> tuple[ByNccl, Streams]:
    """Members whose tensors pass for a GPU's."""
    assert isinstance(comm, Processes)
    apart = comm.split(0)
    assert apart is not None
    streams = Streams()
    return ByNccl(comm, GpuLane(Group(apart, streams), CPU, streams)), streams


@pytest.fixture
def any_tensor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_nccl, "_fits", lambda _one: True)


@pytest.mark.usefixtures("any_tensor")
def test_streams_wait_for_each_other_and_threads_for_neither() -> None:
    def work(comm: Communicator) -> list[str]:
        members, streams = on_gpus(comm)
        two, one = torch.ones(7).split([3, 4]), torch.full((5,), float(comm.rank))
        works = [members.all_reduce(list(two), wait=False)]
        works += [members.all_reduce([one], "max", wait=False)]
        for begun in works:
            begun.wait()
        assert two[0].tolist() == [2.0] * 3 and two[1].tolist() == [2.0] * 4
        assert one.tolist() == [1.0] * 5
        return streams.notes

    for notes in as_processes(2, work):
        assert isinstance(notes, list), notes
        ready = [one.removeprefix("mark ") for one in notes if one.startswith("mark caller")]
        done = [one.removeprefix("mark ") for one in notes if one.startswith("mark lane")]
        lane = [one for one in notes if one.startswith(("lane", "mark lane"))]
        # What lies in one memory is exchanged as one.
        assert lane == [
            *(f"lane waits for {ready[0]}", "lane reduces 7", f"mark {done[0]}"),
            *(f"lane waits for {ready[1]}", "lane reduces 5", f"mark {done[1]}"),
        ]
        caller = [one for one in notes if one.startswith("caller")]
        assert caller == [f"caller waits for {one}" for one in done]


@pytest.mark.usefixtures("any_tensor")
def test_one_that_is_waited_for_is_over_for_the_callers_stream() -> None:
    def work(comm: Communicator) -> list[str]:
        members, streams = on_gpus(comm)
        members.all_reduce([torch.ones(2)])
        return streams.notes

    for notes in as_processes(2, work):
        assert notes == [
            *("mark caller 1", "lane waits for caller 1", "lane reduces 2", "mark lane 2"),
            "caller waits for lane 2",
        ]


@pytest.mark.usefixtures("any_tensor")
def test_nccl_is_given_nothing_where_members_differ() -> None:
    def work(comm: Communicator) -> tuple[str, list[str]]:
        members, streams = on_gpus(comm)
        with pytest.raises(EnforceNotMet) as caught:
            members.all_reduce([torch.ones(2 + comm.rank)])
        return str(caught.value), streams.notes

    for said, notes in as_processes(2, work):
        assert "differ in what they reduce by sum, on GPUs" in said
        assert not any("reduces" in one for one in notes)


def test_what_is_not_on_a_gpu_goes_as_before() -> None:
    def work(comm: Communicator) -> tuple[list[float], list[str]]:
        members, streams = on_gpus(comm)
        value = torch.ones(3)
        members.all_reduce([value])
        assert members.split(0) is not None
        return value.tolist(), streams.notes

    assert as_processes(2, work) == [([2.0] * 3, [])] * 2


def test_each_member_needs_a_gpu_of_its_own() -> None:
    assert of_their_own(["a", "b", "c"])
    assert not of_their_own(["a", "b", "a"])  # two processes on one GPU
    assert not of_their_own(["a", ""])  # one without


def test_the_backend_is_chosen_by_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """And by what else is asked for, of which NCCL has nothing."""
    asked: list[str] = []

    def noted(members: Processes, device: torch.device) -> Communicator:
        asked.append(str(device))
        return members

    monkeypatch.setattr(by_nccl, "by_nccl", noted)
    cases = [
        (Strategy(), "cpu", []),
        (Strategy(), "cuda:1", ["cuda:1"]),
        (Strategy(nccl_comm_num=2), "cuda:0", ["cuda:0"] * 2),
        (Strategy(use_hierarchical_allreduce=True), "cuda:0", []),
        (Strategy(exchange_type="float16"), "cuda:0", []),
    ]
    for strategy, device, wanted in cases:
        asked.clear()

        def work(comm: Communicator) -> None:
            by_strategy(comm, strategy, 0, torch.device(device))  # noqa: B023

        assert as_processes(2, work) == [None, None]
        assert asked == wanted * 2, (strategy, device)


@pytest.mark.parametrize("allowed", [True, False])
def test_nccl_is_used_where_all_can(allowed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_nccl, "has_nccl", lambda: True)
    monkeypatch.setattr(by_nccl, "nccl", lambda *_given: None)
    monkeypatch.setattr(by_nccl, "_name", lambda device: f"gpu {device.index}")
    monkeypatch.setattr(by_nccl, "GpuLane", lambda *_given: None)

    def work(comm: Any, same: bool) -> bool:
        device = torch.device("cuda", 0 if same else comm.rank)
        return isinstance(by_nccl.by_nccl(comm, device), ByNccl)

    with flags.override({"FLAGS_refluid_nccl": allowed}):
        assert as_processes(2, partial(work, same=False)) == [allowed] * 2
        assert as_processes(2, partial(work, same=True)) == [False] * 2


@pytest.mark.gpu
def test_nccl_itself() -> None:
    """One member on a GPU: what it sums is itself, in the order of its stream."""
    members = meet(0, 1, free_address(), wait=60, patience=60)
    found = by_nccl.by_nccl(members, torch.device("cuda", 0))
    assert isinstance(found, ByNccl)
    value = torch.zeros(1 << 20, device="cuda")
    for _ in range(20):
        value.add_(1)
        work = found.all_reduce([value], wait=False)
        work.wait()
        value.mul_(1)
    assert bool((value == 20).all())
    members.close()
