"""How fast two processes of this machine exchange: `python -m refluid.measure.link RANK PORT`."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

import torch

from refluid.comm.communicator import Communicator
from refluid.core.ports import free_port

_HOST = "127.0.0.1"
_BYTES, _REPEATS = 1 << 25, 6
_SMALL_REPEATS = 200
_PATIENCE = 60.0


@dataclass(frozen=True)
class LinkRates:
    """bandwidth: bytes per second that each sends and receives; latency: seconds of an exchange
    of one number."""

    bandwidth: float
    latency: float


def measure_link() -> LinkRates:
    """Between two new processes over loopback. RuntimeError says what they said in failing."""
    port = free_port(host=_HOST)
    command = [sys.executable, "-m", __spec__.name]
    both = [
        subprocess.Popen(
            [*command, str(rank), str(port)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        said = [one.communicate(timeout=_PATIENCE) for one in both]
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"no exchange within {_PATIENCE:.0f} s") from None
    finally:
        for one in both:
            with contextlib.suppress(ProcessLookupError):
                one.kill()
            one.wait()
    if any(one.returncode for one in both):
        raise RuntimeError(" ".join(err.strip().rsplit("\n", 1)[-1] for _, err in said))
    return LinkRates(**json.loads(said[0][0]))


def _rates(comm: Communicator) -> LinkRates:
    large, small = torch.zeros(_BYTES // 4), torch.zeros(1)
    exchange = _fastest(lambda: comm.all_reduce([large]), _REPEATS)
    return LinkRates(_BYTES / exchange, _fastest(lambda: comm.all_reduce([small]), _SMALL_REPEATS))


def _fastest(work: Callable[[], object], repeats: int) -> float:
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def _main(rank: int, port: int) -> None:
    from refluid.comm.processes import meet

    comm = meet(rank, 2, (_HOST, port), wait=_PATIENCE, patience=_PATIENCE)
    found = _rates(comm)
    comm.barrier()
    if rank == 0:
        print(json.dumps(asdict(found)))


if __name__ == "__main__":
    _main(*map(int, sys.argv[1:]))
