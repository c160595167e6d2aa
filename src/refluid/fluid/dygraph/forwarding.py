"""What a layer calls: its `forward`, translated while a declarative function's program is built."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any

from refluid.build import backend


def while_building(forward: Callable[..., Any]) -> Callable[..., Any]:
    """What is called for `forward`: a declarative function's program has it translated."""
    callee = getattr(backend(), "callee", None)
    return forward if callee is None else callee(forward)


def explained(
    layer: Any, error: Exception, inputs: Sequence[Any], options: Mapping[str, Any]
) -> Exception | None:
    """What to raise instead of Python's own error out of the `forward` of a layer of refluid's.

    None where the error stands: a layer of the user's raised it, or refluid with its own words.
    """
    from refluid.core.arguments import explain

    forward = getattr(layer.forward, "__func__", None)
    if not isinstance(forward, FunctionType):
        return None
    return explain(forward, error, (layer, *inputs), options)
