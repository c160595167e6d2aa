"""What scripts ask of the Paddle that they run on: its version, and packages beside it."""

from __future__ import annotations

import functools
import importlib
import re
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

import refluid.paddle
from refluid.paddle import version

_FORMAT = r"\d+(\.\d+){0,3}"
# What scripts ask for is Paddle 2's interface; `paddle.version` says which Fluid there is.
PADDLE_2 = "2.6.2"


def require_version(min_version: str, max_version: str | None = None) -> None:
    """Nothing where Fluid 1.8.5 or Paddle 2.6.2, both of which are here, is within the bounds.

    TypeError, ValueError for what isn't a version; Exception for one that neither is.
    """
    for what, given, kinds in (
        ("min_version", min_version, "str"),
        ("max_version", max_version, "str or type(None)"),
    ):
        if given is None and what == "max_version":
            continue
        if not isinstance(given, str):
            raise TypeError(
                f"The type of '{what}' in require_version must be {kinds}, but received "
                f"{type(given)}."
            )
        if re.fullmatch(_FORMAT, given) is None:
            raise ValueError(
                f"The value of '{what}' in require_version must be in format "
                f"'{_FORMAT}', like '1.5.2.0', but received {given}"
            )
    least, most = _parts(min_version), None if max_version is None else _parts(max_version)
    here = (version.full_version, PADDLE_2)
    if not any(least <= _parts(one) and (most is None or _parts(one) <= most) for one in here):
        bounds = (
            f"{min_version} or higher" if most is None else f"in [{min_version}, {max_version}]"
        )
        raise Exception(
            f"VersionError: PaddlePaddle version {bounds} is required, but what is here are the "
            f"interfaces of {' and '.join(here)}"
        )


def _parts(given: str) -> tuple[int, ...]:
    found = [int(one) for one in given.split(".")]
    return tuple(found + [0] * (4 - len(found)))


def try_import(module_name: str, err_msg: str | None = None) -> ModuleType:
    """The module. ImportError with `err_msg`, or with how to install it, where it isn't there."""
    try:
        return importlib.import_module(module_name)
    except ImportError:
        told = f"Failed importing {module_name}; install it, as by `pip install {module_name}`."
        raise ImportError(told if err_msg is None else err_msg) from None


def deprecated(
    update_to: str = "", since: str = "", reason: str = "", level: int = 0
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Says of a function that it will be gone: in its docstring, and when it is called.

    level: 0 says nothing, 1 warns, 2 raises RuntimeError.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        told = f'API "{function.__module__}.{function.__name__}" is deprecated'
        told += f" since {since}" * bool(since) + ", and will be removed in future versions."
        told += f' Please use "{update_to}" instead.' * bool(update_to)
        told += f"\nReason: {reason}" * bool(reason)

        @functools.wraps(function)
        def called(*args: Any, **settings: Any) -> Any:
            if level == 2:
                raise RuntimeError(told)
            if level == 1:
                warnings.warn(told, DeprecationWarning, stacklevel=2)
            return function(*args, **settings)

        called.__doc__ = f"Warning: {told}\n\n{function.__doc__ or ''}"
        return called

    return decorate


def run_check() -> None:
    """Runs a layer and its gradient at once, and says that they work."""
    paddle: Any = refluid.paddle
    with paddle.fluid.dygraph.guard():
        layer = paddle.nn.Linear(2, 3)
        paddle.mean(layer(paddle.ones([4, 2]))).backward()
        assert layer.weight.gradient() is not None
    print(
        "PaddlePaddle is installed successfully! Let's start deep learning with PaddlePaddle now."
    )
