"""Exchanges that go on while a plan computes: the same numbers, waited for as late as possible."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from refluid.comm import ALONE, Communicator, Work
from refluid.core import flags
from refluid.core.scope import Scope
from refluid.engine.conditions import conditions
from refluid.engine.strategy import Strategy
from refluid.ir.program import Program
from refluid.runtime.plan import Plan
from refluid.runtime.request import UNWATCHED, Request
from refluid.runtime.steps import ExchangeWait, Return, Step
from tests.comm.groups import as_processes

CPU = torch.device("cpu")
COUNT, WIDTH = 3, 5


class Late:
    """A group of one whose sums are doubled, and hold nothing until they are waited for."""

    def __init__(self) -> None:
        self.open = 0
        self.most = 0

    def __getattr__(self, name: str) -> Any:
        return True if name == "background" else getattr(ALONE, name)

    def all_reduce(
        self, tensors: Sequence[Tensor], reduction: str = "sum", *, wait: bool = True
    ) -> Work:
        work = _Filling(self, tensors)
        if wait:
            work.wait()
        return work


class _Filling:
    def __init__(self, group: Late, tensors: Sequence[Tensor]) -> None:
        self.group, self.tensors = group, tensors
        self.results = [2 * one for one in tensors]
        group.open += 1
        group.most = max(group.most, group.open)
        for one in tensors:
            one.fill_(float("nan"))

    def wait(self) -> None:
        for one, result in zip(self.tensors, self.results, strict=True):
            one.copy_(result)
        self.group.open -= 1

    def done(self) -> bool:
        return False


class Net:
    """Sums, products and exchanges of earlier results at random, some in place or fused."""

    def __init__(self, seed: int) -> None:
        self.source = random.Random(seed)
        self.program = Program()
        self.block = self.program.global_block()
        self.feeds = tuple(f"x{number}" for number in range(COUNT))
        for name in self.feeds:
            self.block.create_var(name=name, shape=[-1, WIDTH], dtype="float32", is_data=True)
        self.known = list(self.feeds)
        for _ in range(self.source.randint(6, 20)):
            self.known += self.source.choice(
                [self.exchanged, self.exchanged, self.fused, self.unary, self.sum, self.counted]
            )()
        made = self.known[COUNT:]
        self.fetches = tuple(dict.fromkeys(self.source.choices(made, k=3)))

    def op(self, type: str, made: int = 1, **inputs: list[str]) -> list[str]:
        outputs = [f"v{len(self.block.ops)}_{number}" for number in range(made)]
        for name in outputs:
            self.block.create_var(name=name, dtype="float32")
        self.block.append_op(type=type, inputs=inputs, outputs={"Out": outputs})
        return outputs

    def some(self) -> str:
        return self.source.choice(self.known)

    def exchanged(self) -> list[str]:
        return self.op(self.source.choice(["c_allreduce_sum", "allreduce"]), X=[self.some()])

    def fused(self) -> list[str]:
        return self.op("fused_all_reduce", 2, X=[self.some(), self.some()])

    def unary(self) -> list[str]:
        return self.op(self.source.choice(["tanh", "relu", "assign"]), X=[self.some()])

    def sum(self) -> list[str]:
        return self.op("elementwise_add", X=[self.some()], Y=[self.some()])

    def counted(self) -> list[str]:
        """In place: what exchanges were given or give may be overwritten."""
        name = self.some()
        if name not in self.feeds:
            self.block.append_op(type="scale", inputs={"X": name}, outputs={"Out": name})
            self.block.ops[-1].set_attr("scale", 0.5)
        return []

    def plan(self, comm: Communicator, **options: Any) -> Plan:
        return Plan(Request(self.block, self.feeds, self.fetches, CPU, comm=comm, **options))

    def runs(self, plan: Plan, offset: float = 0) -> list[list[np.ndarray]]:
        """What three steps of several sizes fetch."""
        found = []
        for rows in (2, 3, 2, 2, 2):
            values = np.linspace(-1, 1, rows * WIDTH, dtype="float32").reshape(rows, WIDTH)
            feeds = [torch.from_numpy(values + offset + n) for n in range(COUNT)]
            fetched = plan.run(Scope(), feeds)
            found.append([one.value.numpy().copy() for one in fetched])
        return found


def agree(one: list[list[np.ndarray]], other: list[list[np.ndarray]]) -> bool:
    return all(
        np.array_equal(a, b)
        for left, right in zip(one, other, strict=True)
        for a, b in zip(left, right, strict=True)
    )


@pytest.mark.parametrize(("tier", "threads"), [("auto", 1), ("auto", 2), ("recorded", 1)])
@pytest.mark.parametrize("seed", range(40))
def test_the_numbers_of_exchanges_at_once(seed: int, tier: str, threads: int) -> None:
    net, group = Net(seed), Late()
    with flags.override({"FLAGS_refluid_tier": "interpreted"}):
        expected = net.runs(net.plan(Late()))
    with flags.override({"FLAGS_refluid_tier": tier}):
        found = net.runs(net.plan(group, overlaps=True, threads=threads))
    assert agree(found, expected)
    assert group.open == 0


def test_waits_come_as_late_as_they_may() -> None:
    most = 0
    for seed in range(40):
        net, group = Net(seed), Late()
        plan = net.plan(group, overlaps=True)
        net.runs(plan)
        most = max(most, group.most)
        steps = plan.written.source.steps
        for wait, after in pairwise(steps):
            if isinstance(wait, ExchangeWait) and not isinstance(after, ExchangeWait | Return):
                following = after.reads | after.writes | after.overwrites
                assert any(one.overwrites & following for one in _waits_before(steps, after))
    assert most >= 3


def _waits_before(steps: Sequence[Step], after: Step) -> Iterator[ExchangeWait]:
    for one in reversed(steps[: steps.index(after)]):
        if not isinstance(one, ExchangeWait):
            return
        yield one


def test_processes_exchange_while_they_compute() -> None:
    nets = [Net(seed) for seed in range(6)]

    def work(comm: Communicator, **options: bool) -> list[list[list[np.ndarray]]]:
        return [net.runs(net.plan(comm, **options), comm.rank) for net in nets]

    apart = as_processes(2, lambda comm: work(comm))
    together = as_processes(2, lambda comm: work(comm, overlaps=True))
    for one, other in zip(apart, together, strict=True):
        assert all(map(agree, one, other))


def test_a_flag_switches_it_off() -> None:
    with flags.override({"FLAGS_refluid_overlap_exchange": False}):
        assert not conditions(Strategy(), [CPU, CPU], UNWATCHED, ALONE, alone=False).overlaps
    assert conditions(Strategy(), [CPU, CPU], UNWATCHED, ALONE, alone=False).overlaps
    text = Net(0).plan(Late()).text
    assert ".wait()" not in text
    assert ".wait()" in Net(0).plan(Late(), overlaps=True).text
