"""Work that makes many objects and few cycles, without looking for garbage meanwhile.

Python looks whenever so many objects were made, and then goes through all there are: torch's
modules, programs, and what is being made.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collections() -> Iterator[None]:
    """No garbage is looked for within the block."""
    was_enabled = gc.isenabled()
    try:
        gc.disable()  # in here: Ctrl-C may come right after it
        yield
    finally:
        if was_enabled:
            gc.enable()
