"""`import paddle` finds refluid: one finder at the front of `sys.meta_path`.

`paddle` is `refluid.paddle` and `paddle.fluid` is `refluid.fluid`: the same module objects under
a second name, so that no module is run twice and a class has one identity.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import CodeType, ModuleType

from refluid.paddle.beside import LibraryFinder
from refluid.paddle.starting_mode import taken, watch

# The longest prefix counts.
_ALIASES = {
    "paddle.base": "refluid.fluid",  # its name since Paddle 2.6
    "paddle.fluid": "refluid.fluid",
    # Until 0.14; of what it had besides, its readers and data sets are those of `paddle`.
    "paddle.v2.fluid": "refluid.fluid",
    "paddle.v2": "refluid.paddle",
    "paddle": "refluid.paddle",
}


def real_name(name: str) -> str | None:
    """refluid's module for a `paddle` one: `paddle.fluid.io` is `refluid.fluid.io`."""
    for alias, module in _ALIASES.items():
        if name == alias or name.startswith(alias + "."):
            return module + name.removeprefix(alias)
    return None


class AliasLoader(Loader):
    """Gives the module that refluid has under its own name."""

    def __init__(self, module: str) -> None:
        self.module = module
        self.own_spec: ModuleSpec | None = None

    def create_module(self, _spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(self.module)
        self.own_spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Runs nothing: the module has run. Puts back the spec that the import replaced."""
        module.__spec__ = self.own_spec

    def get_code(self, _name: str) -> CodeType | None:
        """What `python -m paddle.x` runs: the code of refluid's module."""
        found = importlib.util.find_spec(self.module)
        get = getattr(found.loader, "get_code", None) if found is not None else None
        return get(self.module) if get is not None else None


class AliasFinder(MetaPathFinder):
    """Finds `paddle` and everything in it in refluid, also where a paddle is installed."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        real = real_name(fullname)
        if real is None:
            return None
        found = importlib.util.find_spec(real)
        if found is None:
            raise ModuleNotFoundError(
                f"No module named {fullname!r}: refluid stands in for paddle here and has no "
                f"{real!r}; docs/architecture.md says what it covers",
                name=fullname,
            )
        if fullname.startswith("paddle."):
            taken(fullname.split(".")[1])
        is_package = found.submodule_search_locations is not None
        return ModuleSpec(fullname, AliasLoader(real), origin=found.origin, is_package=is_package)


def installed() -> bool:
    """Whether `import paddle` finds refluid."""
    return any(isinstance(finder, AliasFinder) for finder in sys.meta_path)


def install(*, script: bool = False) -> None:
    """Makes `import paddle` find refluid from now on. Calling it again changes nothing.

    script: the names that are taken then tell how functions start (see `starting_mode`).

    Libraries that are imported from now on find their own modules, not files of the same names
    beside the script (see `beside`).
    Raises ImportError where another paddle has been imported already: its modules would mix.
    """
    if installed():
        return
    other = sys.modules.get("paddle")
    if other is not None:
        raise ImportError(
            f"another paddle is imported already (from {getattr(other, '__file__', None)}); "
            "call refluid.paddle.install() before the first `import paddle`",
            name="paddle",
        )
    sys.meta_path[:0] = [AliasFinder(), LibraryFinder()]
    if script:
        watch()


def uninstall() -> None:
    """Undoes `install`; modules imported in between stay usable under refluid's names."""
    own = AliasFinder | LibraryFinder
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, own)]
    for name in [name for name in sys.modules if real_name(name) is not None]:
        del sys.modules[name]
