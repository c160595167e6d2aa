"""How many threads of its own one operator may use on the CPU."""

from __future__ import annotations

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
