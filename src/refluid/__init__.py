"""refluid: PaddlePaddle Fluid training programs on PyTorch's kernels."""

from __future__ import annotations

import os
import sys


def _leave_out_current_folder() -> None:
    """`python -m refluid` looks in the current folder first, where a script's `queue.py` may be.

    The command `refluid` doesn't, nor does Python for `python folder/script.py`.
    """
    given = sys.orig_argv
    if sys.argv[:1] != ["-m"] or "-m" not in given or sys.flags.safe_path:
        return
    module, own = given[given.index("-m") + 1], os.path.dirname(os.path.dirname(__file__))
    if module.partition(".")[0] == __name__ and sys.path[:1] == [os.getcwd()] != [own]:
        del sys.path[0]


_leave_out_current_folder()

from collections.abc import Mapping  # noqa: E402
from os import PathLike  # noqa: E402
from typing import Any  # noqa: E402

__version__ = "0.1.0"


def apply_strategy(strategy: str | PathLike[str] | Mapping[str, Any]) -> None:
    """What a strategy file, or a dict of the same tables, says holds for the rest of the process.

    It stands over what the script says itself (docs/tune.md). Call it before programs are built.
    Raises ValueError, which names the entry and what it may be, and OSError.
    """
    from refluid.engine import strategy_file

    strategy_file.apply_strategy(strategy)
