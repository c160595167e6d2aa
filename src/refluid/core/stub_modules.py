"""Modules that know the names of `stub_tables`: all resolve, and using one says what is missing.

The tables are read when a name or module is missed for the first time.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class StubModule(ModuleType):
    """A module that takes what it lacks from the tables, when it is first asked for it."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        making: Any = importlib.import_module("refluid.core.stub_making")
        try:
            value = making.stub(self.__name__, name)
        except AttributeError:
            own = vars(self).get("__getattr__")
            if own is None:
                raise
            return own(name)
        setattr(self, name, value)
        vars(self).setdefault("_of_tables", set()).add(name)
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, ModuleType) and value.__name__ == f"{self.__name__}.{name}":
            stub_names(value)  # a submodule that was imported
        super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        making: Any = importlib.import_module("refluid.core.stub_making")
        return sorted({*vars(self), *making.public_names(self.__name__)})


def stub_names(module: ModuleType) -> None:
    """Gives a module that exists, and those in it, the names that the tables have for them."""
    if type(module) is not ModuleType:
        return
    module.__class__ = StubModule
    inside = module.__name__ + "."
    for one in list(vars(module).values()):
        if isinstance(one, ModuleType) and one.__name__.startswith(inside):
            stub_names(one)


class StubFinder(MetaPathFinder):
    """Finds modules of Fluid's that are no files here. It is asked last."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        root, _, own = fullname.partition(".")
        if root != "refluid" or not own.startswith(("fluid.", "paddle.")):
            return None
        tables: Any = importlib.import_module("refluid.core.stub_tables")
        if not tables.is_stub(own):
            return None
        return ModuleSpec(fullname, StubLoader(), is_package=own in tables.packages())


class StubLoader(Loader):
    """Makes an empty module, which fills itself."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return StubModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Has `from module import *` find the public names."""
        making: Any = importlib.import_module("refluid.core.stub_making")
        vars(module)["__all__"] = making.public_names(module.__name__)


def install() -> None:
    """Makes imports find the modules of the tables. Calling it again changes nothing."""
    if not any(isinstance(finder, StubFinder) for finder in sys.meta_path):
        sys.meta_path.append(StubFinder())
