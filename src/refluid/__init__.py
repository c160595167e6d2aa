"""refluid: PaddlePaddle Fluid training programs on PyTorch's kernels."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any

__version__ = "0.1.0"


def apply_strategy(strategy: str | PathLike[str] | Mapping[str, Any]) -> None:
    """What a strategy file, or a dict of the same tables, says holds for the rest of the process.

    It stands over what the script says itself (docs/tune.md). Call it before programs are built.
    Raises ValueError, which names the entry and what it may be, and OSError.
    """
    from refluid.engine import strategy_file

    strategy_file.apply_strategy(strategy)
