"""Over which interfaces processes reach each other, and how fast two of this machine exchange."""

from __future__ import annotations

import socket
from collections.abc import Mapping

import psutil
import torch

from refluid.measure.link import LinkRates, measure_link
from refluid.tune.doctor.sign import Sign

_SLOW = 1e8


def interfaces() -> dict[str, tuple[str, int]]:
    """Those that are up and have an IPv4 address, with it and megabits per second (0: unknown)."""
    states = psutil.net_if_stats()
    found = {}
    for name, addresses in psutil.net_if_addrs().items():
        state = states.get(name)
        own = [one.address for one in addresses if one.family == socket.AF_INET]
        if own and state and state.isup:
            found[name] = own[0], state.speed
    return found


def found_interfaces(known: Mapping[str, tuple[str, int]]) -> Sign:
    """What they are; trainers on several hosts need one besides loopback."""
    shown = [
        f"{name} {address}" + (f" {speed / 1e3:g} Gbit/s" if 0 < speed < 1e6 else "")
        for name, (address, speed) in known.items()
    ]
    others = [name for name, (address, _) in known.items() if not address.startswith("127.")]
    advice = "" if others else "other hosts can't be reached: jobs on several need an address here"
    return Sign("interfaces", ", ".join(shown) or "none", advice)


def found_link(rates: LinkRates) -> Sign:
    """What was measured."""
    fact = (
        f"{rates.bandwidth / 1e9:.3g} GB/s each way between two processes (gloo, loopback), "
        f"{rates.latency * 1e6:.3g} µs an exchange"
    )
    advice = "" if rates.bandwidth > _SLOW else (
        "far below what memory gives: look for load by others, a firewall or a small MTU of `lo`"
    )  # fmt: skip
    figures: dict[str, float | str] = {
        "bytes_per_second": rates.bandwidth,
        "latency_seconds": rates.latency,
    }
    return Sign("gloo", fact, advice, figures)


def check_network() -> list[Sign]:
    """All of it, measured now."""
    found = [found_interfaces(interfaces())]
    try:
        found.append(found_link(measure_link()))
    except RuntimeError as error:
        found.append(Sign("gloo", "two processes can't exchange", str(error)))
    if torch.cuda.is_available() and not torch.distributed.is_nccl_available():
        found.append(Sign("NCCL", "not in this build of torch", "install torch's CUDA wheel"))
    return found
