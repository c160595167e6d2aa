"""Loops of teams do each part of the work once, however many threads there are."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from refluid.core import flags
from refluid.kernels import machine_code, teams
from refluid.kernels.teams import for_team, taken, team_size

pytestmark = pytest.mark.skipif(
    teams._parallel() is None or not machine_code.linker(), reason="no OpenMP, or no linker"
)


@for_team
def count_up(counter, members, times, work):  # type: ignore[no-untyped-def]
    """times[part] += 1 for each part; work makes each of them take a while."""
    taken(members)
    part = taken(counter)
    while part < len(times):
        for _ in range(work):
            times[part] += 1
        part = taken(counter)


@pytest.fixture
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def counted(parts: int, work: int = 1, loop: Any = count_up) -> tuple[np.ndarray, int]:
    times, counter, members = np.zeros(parts, np.int64), np.zeros(1, np.int64), np.zeros(1, int)
    loop(counter, members, times, work)
    return times, int(members[0])


@pytest.mark.parametrize("seed", range(6))
def test_each_part_is_done_once(seed: int, threads: None) -> None:
    draws = np.random.default_rng(seed)
    for _ in range(20):
        size, parts, work = (int(draws.integers(1, most)) for most in (6, 200, 1000))
        torch.set_num_threads(size)
        times, members = counted(parts, work)
        assert (times == work).all()
        assert 1 <= members <= size


def test_parts_that_many_want_at_once(threads: None) -> None:
    torch.set_num_threads(4)
    for _ in range(10):
        times, _ = counted(200_000)
        assert (times == 1).all()


def test_as_many_enter_as_torch_has_threads(threads: None) -> None:
    torch.set_num_threads(3)
    assert team_size() == 3
    assert counted(1)[1] == 3


def test_the_caller_does_it_alone(threads: None) -> None:
    torch.set_num_threads(3)
    for off in ("FLAGS_refluid_shared_rows", "FLAGS_refluid_kept_loops"):
        with flags.override({off: False}):
            times, members = counted(50, loop=for_team(count_up.function))
        assert (times == 1).all()
        assert members == 1
    torch.set_num_threads(1)
    times, members = counted(50)
    assert (times == 1).all()
    assert members == 1


def test_several_callers_have_teams_of_their_own(threads: None) -> None:
    torch.set_num_threads(2)
    found: list[bool] = []

    def call() -> None:
        torch.set_num_threads(2)  # a thread has torch's number of its own
        for parts in range(1, 60):
            found.append(bool((counted(parts, 50)[0] == 50).all()))

    callers = [threading.Thread(target=call) for _ in range(4)]
    for one in callers:
        one.start()
    for one in callers:
        one.join()
    assert found == [True] * 4 * 59


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_process_has_no_team(threads: None) -> None:
    torch.set_num_threads(2)
    assert counted(40)[1] == 2
    child = os.fork()
    if not child:
        alone = team_size() == 1 and counted(40)[1] == 1
        os._exit(0 if alone else 1)
    assert os.waitpid(child, 0)[1] == 0
