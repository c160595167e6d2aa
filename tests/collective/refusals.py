"""What workers are told of what can't be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def said_to(found: list[str]) -> Callable[[Callable[[], Any]], None]:
    """Tries something and notes the error that it ends by; an empty text where there is none."""

    def tried(does: Callable[[], Any]) -> None:
        try:
            does()
        except Exception as error:
            found.append(f"{type(error).__name__}: {error}")
        else:
            found.append("")

    return tried
