"""A server more and a server less for a job that runs, as users have them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from benchmarks.counted_jobs import complaint
from refluid.collective.launch.joining_servers import joined_job
from refluid.core.errors import EnforceNotMet
from refluid.core.ports import free_port
from refluid.pserver.membership import at_address, wanted_layout, with_server, without_server
from tests.pserver.tables import divided

COUNTING = Path(__file__).resolve().parents[2] / "benchmarks" / "counting.py"
STEPS = 150
PATIENCE = 300.0  # seconds: a busy machine takes long to start so many processes


def refluid(*said: str, **told: str) -> subprocess.Popen[str]:
    path = os.pathsep.join(one for one in sys.path if one)
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", **told}
    return subprocess.Popen(
        [sys.executable, "-m", "refluid.cli.main", *said],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@contextmanager
def running(*said: str, **told: str) -> Iterator[subprocess.Popen[str]]:
    """The same, ended after the block with all that it started, whatever happens within."""
    started = refluid(*said, **told)
    try:
        yield started
    finally:
        started.terminate()
        started.communicate(timeout=PATIENCE)


def steps(folder: Path) -> dict[str, Any]:
    found = folder / "0.json"
    return json.loads(found.read_text()) if found.is_file() else {}


def listed(server: str) -> dict[int, str]:
    """The servers of a job by their numbers, as `refluid servers` prints them."""
    told = refluid("servers", server).communicate(timeout=PATIENCE)[0]
    found = re.findall(r"^\s*(\d+)\s+(\S+:\d+)", told, re.MULTILINE)
    return {int(number): address for number, address in found}


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["sync", "half-async", "async", "geo"])
def test_servers_of_a_running_job(mode: str, tmp_path: Path) -> None:
    """One comes, the first one goes: all updates are there once."""
    kept = {
        "REFLUID_SERVER_CHECKPOINTS": str(tmp_path / "kept"),
        "REFLUID_SERVER_LOG": "1",
        "FLAGS_rpc_deadline": "60000",
    }
    port = free_port(4)
    done = tmp_path / "done"  # a busy machine may take long to change servers
    script = [str(COUNTING), str(tmp_path), mode, "--steps", str(STEPS), "--pause", "0.1"]
    script += ["--until", str(done)]
    counts = ["--server_num", "2", "--worker_num", "2", "--started_port", str(port)]
    second = f"127.0.0.1:{port + 1}"
    logs = ["--log_dir", str(tmp_path / "log"), *script]
    more_logs = ["--log_dir", str(tmp_path / "more"), *script]
    with running("launch", *counts, *logs, **kept) as job:
        until = time.monotonic() + PATIENCE
        while steps(tmp_path).get("steps", 0) < 10:
            assert job.poll() is None and time.monotonic() < until
            time.sleep(0.1)
        with running("launch", "--join", second, *more_logs, **kept) as more:
            until = time.monotonic() + PATIENCE
            while not (third := listed(second).get(2)):
                assert more.poll() is None and time.monotonic() < until, listed(second)
            removing = refluid("servers", second, "remove", "0")
            assert "server 0 is out" in removing.communicate(timeout=PATIENCE)[0]
            assert listed(third) == {1: second, 2: third}
            done.touch()
            for one in (job, more):
                one.communicate(timeout=PATIENCE)
    found = {one: json.loads((tmp_path / f"{one}.json").read_text()) for one in (0, 1)}
    assert not complaint(mode, STEPS, found, alone=False)


def test_only_the_share_of_one_server_moves() -> None:
    former = divided(servers=3).layout
    more = with_server(former, "127.0.0.1:9")
    assert more.job == former.job and more.epoch == 1 and more.numbers == (0, 1, 2, 3)
    moved = more.owners != former.owners
    assert (more.owners[moved] == 3).all() and 0.15 < moved.float().mean() < 0.35
    less = without_server(more, 1)
    gone = more.owners == 1
    assert (less.owners[~gone] == more.owners[~gone]).all() and (less.owners[gone] != 1).all()
    assert less.servers[1] == "" and less.keeper == 0 and less.job == former.job
    assert at_address(less, 2, "h:1").servers[2] == "h:1"
    held = [part.server for one in less.dense for part in one.slices]
    assert 1 not in held and len(held) == 3
    assert [part.name for one in less.dense for part in one.slices] == [
        part.name for one in former.dense for part in one.slices
    ]


def test_wishes_that_cannot_be() -> None:
    layout = divided(servers=1).layout
    for wish, text in [
        ({"remove": 0}, "last one"),
        ({"remove": 5}, "no server 5"),
        ({"add": layout.servers[0]}, "is server 0 already"),
        ({"move": 0}, "added, removed or moved"),
        ({}, "added, removed or moved"),
    ]:
        with pytest.raises(EnforceNotMet, match=text):
            wanted_layout(layout, wish)


def test_scripts_of_those_who_join_see_as_many_servers_as_there_were_first() -> None:
    layout = without_server(with_server(divided(servers=2).layout, "127.0.0.1:9"), 0)
    job = joined_job(layout, "127.0.0.1:9")
    assert job.servers == ("127.0.0.1:9", "127.0.0.1:1") and len(job.workers) == layout.trainers
