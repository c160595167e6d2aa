"""What the products of a step take by themselves: a floor by the kernels that libraries have."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from refluid.kernels import onednn
from refluid.kernels.panels import filters
from refluid.kernels.watching import DispatchMode, name_of

# The ways to compute a product take turns, so often at least and for so many seconds.
LEAST, SECONDS = 5, 0.4
# Which arguments are the matrices, and of which products the second or the first one is transposed.
_TURNED, _TURNED_LEFT = "mkldnn::_linear_pointwise", "refluid::mixed_gradient"
_MATRICES = {
    "mm": (0, 1),
    "addmm": (1, 2),
    _TURNED: (0, 1),
    "refluid::panel_product": (0, 1),
    "refluid::laid_product": (0, 1),
    "refluid::few_rows_product": (0, 1),
    "refluid::spanned_product": (0, 1),
    "refluid::mixed_product": (0, 1),
    _TURNED_LEFT: (0, 1),
}
_FILTERS = "refluid::filter_gradient"
_OTHERS = frozenset(("bmm", "convolution", "convolution_backward", _FILTERS))

Way = Callable[[], object]


class Laid(NamedTuple):
    """A tensor's shape, and how it lies in memory."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype

    def made(self) -> Tensor:
        """One of numbers from 0 to 1."""
        last = sum((size - 1) * step for size, step in zip(self.shape, self.stride, strict=True))
        return torch.rand(last + 1).to(self.dtype).as_strided(self.shape, self.stride)


class Product(NamedTuple):
    """One operator and its arguments, tensors among them as `Laid`."""

    operator: Any
    arguments: tuple[Any, ...]
    keywords: tuple[tuple[str, Any], ...] = ()

    @property
    def name(self) -> str:
        return name_of(self.operator)


class Products(DispatchMode):
    """Counts the matrix products and convolutions that run within it."""

    def __init__(self) -> None:
        super().__init__()
        self.found: Counter[Product] = Counter()

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        name = name_of(func)
        if name in _MATRICES or name in _OTHERS:
            keywords = ((key, _described(one)) for key, one in (kwargs or {}).items())
            self.found[Product(func, tuple(map(_described, args)), tuple(keywords))] += 1
        return func(*args, **(kwargs or {}))


def alone(products: Mapping[Product, int]) -> float:
    """Seconds that so many of these take one after the other, each by the fastest way there is."""
    return sum(count * min(times([*ways(product)])) for product, count in products.items())


def ways(product: Product) -> Iterator[Way]:
    """Ways to compute it: as it is, and of a matrix product those of both libraries, with the
    second matrix as it lies and transposed beforehand, cast beforehand, too, where it is of another
    type; without a bias, which isn't arithmetic. Of gradients of filters oneDNN's and refluid's
    own."""
    given = [_made(one) for one in product.arguments]
    if product.name == _FILTERS:
        yield from (partial(way, *given) for way in (filters.by_torch, filters.by_panels))
        return
    yield partial(product.operator, *given, **{name: _made(one) for name, one in product.keywords})
    if product.name not in _MATRICES:
        return
    left, right = (given[place] for place in _MATRICES[product.name])
    if product.name == _TURNED:
        right = right.t()
    if product.name == _TURNED_LEFT:
        left = left.t()
    right = right.to(left.dtype)
    for other in (right, right.contiguous(), right.t().contiguous().t()):
        yield partial(torch.mm, left, other)
    yield partial(torch.mm, right.t(), left.t())
    if onednn.linear and (left.dtype is not torch.bfloat16 or onednn.has_bfloat16()):
        yield partial(
            onednn.linear, left.contiguous(), right.t().contiguous(), None, "none", [], ""
        )


def times(tried: Sequence[Way]) -> list[float]:
    """Seconds of each one's fastest run; they take turns."""
    best = [math.inf] * len(tried)
    end, rounds = time.perf_counter() + SECONDS, 0
    while rounds < LEAST or time.perf_counter() < end:
        for place, way in enumerate(tried):
            begin = time.perf_counter()
            way()
            best[place] = min(best[place], time.perf_counter() - begin)
        rounds += 1
    return best


def _made(argument: Any) -> Any:
    return argument.made() if isinstance(argument, Laid) else argument


def _described(argument: Any) -> Any:
    if isinstance(argument, Tensor):
        return Laid(tuple(argument.shape), argument.stride(), argument.dtype)
    return tuple(argument) if isinstance(argument, list) else argument
