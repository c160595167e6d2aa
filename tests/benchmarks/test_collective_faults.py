"""Faults of collective jobs on emulated hosts."""

from __future__ import annotations

import pytest

from benchmarks.collective_faults import FAULTS, case, page
from benchmarks.hosts import Hosts, allowed


def test_the_page_tells_how_long_it_took() -> None:
    found = {"nothing": {0: 9.0}, "kill": {0: 2.3, 1: 15.1}, "late": {0: 40.0}, "never": {0: 61.0}}
    assert page(found).splitlines()[2:] == [
        "| SIGKILL of a trainer | 2 s | the same losses, 15 s |",
        "| a host never comes | 61 s |  |",
        "| a host comes late | it is waited for; the same losses | the same |",
    ]


@pytest.mark.slow
@pytest.mark.skipif(not allowed(), reason="network namespaces aren't allowed here")
def test_a_trainer_that_is_killed_is_named_and_begun_again() -> None:
    usual: dict[int, dict[int, str]] = {}
    with Hosts(2) as hosts:
        for name, restarts in (("nothing", 0), ("kill", 0), ("kill", 1)):
            wrong, _ = case(hosts, FAULTS[name], usual, restarts=restarts)
            assert not wrong
