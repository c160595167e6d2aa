"""What was fetched as users get it, and what replicas fetched as one value."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import torch

from refluid.core.fetched import fetched
from refluid.core.offsets import as_levels
from refluid.core.values import LoDTensor, LoDTensorArray, as_lod_tensor, lengths_to_offsets
from refluid.ir.operator import Operator
from refluid.ir.variable import Variable
from refluid.runtime.batched.together import Together
from refluid.runtime.plan import Fetched

_NAMED = (Variable, str)


def join(values: Sequence[Fetched]) -> Fetched:
    """The values of all replicas one after the other along dimension 0, with their sequences."""
    if isinstance(values, Together):
        return values.joined
    if len(values) == 1 or not isinstance(values[0].value, torch.Tensor):
        return values[0]
    tensors = [one.value.reshape(1) if one.value.dim() == 0 else one.value for one in values]
    first = tensors[0].device
    joined = torch.cat([tensor.to(first) for tensor in tensors])
    lengths = [LoDTensor(one.value, one.levels).recursive_sequence_lengths() for one in values]
    merged = [list(chain.from_iterable(level)) for level in zip(*lengths, strict=False)]
    return Fetched(joined, as_levels(lengths_to_offsets(merged)))


def returned(result: Fetched | None, return_numpy: bool) -> Any:
    """A fetched value as users get it: an array, or a LoDTensor; None where others compute it."""
    if result is None:
        return None
    value = result.value
    plain = type(value) is torch.Tensor and value.is_cpu and value.dtype != torch.bfloat16
    if plain and return_numpy and not result.levels:  # as most are
        return fetched(value.numpy())
    if value is None:  # a variable that this run didn't write, such as a branch not taken
        return fetched(np.array([])) if return_numpy else LoDTensor()
    if isinstance(value, LoDTensorArray):  # whose elements are bare tensors inside of plans
        return LoDTensorArray(as_lod_tensor(one) for one in value)
    if not isinstance(value, torch.Tensor):
        return value
    if value.dtype == torch.bfloat16:  # which NumPy lacks
        value = value.float()
    if not return_numpy:
        return LoDTensor(value, result.levels)
    if result.levels:
        raise RuntimeError(
            "Some of your fetched tensors hold LoD information. They can not be completely cast "
            "to Python ndarray. Please set the parameter 'return_numpy' as 'False' to return "
            "LoDTensor itself directly."
        )
    return fetched(value.cpu().numpy())


def apart_from_updates(fetch_list: Any) -> tuple[Any, list[Operator]]:
    """The list without operators, and these: what `minimize` returned, or a part of that."""
    if not isinstance(fetch_list, list | tuple):
        return fetch_list, []
    updates: list[Operator] = []
    rest: list[Any] = []
    for given in fetch_list:
        entry = given[0] if _of_minimize(given) else given  # its gradients aren't fetched
        several = isinstance(entry, list | tuple)
        held: Sequence[Any] = entry if several else (entry,)
        updates += [one for one in held if isinstance(one, Operator)]
        kept = [one for one in held if not isinstance(one, Operator)]
        rest += [kept] if several else kept
    return rest, updates


def _of_minimize(entry: Any) -> bool:
    """Whether this is updates, and pairs of parameters and gradients."""
    if not isinstance(entry, tuple) or [type(part) for part in entry] != [list, list]:
        return False
    return all(isinstance(pair, tuple) for pair in entry[1])


def fetch_names(fetch_list: Any) -> tuple[str, ...]:
    """The names of what is fetched, of variables or names, or of lists of them as in Paddle 2.

    TypeError for anything else.
    """
    if fetch_list is None:
        return ()
    if isinstance(fetch_list, _NAMED):
        fetch_list = [fetch_list]
    names = []
    for entry in fetch_list:
        for item in entry if isinstance(entry, list | tuple) else (entry,):
            if isinstance(item, _NAMED):
                names.append(item if isinstance(item, str) else item.name)
            else:
                kind = type(item).__name__
                raise TypeError(f"fetch_list holds variables or their names, not {kind}")
    return tuple(names)
