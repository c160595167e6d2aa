"""Packages built on PaddlePaddle itself, which refluid can't stand in for: scripts may import them.

Many import paddlehub on top and use it for one of their networks only. Where it isn't installed,
importing it gives a module whose use is the error.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

ABSENT = frozenset({"paddlehub"})


class _Absent(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise ModuleNotFoundError(
            f"{self.__name__} is not installed, and {self.__name__}.{name} is used: it is built on "
            "PaddlePaddle itself, so what needs it can't run here",
            name=self.__name__,
        )


class AbsentFinder(MetaPathFinder, Loader):
    """Finds them after all others."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname in ABSENT else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Absent(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing is in it."""


def install() -> None:
    """Has them found so from now on."""
    if not any(isinstance(finder, AbsentFinder) for finder in sys.meta_path):
        sys.meta_path.append(AbsentFinder())
