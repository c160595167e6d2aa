"""How many threads of its own one operator may use on the CPU."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from refluid.core import flags


def operator_threads(workers: int = 1) -> int:
    """Threads of one operator where `workers` operators run at once.

    FLAGS_paddle_num_threads where it was set; else torch's threads, shared out.
    """
    if flags.was_set("paddle_num_threads"):
        return max(1, int(flags.value("paddle_num_threads")))
    return max(1, torch.get_num_threads() // workers)


def use_operator_threads() -> None:
    """Gives the calling thread's operators what FLAGS_paddle_num_threads says, if it was set."""
    threads = operator_threads()
    if threads != torch.get_num_threads():
        torch.set_num_threads(threads)


@contextmanager
def threads_of_all(workers: int) -> Iterator[None]:
    """Operators of the calling thread use what so many workers would use together.

    That is at most a thread for each core, unless the thread was already given more.
    """
    former = torch.get_num_threads()
    wanted = workers * operator_threads(workers)
    if wanted > former:
        known = hasattr(os, "sched_getaffinity")
        cores = len(os.sched_getaffinity(0)) if known else os.cpu_count() or 1
        wanted = max(former, min(wanted, cores))
    if wanted == former:
        yield
        return
    torch.set_num_threads(wanted)
    try:
        yield
    finally:
        torch.set_num_threads(former)
