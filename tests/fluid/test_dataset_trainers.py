"""global_shuffle over several trainers, and what they do when one of them dies."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refluid import fluid
from refluid.core.errors import EnforceNotMet, PeerFailed
from tests.comm.groups import free_address, together
from tests.feed.leftovers import assert_nothing_left

ROWS = (30, 51, 17)


class Fleet:
    """What a dataset asks a fleet for."""

    def __init__(self, index: int, endpoints: list[str]) -> None:
        self._index, self._endpoints = index, endpoints

    def worker_index(self) -> int:
        return self._index

    def worker_num(self) -> int:
        return len(ROWS)

    def worker_endpoints(self) -> list[str]:
        return self._endpoints


def fleets() -> list[Fleet]:
    host, port = free_address()
    endpoints = [f"{host}:{port - 1 - one}" for one in range(len(ROWS))]
    return [Fleet(index, endpoints) for index in range(len(ROWS))]


def datasets(folder: Path) -> list[Any]:
    found = []
    with fluid.program_guard(fluid.Program()):
        row = fluid.data("row", [None, 1], "int64")
        for trainer, count in enumerate(ROWS):
            path = folder / f"trainer-{trainer}"
            path.write_text("".join(f"1 {100 * trainer + k}\n" for k in range(count)))
            made = fluid.DatasetFactory().create_dataset("InMemoryDataset")
            made.set_use_var([row])
            made.set_batch_size(4)
            made.set_filelist([str(path)])
            made.set_fleet_send_batch_size(5)
            made.load_into_memory()
            found.append(made)
    return found


ALL = sorted(100 * trainer + k for trainer, count in enumerate(ROWS) for k in range(count))


def rows(dataset: Any, count: int = -1) -> list[int]:
    """The next pass: all rows, or those of the first batches."""
    loader = fluid.io.DataLoader.from_dataset(dataset, fluid.CPUPlace(), drop_last=False)
    found: list[int] = []
    for step in loader():
        found += np.array(step[0]["row"]).ravel().tolist()
        count -= 1
        if not count:
            break
    return found


def shuffle(made: list[Any], groups: list[Fleet]) -> list[Any]:
    return together(
        [
            lambda one=one, fleet=fleet: one.global_shuffle(fleet)  # type: ignore[misc]
            for one, fleet in zip(made, groups, strict=True)
        ]
    )


def test_each_row_is_at_one_trainer(tmp_path: Path) -> None:
    made, groups = datasets(tmp_path), fleets()
    seen = []
    for _ in range(2):
        assert shuffle(made, groups) == [None] * len(ROWS)
        found = [rows(one) for one in made]
        assert sorted(row for part in found for row in part) == ALL
        assert {len(part) for part in found} == {32, 33}
        assert all(len({row // 100 for row in part}) == len(ROWS) for part in found)
        seen.append(found)
    assert seen[0] != seen[1]
    totals = together(
        [lambda o=o, f=f: o.get_shuffle_data_size(f) for o, f in zip(made, groups, strict=True)]  # type: ignore[misc]
    )
    assert totals == [sum(ROWS)] * len(ROWS)
    assert_nothing_left()


def test_a_stopped_pass_goes_on_after_the_same_exchange(tmp_path: Path) -> None:
    made, groups = datasets(tmp_path), fleets()
    shuffle(made, groups)
    before = [rows(one, 3) for one in made]
    states = [json.loads(json.dumps(one.state_dict())) for one in made]
    again = datasets(tmp_path)
    for one, state in zip(again, states, strict=True):
        one.load_state_dict(state)
    with pytest.raises(EnforceNotMet, match="taken after global_shuffle"):
        rows(again[0])
    again = datasets(tmp_path)
    for one, state in zip(again, states, strict=True):
        one.load_state_dict(state)
    shuffle(again, groups)
    after = [rows(one) for one in again]
    assert sorted(row for part in [*before, *after] for row in part) == ALL


def test_where_to_meet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = datasets(tmp_path)
    groups = [Fleet(index, []) for index in range(len(ROWS))]
    with pytest.raises(EnforceNotMet, match="set REFLUID_EXCHANGE_ENDPOINT=host:port"):
        made[0].global_shuffle(groups[0])
    monkeypatch.setenv("REFLUID_EXCHANGE_ENDPOINT", "nowhere")
    with pytest.raises(EnforceNotMet, match="must be host:port"):
        made[0].global_shuffle(groups[0])
    monkeypatch.setenv("REFLUID_EXCHANGE_ENDPOINT", "{}:{}".format(*free_address()))
    assert shuffle(made, groups) == [None] * len(ROWS)
    assert sorted(row for one in made for row in rows(one)) == ALL


SCRIPT = """
import sys, time
from refluid.comm.processes import meet
comm = meet(1, 3, ("127.0.0.1", int(sys.argv[1])), wait=60)
print("met", flush=True)
time.sleep(600)
"""


def test_a_trainer_that_is_killed(tmp_path: Path) -> None:
    made, groups = datasets(tmp_path), fleets()
    port = int(groups[0].worker_endpoints()[0].rpartition(":")[2]) + 1
    script = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(port)], stdout=subprocess.PIPE, text=True
    )

    def kill() -> None:
        assert script.stdout is not None and script.stdout.readline() == "met\n"
        script.send_signal(signal.SIGKILL)

    def shuffled(trainer: int) -> None:
        with pytest.raises(PeerFailed, match="went away"):
            made[trainer].global_shuffle(groups[trainer])

    ended = together([kill, lambda: shuffled(0), lambda: shuffled(2)])
    script.communicate()
    assert ended == [None] * 3
    for trainer in (0, 2):
        assert rows(made[trainer]) == [100 * trainer + k for k in range(ROWS[trainer])]
    assert_nothing_left()
