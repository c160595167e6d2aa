"""What replicas fetched, as one value."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import torch

from refluid.core.values import LoDTensor, lengths_to_offsets
from refluid.runtime.batched.together import Together
from refluid.runtime.plan import Fetched


def join(values: Sequence[Fetched]) -> Fetched:
    """The values of all replicas one after the other along dimension 0, with their sequences."""
    if isinstance(values, Together):
        return values.joined
    if len(values) == 1 or not isinstance(values[0].value, torch.Tensor):
        return values[0]
    tensors = [one.value.reshape(1) if one.value.dim() == 0 else one.value for one in values]
    first = tensors[0].device
    joined = torch.cat([tensor.to(first) for tensor in tensors])
    lengths = [LoDTensor(one.value, one.lod).recursive_sequence_lengths() for one in values]
    merged = [list(chain.from_iterable(level)) for level in zip(*lengths, strict=False)]
    return Fetched(joined, lengths_to_offsets(merged))
