"""What the system says of a machine, read once; checks look at nothing else."""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil
import torch

from refluid.core import flags

_WIDEST = (
    "amx_int8", "amx_bf16", "avx512_fp16", "avx512_bf16", "avx512_vnni", "avx512f", "avx2", "fma",
    "avx", "sve", "asimd", "bf16",
)  # fmt: skip


@dataclass(frozen=True)
class Host:
    """cores: that this process may use. quota: CPUs' worth of time that its group may, 0 for any.

    instructions: of those that matter for training, the widest first. used: by `torch`.
    memory, available: bytes; limit: of its group, 0 for none. huge_pages: "always", "madvise",
    "never", "" where there are none. governors: how clocks are set. mapped: the names of libraries
    in the process. threads: of one operator by torch.
    """

    model: str
    cores: int
    quota: float
    instructions: tuple[str, ...]
    used: str
    threads: int
    memory: int
    available: int
    limit: int
    swapped: int
    huge_pages: str
    numa_nodes: int
    governors: frozenset[str]
    mapped: frozenset[str]
    environment: Mapping[str, str]


def read_host(root: Path = Path("/")) -> Host:
    """What is so now. root: where `proc` and `sys` are found."""
    cpuinfo = _text(root / "proc/cpuinfo")
    memory, swap = psutil.virtual_memory(), psutil.swap_memory()
    nodes = list((root / "sys/devices/system/node").glob("node[0-9]*"))
    governors = (root / "sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_governor")
    return Host(
        model=_first(r"model name\s*: (.+)", cpuinfo) or platform.processor(),
        cores=_cores(),
        quota=_quota(root),
        instructions=_instructions(cpuinfo),
        used=torch.backends.cpu.get_cpu_capability(),
        threads=torch.get_num_threads(),
        memory=memory.total,
        available=memory.available,
        limit=_limit(root),
        swapped=swap.used,
        huge_pages=_first(r"\[(\w+)\]", _text(root / "sys/kernel/mm/transparent_hugepage/enabled")),
        numa_nodes=max(1, len(nodes)),
        governors=frozenset(_text(one).strip() for one in governors),
        mapped=_mapped(root),
        environment=flags.whole_environment(),
    )


def _cores() -> int:
    process = psutil.Process()
    if hasattr(process, "cpu_affinity"):
        return len(process.cpu_affinity() or ())
    return psutil.cpu_count() or 1


def _instructions(cpuinfo: str) -> tuple[str, ...]:
    known = set(_first(r"(?:flags|Features)\s*: (.+)", cpuinfo).split())
    return tuple(one for one in _WIDEST if one in known)


def _quota(root: Path) -> float:
    """By the second version of control groups, else by the first."""
    parts = _text(root / "sys/fs/cgroup/cpu.max").split()
    if len(parts) != 2:
        folder = root / "sys/fs/cgroup/cpu"
        parts = [_text(folder / f"cpu.cfs_{one}_us").strip() for one in ("quota", "period")]
    quota, period = parts
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() else 0.0


def _limit(root: Path) -> int:
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        text = _text(root / "sys/fs/cgroup" / name).strip()
        if text.isdigit() and int(text) < psutil.virtual_memory().total:
            return int(text)
    return 0


def _mapped(root: Path) -> frozenset[str]:
    lines = _text(root / "proc/self/maps").splitlines()
    return frozenset(line.rsplit("/", 1)[1] for line in lines if "/" in line)


def _first(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    return found[1].strip() if found else ""


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
