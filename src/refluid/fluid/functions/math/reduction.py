"""Reductions over dimensions: sum, mean, maximum, minimum, product, all, any."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from refluid.build import op
from refluid.core.dtypes import VarType
from refluid.core.whole import is_whole
from refluid.ir.variable import Variable

Dim = int | Sequence[int] | None


class Reduction(Protocol):
    """A layer that reduces dimensions."""

    __name__: str

    def __call__(
        self, input: Variable, dim: Dim = None, keep_dim: bool = False, name: str | None = None
    ) -> Variable: ...


def reduction_attributes(input: Variable, dim: Dim, keep_dim: bool) -> dict[str, Any]:
    """Attributes that say which dimensions go; naming none of them is a full reduction."""
    dims = [dim] if is_whole(dim) else list(dim or [])
    return {
        "dim": dims or [0],
        "keep_dim": keep_dim,
        "reduce_all": not dims,
    }


def _reduction(op_type: str, what: str, dtype: VarType | None = None) -> Reduction:
    def layer(
        input: Variable, dim: Dim = None, keep_dim: bool = False, name: str | None = None
    ) -> Variable:
        attrs = reduction_attributes(input, dim, keep_dim)
        return op(op_type, {"X": input}, attrs, dtype=dtype, name=name)

    layer.__name__ = layer.__qualname__ = op_type
    layer.__doc__ = (
        f"{what} over the dimensions `dim` (all by default, giving shape (1,)), which stay as "
        "size 1 if `keep_dim`."
    )
    return layer


reduce_sum = _reduction("reduce_sum", "The sum")
reduce_mean = _reduction("reduce_mean", "The mean")
reduce_max = _reduction("reduce_max", "The maximum")
reduce_min = _reduction("reduce_min", "The minimum")
reduce_prod = _reduction("reduce_prod", "The product")
reduce_all = _reduction("reduce_all", "Whether all are true", VarType.BOOL)
reduce_any = _reduction("reduce_any", "Whether any is true", VarType.BOOL)


def mean(x: Variable, name: str | None = None) -> Variable:
    """The mean of all elements, shape (1,)."""
    return op("mean", {"X": x}, name=name)


def sums(input: Sequence[Variable] | Variable, out: Variable | None = None) -> Variable:
    """The elementwise sum of variables of equal shape, written to `out` if given."""
    return op("sum", {"X": input}, {"use_mkldnn": False}, out=out)


def sum(x: Sequence[Variable] | Variable) -> Variable:
    """The elementwise sum of variables of equal shape."""
    return op("sum", {"X": x}, {"use_mkldnn": False})
