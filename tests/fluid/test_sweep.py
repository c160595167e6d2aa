"""The recorded layer calls with many arguments: what differs from Fluid is excused, and only that.

`sweep/MODULE.toml` says what may differ and why:

    [[excused]]
    kind = "fluid refuses"
    calls = ["slice [::2]", "hash(*"]   # a `*` at the end stands for any ending
    why = "..."
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.golden import GOLDEN, needs_golden

_SWEEP = GOLDEN / "sweep"
_EXCUSES = Path(__file__).parent / "sweep"
MODULES = ("dense", "elementwise", "losses_shapes", "sequences")


@dataclass(frozen=True)
class Excuse:
    """What of one call, or of calls of one beginning, may differ."""

    kind: str
    call: str

    def covers(self, kind: str, call: str) -> bool:
        same = call.startswith(self.call[:-1]) if self.call.endswith("*") else call == self.call
        return same and kind == self.kind


def _excuses(module: str) -> Iterator[Excuse]:
    for group in tomllib.loads((_EXCUSES / f"{module}.toml").read_text()).get("excused", []):
        assert group["why"]
        for call in group["calls"]:
            yield Excuse(group["kind"], call)


def _differences(module: str, folder: Path) -> list[tuple[str, str, str]]:
    """Kind of difference, call and description, as the sweep's own comparison gives them."""
    made = folder / f"{module}.pkl"
    expected = [_SWEEP / "expected" / f"{module}{end}.pkl" for end in ("", ".again")]
    env = os.environ | {"REFLUID": "1", "OMP_NUM_THREADS": "1"}
    _call([str(_SWEEP / "lib.py"), module, str(made)], env)
    named = [_with_names(file, folder) for file in (made, *expected)]
    lines = _call([str(_SWEEP / "compare.py"), *named], env).splitlines()
    return [
        (kind, call, what) for kind, call, what in (line.split(" | ", 2) for line in lines[:-1])
    ]


def _with_names(file: Path, folder: Path) -> str:
    """A file without the calls that are named by where an argument lay in memory.

    The name decides, too, whether a call's batch size is unknown.
    """
    calls = pickle.loads(file.read_bytes())
    named = {name: outcome for name, outcome in calls.items() if " at 0x" not in name}
    assert len(named) > 0.95 * len(calls)
    target = folder / f"named.{file.parent.name}.{file.name}"
    target.write_bytes(pickle.dumps(named))
    return str(target)


def _call(arguments: list[str], env: dict[str, str]) -> str:
    command = [sys.executable, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@needs_golden
@pytest.mark.parametrize("module", MODULES)
def test_what_differs_is_excused(module: str, tmp_path: Path) -> None:
    found = _differences(module, tmp_path)
    excuses = list(_excuses(module))
    new = [
        f"{kind} | {call} | {what}"
        for kind, call, what in found
        if not any(excuse.covers(kind, call) for excuse in excuses)
    ]
    unneeded = [
        f"{excuse.kind} | {excuse.call}"
        for excuse in excuses
        if not any(excuse.covers(kind, call) for kind, call, _ in found)
    ]
    assert not new, "\n".join(new)
    assert not unneeded, "no longer differs: " + "\n".join(unneeded)
