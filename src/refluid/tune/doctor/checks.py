"""What a host's facts mean for training: one function for each topic."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator

import torch

from refluid.core import flags
from refluid.tune.doctor.host import Host
from refluid.tune.doctor.sign import Sign

_GB = 1e9
# Where so little is left, the system begins to swap or kills what is largest.
_LITTLE = 0.1
_WIDER = {"AVX512": ("avx512f",), "AVX2": ("avx2",)}
_ALLOCATORS = ("jemalloc", "tcmalloc", "mimalloc")
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")


def threads(host: Host) -> Sign:
    """Threads of one operator beside the cores that there are."""
    allowed = min(host.cores, host.quota) if host.quota else float(host.cores)
    fact = f"{host.threads} for each operator, {host.cores} cores"
    if host.quota:
        fact += f", of which the control group allows {host.quota:.3g}"
    advice = ""
    if host.threads > allowed:
        most = max(1, int(allowed))
        advice = f"more threads than cores wait for each other: OMP_NUM_THREADS={most}"
    elif host.threads < int(allowed):
        names = [name for name in _THREADS if name in host.environment]
        why = f"{' and '.join(names)} of the environment" if names else "the program"
        advice = f"{why} leaves cores idle: unset it, unless several processes share the machine"
    figures: dict[str, float | str] = {
        "threads": host.threads,
        "cores": host.cores,
        "quota_cpus": host.quota,
    }
    return Sign("threads", fact, advice, figures)


def instructions(host: Host) -> Sign:
    """What the processor has beside what torch and oneDNN use."""
    fact = f"{host.model or 'unknown processor'}: {' '.join(host.instructions) or 'none known'}"
    limits = [
        f"{name}={host.environment[name]}"
        for name in ("ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA")
        if host.environment.get(name)
    ]
    wider = next((name for name, needs in _WIDER.items() if {*needs} <= {*host.instructions}), "")
    advice = ""
    if limits:
        advice = f"the environment forbids wider instructions ({', '.join(limits)}): unset it"
    elif wider and host.used not in (wider, "AVX512"):
        advice = f"torch uses {host.used} of them: install a build of torch with {wider}"
    return Sign("instructions", fact, advice, {"used": host.used})


def onednn(_host: Host) -> Sign:
    """Whether torch has oneDNN and MKL, of which refluid takes the faster products."""
    has = torch.backends.mkldnn.is_available(), torch.backends.mkl.is_available()  # type: ignore[no-untyped-call]
    names = [name for name, there in zip(("oneDNN", "MKL"), has, strict=True) if there]
    lacks = (
        "convolutions and bfloat16 are several times slower without oneDNN: install torch's wheel"
    )
    return Sign("libraries", " and ".join(names) or "neither oneDNN nor MKL",
                   "" if has[0] else lacks)  # fmt: skip


def huge_pages(host: Host) -> Sign:
    """Transparent huge pages: fewer look-ups of where memory lies (`kernels/huge_pages.py`)."""
    fact = host.huge_pages or "unknown to this system"
    advice = "" if host.huge_pages != "never" else (
        "steps take up to 1.4 times as long in pages of 4 KB: "
        "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled"
    )  # fmt: skip
    return Sign("huge pages", fact, advice)


def allocator(host: Host) -> Sign:
    """Who gives memory, and whether it stays in the process."""
    other = next((one for one in _ALLOCATORS for lib in host.mapped if one in lib), "")
    if flags.value("use_system_allocator"):
        advice = "each step faults the same pages in again: unset FLAGS_use_system_allocator"
        return Sign("allocator", "malloc as the system sets it", advice)
    if other:
        return Sign("allocator", f"{other}, which refluid leaves as it is")
    return Sign("allocator", "glibc's malloc, told to keep what steps free")


def numa(host: Host) -> Sign:
    """Memory of another socket is slower."""
    if host.numa_nodes == 1:
        return Sign("NUMA", "one node")
    advice = (
        "a process whose threads lie on several nodes reads memory of others: one process for each "
        "node, numactl --cpunodebind=N --membind=N refluid run .."
    )
    return Sign("NUMA", f"{host.numa_nodes} nodes", advice)


def clocks(host: Host) -> Sign:
    """How the system sets the processor's clock."""
    if not host.governors:
        return Sign("clock", "set by the host of this virtual machine, or unknown")
    slow = "powersave" in host.governors or "schedutil" in host.governors
    advice = "the clock rises late: sudo cpupower frequency-set -g performance" if slow else ""
    return Sign("clock", ", ".join(sorted(host.governors)), advice)


def memory(host: Host) -> Sign:
    """What is left of it."""
    most = host.limit or host.memory
    fact = f"{host.available / _GB:.3g} of {most / _GB:.3g} GB free"
    if host.swapped:
        fact += f", {host.swapped / _GB:.2g} GB swapped out"
    advice = ""
    if host.available < _LITTLE * most:
        advice = "end other processes, or see docs/knobs.md (memory_optimize, recompute)"
    elif host.swapped > _LITTLE * most:
        advice = "what is swapped out has to come back: end other processes"
    figures: dict[str, float | str] = {"free_bytes": host.available, "total_bytes": most}
    return Sign("memory", fact, advice, figures)


def compiler(_host: Host) -> Sign:
    """What the compiled tier, and loops that are kept, are built with."""
    found = next((one for one in ("c++", "g++", "clang++") if shutil.which(one)), "")
    advice = "" if found else (
        "steps are never compiled (docs/tiers.md), and loops compiled by numba in each process: "
        "install g++"
    )  # fmt: skip
    return Sign("C++ compiler", found or "none", advice)


CHECKS: tuple[Callable[[Host], Sign], ...] = (
    threads, instructions, onednn, huge_pages, allocator, numa, clocks, memory, compiler,
)  # fmt: skip


def told(host: Host) -> Iterator[Sign]:
    """What the host's facts say, without measuring anything."""
    return (check(host) for check in CHECKS)
