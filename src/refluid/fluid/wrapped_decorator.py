"""Decorators that keep the signature of what they wrap."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

__all__ = ["signature_safe_contextmanager", "wrap_decorator"]


def wrap_decorator(decorator_func: Callable[..., Any]) -> Callable[..., Any]:
    """The decorator, with the wrapped function's name, documentation and signature kept."""

    def decorate(func: Callable[..., Any]) -> Any:
        return functools.wraps(func)(decorator_func(func))

    return functools.wraps(decorator_func)(decorate)


signature_safe_contextmanager = wrap_decorator(contextlib.contextmanager)
