"""What a program says of the tensors that a reader gives, and whether a batch is like that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from refluid.core.dtypes import VarType, as_dtype, dtype_name
from refluid.core.errors import EnforceNotMet


@dataclass(frozen=True)
class Spec:
    """Shape (-1 where any size will do), element type and LoD level of one tensor.

    checked: whether batches must be like that.
    """

    shape: tuple[int, ...]
    dtype: VarType
    lod_level: int
    checked: bool

    def reason_against(self, tensor: Tensor) -> str:
        """Why the tensor can't be given for this; empty if it can."""
        found = as_dtype(tensor.dtype)
        if found != self.dtype:
            return (
                f"must have data type {dtype_name(self.dtype)!r}, but received "
                f"{dtype_name(found)!r}"
            )
        sizes = list(tensor.shape)
        fits = len(sizes) == len(self.shape) and all(
            want < 0 or want == size for size, want in zip(sizes, self.shape, strict=True)
        )
        if fits:
            return ""
        return (
            f"should have dimensions = {len(self.shape)}, shape = {list(self.shape)}, but received "
            f"shape {sizes}"
        )


def parse_specs(
    sizes: Sequence[int],
    ranks: Sequence[int],
    lod_levels: Sequence[int],
    dtypes: Sequence[int],
    checks: Sequence[int],
) -> tuple[Spec, ...]:
    """The specs that `create_py_reader` carries as attributes: all shapes in one list."""
    specs, start = [], 0
    for rank, lod_level, dtype, check in zip(ranks, lod_levels, dtypes, checks, strict=True):
        shape = tuple(sizes[start : start + rank])
        specs.append(Spec(shape, VarType(dtype), lod_level, bool(check)))
        start += rank
    return tuple(specs)


def check_batch(name: str, specs: Sequence[Spec], tensors: Sequence[Tensor]) -> None:
    """Raises EnforceNotMet where a batch of the reader isn't what its specs say."""
    if len(tensors) != len(specs):
        raise EnforceNotMet(
            f"reader {name!r} gave {len(tensors)} tensors, but the program reads {len(specs)}"
        )
    for place, (spec, tensor) in enumerate(zip(specs, tensors, strict=True)):
        if spec.checked and (reason := spec.reason_against(tensor)):
            raise EnforceNotMet(f"tensor {place} that reader {name!r} gave {reason}")
