"""Members that don't do the same, or with other things, are told so; they go on afterwards."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch

from refluid.comm import Communicator
from refluid.core.errors import EnforceNotMet
from tests.comm.groups import as_processes, as_threads


@pytest.mark.parametrize("run", [as_threads, as_processes])
def test_the_first_difference_is_named(run: Callable[..., list[Any]]) -> None:
    def work(comm: Communicator) -> list[str]:
        said = []
        own = "fetch loss" if comm.rank != 1 else "fetch accuracy"
        comm.agree(["run a program", "fed with x"])
        for lines in (["run a program", "fed with x", own], ["run", "a"][: 1 + comm.rank % 2]):
            with pytest.raises(EnforceNotMet) as caught:
                comm.agree(lines)
            said.append(str(caught.value))
        comm.barrier()
        return said

    for found in run(3, work):
        assert not isinstance(found, BaseException), found
        one, other = found
        assert "differ in what they run a program" in one and "fetch accuracy" in one
        assert "s 0, 2: fetch loss" in one and "fed with x" not in one
        assert "nothing more" in other


def test_members_that_do_different_things_are_told() -> None:
    """Whatever they do, all learn of it and none takes one exchange for another."""
    kinds: list[tuple[str, Callable[[Communicator], Any]]] = [
        ("reduce by sum", lambda comm: comm.all_reduce([torch.ones(8)])),
        ("reduce by max", lambda comm: comm.all_reduce([torch.ones(8)], "max")),
        ("take from trainer 1", lambda comm: comm.broadcast([torch.ones(5)], 1)),
        ("wait for all", lambda comm: comm.barrier()),
        ("give each its part", lambda comm: comm.all_gather(torch.ones(9))),
        ("reduce and share by sum", lambda comm: comm.reduce_scatter(torch.ones(3))),
        ("run a program", lambda comm: comm.agree(["run a program", "of many lines"])),
    ]

    def work(comm: Communicator) -> None:
        draws = random.Random(77)
        for _ in range(25):
            picked = [draws.choice(kinds) for _ in range(comm.size)]
            name, act = picked[comm.rank]
            if len({one for one, _ in picked}) == 1:
                act(comm)
                continue
            with pytest.raises(EnforceNotMet, match="trainers don't do the same") as caught:
                act(comm)
            assert all(one in str(caught.value) for one, _ in picked)
            assert name in str(caught.value)

    assert as_processes(3, work) == [None] * 3
