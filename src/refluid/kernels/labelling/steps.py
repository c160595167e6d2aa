"""What CRFs compute in steps by torch's kernels, for any device and type of numbers.

All sequences advance together: rows are in the order of the steps, of which each has `sizes` rows,
those of the longest sequences first. Transitions are as `linear_chain_crf` has them.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch import split_with_sizes as cut


def forward(weights: Tensor, exps: Tensor, sizes: list[int]) -> tuple[Tensor, Tensor]:
    """Alpha of each step, each row scaled to a sum of 1, and what it was divided by."""
    alpha, scale = torch.empty_like(exps), exps.new_empty(exps.shape[0], 1)
    before: Tensor | None = None
    steps = zip(cut(exps, sizes), cut(alpha, sizes), cut(scale, sizes), strict=True)
    for x, now, total in steps:
        if before is None:
            torch.mul(x, weights[0], out=now)
        else:
            torch.mm(before[: x.shape[0]], weights[2:], out=now).mul_(x)
        torch.sum(now, 1, keepdim=True, out=total)
        before = now.div_(total)
    return alpha, scale


def backward(weights: Tensor, ahead: Tensor, sizes: list[int], last: Tensor) -> Tensor:
    """Beta of each step, scaled like alpha; ahead: exponentials over the step's scale."""
    beta, back = torch.empty_like(ahead), weights[2:].t()
    betas, aheads = cut(beta, sizes), cut(ahead, sizes)
    rows = 0
    for step in range(len(sizes) - 1, -1, -1):
        now = betas[step]
        if rows:
            torch.mm(betas[step + 1] * aheads[step + 1], back, out=now[:rows])
        now[rows:] = last[rows : sizes[step]]
        rows = sizes[step]
    return beta


def best_tags(rows: Tensor, transition: Tensor, sizes: list[int]) -> Tensor:
    """The best tag at each place of the steps."""
    choices = torch.empty(rows.shape, dtype=torch.long, device=rows.device)
    path = choices.new_empty(rows.shape[0])
    scores = torch.empty_like(rows)
    before: Tensor | None = None
    steps = zip(cut(rows, sizes), cut(scores, sizes), cut(choices, sizes), strict=True)
    for x, score, choice in steps:
        if before is None:
            torch.add(x, transition[0], out=score)
        else:
            ways = before[: x.shape[0]].unsqueeze(2) + transition[2:]
            torch.max(ways, 1, out=(score, choice))
            score.add_(x)
        before = score
    paths, choosing = cut(path, sizes), cut(choices, sizes)
    finals = cut(scores + transition[1], sizes)
    rows_after = 0
    for step in range(len(sizes) - 1, -1, -1):
        now = paths[step]
        if rows_after:
            chosen = paths[step + 1].unsqueeze(1)
            now[:rows_after] = choosing[step + 1].gather(1, chosen).squeeze(1)
        now[rows_after:] = finals[step][rows_after:].argmax(1)
        rows_after = sizes[step]
    return path
