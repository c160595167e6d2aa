"""Modules that are tables of names, each with where it is: imported when it is first used.

A table is a text. `add=elementwise_add` names what is `elementwise_add` in its home:

    name_table(__name__, '''
        refluid.paddle.tensor.math: add subtract
        refluid.fluid.framework: name_scope
    ''')
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from typing import Any, NamedTuple

from refluid.core.stub_modules import StubModule


class Home(NamedTuple):
    """Where a name is."""

    module: str
    name: str

    def load(self) -> Any:
        """What it names."""
        return getattr(importlib.import_module(self.module), self.name)


class NameTable(StubModule):
    """A module whose names are a table's; then its submodules, then those of the stub tables."""

    def __getattr__(self, name: str) -> Any:
        own = vars(self)
        if name in own["_homes"]:
            value = own[name] = own["_homes"][name].load()
            return value
        if not name.startswith("_") and "__path__" in own:
            submodule = f"{self.__name__}.{name}"
            if importlib.util.find_spec(submodule) is not None:
                return importlib.import_module(submodule)
        return super().__getattr__(name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *vars(self)["_homes"]})


def homes(text: str) -> dict[str, Home]:
    """A table: name -> where it is. ValueError for a name that stands twice."""
    found: dict[str, Home] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        module, _, listed = line.partition(":")
        for one in listed.split():
            name, _, original = one.partition("=")
            if name in found:
                raise ValueError(f"a table has {name!r} twice")
            found[name] = Home(module, original or name)
    return found


def name_table(module: str, text: str) -> None:
    """Makes a module that is being imported a table of names."""
    found = sys.modules[module]
    table = homes(text)
    found.__dict__.update(_homes=table, __all__=sorted({*vars(found).get("__all__", ()), *table}))
    found.__class__ = NameTable
