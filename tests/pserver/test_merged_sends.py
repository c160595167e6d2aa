"""How steps of asynchronous training become pushes, and when parameters come: its five options."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import refluid.fluid as fluid
from refluid.core import flags
from refluid.pserver import sending
from refluid.pserver.connecting import merging_of_flags
from refluid.pserver.sending import Merging, SendingLink

PATIENCE = 30.0


class HeldClient:
    """Notes what is pushed; the first push ends once it is `let`."""

    def __init__(self) -> None:
        self.figures = SimpleNamespace(lag=None)
        self.begun, self.let = threading.Event(), threading.Event()
        self.pushes: list[tuple[float, int, bool]] = []
        self.pulls: list[int] = []

    def push(self, given: Mapping[str, Any], steps: int, *, wants: bool) -> dict[str, Tensor]:
        self.begun.set()
        assert self.let.wait(PATIENCE)
        self.pushes.append((float(given["w"]), steps, wants))
        return {"w": torch.tensor(float(len(self.pushes)))} if wants else {}

    def pull(self) -> dict[str, Tensor]:
        self.pulls.append(len(self.pushes))
        return {"w": torch.tensor(100.0 * len(self.pulls))}

    def leave(self) -> None:
        """Nobody is told."""


@contextmanager
def held_link(merging: Merging) -> Iterator[tuple[SendingLink, HeldClient]]:
    client: Any = HeldClient()
    link = SendingLink(client, merging)
    try:
        yield link, client
    finally:
        client.let.set()
        link.flush()
        link.close()


def send(link: SendingLink, *values: float) -> None:
    for value in values:
        link.send({"w": torch.tensor(value)})


@pytest.mark.parametrize("seed", range(6))
def test_steps_are_pushed_once_and_so_many_together(seed: int) -> None:
    """All that waited while the first push was under way: in order, at most `most` as one."""
    draws = np.random.RandomState(seed)
    most, count, sums = int(draws.randint(1, 6)), int(draws.randint(1, 12)), bool(seed % 2)
    values = draws.randint(-9, 10, count).astype(float).tolist()
    with held_link(Merging(most, waiting=20, patience=1, sums=sums)) as (link, client):
        send(link, 1.0)
        assert client.begun.wait(PATIENCE)
        send(link, *values)
        client.let.set()
        link.flush()
    first, *others = client.pushes
    assert first == (1.0, 1, False)
    parts = [values[start : start + most] for start in range(0, count, most)]
    assert [steps for _, steps, _ in others] == [len(one) for one in parts]
    expected = [sum(one) if sums else sum(one) / len(one) for one in parts]
    np.testing.assert_allclose([value for value, _, _ in others], expected, rtol=1e-6)


def test_training_waits_for_room_in_the_queue() -> None:
    with held_link(Merging(most=1, waiting=3)) as (link, client):
        send(link, 0.0)
        assert client.begun.wait(PATIENCE)
        send(link, 1.0, 2.0, 3.0)
        fourth = threading.Thread(target=send, args=(link, 4.0))
        fourth.start()
        fourth.join(0.1)
        assert fourth.is_alive() and link.depth == 4
        client.let.set()
        fourth.join(PATIENCE)
        assert not fourth.is_alive()
    assert [value for value, _, _ in client.pushes] == [0.0, 1.0, 2.0, 3.0, 4.0]


@pytest.mark.parametrize("patience", [0, 1, 4])
def test_more_steps_are_looked_for_so_often(patience: int, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[float] = []
    monkeypatch.setattr(sending, "time", SimpleNamespace(sleep=looks.append))
    with held_link(Merging(patience=patience)) as (link, client):
        client.let.set()
        send(link, 1.0)
        link.flush()
    assert len(looks) == patience and len(client.pushes) == 1


@pytest.mark.parametrize("after", [1, 3])
def test_parameters_come_after_so_many_steps(after: int) -> None:
    with held_link(Merging(most=1, pulls_after=after)) as (link, client):
        client.let.set()
        pulled = 0
        for step in range(1, 8):
            send(link, 1.0)
            link.flush()
            if step % after == 0:
                pulled += 1
                until = time.monotonic() + PATIENCE
                while link._pulled_at < step and time.monotonic() < until:
                    time.sleep(0.001)
            assert len(client.pulls) == pulled
    assert client.pulls == list(range(after, 8, after))


def test_parameters_come_with_pushes_where_no_thread_is_there_for_them() -> None:
    value = torch.zeros(())
    with held_link(Merging(most=1, own_thread=False)) as (link, client):
        client.let.set()
        for step in (1.0, 2.0):
            send(link, 5.0)
            link.flush()
            link.receive({"w": value}, wait=False)
            assert value.item() == step
    assert not client.pulls and [wants for _, _, wants in client.pushes] == [True, True]


def test_flags_are_these_options() -> None:
    given = {
        "max_merge_var_num": 3,
        "send_queue_size": 4,
        "send_wait_times": 6,
        "min_send_grad_num_before_recv": 7,
        "independent_recv_thread": False,
    }
    former = {f"FLAGS_communicator_{one}": flags.value(f"communicator_{one}") for one in given}
    try:
        fluid.set_flags({f"FLAGS_communicator_{one}": value for one, value in given.items()})
        for sums in (True, False):
            assert merging_of_flags(sums) == Merging(3, 4, 6, 7, own_thread=False, sums=sums)
    finally:
        fluid.set_flags(former)
