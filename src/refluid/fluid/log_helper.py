"""`get_logger`: a logger that writes to the standard error stream, once."""

from __future__ import annotations

import logging

__all__ = ["get_logger"]


def get_logger(name: str, level: int | str, fmt: str | None = None) -> logging.Logger:
    """The logger of a name, with a handler of its own. fmt: the form of its lines."""
    logger = logging.getLogger(name)
    logger.setLevel(level)
    handler = logging.StreamHandler()
    if fmt:
        handler.setFormatter(logging.Formatter(fmt=fmt))
    logger.addHandler(handler)
    logger.propagate = False  # the root's handlers would write each line again
    return logger
