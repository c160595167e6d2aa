"""Numbers of a recorded step that follow the sizes of what is fed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement

from refluid.runtime.recorded.graph import Size
from refluid.runtime.recorded.record import Refused

Shapes = Sequence[tuple[int, ...]]
Column = tuple[int, ...]

# More sizes that change independently of each other than this are not followed, and no products
# of more of them: 3 is rows times the square of a length.
_FREE, _DEGREE = 3, 3


@dataclass(frozen=True)
class _Axis:
    """One dimension of a fed tensor in all samples. text: how it follows from others, or ""."""

    feed: int
    axis: int
    sizes: Column
    text: str = ""


class Sizes:
    """The dimensions of fed tensors that differ between samples: some free, some following those.

    samples: the shapes of all fed tensors, sample by sample. Raises Refused where ranks differ or
    too many dimensions change on their own.
    """

    def __init__(self, samples: Sequence[Shapes]) -> None:
        self._first = samples[0]
        self._columns: list[tuple[Column, str]] = []
        self._free: list[_Axis] = []
        self._tied: list[_Axis] = []
        for found in _changing(samples):
            text = self._linear_in_any(found.sizes)
            if text is None:
                name = f"n{len(self._free)}"
                self._free.append(found)
                self._columns.append((found.sizes, name))
            else:
                self._tied.append(_Axis(found.feed, found.axis, found.sizes, text))
        if len(self._free) > _FREE:
            raise Refused("too many sizes change on their own")
        self._columns = list(self._products())

    def __str__(self) -> str:
        """The shapes, with the range of those sizes that change: [6 to 8, 3 to 59]."""
        texts = [[str(size) for size in shape] for shape in self._first]
        for one in (*self._free, *self._tied):
            texts[one.feed][one.axis] = f"{min(one.sizes)} to {max(one.sizes)}"
        return ", ".join(f"[{', '.join(shape)}]" for shape in texts)

    @property
    def needed(self) -> int:
        """How many samples tell what follows what: two for each line, and as many to prove it."""
        return 2 + 2 * len(self._free)

    @property
    def lines(self) -> list[str]:
        """The statements that find the free sizes, for the source of a step."""
        return [f"n{i} = F[{one.feed}].shape[{one.axis}]" for i, one in enumerate(self._free)]

    @property
    def guard(self) -> str:
        """A Python expression that holds where fed tensors `F` lie between the samples."""
        terms = []
        for feed, shape in enumerate(self._first):
            texts = [str(size) for size in shape]
            for one in (*self._free, *self._tied):
                if one.feed == feed:
                    texts[one.axis] = one.text or f"n{self._free.index(one)}"
            inner = "".join(f"{text}, " for text in texts)
            terms.append(f"F[{feed}].shape == ({inner})")
        for number, one in enumerate(self._free):
            terms.append(f"{min(one.sizes)} <= n{number} <= {max(one.sizes)}")
        return " and ".join(terms)

    def follow(self, numbers: Sequence[int | float]) -> Size:
        """What gives these numbers, sample by sample. Raises Refused where nothing simple does."""
        if all(isinstance(number, int) for number in numbers):
            text = self._linear_in_any(tuple(map(int, numbers)))
        else:
            text = self._share(numbers)
        if text is None:
            raise Refused("a number follows from the sizes in no simple way")
        return Size(text)

    def _linear_in_any(self, numbers: Column) -> str | None:
        for column, name in self._columns:
            found = _linear(numbers, column)
            if found is not None:
                factor, rest = found
                return f"({factor} * {name} + {rest})" if rest else f"({factor} * {name})"
        return None

    def _share(self, numbers: Sequence[int | float]) -> str | None:
        """A float that is a size, or a whole number divided by one."""
        for column, name in self._columns:
            whole = round(numbers[0] * column[0])
            if all(n == whole / size for n, size in zip(numbers, column, strict=True)):
                return f"({whole} / ({name}))"
        text = None
        if all(float(number).is_integer() for number in numbers):
            text = self._linear_in_any(tuple(map(int, numbers)))
        return text and f"float({text})"

    def _products(self) -> Iterator[tuple[Column, str]]:
        """Free sizes and their products, simple ones first."""
        for degree in range(1, _DEGREE + 1):
            for chosen in combinations_with_replacement(range(len(self._free)), degree):
                column = [1] * len(self._free[0].sizes)
                for number in chosen:
                    sizes = self._free[number].sizes
                    column = [one * size for one, size in zip(column, sizes, strict=True)]
                yield tuple(column), " * ".join(f"n{number}" for number in chosen)


def _changing(samples: Sequence[Shapes]) -> Iterator[_Axis]:
    for feed, shapes in enumerate(zip(*samples, strict=True)):
        if len({len(shape) for shape in shapes}) > 1:
            raise Refused("a fed tensor's rank changes")
        for axis, sizes in enumerate(zip(*shapes, strict=True)):
            if len(set(sizes)) > 1:
                yield _Axis(feed, axis, sizes)


def _linear(numbers: Column, column: Column) -> tuple[int, int] | None:
    """Whole a and b such that a times the column plus b are the numbers."""
    low, high = column.index(min(column)), column.index(max(column))
    width = column[high] - column[low]
    if not width:
        return None
    factor, left = divmod(numbers[high] - numbers[low], width)
    rest = numbers[low] - factor * column[low]
    fits = all(n == factor * size + rest for n, size in zip(numbers, column, strict=True))
    return None if left or not fits else (factor, rest)
