"""Which files of a traceback are refluid's, and of what it is built on: users wrote the others."""

from __future__ import annotations

import contextlib
import functools
import os
import runpy
import site
from importlib.util import find_spec
from pathlib import Path

_PARTS = ("typer", "click", "torch", "numba")
_BETWEEN = (runpy.__file__, contextlib.__file__)
_REFLUID = str(Path(__file__).resolve().parents[1])


@functools.cache
def _folders() -> tuple[str, ...]:
    found = [find_spec(name) for name in _PARTS]
    places = [Path(spec.origin).parent for spec in found if spec is not None and spec.origin]
    return tuple(f"{place}{os.sep}" for place in [_REFLUID, *places])


def is_part(file: str) -> bool:
    """Whether a frame of this file is refluid's, torch's or of Python's between it and the user."""
    return file.startswith(("<frozen ", "<refluid ", *_folders())) or file in _BETWEEN


def _library_folders() -> tuple[str, ...]:
    """Where the standard library and installed packages are, refluid among them."""
    packages = [*site.getsitepackages(), site.getusersitepackages()]
    return (str(Path(os.__file__).parent), *packages, str(Path(__file__).parents[2]))


_LIBRARIES = _library_folders()


def is_library(path: str) -> bool:
    """Whether a file or folder is the standard library's, or an installed package's."""
    if "/site-packages" in path or "/dist-packages" in path:
        return True
    return any(path == folder or path.startswith(f"{folder}/") for folder in _LIBRARIES)
