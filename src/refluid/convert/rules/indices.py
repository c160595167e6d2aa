"""How Fluid's axes and shapes are written."""

from __future__ import annotations

from collections.abc import Sequence

from refluid.convert.site import Site


def aligned(site: Site) -> tuple[str, str]:
    """X and Y of an elementwise operator, Y with dimensions put behind its own where X has more."""
    x_shape, y_shape = site.shape("X"), site.shape("Y")
    axis, rank = site.attr("axis", -1), len(y_shape)
    x, y = site.x("X"), site.x("Y")
    if axis == -1 or len(x_shape) < rank or not rank:
        return x, y
    missing = len(x_shape) - axis - rank
    if missing > 0:
        y = f"{y}[{', '.join([':'] * rank + ['None'] * missing)}]"
    elif missing < 0:
        site.require(all(one == 1 for one in y_shape[missing:]), "its axes overlap")
        y = f"{y}.flatten({rank + missing - 1})" if rank + missing else y
    return x, y


def shape_text(shape: Sequence[int], x: str) -> str:
    """The arguments of `reshape`: 0 is the input's size there."""
    return ", ".join(
        f"{x}.shape[{place}]" if not one else str(one) for place, one in enumerate(shape)
    )


def axes_text(axes: Sequence[int]) -> str:
    """One axis as a number, several as a tuple."""
    found = [int(one) for one in axes]
    return str(found[0]) if len(found) == 1 else str(tuple(found))
