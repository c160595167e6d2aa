"""Modules beside a user's script that have names of the library's: `profile.py`, `queue.py`.

Python looks beside the script first, for whoever imports. What torch or the standard library
imports while the script runs would be the user's file: a `profile.py` then ends the first layer.
Here libraries find their own modules, and the script finds the file beside it.
"""

from __future__ import annotations

import dis
import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, all_suffixes
from types import FrameType, ModuleType

from refluid.core.own_frames import is_library

_IMPORT = dis.opmap["IMPORT_NAME"]
_IMPORTLIB = ("<frozen importlib._bootstrap>", "<frozen importlib._bootstrap_external>")
_OWN = frozenset({"__main__", "paddle", "refluid"})


def _find(name: str, folders: Iterable[str]) -> ModuleSpec | None:
    """A module or package of that name there; folders without `__init__.py` don't count."""
    found = PathFinder.find_spec(name, list(folders))
    return found if found is not None and found.loader is not None else None


def _asked_by_library() -> bool:
    """Whether an import statement of a library is being carried out.

    Not a call: who calls `import_module` or `pickle.load` may well ask for a user's module.
    """
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename in _IMPORTLIB:
        frame = frame.f_back
    if frame is None or frame.f_code.co_code[frame.f_lasti] != _IMPORT:
        return False
    path = frame.f_code.co_filename
    return path.startswith("<frozen ") or is_library(path)


class _Kept(Loader):
    """Gives modules that were set aside."""

    def __init__(self, modules: dict[str, ModuleType]) -> None:
        self._modules = modules
        # `typing.io` is a class, and has none.
        self._specs = {name: getattr(one, "__spec__", None) for name, one in modules.items()}

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        sys.modules.update(self._modules)
        return self._modules[spec.name]

    def exec_module(self, module: ModuleType) -> None:
        """Runs nothing: the module has run. Puts back the spec that the import replaced."""
        module.__spec__ = self._specs[module.__name__]


class LibraryFinder(MetaPathFinder):
    """Finds for a library its own module where the user's folder has one of that name too."""

    def __init__(self) -> None:
        self._aside: dict[str, dict[str, ModuleType]] = {}

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        if path is not None or not _find(fullname, (p for p in sys.path if not is_library(p))):
            return None
        if not _asked_by_library():
            return None
        if fullname in self._aside:
            return ModuleSpec(fullname, _Kept(self._aside.pop(fullname)))
        return _find(fullname, filter(is_library, sys.path))

    def set_aside(self, folder: str) -> None:
        """Has the script find files of its folder whose names are taken by imported modules.

        Libraries keep the modules that they have, and are given those again.
        """
        for name in collisions(folder):
            module = sys.modules.get(name)
            if module is not None and getattr(module.__spec__, "origin", None) != "frozen":
                taken = [one for one in sys.modules if one == name or one.startswith(f"{name}.")]
                self._aside[name] = {one: sys.modules.pop(one) for one in taken}


def set_aside(folder: str) -> None:
    """`LibraryFinder.set_aside`, of the finder that `paddle.install` has put in place."""
    for finder in sys.meta_path:
        if isinstance(finder, LibraryFinder):
            finder.set_aside(folder)


def collisions(folder: str) -> list[str]:
    """Names of modules in a user's folder that a library has too."""
    if is_library(folder):
        return []
    suffixes, names = {"", *all_suffixes()}, set()
    with suppress(OSError), os.scandir(folder) as entries:
        names = {entry.name.partition(".")[0] for entry in entries if _suffix(entry) in suffixes}
    taken = [name for name in names - _OWN if name.isidentifier() and _taken(name)]
    return sorted(name for name in taken if _find(name, [folder]))


def _suffix(entry: os.DirEntry[str]) -> str:
    return os.path.splitext(entry.name)[1]


def _taken(name: str) -> bool:
    if name in sys.builtin_module_names:
        return False  # Python finds those before any file
    return name in sys.stdlib_module_names or _find(name, filter(is_library, sys.path)) is not None
