"""FLAGS_init_allocated_mem: what operators allocate holds junk until they have written it.

An element that is read before it was written then shows as NaN, or as the greatest integer, and
`FLAGS_check_nan_inf` names the operator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from refluid.kernels.watching import DispatchMode

_aten = torch.ops.aten
_ALLOCATES = {
    _aten.empty,
    _aten.empty_like,
    _aten.empty_permuted,
    _aten.empty_strided,
    _aten.new_empty,
    _aten.new_empty_strided,
}


class Junk(DispatchMode):
    """While it is entered, tensors that are made without values are filled with junk.

    That is memory which the code of operators asks for, users' own among them; PyTorch's kernels
    write all of what they allocate themselves.
    """

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        if func.overloadpacket in _ALLOCATES and not made.is_meta:
            fill(made)
        return made


def fill(tensor: Tensor) -> None:
    """Overwrites a tensor: NaN, the greatest integer, True."""
    kind = tensor.dtype
    if kind.is_floating_point or kind.is_complex:
        tensor.fill_(float("nan"))
    else:
        tensor.fill_(True if kind == torch.bool else torch.iinfo(kind).max)
