"""Jobs on a cluster of Ray: Ray's own test cluster of several nodes on this machine."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from refluid.collective.launch.on_ray import run_on_ray
from refluid.collective.launch.ray_job import RayJob
from refluid.core.errors import EnforceNotMet

with_ray = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason="Ray isn't installed: pip install refluid[ray]"
)


def ran(folder: Path, what: str) -> tuple[dict[str, Any], str]:
    """What the cluster's program printed, and its errors."""
    path = os.pathsep.join(one for one in sys.path if one)
    found = subprocess.run(
        [sys.executable, "-m", "tests.collective.ray_cluster", str(folder), what],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert found.returncode == 0, found.stderr[-3000:]
    told: dict[str, Any] = json.loads(found.stdout.strip().splitlines()[-1])
    return told, found.stderr


@with_ray
def test_trainers_are_placed_and_logged(tmp_path: Path) -> None:
    told, _ = ran(tmp_path, "ends")
    assert told == {"status": 0, "said": "trainer 0 of 2 attempt 0\nsum 3\n"}
    assert (tmp_path / "log/workerlog.1").read_text() == "trainer 1 of 2 attempt 0\nsum 3\n"


@with_ray
def test_a_failure_ends_all(tmp_path: Path) -> None:
    told, said = ran(tmp_path, "fails")
    assert told["status"] == 3 and "trainer 1 ended with status 3" in said
    assert "Its last lines:\n    trainer 1 of 2 attempt 0\n    sum 3\n" in said


@with_ray
def test_what_was_on_a_lost_node_begins_again_on_another(tmp_path: Path) -> None:
    told, said = ran(tmp_path, "removed")
    assert told["status"] == 0, said[-2000:]
    log = (tmp_path / "log/workerlog.0").read_text()
    assert "attempt 1\nsum 3" in log and "the others were ended" in said


@with_ray
def test_no_room_is_said(tmp_path: Path) -> None:
    told, _ = ran(tmp_path, "full")
    assert told["status"].startswith("the cluster has no room for 9 trainers with {'CPU': 1} each")
    assert "it has 2 CPUs" in told["status"]


def test_what_is_wrong_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EnforceNotMet, match="spread or packed, not near"):
        RayJob(["a.py"], 2, "near")
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(EnforceNotMet, match=r"needs Ray: pip install 'refluid\[ray\]'"):
        run_on_ray(RayJob(["a.py"], 2), tmp_path)
