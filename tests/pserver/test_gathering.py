"""What all trainers bring to a server is handed out once all have; who can't come isn't waited for.

The server's clock is the tests' own: nothing here waits for seconds.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import torch

from refluid.pserver.layout import TrainingMode
from tests.pserver.tables import Cluster, at_once, cluster, divided

ONES = {"w@GRAD": torch.ones(3, 1)}


class Asked:
    """A call of a thread: what it returned, or raised."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self.found: Any = None
        self.error: Exception | None = None
        self._function = function
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.found = self._function()
        except Exception as error:
            self.error = error

    @property
    def waits(self) -> bool:
        return self._thread.is_alive()

    def done(self) -> Asked:
        self._thread.join(60)
        assert not self.waits
        return self


class Standing:
    """A server of synchronous trainers: its clock is `time`, who waits is answered at once."""

    def __init__(self, found: Cluster) -> None:
        self.server, self.time = found.servers[0], 0.0
        self.server.members._clock = lambda: self.time
        self.server.hold = 0.01

    def stepping(self, trainer: int) -> None:
        """Waits until a push of the trainer waits for others'."""
        while not self.server.applying.holds(trainer):
            pass

    def asked(self, times: int) -> None:
        """Waits until calls were so many times answered that they must ask again."""
        answers = 0

        def heard(trainer: int, session: int) -> Any:
            nonlocal answers
            answers += 1
            return real(trainer, session)

        real = self.server.members.heard
        self.server.members.heard = heard  # type: ignore[method-assign]
        try:
            while answers < times:
                pass
        finally:
            self.server.members.heard = real  # type: ignore[method-assign]


def sync(trainers: int) -> Any:
    return cluster(divided(trainers=trainers, mode=TrainingMode.SYNC))


def test_trainers_that_wait_for_one_another_are_told() -> None:
    with sync(3) as found:
        job, clients = Standing(found), [found.client(number) for number in range(3)]
        pushed = Asked(lambda: clients[1].push(ONES))
        job.stepping(1)
        gathered = [Asked(lambda one=one: one.gather(torch.zeros(1))) for one in clients[::2]]
        job.asked(8)
        assert pushed.waits and all(one.waits for one in gathered)
        job.time = job.server.members.patience
        told = [str(one.done().error) for one in gathered]
        assert all("trainers 0, 2 wait for all trainers" in one for one in told)
        assert all("1 wait for their gradients" in one for one in told)
        for one in clients[::2]:
            one.leave()
        assert pushed.done().error is None
        assert clients[1].pull()["w"].unique().tolist() == [-1.0]


def test_who_never_came_is_waited_for() -> None:
    with sync(3) as found:
        job, clients = Standing(found), [found.client(number) for number in range(2)]
        pushed = Asked(lambda: clients[1].push(ONES))
        job.stepping(1)
        gathered = Asked(lambda: clients[0].gather(torch.zeros(1)))
        job.asked(4)
        job.time = 100 * job.server.members.patience
        job.asked(8)
        assert gathered.waits and pushed.waits
        last = found.client(2)
        at_once(lambda: last.push(ONES), clients[0].leave)
        pushed.done()


def test_a_step_that_goes_on_is_no_standstill() -> None:
    """The time counts from the last push: a trainer catches up slowly, and comes."""
    with sync(2) as found:
        job, clients = Standing(found), [found.client(number) for number in range(2)]
        gathered = Asked(lambda: clients[0].gather(torch.zeros(1)))
        for _ in range(3):
            pushed = Asked(lambda: clients[1].push(ONES))
            job.stepping(1)
            job.asked(4)
            job.time += 0.9 * job.server.members.patience
            job.asked(4)
            assert gathered.waits and pushed.waits
            # What frees the trainer: the push of another process of trainer 0.
            assert clients[0].push(ONES) is not None
            pushed.done()
        both = clients[1].gather(torch.ones(1))
        assert [one.item() for one in both] == [one.item() for one in gathered.done().found]


def test_gathers_hand_out_what_all_brought() -> None:
    with sync(3) as found:
        job = Standing(found)
        clients = [found.client(number) for number in range(3)]
        for turn in range(5):
            job.time += 1000.0
            job.server.members.known[0].seen = job.time
            brought = [torch.tensor([10.0 * turn + number]) for number in range(3)]
            calls = [lambda a=a, b=b: a.gather(b) for a, b in zip(clients, brought, strict=True)]
            for got in at_once(*calls):
                assert [one.item() for one in got] == [one.item() for one in brought]
