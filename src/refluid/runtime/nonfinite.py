"""FLAGS_check_nan_inf: outputs of operators must be finite."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.core.lod_tensor import LoDTensorArray
from refluid.core.selected_rows import SelectedRows
from refluid.runtime.watched import Watched


def require_finite(watched: Watched, values: Sequence[Any]) -> None:
    """EnforceNotMet naming the operator and its first output that holds NaN or infinity."""
    for name, tensor in _tensors(watched, values):
        if tensor.numel() and not bool(torch.isfinite(tensor).all()):
            raise EnforceNotMet(_found(watched, name, tensor))


class FiniteSums:
    """FLAGS_fast_check_nan_inf: one sum per output, all of them looked at after the step."""

    def __init__(self) -> None:
        self._sums: list[Tensor] = []
        self._of: list[tuple[Watched, str]] = []

    def add(self, watched: Watched, values: Sequence[Any]) -> None:
        """Notes the sums of an operator's outputs."""
        for name, tensor in _tensors(watched, values):
            dtype = torch.promote_types(tensor.dtype, torch.float32)
            self._sums.append(tensor.sum(dtype=dtype).to(torch.float64))
            self._of.append((watched, name))

    def require_finite(self) -> None:
        """EnforceNotMet naming the first operator whose output wasn't finite."""
        if not self._sums:
            return
        bad = (~torch.isfinite(torch.stack(self._sums))).nonzero()
        if bad.numel():
            watched, name = self._of[int(bad[0])]
            where = watched.ops[0].made_at
            raise EnforceNotMet(
                f"operator {watched.name} failed: its output {name} contains NaN or infinity "
                "(FLAGS_check_nan_inf=1 stops at the operator and counts them)"
                + (f"\nIt was made here:\n{where}" if where else "")
                + f"\n  [operator < {watched.name} > error]"
            )

    def clear(self) -> None:
        """Forgets all sums."""
        self._sums.clear()
        self._of.clear()


def _tensors(watched: Watched, values: Sequence[Any]) -> Iterator[tuple[str, Tensor]]:
    for name, value in zip(watched.outputs, values, strict=True):
        for tensor in _parts(value):
            if tensor.is_floating_point() or tensor.is_complex():
                yield name, tensor


def _parts(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, SelectedRows):
        yield value.value
    elif isinstance(value, list | tuple | LoDTensorArray):
        for one in value:
            yield from _parts(one)


def _found(watched: Watched, name: str, tensor: Tensor) -> str:
    nan, infinite = torch.isnan(tensor), torch.isinf(tensor)
    first = [int(one) for one in (nan | infinite).nonzero()[0]]
    return (
        f"its output {name} contains NaN or infinity: {int(nan.sum())} NaN and "
        f"{int(infinite.sum())} infinite of {tensor.numel()} numbers, the first at {first} "
        f"[op={watched.name}, tensor={name}]"
    )
