"""`refluid run --auto`: the cheap part of tuning while a script trains, and what it gained."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from refluid.cli.console import messages
from refluid.engine.listening import heard_by
from refluid.tune.auto import Auto


@contextmanager
def tuned_meanwhile() -> Iterator[None]:
    """Within the block the loop is tuned; at its end it is said what was chosen."""
    auto = Auto()
    try:
        with heard_by(auto):
            yield
    finally:
        auto.end()
        for line in auto.told():
            messages().print(f"refluid: {line}", markup=False, soft_wrap=True)
