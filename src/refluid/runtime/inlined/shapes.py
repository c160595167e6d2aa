"""What shapes torch's functions give, of sizes that are numbers or `Length`s.

Semantics: torch's documentation of each function. What has no rule here gives sizes that are asked
of the result itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor

from refluid.runtime.inlined.lengths import Length, number_of

Sizes = tuple[Any, ...]  # of int or Length
# A rule gets the shapes of tensors by a function, and what torch's function was given.
ShapeOf = Callable[[Tensor], Sizes]
ShapeRule = Callable[..., Sizes | None]


class FollowedShape(tuple[Any, ...]):
    """The sizes of a tensor, as a body sees them."""

    __slots__ = ()

    def __getitem__(self, place: Any) -> Any:
        found = super().__getitem__(place)
        return FollowedShape(found) if isinstance(place, slice) else found

    def numel(self) -> Any:
        """Their product."""
        return product(self)


def product(sizes: Sequence[Any]) -> Any:
    """How many elements there are."""
    found: Any = 1
    for one in sizes:
        found = one if type(found) is int and found == 1 else found * one
    return found


def alike(one: Any, other: Any) -> bool:
    """Whether two sizes are the same for sure."""
    if isinstance(one, Length) and isinstance(other, Length):
        return bool(one.tree == other.tree)
    return type(one) is type(other) and one == other


def all_alike(one: Sizes, other: Sizes) -> bool:
    """The same of shapes."""
    return len(one) == len(other) and all(map(alike, one, other))


def _first(of: ShapeOf, x: Tensor, *_others: Any, **_more: Any) -> Sizes:
    return of(x)


def _broadcast(of: ShapeOf, *operands: Any, **more: Any) -> Sizes | None:
    shapes = [of(one) for one in (*operands, *more.values()) if isinstance(one, Tensor)]
    rank = max(map(len, shapes))
    found: list[Any] = []
    for place in range(-rank, 0):
        size: Any = 1
        for shape in shapes:
            if len(shape) < -place:
                continue
            one = shape[place]
            if type(size) is int and size == 1:
                size = one
            elif not (type(one) is int and one == 1) and not alike(size, one):
                if number_of(size) != number_of(one):
                    return None
                if one != size:  # notes that they are equal
                    return None
                size = size if type(size) is int else one
        found.append(size)
    return tuple(found)


def _mm(of: ShapeOf, a: Tensor, b: Tensor, **_more: Any) -> Sizes:
    return of(a)[0], of(b)[1]


def _addmm(of: ShapeOf, _c: Tensor, a: Tensor, b: Tensor, **_more: Any) -> Sizes:
    return of(a)[0], of(b)[1]


def _turned(of: ShapeOf, x: Tensor, *dims: int) -> Sizes:
    sizes = list(of(x))
    one, other = dims or (-2, -1)
    if len(sizes) > 1:
        sizes[one], sizes[other] = sizes[other], sizes[one]
    return tuple(sizes)


def _unsqueezed(of: ShapeOf, x: Tensor, dim: int) -> Sizes:
    sizes = list(of(x))
    sizes.insert(dim if dim >= 0 else dim + len(sizes) + 1, 1)
    return tuple(sizes)


def _squeezed(of: ShapeOf, x: Tensor, dim: Any) -> Sizes:
    """Whether a size is 1 decides the rank: it is noted."""
    sizes = of(x)
    dims = {one % len(sizes) for one in (dim if isinstance(dim, tuple | list) else (dim,))}
    return tuple(one for place, one in enumerate(sizes) if place not in dims or one != 1)


def _of_numbers(_of: ShapeOf, numbers: Any, **_more: Any) -> Sizes | None:
    if not isinstance(numbers, tuple | list):
        return ()
    if all(isinstance(one, int | float | Length) for one in numbers):
        return (len(numbers),)
    return None


def _asked(given: tuple[Any, ...]) -> Sizes:
    return tuple(given[0]) if len(given) == 1 and isinstance(given[0], tuple | list) else given


def _viewed(of: ShapeOf, x: Tensor, *given: Any, **_more: Any) -> Sizes | None:
    asked = _asked(given)
    if any(not isinstance(one, int | Length) for one in asked):
        return None
    places = [place for place, one in enumerate(asked) if type(one) is int and one == -1]
    if not places:
        return asked
    rest, others = list(of(x)), []
    for one in (*asked[: places[0]], *asked[places[0] + 1 :]):
        same = [place for place, other in enumerate(rest) if alike(one, other)]
        if same:
            del rest[same[0]]
        else:
            others.append(one)
    count, divisor = product(rest), product(others)
    if type(divisor) is int and divisor == 1:
        return *asked[: places[0]], count, *asked[places[0] + 1 :]
    if type(count) is int and type(divisor) is int and divisor > 0:
        return *asked[: places[0]], count // divisor, *asked[places[0] + 1 :]
    return None


def _flat(of: ShapeOf, x: Tensor, start_dim: int = 0, end_dim: int = -1) -> Sizes | None:
    sizes = of(x)
    if not sizes:
        return None
    end = end_dim % len(sizes)
    return *sizes[:start_dim], product(sizes[start_dim : end + 1]), *sizes[end + 1 :]


def _made(_of: ShapeOf, *given: Any, **_more: Any) -> Sizes | None:
    sizes = given[0] if given and isinstance(given[0], tuple | list) else given
    return tuple(sizes) if all(isinstance(one, int | Length) for one in sizes) else None


def _made_new(of: ShapeOf, _like: Tensor, *given: Any, **_more: Any) -> Sizes | None:
    return _made(of, *given)


def _filled(of: ShapeOf, size: Sizes, *_value: Any, **_more: Any) -> Sizes | None:
    return _made(of, size)


def _filled_new(
    of: ShapeOf, _like: Tensor, size: Sizes, *_value: Any, **_more: Any
) -> Sizes | None:
    return _made(of, size)


def _reduced(
    of: ShapeOf, x: Tensor, dim: Any = None, keepdim: bool = False, **_more: Any
) -> Sizes | None:
    sizes = of(x)
    if isinstance(dim, Tensor):
        return None
    if dim is None or dim in ((), []):
        return (1,) * len(sizes) if keepdim else ()
    dims = {one % max(len(sizes), 1) for one in (dim if isinstance(dim, tuple | list) else (dim,))}
    kept = [1 if place in dims else one for place, one in enumerate(sizes)]
    return tuple(one for place, one in enumerate(kept) if keepdim or place not in dims)


def _taken(of: ShapeOf, rows: Tensor, index: Tensor, *_more: Any) -> Sizes:
    return *of(index), *of(rows)[1:]


def _gathered(of: ShapeOf, _x: Tensor, _dim: int, index: Tensor, **_more: Any) -> Sizes:
    return of(index)


def _selected(of: ShapeOf, x: Tensor, dim: int, index: Tensor) -> Sizes:
    sizes = list(of(x))
    sizes[dim] = of(index)[0]
    return tuple(sizes)


def _joined(of: ShapeOf, parts: Sequence[Tensor], dim: int = 0, **_more: Any) -> Sizes:
    sizes = list(of(parts[0]))
    along = dim % len(sizes)
    for part in parts[1:]:
        sizes[along] = sizes[along] + of(part)[along]
    return tuple(sizes)


def _spread(of: ShapeOf, x: Tensor, *given: Any) -> Sizes | None:
    asked = _asked(given)
    sizes = (1,) * (len(asked) - len(of(x))) + tuple(of(x))
    if any(not isinstance(one, int | Length) for one in asked):
        return None
    return tuple(
        own if type(one) is int and one == -1 else one
        for one, own in zip(asked, sizes, strict=True)
    )


def _counted(_of: ShapeOf, *given: Any, **_more: Any) -> Sizes | None:
    return given if len(given) == 1 and isinstance(given[0], int | Length) else None


_AS_FIRST = """tanh relu sigmoid exp log neg abs sqrt rsqrt reciprocal square sign floor erf
    detach contiguous clone to long int float double bool softmax log_softmax _softmax empty_like
    zeros_like ones_like full_like _softmax_backward_data cumsum logical_not scatter scatter_add
    index_add index_copy"""
_ELEMENTWISE = """add sub mul div true_divide maximum minimum eq ne lt le gt ge pow logical_and
    logical_or logical_xor where rsub __eq__ __ne__ __lt__ __le__ __gt__ __ge__ __and__ __or__
    __floordiv__ __rsub__ __rpow__ __rdiv__ floor_divide remainder addcmul addcdiv
    clamp clamp_min clamp_max masked_fill tanh_backward sigmoid_backward threshold_backward"""
RULES: dict[str, ShapeRule] = {
    **dict.fromkeys(_AS_FIRST.split(), _first),
    **dict.fromkeys(_ELEMENTWISE.split(), _broadcast),
    "mm": _mm,
    "addmm": _addmm,
    "t": _turned,
    "transpose": _turned,
    "mT": _turned,
    "unsqueeze": _unsqueezed,
    "squeeze": _squeezed,
    "tensor": _of_numbers,
    "view": _viewed,
    "reshape": _viewed,
    "flatten": _flat,
    "zeros": _made,
    "ones": _made,
    "empty": _made,
    "full": _filled,
    "new_zeros": _made_new,
    "new_ones": _made_new,
    "new_empty": _made_new,
    "new_full": _filled_new,
    "sum": _reduced,
    "mean": _reduced,
    "any": _reduced,
    "all": _reduced,
    "amax": _reduced,
    "amin": _reduced,
    "embedding": _taken,
    "gather": _gathered,
    "index_select": _selected,
    "cat": _joined,
    "expand": _spread,
    "arange": _counted,
}
# Each of the tensors that these return has this shape.
SEVERAL: dict[str, ShapeRule] = {"max": _reduced, "min": _reduced}
# Functions that do nothing but return new tensors, or views.
PURE = RULES.keys() | SEVERAL.keys() | {"__getitem__", "embedding_bag", "embedding_dense_backward"}


def shapes_of(
    name: str, of: ShapeOf, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Sizes | None:
    """The shape of each tensor that a function returns; None where no rule tells it.

    of: the sizes of a tensor.
    """
    rule = SEVERAL.get(name) or RULES.get(name)
    if rule is None or kwargs.get("out") is not None:
        return None
    return rule(of, *args, **kwargs)
