"""What happens to a trainer is told to the others in time, by name, and nothing hangs."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from benchmarks.hosts import Hosts, allowed
from refluid.core.ports import free_endpoints
from tests.collective.faulty import STEPS
from tests.started import Started, start

PATIENCE = 4
PROGRAM = ["-m", "tests.collective.faulty"]


def environment(rank: int, endpoints: list[str], **flags: str) -> dict[str, str]:
    return {
        "PADDLE_TRAINER_ID": str(rank),
        "PADDLE_TRAINERS_NUM": str(len(endpoints)),
        "PADDLE_TRAINER_ENDPOINTS": ",".join(endpoints),
        "PADDLE_CURRENT_ENDPOINT": endpoints[rank],
        "OMP_NUM_THREADS": "1",
        "FLAGS_refluid_meeting_seconds": "120",
        "FLAGS_refluid_exchange_seconds": str(PATIENCE),
        **flags,
    }


def begun(said: list[str], rank: int, told: dict[str, str]) -> Started:
    return start(*said, environment={**os.environ, **told}, nth=rank % 2)


@contextmanager
def ended_after(processes: Sequence[Started | subprocess.Popen[Any]]) -> Iterator[None]:
    try:
        yield
    finally:
        for one in processes:
            one.kill()
            one.wait()


def ran(
    folder: Path, *arguments: str, endpoints: list[str] | None = None, **flags: str
) -> dict[int, Any]:
    """What each of two trainers left, of those that ended by themselves."""
    told = endpoints or free_endpoints(2)
    said = [*PROGRAM, str(folder), *arguments]
    trainers: list[Started] = [
        begun(said, rank, environment(rank, told, **flags)) for rank in range(2)
    ]
    with ended_after(trainers):
        trainers[0].wait(200)
        if "--stop" not in arguments:
            trainers[1].wait(200)
    files = {rank: folder / f"{rank}.json" for rank in range(2)}
    return {rank: json.loads(one.read_text()) for rank, one in files.items() if one.is_file()}


@pytest.mark.parametrize("what", ["kill", pytest.param("stop", marks=pytest.mark.slow)])
def test_a_trainer_that_is_killed_or_stopped_is_named(what: str, tmp_path: Path) -> None:
    # Who is killed is noticed without waiting; that would take longer than the test may.
    patience = str(PATIENCE if what == "stop" else 100_000)
    found = ran(tmp_path, f"--{what}", "3", FLAGS_refluid_exchange_seconds=patience)
    assert set(found) == {0}
    error = found[0]["error"]
    assert error.startswith("PeerFailed: trainer 1 of 2 "), error
    assert ("did nothing for too long" if what == "stop" else "went away") in error
    assert len(found[0]["losses"]) == 3
    if "operator fused_all_reduce" in error:
        assert "@GRAD" in error and "(bucket 1 of 1) exchanged" in error, error
    else:
        assert "say whether there are more data" in error, error


def test_a_port_that_is_taken_is_said(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = f"127.0.0.1:{other.getsockname()[1]}"
        endpoints = [taken, *free_endpoints(1)]
        found = ran(tmp_path, endpoints=endpoints, FLAGS_refluid_meeting_seconds="2")
    assert f"trainer 0 can't listen at {taken}" in found[0]["error"]
    assert f"could not meet the others at {taken}" in found[1]["error"]


def test_a_wrong_address_and_one_who_never_comes(tmp_path: Path) -> None:
    right, wrong = free_endpoints(1)[0], "127.0.0.1:9"
    trainers: list[Started] = []
    for rank, first in enumerate((right, wrong)):
        told = environment(rank, [first, "127.0.0.1:10"], FLAGS_refluid_meeting_seconds="3")
        said = [*PROGRAM, str(tmp_path)]
        trainers.append(begun(said, rank, told))
    with ended_after(trainers):
        for one in trainers:
            assert one.wait(120) == 1
    errors = [json.loads((tmp_path / f"{rank}.json").read_text())["error"] for rank in range(2)]
    assert f"trainer 1 of 2 did not come to {right}" in errors[0]
    assert f"trainer 1 could not meet the others at {wrong}" in errors[1]


@pytest.mark.slow
def test_one_who_comes_late_is_waited_for(tmp_path: Path) -> None:
    endpoints = free_endpoints(2)
    trainers: list[Started] = []
    with ended_after(trainers):
        for rank in range(2):
            told = environment(rank, endpoints)
            said = [*PROGRAM, str(tmp_path)]
            trainers.append(begun(said, rank, told))
            time.sleep(0 if rank else PATIENCE + 2)
        assert [one.wait(200) for one in trainers] == [0, 0]


def launched(folder: Path, *arguments: str) -> tuple[int, str]:
    """The launcher's status and what it said."""
    folder.mkdir()
    (folder / "script.py").write_text("from tests.collective.faulty import main\nmain()\n")
    launch = [sys.executable, "-m", "refluid.cli.main", "launch", "-n", "2", "--quiet"]
    path = os.pathsep.join(one for one in sys.path if one)
    done = subprocess.run(
        [*launch, "--max_restarts", "1", "script.py", str(folder), "--checkpoints", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=280,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
def test_a_restart_ends_with_the_same_losses(tmp_path: Path) -> None:
    for name, arguments in (("undisturbed", []), ("killed", ["--kill", "5"])):
        status, said = launched(tmp_path / name, *arguments)
        assert status == 0, said
    for rank in range(2):
        whole, rest = (
            json.loads((tmp_path / name / f"{rank}.json").read_text())["losses"]
            for name in ("undisturbed", "killed")
        )
        assert len(whole) == STEPS and len(rest) == STEPS - 4, (whole, rest)
        assert rest == whole[4:]
    assert (tmp_path / "killed" / "happened").is_file()


@pytest.mark.slow  # without hosts, tests/comm has those that fall silent
@pytest.mark.skipif(not allowed(), reason="network namespaces aren't allowed here")
def test_a_link_that_goes_down_is_told_on_both_hosts(tmp_path: Path) -> None:
    with Hosts(2) as hosts:
        endpoints = [f"{one}:6170" for one in hosts.addresses]
        said = [sys.executable, *PROGRAM, str(tmp_path), "--steps", "1000000"]
        trainers = [hosts.start(rank, said, environment(rank, endpoints)) for rank in range(2)]
        with ended_after(trainers):
            until = time.monotonic() + 120
            while not (tmp_path / "0.step").is_file() and time.monotonic() < until:
                time.sleep(0.1)
            hosts.cut(1)
            for one in trainers:
                assert one.wait(200) == 1
    for rank in range(2):
        found = json.loads((tmp_path / f"{rank}.json").read_text())
        assert f"trainer {1 - rank} of 2 did not come" in found["error"], found
