"""`deprecated`: a function that says what to call instead."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

__all__ = ["deprecated"]


def deprecated(since: str, instead: str, extra_message: str = "") -> Callable[..., Any]:
    """A decorator: the function says on the error stream, at each call, what replaces it."""

    def decorate(func: Callable[..., Any]) -> Callable[..., Any]:
        message = f"API {func.__name__} is deprecated since {since}. Please use {instead} instead."
        if extra_message:
            message = f"{message}\n{extra_message}"

        @functools.wraps(func)
        def warned(*args: Any, **options: Any) -> Any:
            print(message, file=sys.stderr)
            return func(*args, **options)

        warned.__doc__ = f"{message}\n\n{func.__doc__ or ''}"
        return warned

    return decorate
