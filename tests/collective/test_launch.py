"""`refluid launch`: the environment, the logs, and what happens when a trainer fails."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from refluid.collective.launch.agent import report
from refluid.collective.launch.cluster import Cluster, require_free, table
from refluid.collective.launch.job import launched
from refluid.collective.launch.logs import log_file
from refluid.core.errors import EnforceNotMet
from refluid.core.ports import free_port
from tests.interrupting import interruptible
from tests.started import Started, start

SCRIPT = """
import os, pathlib, sys, time
rank, attempt = os.environ["PADDLE_TRAINER_ID"], os.environ["TORCHELASTIC_RESTART_COUNT"]
print("trainer", rank, "of", os.environ["PADDLE_TRAINERS_NUM"], sys.argv[1:], flush=True)
print(os.environ["PADDLE_CURRENT_ENDPOINT"], os.environ["PADDLE_TRAINER_ENDPOINTS"], flush=True)
pathlib.Path(f"pid-{rank}-{attempt}").write_text(str(os.getpid()))
if rank == "1" and attempt in sys.argv:
    while not os.path.exists(f"pid-0-{attempt}"):
        time.sleep(0.01)
    raise SystemExit("trainer 1 gives up")
if "wait" in sys.argv:
    time.sleep(600)
"""


def command(folder: Path, *arguments: str) -> Started:
    """Begins the launcher; what it says goes to `said`."""
    (folder / "script.py").write_text(SCRIPT)
    told = {**os.environ, "OMP_NUM_THREADS": "1"}
    words = ["-m", "refluid.cli.main", "launch", "-n", "2", *arguments]
    with (folder / "said").open("w") as out, interruptible():
        streams = [0, out.fileno(), out.fileno()]
        return start(*words, folder=folder, environment=told, streams=streams)


def said(folder: Path, launcher: Started) -> str:
    """All that it said, once it has ended."""
    launcher.wait(300)
    return (folder / "said").read_text()


def ended(folder: Path) -> bool:
    """Whether all trainers that began are gone."""
    pids = [int(path.read_text()) for path in folder.glob("pid-*")]
    return not any(Path(f"/proc/{pid}").exists() for pid in pids)


@pytest.mark.slow  # tests/paddle/distributed has two trainers of the same launcher
def test_trainers_find_their_environment(tmp_path: Path) -> None:
    launcher = command(tmp_path, "script.py", "--lr", "0.1")
    output = said(tmp_path, launcher)
    assert launcher.returncode == 0, output
    assert "trainer 0 of 2 ['--lr', '0.1']" in output and "PADDLE_TRAINER_ENDPOINTS" in output
    assert "trainer 1" not in output
    log = (tmp_path / "log/workerlog.1").read_text().splitlines()
    assert log[0] == "trainer 1 of 2 ['--lr', '0.1']"
    own, everyone = log[1].split()
    assert everyone.split(",")[1] == own and len(set(everyone.split(","))) == 2


def test_a_failure_ends_all_and_is_shown_after_the_restarts(tmp_path: Path) -> None:
    launcher = command(tmp_path, "--max_restarts", "1", "--quiet", "script.py", "0", "1", "wait")
    output = said(tmp_path, launcher)
    assert launcher.returncode == 1, output
    assert "trainer 1 ended with status 1" in output and "trainer 1 gives up" in output
    assert sorted(path.name for path in tmp_path.glob("pid-*")) == [
        "pid-0-0",
        "pid-0-1",
        "pid-1-0",
        "pid-1-1",
    ]
    assert ended(tmp_path)


class _First:
    """As torch says which process failed first."""

    def get_first_failure(self) -> tuple[int, SimpleNamespace]:
        return 0, SimpleNamespace(exitcode=1)


@pytest.mark.parametrize("missed", [True, False])
def test_who_went_away_is_shown_where_the_first_failure_says_so(
    missed: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The other one ended first, but is seen to have ended later."""
    why = "PeerFailed: trainer 1 of 2 went away (to reduce)" if missed else "ValueError: no"
    log_file(tmp_path, 0).write_text(f"Traceback (most recent call last):\n{why}\n")
    log_file(tmp_path, 1).write_text("Traceback (most recent call last):\nRuntimeError: boom\n")
    assert report(_First(), tmp_path, 0) == 1
    output = capsys.readouterr().err
    assert "trainer 0 ended with status 1" in output
    assert ("RuntimeError: boom" in output) == missed


@pytest.mark.parametrize(
    "how",
    [
        pytest.param(signal.SIGINT, marks=pytest.mark.slow),
        pytest.param(signal.SIGTERM, marks=pytest.mark.slow),
        signal.SIGKILL,
    ],
)
def test_nothing_runs_on_after_the_launcher(how: signal.Signals, tmp_path: Path) -> None:
    launcher = command(tmp_path, "script.py", "wait")
    until = time.monotonic() + 240
    while len(list(tmp_path.glob("pid-*"))) < 2 and time.monotonic() < until:
        time.sleep(0.1)
    launcher.send_signal(how)
    launcher.wait(120)
    assert launcher.returncode == {signal.SIGINT: 130, signal.SIGTERM: 143}.get(how, -9)
    while not ended(tmp_path) and time.monotonic() < until + 30:
        time.sleep(0.1)
    assert ended(tmp_path)


def test_a_cluster_says_what_is_wrong() -> None:
    for made, message in (
        (lambda: Cluster(("a", "b"), "c", 6170, ("", "")), "is none of those"),
        (lambda: Cluster(("a", "a"), "a", 6170, ("",)), "named twice"),
        (lambda: Cluster(("a",), "a", 65535, ("", "")), "leaves no ports"),
    ):
        with pytest.raises(EnforceNotMet, match=message):
            made()
    port = free_port(2)
    cluster = Cluster(("127.0.0.1",), "127.0.0.1", port, ("0", "1"))
    with pytest.raises(EnforceNotMet, match="no such script"):
        launched(["no.py"], hosts=["a"], host=None, port=None, count=2, gpus=None, folder=Path())
    import socket

    with socket.socket() as other:
        other.bind(("127.0.0.1", port + 1))
        other.listen()
        with pytest.raises(EnforceNotMet, match="trainer 1 of this host can't listen"):
            require_free(cluster)


def test_the_table_is_fluids() -> None:
    cluster = Cluster(("10.0.0.1", "10.0.0.2"), "10.0.0.2", 6170, ("0", "1", "2"))
    assert cluster.environment(1) == {
        "PADDLE_TRAINER_ID": "4",
        "PADDLE_CURRENT_ENDPOINT": "10.0.0.2:6171",
        "PADDLE_TRAINERS_NUM": "6",
        "PADDLE_TRAINER_ENDPOINTS": ",".join(cluster.endpoints),
        "FLAGS_selected_gpus": "1",
    }
    lines = table(cluster).splitlines()
    assert {len(line) for line in lines[1:]} == {93}
    assert " ... " in lines[7] and lines[7].endswith("10.0.0.2:6172|")
