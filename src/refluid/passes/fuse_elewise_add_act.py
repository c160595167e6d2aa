"""act(elementwise_add(x, y)) -> fused_elemwise_activation(x, y).

On the CPU `relu` of a sum is one pass over memory instead of two. The backward pass stays as it
is: it needs the result and the shapes of both terms, which a fused gradient couldn't do without
either. Activations: those whose gradient their result tells.
"""

from __future__ import annotations

from typing import Any

from refluid.kernels.epilogues import ACTIVATIONS
from refluid.passes.pattern import Match
from refluid.passes.rewrite import Rule

_KINDS = "|".join(ACTIVATIONS)


def attributes(match: Match) -> dict[str, Any]:
    """The functors, and where y is aligned."""
    return {
        "functor_list": [match.op("act").type, "elementwise_add"],
        "axis": match.op("add").attr("axis"),
    }


RULES = (
    Rule(
        f"""add: elementwise_add(X=x, Y=y) -> Out=sum
        act: {_KINDS}(X=sum) -> Out=out""",
        "fused_elemwise_activation(X=x, Y=y) -> Out=out",
        "",
        "",
        attributes,
    ),
)
