"""Packages whose names are imported when one is first used."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Collection
from types import ModuleType
from typing import Any

from refluid.core.importing import import_many
from refluid.core.stub_modules import install, stub_names


class LazyPackage(ModuleType):
    """A package that is imported at no cost: submodules and public names come at their first use.

    `functions` are public names that a submodule has too: `fluid.data` is the function, also after
    `import paddle.fluid.data`, as in a package that imports all its names at once.
    """

    _public: str
    _functions: Collection[str]
    _modules: Collection[str] | None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") and name != "__all__":
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        submodule = f"{self.__name__}.{name}"
        if self._shows(name) and importlib.util.find_spec(submodule) is not None:
            return import_many(submodule)
        value = getattr(import_many(self._public), name)
        setattr(self, name, value)
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        is_submodule = isinstance(value, ModuleType) and value.__name__ == f"{self.__name__}.{name}"
        if is_submodule and (self._shows(name) or name in self._functions):
            stub_names(value)
        if is_submodule and not self._shows(name):
            return  # an import of the submodule
        super().__setattr__(name, value)

    def _shows(self, name: str) -> bool:
        """Whether a submodule of that name is one of the package's names."""
        return name not in self._functions and (self._modules is None or name in self._modules)

    def __dir__(self) -> list[str]:
        return sorted({*vars(self), *import_many(self._public).__all__})


def make_lazy(
    package: str,
    public: str,
    functions: Collection[str] = (),
    modules: Collection[str] | None = None,
) -> None:
    """Has a package find its names in the module `public`, which is imported when one is used.

    functions: names of public functions that are names of submodules too. modules: submodules that
    are attributes of the package, all where None; others are imported by their full name only.
    """
    install()
    module = sys.modules[package]
    module.__dict__.update(_public=public, _functions=frozenset(functions), _modules=modules)
    module.__class__ = LazyPackage
