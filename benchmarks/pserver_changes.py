"""How long trainers stand still while a server comes or goes, and while a checkpoint is written.

    python benchmarks/pserver_changes.py --rows 5000000
    python benchmarks/pserver_changes.py --rows 5000000 --held   # checkpoints that hold pushes up

Two servers are processes of their own. A trainer pushes 26,000 of the rows again and again; told
are its longest push meanwhile, its usual one, and the share of all rows that moved.
"""

from __future__ import annotations

import argparse
import os
import secrets
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
import torch

HEIGHT, WIDTH, IDS, MADE = 1_000_000_000, 10, 26_000, 500_000


def split_for(addresses: Sequence[str]) -> Any:
    """The program with the table, split for these servers."""
    from refluid.pserver.layout import TrainingMode
    from refluid.pserver.split import SplitOptions, split
    from tests.pserver.tables import network

    main, startup, _ = network(width=WIDTH)
    return split(main, startup, addresses, 1, 0, TrainingMode.ASYNC, SplitOptions(least=1))


def serve(addresses: Sequence[str], number: int, *, held: bool) -> None:
    """One server, as its process runs it. held: nothing is answered while a checkpoint is made."""
    import refluid.fluid as fluid
    from refluid.pserver.checkpoints import ServerCheckpoints
    from refluid.pserver.serving import Serving

    if held:
        write = ServerCheckpoints.write

        def holding(kept: Any) -> None:
            with kept._server.changed:
                write(kept)

        ServerCheckpoints.write = holding  # type: ignore[method-assign]
    torch.set_num_threads(1)
    parts, scope = split_for(addresses), fluid.Scope()
    fluid.Executor().run(parts.startup(addresses[number]), scope=scope)
    Serving(parts.program(addresses[number]), parts.side).run(scope)


def started(addresses: Sequence[str], number: int, folder: str, held: bool, **told: str) -> Any:
    """A server's process."""
    said = ["--serve", str(number), "--servers", ",".join(addresses), *["--held"] * held]
    environment = {"REFLUID_SERVER_CHECKPOINTS": folder, "REFLUID_SERVER_LOG": "1", **told}
    return subprocess.Popen(
        [sys.executable, __file__, *said], env=os.environ | environment, stderr=subprocess.DEVNULL
    )


class Pusher:
    """Pushes some rows again and again, and notes how long each push took."""

    def __init__(self, client: Any, rows: int) -> None:
        from refluid.core.selected_rows import SelectedRows

        ids = torch.from_numpy(np.random.RandomState(0).randint(0, rows, IDS))
        gradient = {"emb@GRAD": SelectedRows(ids, HEIGHT, torch.ones(IDS, WIDTH))}
        self._push = lambda: client.push(gradient)
        self.seconds: list[tuple[float, float]] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.is_set():
            begun = time.perf_counter()
            self._push()
            self.seconds.append((begun, time.perf_counter() - begun))

    def during(self, does: Callable[[], Any]) -> tuple[Any, float, float, float]:
        """What a function gives; how long it takes, the longest push meanwhile, and the usual."""
        usual = statistics.median(took for _, took in self.seconds)
        begun = time.perf_counter()
        found = does()
        end = time.perf_counter()
        took = end - begun
        while self.seconds[-1][0] < end:  # until one that was begun later is done
            time.sleep(0.1)
        longest = max(took for when, took in self.seconds if when + took >= begun)
        return found, took, longest, usual

    def end(self) -> None:
        self._ended.set()
        self._thread.join()


def measure(rows: int, folder: str, *, held: bool) -> list[str]:
    """What was measured, line by line."""
    from refluid.core.ports import free_endpoints
    from refluid.core.selected_rows import SelectedRows
    from refluid.pserver.asking import ask_for_change
    from refluid.pserver.lookout import present_layout
    from refluid.pserver.table_client import TableClient

    *addresses, third = free_endpoints(3)
    processes = [started(addresses, number, folder, held) for number in range(2)]
    client = TableClient(split_for(addresses).layout, 0, 120.0)
    client.enter()
    for start in range(0, rows, MADE):
        ids = torch.arange(start, min(start + MADE, rows))
        client.push({"emb@GRAD": SelectedRows(ids, HEIGHT, torch.ones(len(ids), WIDTH))})
    pusher, lines = Pusher(client, rows), []

    def tell(what: str, took: float, longest: float, usual: float, more: str = "") -> None:
        text = f"{what}: {took:.2f} s, longest push {1e3 * longest:.0f} ms, usual {1e3 * usual:.1f}"
        lines.append(f"{text} ms{more}")

    def added() -> Any:
        processes.append(started(addresses, 0, folder, held, REFLUID_SERVER_JOINS=third))
        while len(present_layout(addresses, 10.0).servers) < 3:
            time.sleep(0.02)

    time.sleep(3.0)
    tell("checkpoint", *pusher.during(lambda: client.save({}))[1:])
    tell("a server more, with its start", *pusher.during(added)[1:])
    own = [sum(one["rows"].values()) for one in client.state()]
    lines.append(f"  {own[2]:,} of {sum(own):,} rows moved: {own[2] / sum(own):.3f}")
    wish = {"remove": 0}
    change = lambda: ask_for_change(addresses, wish, secrets.randbits(62) | 1)  # noqa: E731
    found, *times = pusher.during(change)
    tell("a server less", *times)
    lines.append(f"  {found['moved']:,} of {found['rows']:,} rows in {found['seconds']:.2f} s")
    processes[1].kill()
    processes[1].wait()
    wish.update(remove=1, lost=True)
    found, *times = pusher.during(lambda: ask_for_change([third], wish, secrets.randbits(62) | 1))
    tell("a server lost for good", *times)
    lines.append(f"  {found['moved']:,} of {found['rows']:,} rows in {found['seconds']:.2f} s")
    pusher.end()
    client.leave()
    for one in processes:
        one.kill()
        one.wait()
    return lines


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, default=5_000_000)
    options.add_argument("--held", action="store_true", help="checkpoints hold pushes up")
    options.add_argument("--serve", type=int, help="be that server of a measurement")
    options.add_argument("--servers", default="")
    given = options.parse_args()
    torch.set_num_threads(1)
    if given.serve is not None:
        serve(given.servers.split(","), given.serve, held=given.held)
        return
    with tempfile.TemporaryDirectory() as folder:
        print("\n".join(measure(given.rows, folder, held=given.held)))


if __name__ == "__main__":
    main()
