"""Matrices of derivatives of what ran at once, row by row when they are asked for."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, cast

from refluid.eager import VarBase
from refluid.paddle.framework.modes import grad
from refluid.paddle.tensor import creation, manipulation

Row = Callable[[int], VarBase]


class Jacobian:
    """Derivatives of ys (M elements) by xs (N): shape [M, N], or [B, M, N] of B samples.

    It is indexed as a variable; a row is computed when an index first needs it, and kept.
    It takes gradients in turn.
    """

    def __init__(self, ys: VarBase, xs: VarBase, is_batched: bool = False) -> None:
        self._ys, self._xs, self._batched = _flat(ys, is_batched), xs, is_batched
        own = _flat(xs, is_batched)
        self.shape = [*own.shape[:-1], self._ys.shape[-1], own.shape[-1]]
        self._rows: dict[int, VarBase] = {}

    def __getitem__(self, index: Any) -> VarBase:
        given = index if isinstance(index, tuple) else (index,)
        whole = slice(None)
        given = given + (whole,) * (len(self.shape) - len(given))
        place = int(self._batched)
        wanted, count = given[place], self.shape[place]
        if isinstance(wanted, int):
            row = self._row(range(count)[wanted])
            return cast(VarBase, row[(*given[:place], *given[place + 1 :])])
        rows = [self._row(one) for one in range(*wanted.indices(count))]
        found: VarBase = manipulation.stack(rows, place)[
            (*given[:place], whole, *given[place + 1 :])
        ]
        return found

    def _row(self, number: int) -> VarBase:
        """The derivatives of an element, of all samples: [N] or [B, N]."""
        found = self._rows.get(number)
        if found is None:
            (slopes,) = _slopes(self._ys[..., number], [self._xs])
            found = self._rows[number] = _flat(slopes, self._batched)
        return found

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self[:], name)


def _operators() -> None:
    for name in ("add", "sub", "mul", "truediv", "matmul", "pow"):
        for spelling in (f"__{name}__", f"__r{name}__"):
            if not hasattr(VarBase, spelling):
                continue

            def operation(self: Jacobian, other: Any, spelling: str = spelling) -> Any:
                given = other[:] if isinstance(other, Jacobian) else other
                return getattr(self[:], spelling)(given)

            setattr(Jacobian, spelling, operation)


_operators()


class Hessian(Jacobian):
    """Second derivatives: the Jacobian of a gradient."""


def jacobian(ys: Any, xs: Any, batch_axis: int | None = None) -> Any:
    """Derivatives of ys by xs: a `Jacobian`, a tuple of them for several xs, tuples for several ys.

    batch_axis: None for variables of one dimension, 0 where the first is that of samples.
    ValueError for others, and for more dimensions.
    """
    batched = _batched(batch_axis)
    for what, given in (("xs", xs), ("ys", ys)):
        for one in given if isinstance(given, tuple | list) else (given,):
            _check(what, one, batched)
    return _each(ys, lambda y: _each(xs, lambda x: Jacobian(y, x, batched)))


def hessian(ys: VarBase, xs: Any, batch_axis: int | None = None) -> Any:
    """Second derivatives of ys, one element or one for each sample, by each two of xs.

    A `Hessian`; for several xs a tuple of tuples of them. ValueError as for `jacobian`.
    """
    batched = _batched(batch_axis)
    if math.prod(ys.shape[1:] if batched else ys.shape) != 1:
        wanted = "one element for each sample" if batched else "one element"
        raise ValueError(f"ys is to have {wanted}, and has shape {ys.shape}")
    several = tuple(xs) if isinstance(xs, tuple | list) else (xs,)
    for one in several:
        _check("xs", one, batched)
    slopes = _slopes(ys, several)
    rows = tuple(tuple(Hessian(one, x, batched) for x in several) for one in slopes)
    return rows if isinstance(xs, tuple | list) else rows[0][0]


def _slopes(of: VarBase, xs: Sequence[VarBase]) -> list[Any]:
    """Derivatives of the sum of a variable; 0 by those that it doesn't depend on."""
    none = [None] * len(xs)
    found = none if of.stop_gradient else grad(of, [*xs], create_graph=True, allow_unused=True)
    return [
        creation.zeros_like(x) if one is None else one for one, x in zip(found, xs, strict=True)
    ]


def _each(given: Any, make: Callable[[Any], Any]) -> Any:
    return tuple(map(make, given)) if isinstance(given, tuple | list) else make(given)


def _batched(batch_axis: int | None) -> bool:
    if batch_axis not in (None, 0):
        raise ValueError(f"batch_axis should be None or 0, but got {batch_axis}.")
    return batch_axis == 0


def _check(what: str, given: VarBase, batched: bool) -> None:
    rank = len(given.shape)
    if rank not in ((1, 2) if batched else (0, 1)):
        ranks = "1 or 2" if batched else "0 or 1"
        raise ValueError(f"{what}.ndim should be {ranks} when is_batched={batched} but got {rank}")


def _flat(given: VarBase, batched: bool) -> VarBase:
    return cast(VarBase, manipulation.reshape(given, [given.shape[0], -1] if batched else [-1]))
