"""A model of a training step over many hosts, fitted to what `benchmarks/collective.py` measures.

An exchange takes a time for each message that a trainer sends (`latency`), and one for each byte
that passes a host's link (`pace`, seconds a byte). With `hosts` hosts of `each` trainers,
n = hosts * each:

- direct: each trainer sends each of the n - each others on other hosts its part twice:
  2 * each * (n - each) / n times the gradients leave each host. A message to each other trainer for
  the digest, and two for each chunk.
- by host: 2 * (hosts - 1) / hosts times. As many messages to each other trainer of the host, and to
  the counterpart on each other host.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MEGA = 1 << 20
# Chunks of an exchange: at least so many, of at most so many megabytes.
CHUNKS, CHUNK = 4, 4
# Megabytes of gradients, seconds that a trainer computes, of which in the backward pass.
NETWORKS = {
    "ResNet-50": (102.2, 0.300, 0.200),
    "BERT base": (438.0, 0.600, 0.400),
}
RANKS = (8, 16, 32, 64, 128, 256, 512, 1024)
EACH, BUCKET = 8, 24
FASTER = 25.0  # 25 Gbit/s
KINDS = ("direct", "by host")
# Name, kind, every how many steps gradients are exchanged, of what share of their bytes.
STRATEGIES = (
    ("all at once", "direct", 1, 1.0),
    ("by host", "by host", 1, 1.0),
    ("by host, 16 bits", "by host", 1, 0.5),
    ("by host, merged over 4 steps", "by host", 4, 1.0),
)


@dataclass(frozen=True)
class Fit:
    """latency: seconds of a message to another trainer; pace: seconds a byte on a host's link."""

    latency: Mapping[str, float]
    pace: Mapping[str, float]

    def told(self) -> str:
        """A line for each kind of exchange."""
        return "\n".join(
            f"{kind}: {self.latency[kind] * 1e6:,.0f} us a message, "
            f"{1e-6 / self.pace[kind]:,.1f} MB/s for each host"
            for kind in KINDS
        )

    def exchange(
        self, kind: str, megabytes: float, hosts: int, each: int, bucket: int, faster: float = 1.0
    ) -> float:
        """Seconds for gradients of so many megabytes; links that many times faster."""
        data = leaving(kind, megabytes * MEGA, hosts, each)
        count = messages(kind, megabytes, hosts, each, bucket)
        return count * self.latency[kind] + data * self.pace[kind] / faster


def leaving(kind: str, data: float, hosts: int, each: int) -> float:
    """Bytes that leave a host."""
    n = hosts * each
    if kind == "direct":
        return 2 * each * (n - each) / n * data
    return 2 * (hosts - 1) / hosts * data


def messages(kind: str, megabytes: float, hosts: int, each: int, bucket: int) -> float:
    """Messages that a trainer sends one after the other."""
    exchanges, size = max(1.0, megabytes / bucket), min(megabytes, bucket)
    others = hosts * each - 1 if kind == "direct" else (hosts - 1) + (each - 1)
    return exchanges * others * (1 + 2 * max(CHUNKS, size / CHUNK))


def fitted(found: Mapping[str, Mapping[str, Any]], bucket: int) -> Fit:
    """To two hosts of two trainers: pace by the largest exchange, latency by the smallest."""
    latency, pace = {}, {}
    for kind in KINDS:
        sizes = _sizes(found, kind)
        small, large = sizes[0], sizes[-1]
        times = [float(found[f"{kind} {size}"]["seconds"]) for size in (small, large)]
        data = [leaving(kind, size * MEGA, 2, 2) for size in (small, large)]
        count = [messages(kind, size, 2, 2, bucket) for size in (small, large)]
        # count * latency + data * pace = time, for both
        by = count[0] * data[1] - count[1] * data[0]
        pace[kind] = (count[0] * times[1] - count[1] * times[0]) / by
        latency[kind] = max((times[0] - data[0] * pace[kind]) / count[0], 0.0)
    return Fit(latency, pace)


def checked(
    fit: Fit, found: Mapping[str, Mapping[str, Any]], bucket: int
) -> dict[str, tuple[float, float]]:
    """Of exchanges that the fit has not seen: seconds predicted and measured."""
    ends = {min(_sizes(found, kind)) for kind in KINDS} | {
        max(_sizes(found, kind)) for kind in KINDS
    }
    return {
        name: (fit.exchange(kind, size, 2, 2, bucket), float(one["seconds"]))
        for name, one in found.items()
        for kind, size in [(name.rpartition(" ")[0], int(name.rpartition(" ")[2]))]
        if size not in ends
    }


def _sizes(found: Mapping[str, Any], kind: str) -> list[int]:
    return sorted(int(name.rpartition(" ")[2]) for name in found if name.startswith(kind))


def step(
    fit: Fit, network: str, kind: str, ranks: int, every: int = 1, width: float = 1.0
) -> float:
    """Seconds of a step.

    every: gradients are exchanged once in so many steps. width: of their bytes, so many are sent.
    """
    megabytes, computes, backward = NETWORKS[network]
    hosts = max(1, ranks // EACH)
    if hosts == 1:
        return computes
    takes = fit.exchange(kind, width * megabytes, hosts, EACH, round(width * BUCKET), FASTER)
    return computes + exposed(takes, backward, BUCKET / megabytes) / every


def exposed(takes: float, backward: float, last: float) -> float:
    """What a backward pass doesn't hide of an exchange; last: the share of the last bucket.

    That bucket is complete at the very end.
    """
    return max(takes - backward, takes * min(1.0, last))


def page(fit: Fit) -> str:
    """The predictions as tables of Markdown."""
    lines = [fit.told().replace("\n", "; "), ""]
    head = " | ".join(f"{ranks:,}" for ranks in RANKS)
    lines += [f"| network, strategy | {head} |", "|---|" + "---|" * len(RANKS)]
    for network in NETWORKS:
        for name, kind, every, width in STRATEGIES:
            times = [step(fit, network, kind, one, every, width) for one in RANKS]
            shown = " | ".join(f"{one:.2f}" for one in times)
            lines.append(f"| {network}, {name} | {shown} |")
    return "\n".join(lines)
