"""`fluid.dygraph_utils`: what ends a layer that runs at once, a bias and an activation."""

from __future__ import annotations

from typing import Any

from refluid.build import op
from refluid.fluid import core as core
from refluid.fluid.framework import dygraph_only

__all__: list[str] = []


@dygraph_only
def _append_activation_in_dygraph(
    input: Any, act: str | None = None, use_cudnn: bool | None = None, use_mkldnn: Any = None
) -> Any:
    """The activation of that name; the variable itself without one."""
    if not act:
        return input
    return op(act, {"X": input}, {"use_cudnn": use_cudnn, "use_mkldnn": use_mkldnn})


@dygraph_only
def _append_bias_in_dygraph(input: Any, bias: Any = None, axis: int = 1) -> Any:
    """`input` plus a bias along `axis`; the variable itself without one."""
    return input if bias is None else op("elementwise_add", {"X": input, "Y": bias}, {"axis": axis})
