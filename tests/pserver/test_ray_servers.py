"""Jobs with servers on Ray's test cluster: what dies is started again, on another host too."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pserver.ray_servers import STEPS

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("ray") is None, reason="Ray isn't installed: refluid[ray]"
    ),
]


@pytest.mark.parametrize("what", ["ends", "killed", "removed"])
def test_every_update_is_there_once(what: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.pserver.ray_servers", str(tmp_path), what],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(one for one in sys.path if one)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    logs = "".join(one.read_text() for one in (tmp_path / "log").glob("*"))
    assert done.returncode == 0, done.stderr[-3000:] + logs[-3000:]
    assert json.loads(done.stdout.strip().splitlines()[-1]) == {"status": 0}, done.stderr + logs
    told = [json.loads((tmp_path / f"{number}.json").read_text()) for number in range(2)]
    assert "the others were ended" not in done.stderr
    own, last = sum(each["own"][0] for each in told), max(told, key=lambda each: each["moment"])
    seen = {*last["shared"], *last["dense"]}
    if what == "removed":  # one trainer began anew, on tables that the servers' logs gave back
        assert done.stderr.count("is started again elsewhere") == 2
        # The server that stayed may have gone one round without it, for which the other waited.
        assert min(seen) <= own <= max(seen) <= min(seen) + 1 < 1 - STEPS
    else:
        assert {*seen, *told[0]["shared"], *told[1]["shared"], own} == {-float(STEPS)}
        assert ("is started again" in done.stderr) == (what == "killed")
