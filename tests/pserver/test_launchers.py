"""The ways to say which servers and workers there are: all become the same job."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from refluid.cli.main import app
from refluid.collective.launch import servers
from refluid.collective.launch.servers import ServerJob
from refluid.paddle.distributed.launch import launch
from refluid.paddle.distributed.launch_ps import launch as launch_ps

HOSTS = [
    "--servers",
    "10.0.0.1:80,10.0.0.2:80",
    "--workers",
    "10.0.0.1:90",
    "--node_ip",
    "10.0.0.1",
]


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is to be run."""
    found: list[Any] = []

    def run(job: ServerJob, arguments: Any, folder: Path, max_restarts: int = 0) -> int:
        found.append((job, list(arguments), str(folder), max_restarts))
        return 0

    monkeypatch.setattr(servers, "run_with_servers", run)
    return found


def said(*words: str) -> None:
    """By `refluid launch`."""
    result = CliRunner().invoke(app, ["launch", *words])
    assert result.exit_code == 0, result.output


def ended(call: Any, *given: Any) -> None:
    with pytest.raises(SystemExit) as status:
        call(*given)
    assert not status.value.code


def test_as_many_on_this_host(jobs: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    counts = ["--server_num", "2", "--worker_num", "3", "--max_restarts", "4"]
    said(*counts, "--started_port", "7000", "--log_dir", "l", "t.py", "--lr", "1")
    ended(launch, [*counts, "--started_port", "7000", "--log_dir", "l", "t.py", "--lr", "1"])
    others = ["--run_mode=ps", "--server_num=2", "--trainer_num=3", "--max_restart=4"]
    ended(launch, [*others, "--start_port=7000", "--log_dir=l", "t.py", "--lr", "1"])
    monkeypatch.setattr(sys, "argv", ["x", *counts, "--start_port", "7000", "--log_dir", "l"])
    sys.argv += ["t.py", "--lr", "1"]
    launch_ps()
    ports = [f"127.0.0.1:{port}" for port in range(7000, 7005)]
    expected = ServerJob(tuple(ports[:2]), tuple(ports[2:]), None)
    assert jobs == [(expected, ["t.py", "--lr", "1"], "l", 4)] * 4


def test_lists_of_hosts(jobs: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    said(*HOSTS, "t.py")
    ended(launch, [*HOSTS, "t.py"])
    monkeypatch.setattr(sys, "argv", ["x", "--endpoints", HOSTS[1], *HOSTS[2:], "t.py"])
    launch_ps()
    expected = ServerJob(("10.0.0.1:80", "10.0.0.2:80"), ("10.0.0.1:90",), "10.0.0.1")
    assert [one[0] for one in jobs] == [expected] * 3


def test_as_many_on_each_host(jobs: list[Any]) -> None:
    said("--server_num", "1", "--worker_num", "2", "--ips", "a,b", "--node_ip", "b", "t.py")
    workers = ("a:6171", "a:6172", "b:6171", "b:6172")
    assert jobs[0][0] == ServerJob(("a:6170", "b:6170"), workers, "b")


def test_the_usual_numbers(jobs: list[Any]) -> None:
    said("--server_num", "2", "t.py")
    (job, *_) = jobs[0]
    assert (len(job.servers), len(job.workers)) == (2, 1) and len({*job.servers, *job.workers}) == 3
