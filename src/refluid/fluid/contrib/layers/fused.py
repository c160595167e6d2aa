"""fused_elemwise_activation: a binary operator and a function of one variable in one."""

from __future__ import annotations

from collections.abc import Sequence

from refluid.build import op
from refluid.ir.variable import Variable

__all__ = ["fused_elemwise_activation"]


def fused_elemwise_activation(
    x: Variable,
    y: Variable,
    functor_list: str | Sequence[str],
    axis: int = -1,
    scale: float = 0.0,
    save_intermediate_out: bool = True,
) -> Variable:
    """f(g(...)) for functor_list [f, g], a list or its names with a comma between.

    ["elementwise_add", "relu"] is x + relu(y); ["relu", "elementwise_add"] is relu(x + y).
    Binary ones are elementwise_add and elementwise_mul; others relu, scale (by `scale`), tanh.
    ValueError for other than two names.
    """
    names = functor_list.split(",") if isinstance(functor_list, str) else list(functor_list)
    if len(names) != 2:
        raise ValueError(f"functor_list should name two operators, not {functor_list!r}")
    attrs = {
        "axis": axis,
        "scale": scale,
        "save_intermediate_out": save_intermediate_out,
        "functor_list": names,
    }
    makes = ("Out", "IntermediateOut")
    return op("fused_elemwise_activation", {"X": x, "Y": y}, attrs, makes)[0]
