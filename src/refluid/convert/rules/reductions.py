"""Sums, means, largest elements, and what is counted of them."""

from __future__ import annotations

from refluid.convert.rules.indices import axes_text
from refluid.convert.site import Site
from refluid.convert.table import converts

_REDUCTIONS = {
    "reduce_all": "all",
    "reduce_any": "any",
    "reduce_max": "amax",
    "reduce_mean": "mean",
    "reduce_min": "amin",
    "reduce_prod": "prod",
    "reduce_sum": "sum",
}


@converts(*_REDUCTIONS)
def reduce(site: Site) -> None:
    method, rank = _REDUCTIONS[site.op.type], len(site.shape("X"))
    axes = [int(one) for one in site.attr("dim", [0])]
    axes = [axis + rank if axis < 0 else axis for axis in axes]
    keep = site.attr("keep_dim", False)
    if site.value("X").scalar:
        site.give(site.value("X").text, scalar=True)
        return
    if site.attr("reduce_all") or len(axes) == rank:
        if keep:
            site.give(f"{site.x()}.{method}().reshape({', '.join('1' * rank)})")
        else:
            site.give(f"{site.x()}.{method}()", scalar=True, lengths="")
        return
    site.require(method != "prod" or len(axes) == 1, "a product along several axes")
    axes = [-1 if axis == rank - 1 else axis for axis in axes]
    keeping = ", keepdim=True" if keep else ""
    lengths = None if 0 not in axes else ""
    site.give(f"{site.x()}.{method}({axes_text(axes)}{keeping})", lengths=lengths)


@converts("mean")
def mean(site: Site) -> None:
    value = site.value("X")
    x = site.x().removesuffix(".unsqueeze(-1)")  # each loss in a row of its own
    text = value.text if value.scalar else f"{x}.mean()"
    site.give(text, scalar=True, lengths="", loose=value.scalar and value.loose)


@converts("top_k")
def top_k(site: Site) -> None:
    site.require(not site.has("K"), "its number is computed")
    site.give_all(f"{site.x()}.topk({site.attr('k', 1)})", [("Out", 0), ("Indices", 0)])


@converts("arg_max", "arg_min")
def arg(site: Site) -> None:
    name = site.op.type.replace("_", "")
    keep = ", keepdim=True" if site.attr("keepdims") else ""
    site.give(f"{site.x()}.{name}({site.attr('axis', -1)}{keep})")


@converts("argsort")
def argsort(site: Site) -> None:
    down = ", descending=True" if site.attr("descending") else ""
    sort = f"{site.x()}.sort({site.attr('axis', -1)}{down})"
    site.give_all(sort, [("Out", 0), ("Indices", 0)])


@converts("accuracy")
def accuracy(site: Site) -> None:
    site.held("Indices")
    right = f"({site.x('Indices')} == {site.x('Label')}).any(-1)"
    site.give(f"{right}.float().mean()", "Accuracy", scalar=True, lengths="")
    site.give(f"{right}.sum()", "Correct", scalar=True, lengths="")
    site.give(f"torch.tensor({site.x('Label')}.shape[0])", "Total", scalar=True, lengths="")


@converts("norm")
def norm(site: Site) -> None:
    axis, epsilon = site.attr("axis", -1), float(f"{site.attr('epsilon', 1e-10):.7g}")
    x = site.held()
    site.give(f"{x} * ({x}.square().sum({axis}, keepdim=True) + {epsilon!r}).rsqrt()", loose=True)
    site.give(f"({x}.square().sum({axis}, keepdim=True) + {epsilon!r}).sqrt()", "Norm")
