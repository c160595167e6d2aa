"""Where and with what a measurement was made."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path

import torch

import refluid

CPUINFO = Path("/proc/cpuinfo")
_KINDS = ("family", "cpu family"), ("model", "model")


def facts(device: str) -> dict[str, str]:
    """Machine, versions, commit and date, in the order people want to read them."""
    return {
        "machine": _gpu() if device == "cuda" else _cpu(),
        "threads": str(torch.get_num_threads()),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": importlib.metadata.version("numpy"),
        "refluid": _commit(),
        "date": datetime.date.today().isoformat(),
    }


def _cpu() -> str:
    """Processors of one name can differ much: their family and model tell which one it is."""
    told = _told()
    model = told.get("model name") or platform.processor() or platform.machine()
    kind = ", ".join(f"{word} {told[key]}" for word, key in _KINDS if key in told)
    which = f"{model} ({kind})" if kind else model
    return f"{len(os.sched_getaffinity(0))} cores of {which}, {_capability()}"


def _told() -> dict[str, str]:
    """What Linux says of the first processor."""
    text = CPUINFO.read_text() if CPUINFO.exists() else ""
    lines = (line.partition(":") for line in text.partition("\n\n")[0].splitlines())
    return {key.strip(): value.strip() for key, _, value in lines}


def _capability() -> str:
    return torch.backends.cpu.get_cpu_capability()


def _gpu() -> str:
    return f"{torch.cuda.get_device_name(0)}, CUDA {torch.version.cuda}"


def _commit() -> str:
    version = refluid.__version__
    command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    here = Path(__file__).resolve().parent
    found = subprocess.run(command, cwd=here, capture_output=True, text=True, check=False)
    return f"{version} ({found.stdout.strip()})" if found.returncode == 0 else version
