"""Functions that overwrite their first argument: `abs_` is `abs`, kept in what it was given.

In programs they are the functions without the underscore: nothing is overwritten there.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import torch

from refluid.build import at_once
from refluid.eager import VarBase
from refluid.ir.at_once import only_at_once


def in_place(function: Callable[..., Any], place: int = 0) -> Callable[..., Any]:
    """A function that also writes its result into its argument at `place`, and returns that.

    ValueError for a parameter, or another variable that takes a gradient and was computed from
    nothing.
    """
    name = f"{function.__name__}_"
    signature = inspect.signature(function)
    label = [*signature.parameters][place]

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        if not at_once():
            return function(*args, **kwargs)
        x = args[place] if len(args) > place else kwargs[label]
        if x.is_leaf and not x.stop_gradient and torch.is_grad_enabled():
            raise ValueError(
                f"{name}: Leaf Var ({x.name}) that doesn't stop gradient can't use inplace strategy"
            )
        return overwritten(x, function(*args, **kwargs).held)

    kept = [one for one in signature.parameters.values() if one.name != "out"]
    run.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
    run.__name__ = run.__qualname__ = name
    run.__doc__ = f"As `{function.__name__}`, in place: {function.__doc__}"
    return run


def overwritten(x: VarBase, made: torch.Tensor) -> VarBase:
    """A variable with another value: in its memory, or where gradients must pass, in its stead."""
    own = x.tensor
    same = own.shape == made.shape and own.dtype == made.dtype
    if same and not own.requires_grad and not made.requires_grad:
        own.copy_(made)
    else:
        x._value = made
    return x


def _drawn(name: str, x: Any, *numbers: float) -> Any:
    """Fills a variable with random numbers, at once."""
    if not at_once():
        only_at_once(f"Tensor.{name}")
    with torch.no_grad():
        getattr(x.tensor, name)(*numbers)
    return x


def normal_(x: Any, mean: float = 0.0, std: float = 1.0, name: str | None = None) -> Any:
    """Fills x with normal numbers."""
    return _drawn("normal_", x, mean, std)


def uniform_(
    x: Any, min: float = -1.0, max: float = 1.0, seed: int = 0, name: str | None = None
) -> Any:
    """Fills x with numbers between min and max."""
    return _drawn("uniform_", x, min, max)


def cauchy_(x: Any, loc: float = 0, scale: float = 1, name: str | None = None) -> Any:
    """Fills x with numbers of a Cauchy distribution."""
    return _drawn("cauchy_", x, loc, scale)


def geometric_(x: Any, probs: float, name: str | None = None) -> Any:
    """Fills x with how often one tries until something of this probability happens."""
    return _drawn("geometric_", x, probs)


def exponential_(x: Any, lam: float = 1.0, name: str | None = None) -> Any:
    """Fills x with numbers of an exponential distribution."""
    return _drawn("exponential_", x, lam)


def fill_(x: Any, value: float) -> Any:
    """Fills x with a number."""
    return _drawn("fill_", x, value)


def zero_(x: Any) -> Any:
    """Fills x with zeros."""
    return _drawn("zero_", x)


# Functions whose argument that is overwritten isn't the first.
_PLACES = {"where_": 1}


def __getattr__(name: str) -> Any:
    from refluid.paddle.tensor import methods

    home = methods.table().get(name.removesuffix("_"))
    if not name.endswith("_") or name.startswith("_") or home is None:
        raise AttributeError(f"there is no function {name!r} to be done in place")
    made = globals()[name] = in_place(home.load(), _PLACES.get(name, 0))
    return made
