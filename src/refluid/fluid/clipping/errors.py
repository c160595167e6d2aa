"""Clipping of the gradients of chosen variables inside the backward pass."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from refluid.build import apply
from refluid.ir.block import Block

_CURRENT_OP = "__current_op_desc__"


class BaseErrorClipAttr:
    """Base of what `Variable.set_error_clip` takes."""

    def __str__(self) -> str:
        raise NotImplementedError

    def append_clip_op(self, block: Block, grad_name: str) -> None:
        """Appends to `block` what clips the gradient of that name."""
        raise NotImplementedError


class ErrorClipByValue(BaseErrorClipAttr):
    """Clips every element of a variable's gradient to [min, max] as soon as it is computed.

    max: upper bound. min: lower bound, `-max` by default.
    """

    def __init__(self, max: float, min: float | None = None) -> None:
        self.max = float(max)
        self.min = -self.max if min is None else float(min)

    def __str__(self) -> str:
        return f"ByValue, min={self.min:f}, max={self.max:f}"

    def append_clip_op(self, block: Block, grad_name: str) -> None:
        attrs = {"min": self.min, "max": self.max}
        apply("clip", {"X": grad_name}, {"Out": grad_name}, attrs, block=block)

    _append_clip_op = append_clip_op


def error_clip_callback(block: Block, context: Mapping[str, Any]) -> None:
    """A callback for `append_backward` that clips where a variable has an `error_clip`.

    context: forward variable names by gradient name, and under `__current_op_desc__` the
    gradient operator just appended to `block`.
    """
    for grad_name in context[_CURRENT_OP].output_arg_names:
        forward = block.find_var_recursive(context.get(grad_name, ""))
        clip = None if forward is None else forward.error_clip
        if clip is None:
            continue
        if not isinstance(clip, BaseErrorClipAttr):
            raise TypeError(
                f"variable {context[grad_name]!r} has error_clip {clip!r}; "
                "set_error_clip takes an instance of fluid.clip.ErrorClipByValue"
            )
        clip.append_clip_op(block, grad_name)
