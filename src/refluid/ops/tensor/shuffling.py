"""Random order and place: permutations, shuffled rows, cropped samples."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from refluid.core.dtypes import VarType, to_torch
from refluid.ir.operator import Operator
from refluid.ops.registry import OperatorDef, gradient, operator
from refluid.ops.signature import Random

_LARGEST = 2**31 - 1


@operator("randperm", outputs="Out", uses=None, lod="")
def randperm(
    *, n: int, dtype: int = 3, seed: int = 0, device: torch.device, random: Random
) -> Tensor:
    """0 .. n - 1 in random order."""
    kind = to_torch(VarType(dtype))
    if device.type == "meta":
        return torch.empty(n, dtype=kind, device=device)
    return torch.randperm(n, generator=random(seed), dtype=kind, device=device)


def _next(given: Tensor | None, startup: int) -> tuple[torch.Generator, Tensor]:
    """A generator seeded by what is given, else by `startup`, and the seed for the next run."""
    generator = torch.Generator()
    if given is not None and given.numel():
        generator.manual_seed(int(given.reshape(-1)[0]))
    elif startup:
        generator.manual_seed(startup)
    else:
        generator.seed()
    return generator, torch.randint(1, _LARGEST, (1,), generator=generator)


@operator(
    "shuffle_batch",
    outputs="Out ShuffleIdx SeedOut",
    uses="ShuffleIdx",
    differentiable="X",
    starts_without="Seed",
)
def shuffle_batch(
    X: Tensor, Seed: Tensor | None, *, startup_seed: int = 0
) -> tuple[Tensor, Tensor, Tensor]:
    """The rows of X (all but the last dimension) in random order.

    ShuffleIdx: int64, which row went to each place. Seed: of the last run, at first startup_seed
    (0 for a random one); SeedOut: of the next one.
    """
    if X.is_meta:
        order = X.new_empty(X.numel() // max(X.shape[-1], 1), dtype=torch.int64)
        return torch.empty_like(X), order, order[:1] if Seed is None else Seed
    rows = X.reshape(-1, X.shape[-1])
    generator, following = _next(Seed, startup_seed)
    order = torch.randperm(len(rows), generator=generator).to(X.device)
    return rows[order].reshape(X.shape), order, following


@gradient("shuffle_batch")
def shuffle_batch_grad(ShuffleIdx: Tensor, d_Out: Tensor) -> Tensor:
    """The rows of d_Out back in their places."""
    rows = d_Out.reshape(len(ShuffleIdx), -1)
    return torch.empty_like(rows).index_copy_(0, ShuffleIdx, rows).view(d_Out.shape)


def _infer_cropped(definition: OperatorDef, op: Operator) -> None:
    x = op.block.var_recursive(op.input("X")[0])
    wanted = tuple(op.attrs["shape"])
    if x.has_description():
        shape = (*x.shape[: len(x.shape) - len(wanted)], *wanted)
        op.block.var_recursive(op.output("Out")[0]).describe(shape=shape, dtype=x.dtype)


@operator(
    "random_crop", outputs="Out SeedOut", uses=None, starts_without="Seed", infer=_infer_cropped
)
def random_crop(
    X: Tensor, Seed: Tensor | None, *, shape: Sequence[int], startup_seed: int = 0
) -> tuple[Tensor, Tensor]:
    """A random part of that shape of each sample: `shape` is for the last dimensions of X."""
    lead, sizes = X.shape[: X.dim() - len(shape)], X.shape[X.dim() - len(shape) :]
    generator, following = _next(Seed, startup_seed)
    samples = X.reshape(-1, *sizes)
    index: list[Tensor] = [torch.arange(len(samples)).unsqueeze(1)]
    for size, wanted in zip(sizes, shape, strict=True):
        start = torch.randint(0, size - wanted + 1, (len(samples), 1), generator=generator)
        index.append(start + torch.arange(wanted))
    rank = len(index)
    spread = [
        one.reshape(len(samples), *[-1 if dim == place else 1 for dim in range(1, rank)])
        for place, one in enumerate(index)
    ]
    return samples[tuple(one.to(X.device) for one in spread)].reshape(*lead, *shape), following
