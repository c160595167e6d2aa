"""Attention without the matrix of its weights in memory, by torch's kernel for it on the CPU.

It takes heads as they lie among the columns of a projection, where products would bring them in
order first. What it isn't made for is a product, a softmax and a product, and so is what they do
sooner: its gradient computes the weights again, which costs more than to keep them where there are
many for each head, but few enough in all for the caches.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from refluid.kernels.epilogues import softmax_gradient
from refluid.kernels.parts import part

_NAME = "torch.ops.aten._scaled_dot_product_flash_attention_for_cpu"
_attention = part(f"{_NAME}.default", None)
_gradients = part(f"{_NAME}_backward.default", None)

# So many weights of a head, at most, are computed again sooner than read; of more, so many in all.
_SHORT, _MANY = 80 * 80, 6 * 2**20

_Gradients = tuple[Tensor | None, Tensor | None, Tensor | None]


def attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float, *, alone: bool = False
) -> tuple[Tensor, Tensor]:
    """softmax(scale * q · kᵀ + mask) · v, and what its gradients are made of.

    q (N, heads, length, size), k and v (N, heads, keys, size), mask of any shape that spreads to
    (N, heads, length, keys). What is kept is the logarithm of each row's sum of exponentials,
    (N, heads, length), or the weights. alone: nobody asks for gradients.
    """
    if _fits(q, k, v, mask) and (alone or _pays(q, k)):
        out, sums = _attention(
            *map(_in_rows, (q, k, v)), attn_mask=_spread(mask, q, k), scale=scale
        )
        return out, sums
    scores = torch.matmul(q, k.transpose(-1, -2)) * scale
    weights = torch.softmax(scores if mask is None else scores + mask, -1)
    return torch.matmul(weights, v), weights


def gradients(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    out: Tensor,
    kept: Tensor,
    grad: Tensor,
    scale: float,
    need: Sequence[bool],
) -> _Gradients:
    """The gradients of q, k and v, of those that are needed."""
    if kept.dim() < q.dim():
        rows = map(_in_rows, (grad, q, k, v, out))
        mask = _spread(mask, q, k)
        found = _gradients(*rows, kept, 0.0, False, attn_mask=mask, scale=scale)
    else:
        found = _of_weights(q, k, v, kept, grad, scale, need)
    d_q, d_k, d_v = (one if asked else None for one, asked in zip(found, need, strict=True))
    return d_q, d_k, d_v


def _of_weights(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    weights: Tensor,
    grad: Tensor,
    scale: float,
    need: Sequence[bool],
) -> _Gradients:
    d_v = torch.matmul(weights.transpose(-1, -2), grad).sum_to_size(v.shape) if need[2] else None
    if not any(need[:2]):
        return None, None, d_v
    d_weights = torch.matmul(grad, v.transpose(-1, -2))
    d_scores = softmax_gradient(weights, d_weights, -1) * scale
    d_q = torch.matmul(d_scores, k).sum_to_size(q.shape) if need[0] else None
    d_k = torch.matmul(d_scores.transpose(-1, -2), q).sum_to_size(k.shape) if need[1] else None
    return d_q, d_k, d_v


def _fits(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> bool:
    """Whether torch's kernel is made for these: alike but for their lengths, none of them empty.

    By a single key scores have no gradient; the kernel's is rounding, which Adam makes steps of.
    """
    if _attention is None or _gradients is None or q.dim() != 4 or not q.is_cpu:
        return False
    if k.shape != v.shape or k.dim() != 4 or k.shape[2] == 1 or not (q.numel() and k.numel()):
        return False
    if q.shape[:2] != k.shape[:2] or q.shape[3] != k.shape[3] or not q.dtype == k.dtype == v.dtype:
        return False
    return mask is None or (
        mask.dtype == q.dtype and not mask.requires_grad and _spreads(mask, q, k)
    )


def _pays(q: Tensor, k: Tensor) -> bool:
    """Whether its gradient doesn't take longer than products do; measured on two cores."""
    each = q.shape[2] * k.shape[2]
    return each <= _SHORT or q.shape[0] * q.shape[1] * each >= _MANY


def _spreads(mask: Tensor, q: Tensor, k: Tensor) -> bool:
    """Whether each size of the mask is that of the scores, or 1."""
    scores = (*q.shape[:3], k.shape[2])
    sizes = zip(reversed(mask.shape), reversed(scores), strict=False)
    return mask.dim() <= 4 and all(size in (1, full) for size, full in sizes)


def _spread(mask: Tensor | None, q: Tensor, k: Tensor) -> Tensor | None:
    """The mask in four dimensions, of all lengths and keys."""
    if mask is None:
        return None
    shape = (1,) * (4 - mask.dim()) + tuple(mask.shape)
    return mask.reshape(shape).expand(*shape[:2], q.shape[2], k.shape[2])


def _in_rows(x: Tensor) -> Tensor:
    """x, whose numbers along the last dimension must lie side by side."""
    return x if x.stride(-1) == 1 else x.contiguous()
