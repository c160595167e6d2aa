"""What GPUs there are, how fast their clocks run and what of their memory is free."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator

import torch

from refluid.tune.doctor.sign import Sign

_QUERY = "clocks.sm,clocks.max.sm,clocks_throttle_reasons.active,persistence_mode"
_THERMAL = 0x68  # hardware slowdown, by heat or by power
_BUSY = 0.1


def check_gpus() -> list[Sign]:
    """A finding per GPU; one that there is none."""
    if not torch.cuda.is_available():
        return [_none(shutil.which("nvidia-smi") is not None)]
    told = _told()
    return [
        found_gpu(
            torch.cuda.get_device_name(number),
            *torch.cuda.mem_get_info(number),
            told[number] if number < len(told) else None,
        )
        for number in range(torch.cuda.device_count())
    ]


def _none(driver: bool) -> Sign:
    advice = "" if not driver else (
        "there is a driver (nvidia-smi), but torch sees no GPU: install torch's CUDA wheel, "
        "or look at CUDA_VISIBLE_DEVICES"
    )  # fmt: skip
    return Sign("GPU", "none", advice)


def found_gpu(name: str, free: int, total: int, told: list[str] | None) -> Sign:
    """told: by `nvidia-smi`: clock, greatest clock, reasons for a lower one, persistence."""
    fact = f"{name}, {free / 1e9:.3g} of {total / 1e9:.3g} GB free"
    return Sign("GPU", fact + (f", {told[0]} of {told[1]} MHz" if told else ""),
                   "; ".join(_advice(free, total, told)))  # fmt: skip


def _advice(free: int, total: int, told: list[str] | None) -> Iterator[str]:
    if free < (1 - _BUSY) * total:
        yield "others hold its memory: nvidia-smi shows who"
    if told and int(told[2], 16) & _THERMAL:
        yield "it slows itself down (heat or power): nvidia-smi -q -d PERFORMANCE"
    if told and told[3] == "Disabled":
        yield "each process waits for the driver to start: sudo nvidia-smi -pm 1"


def _told() -> list[list[str]]:
    command = ["nvidia-smi", f"--query-gpu={_QUERY}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return [[cell.strip() for cell in line.split(",")] for line in done.stdout.splitlines()]
