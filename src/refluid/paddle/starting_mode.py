"""Whether a script's functions append to programs at first, as Fluid's, or run at once.

Fluid 1.8's `paddle` and Paddle 2's are one namespace here, and they start differently. What a
script takes of it tells which of the two it is written for:

    paddle.nn, paddle.to_tensor, ..  -> Paddle 2: functions run at once from there on
    paddle.enable_static             -> they append to programs, whatever comes
    paddle.fluid, paddle.batch, ..   -> either: they append to programs until another name tells

Where operators stand in a program already, functions go on appending to it. Variables of scripts
for Paddle 2 have its methods, whatever made them.
`FLAGS_refluid_dynamic_start=0` has all scripts start with programs.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

from refluid.core.lazy_package import LazyPackage

_PACKAGE = "refluid.paddle"
# What scripts of both kinds take: these tell nothing.
_EITHER = {
    *("base", "batch", "check_import_scipy", "compat", "dataset", "distributed", "fluid"),
    *("incubate", "reader", "static", "sysconfig", "utils", "v2", "version"),
}


class UndecidedPackage(LazyPackage):
    """The package `paddle` before a script has taken a name that tells how it starts."""

    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        taken(name)
        return found


def watch() -> None:
    """From here on the names that a script takes of `paddle` tell how it starts."""
    sys.modules[_PACKAGE].__class__ = UndecidedPackage


def taken(name: str) -> None:
    """A name of the package's was taken or imported: it may tell how the script starts."""
    package = sys.modules[_PACKAGE]
    if not isinstance(package, UndecidedPackage) or name in _EITHER or name.startswith("_"):
        return
    sys.modules[_PACKAGE].__class__ = LazyPackage
    importlib.import_module("refluid.paddle.tensor.methods").provide()
    if name != "enable_static":
        importlib.import_module("refluid.paddle.framework.modes").start_dynamic()
