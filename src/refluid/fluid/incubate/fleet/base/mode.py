"""Kinds of fleets."""

from __future__ import annotations

__all__ = ["Mode"]


class Mode:
    """By what the processes of a fleet exchange what they learn."""

    TRANSPILER = 1
    PSLIB = 2
    COLLECTIVE = 3
