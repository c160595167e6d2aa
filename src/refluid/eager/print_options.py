"""How numbers of variables are printed, as `paddle.set_printoptions` says; NumPy lays them out."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import numpy as np

_PRECISION = 8
# By NumPy's names; none are NumPy's own.
_options: dict[str, Any] = {}


def print_options() -> AbstractContextManager[Any]:
    """NumPy's options of that kind hold within the block."""
    return np.printoptions(**_options)


def set_printoptions(
    precision: int | None = None,
    threshold: int | None = None,
    edgeitems: int | None = None,
    sci_mode: bool | None = None,
    linewidth: int | None = None,
) -> None:
    """Says how variables that have their values are printed from here on; None leaves it as it is.

    precision: digits after the point. threshold: of more elements only `edgeitems` at both ends of
    each dimension are printed. sci_mode: as 1.5e+00. linewidth: characters of a line. TypeError for
    what is no int.
    """
    asked = {
        "precision": precision,
        "threshold": threshold,
        "edgeitems": edgeitems,
        "linewidth": linewidth,
    }
    for name, value in asked.items():
        if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
            raise TypeError(f"{name} is an int, not {value!r}")
    _options.update({name: value for name, value in asked.items() if value is not None})
    if sci_mode is not None:
        _options["suppress"] = not sci_mode
        _options["formatter"] = {"float_kind": _scientific} if sci_mode else None


def _scientific(value: Any) -> str:
    return f"{value:.{_options.get('precision', _PRECISION)}e}"
