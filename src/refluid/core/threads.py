"""How many threads of its own one operator may use on the CPU."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, TypeVar

import torch

from refluid.core import flags

T = TypeVar("T")

# What torch took by itself, or was given before refluid was imported.
_AT_START = torch.get_num_threads()
_CHOSEN = any(map(flags.environment_str, ("OMP_NUM_THREADS", "MKL_NUM_THREADS")))


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


def begin_thread(count: int) -> None:
    """The calling thread's operators use so many threads, from the thread's start on.

    A thread that torch hasn't met takes the number that was set last in any thread, when it first
    asks for one, over what it was given before; so it asks first.
    """
    torch.get_num_threads()
    torch.set_num_threads(count)
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        # cuBLAS warns of a thread that has no context, which any other call gives it.
        torch.cuda.current_stream().query()


def free_threads() -> int:
    """How many threads the calling thread's operators use, where refluid may use fewer; else 1.

    Not where the user chose a number, by the environment, by FLAGS_paddle_num_threads or by
    torch.set_num_threads, nor where repeatable numbers are asked for: sums depend on it in their
    last bits. Replicas and training threads of datasets keep their share.
    """
    threads = torch.get_num_threads()
    free = threads == _AT_START and not _CHOSEN and not flags.was_set("paddle_num_threads")
    return threads if free and may_adapt() else 1


def may_adapt() -> bool:
    """Whether steps may use fewer threads than they were given, where that takes less time."""
    return _may_adapt(flags.state()) and not torch.are_deterministic_algorithms_enabled()


@lru_cache(maxsize=1)
def _may_adapt(_state: int) -> bool:
    return bool(flags.value("refluid_adaptive_threads")) and not _are_repeatable()


def is_repeatable() -> bool:
    """Whether a run has to give what another one gave: nothing that is timed may decide what is
    computed."""
    return _are_repeatable() or torch.are_deterministic_algorithms_enabled()


def _are_repeatable() -> bool:
    """Whether flags say so."""
    return bool(flags.value("cpu_deterministic") or flags.value("cudnn_deterministic"))


@contextmanager
def use_threads(count: int) -> Iterator[None]:
    """Operators of the calling thread use so many threads within the block.

    Threads that torch meets for the first time meanwhile begin with the same number.
    """
    former = torch.get_num_threads()
    if count == former:
        yield
        return
    try:
        torch.set_num_threads(count)
        yield
    finally:
        torch.set_num_threads(former)


def by_threads(count: int, function: Callable[..., T], *given: Any) -> T:
    """What the function gives, of which operators use so many threads; as `use_threads`.

    Ctrl-C between the end of that one's block and its own end would leave torch at the number.
    """
    former = torch.get_num_threads()
    if count == former:
        return function(*given)
    try:
        torch.set_num_threads(count)
        return function(*given)
    finally:
        torch.set_num_threads(former)


def threads_of_all(workers: int) -> int:
    """How many threads so many workers would use together.

    That is at most a thread for each core, unless the thread was already given more.
    """
    former = torch.get_num_threads()
    wanted = workers * operator_threads(workers)
    if wanted > former:
        known = hasattr(os, "sched_getaffinity")
        cores = len(os.sched_getaffinity(0)) if known else os.cpu_count() or 1
        wanted = max(former, min(wanted, cores))
    return wanted
