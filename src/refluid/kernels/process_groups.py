"""torch.distributed's stores and groups of processes, on the CPU and on GPUs."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import torch

from refluid.kernels.parts import part

_distributed: Any = torch.distributed


def serve_store(host: str, port: int, listener: int) -> Any:
    """A store for all processes; listener: the descriptor of a socket that listens there."""
    return _distributed.TCPStore(
        host, port, None, True, wait_for_workers=False, master_listen_fd=listener
    )


def reach_store(host: str, port: int, seconds: float) -> Any:
    """The store that another process serves there; RuntimeError where none does in that time."""
    patience = timedelta(seconds=seconds)
    return _distributed.TCPStore(host, port, None, False, patience, wait_for_workers=False)


def gloo(store: Any, name: str, rank: int, size: int, host: str, seconds: float) -> Any:
    """A process group of `size` that listens at `host`, all of which must call this.

    seconds: how long each waits for another. Where torch doesn't let the address be chosen it
    listens where the name of the machine points.
    """
    own, patience = _distributed.PrefixStore(name, store), timedelta(seconds=seconds)
    group = _distributed.ProcessGroupGloo
    options_class = part("torch.distributed.ProcessGroupGloo._Options", None)
    if options_class is None:
        return group(own, rank, size, patience)
    options = options_class()
    options._devices = [group.create_device(hostname=host)]
    options._timeout = patience
    return group(own, rank, size, options)


def has_nccl() -> bool:
    """Whether this torch has NCCL."""
    return bool(_distributed.is_available() and _distributed.is_nccl_available())


def nccl(store: Any, name: str, rank: int, size: int, seconds: float) -> Any:
    """A process group of `size`, each with a GPU of its own, all of which must call this.

    seconds: how long an exchange may take before NCCL's watchdog ends it.
    """
    own = _distributed.PrefixStore(f"nccl/{name}", store)
    options = _distributed.ProcessGroupNCCL.Options()
    options._timeout = timedelta(seconds=seconds)
    return _distributed.ProcessGroupNCCL(own, rank, size, options)
