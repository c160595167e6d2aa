"""What users are told once: where Fluid does something else than its arguments say."""

from __future__ import annotations

import logging

_LOGGER = logging.getLogger("refluid")
_told: set[str] = set()


def tell_once(message: str) -> None:
    """Logs a warning, the first time it is given."""
    if message not in _told:
        _told.add(message)
        _LOGGER.warning(message)
