"""What kind of processor this is, where that decides between kernels."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import torch

_CPUINFO = Path("/proc/cpuinfo")
_WIDE = ("AVX512", "AVX512_VNNI", "AVX512_BF16", "AVX512_FP16", "AMX")


@cache
def vendor() -> str:
    """The processor's maker as it names itself, such as AuthenticAMD; "" where nobody tells."""
    if not _CPUINFO.exists():
        return ""
    lines = (line.partition(":") for line in _CPUINFO.read_text("utf-8", "replace").splitlines())
    return next((value.strip() for key, _, value in lines if key.strip() == "vendor_id"), "")


@cache
def onednn_multiplies_faster() -> bool:
    """Whether oneDNN's matrix products are faster than MKL's.

    MKL keeps to 256 bits on processors that aren't Intel's, oneDNN takes what they have: with 512
    bits it is twice as fast.
    """
    both = torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    wide = torch.backends.cpu.get_cpu_capability() in _WIDE
    return both and wide and vendor() == "AuthenticAMD"
