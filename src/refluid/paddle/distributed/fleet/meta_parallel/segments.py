"""Where a list of layers is cut into stages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from refluid.core.errors import EnforceNotMet
from refluid.paddle.distributed.fleet.meta_parallel.descriptions import LayerDesc


def cuts(layers: Sequence[Any], stages: int, method: str) -> list[int]:
    """Where each stage begins, and the end.

    method: `uniform`, or `layer:Name`, by which stages have as many layers of that class and those
    before the first are the first stage's. ValueError for another, EnforceNotMet where there are
    too few layers, or so many that they can't be shared equally.
    """
    if method == "uniform":
        if len(layers) < stages:
            raise EnforceNotMet(f"{len(layers)} layers are too few for {stages} stages")
        return [stage * len(layers) // stages for stage in range(stages + 1)]
    kind, _, name = method.partition(":")
    if kind != "layer" or not name:
        raise ValueError(f"seg_method is 'uniform' or 'layer:Name', not {method!r}")
    named = [at for at, one in enumerate(layers) if name.lower() in _name(one).lower()]
    if not named or len(named) % stages:
        raise EnforceNotMet(
            f"{len(named)} layers named {name} can't be shared equally by {stages} stages"
        )
    each = len(named) // stages
    return [0, *named[each::each], len(layers)]


def _name(one: Any) -> str:
    if isinstance(one, LayerDesc):
        return str(one.layer_func.__name__)
    return str(getattr(one, "__name__", type(one).__name__))
