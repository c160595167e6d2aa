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
    text = CPUINFO.read_text() if CPUINFO.exists() else ""
    models = {line.split(":", 1)[1].strip() for line in text.splitlines() if "model name" in line}
    model = " / ".join(sorted(models)) or platform.processor() or platform.machine()
    return f"{len(os.sched_getaffinity(0))} cores of {model}, {_capability()}"


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
