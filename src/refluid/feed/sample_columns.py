"""Lists of samples as one array per field, with the lengths of sequences."""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from refluid.core.arrays import NoTensorElements
from refluid.core.dtypes import VarType, to_numpy
from refluid.core.lod import lengths_to_offsets
from refluid.feed.batches import Array, Column
from refluid.ir.variable import Variable


class Field(NamedTuple):
    """A variable that samples are made for."""

    name: str
    shape: tuple[int, ...]
    dtype: VarType
    lod_level: int

    @classmethod
    def of(cls, var: Variable) -> Field:
        """What a program's variable asks for."""
        return cls(var.name, tuple(var.shape), VarType(var.dtype), var.lod_level)


def columns(fields: Sequence[Field], samples: Iterable[Any]) -> list[Column]:
    """One column per field of a mini-batch.

    A sample is a tuple of one value per field, or the value itself where there is one field. A
    value is a number, a list or an array; of a field with LoD level 1 it is a sequence, of level
    2 a list of sequences. Dense values are reshaped to the field's shape where their number fits.
    Raises AssertionError for a sample of too many or too few values, ValueError for values that
    don't fit a field's shape.
    """
    rows = [_row(fields, sample) for sample in samples]
    values = list(zip(*rows, strict=True)) if rows else [()] * len(fields)
    return [_column(field, column) for field, column in zip(fields, values, strict=True)]


def _row(fields: Sequence[Field], sample: Any) -> Sequence[Any]:
    if len(fields) == 1 and not isinstance(sample, list | tuple):
        return (sample,)
    assert len(sample) == len(fields), (
        f"The number of fields in data ({len(sample)}) does not match len(feed_list) "
        f"({len(fields)})"
    )
    row: Sequence[Any] = sample
    return row


def _column(field: Field, values: Sequence[Any]) -> Column:
    lengths = []
    for _ in range(field.lod_level - 1):
        lengths.append([len(value) for value in values])
        values = list(chain.from_iterable(values))
    if not field.lod_level:
        return _shaped(field, _stacked(field, values)), []
    lengths.append([len(value) for value in values])
    return _shaped(field, _joined(field, values)), lengths_to_offsets(lengths)


def _stacked(field: Field, values: Sequence[Any]) -> Array:
    """The values side by side."""
    dtype = to_numpy(field.dtype)
    shapes = {value.shape if isinstance(value, np.ndarray) else None for value in values}
    if len(shapes) == 1 and (shape := shapes.pop()) is not None:
        return np.stack(values, out=np.empty((len(values), *shape), dtype), casting="unsafe")
    try:
        return np.array(values, dtype)
    except (TypeError, ValueError) as error:
        raise _unequal(field, values, error) from None


def _joined(field: Field, sequences: Sequence[Any]) -> Array:
    """The elements of all sequences one after the other."""
    dtype = to_numpy(field.dtype)
    try:
        parts = [np.asarray(sequence, dtype) for sequence in sequences if len(sequence)]
        return np.concatenate(parts) if parts else np.empty((0, *_inner(field)), dtype)
    except (TypeError, ValueError) as error:
        raise _unequal(field, list(chain.from_iterable(sequences)), error) from None


def _inner(field: Field) -> list[int]:
    return [max(size, 0) for size in field.shape[1:]]


def _unequal(field: Field, values: Sequence[Any], error: Exception) -> ValueError:
    kinds = sorted({type(value).__name__ for value in values if not _is_number(value)})
    if kinds:
        return NoTensorElements(
            f"samples for {field.name!r} hold {', '.join(kinds[:4])}, which are no numbers: {error}"
        )
    shapes = sorted({np.shape(value) for value in values})
    return ValueError(
        f"samples for {field.name!r} have different shapes {shapes[:4]}: {error}. Pad them, or "
        "declare the variable with a lod_level"
    )


def _is_number(value: Any) -> bool:
    """Whether it is a number, or an array or list, whose elements may be some."""
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "fiub"
    return isinstance(value, numbers.Number | list | tuple)


def _shaped(field: Field, array: Array) -> Array:
    sizes = list(field.shape)
    if field.lod_level:
        sizes = [-1, *sizes[1:]]
    if len(sizes) == array.ndim or sizes.count(-1) > 1:
        return array
    try:
        return array.reshape(sizes)
    except ValueError:
        raise ValueError(
            f"samples of shape {list(array.shape[1:])} can't be fed to {field.name!r} of shape "
            f"{list(field.shape)}"
        ) from None
