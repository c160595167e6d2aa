"""Linear-chain CRF: the likelihood of label sequences.

Sequences are rows with a LoD, or padded to (sequences, longest, tags) with a Length. Either way
all sequences advance together, step by step. Transition's first row holds the weights of
starting with a tag, its second those of ending with it, the rest those from tag (row) to tag.
"""

from __future__ import annotations

import torch
from torch import Tensor

from refluid.core.offsets import Levels
from refluid.ir.operator import Operator
from refluid.ops.by_loops import are_plain
from refluid.ops.loss.tagged import crf_layout, crf_loops, crf_places
from refluid.ops.registry import OperatorDef, gradient, operator
from refluid.ops.sequence.batching import TimeMajor, cut

Grads = tuple[Tensor | None, ...]

# Products of matrices of more tags are faster where all sequences are multiplied at once.
_MOST = 256


def _forward(weights: Tensor, exps: Tensor, sizes: list[int]) -> tuple[Tensor, Tensor]:
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


def _backward(weights: Tensor, ahead: Tensor, layout: TimeMajor, last: Tensor) -> Tensor:
    """Beta of each step, scaled like alpha; ahead: exponentials over the step's scale."""
    beta = torch.empty_like(ahead)
    back, sizes = weights[2:].t(), layout.sizes
    betas, aheads = cut(beta, sizes), cut(ahead, sizes)
    rows = 0
    for step in range(len(sizes) - 1, -1, -1):
        now = betas[step]
        if rows:
            torch.mm(betas[step + 1] * aheads[step + 1], back, out=now[:rows])
        now[rows:] = last[rows : sizes[step]]
        rows = sizes[step]
    return beta


def _infer_likelihood(definition: OperatorDef, op: Operator) -> None:
    emission = op.block.var_recursive(op.input("Emission")[0])
    transition = op.block.var_recursive(op.input("Transition")[0])
    if not (emission.has_description() and transition.has_description()):
        return
    rows = emission.shape[0] if len(emission.shape) == 3 else -1
    shapes = {
        "Alpha": emission.shape,
        "EmissionExps": emission.shape,
        "TransitionExps": transition.shape,
        "LogLikelihood": (rows, 1),
    }
    for slot, shape in shapes.items():
        for name in op.output(slot):
            op.block.var_recursive(name).describe(shape=shape, dtype=emission.dtype)


@operator(
    "linear_chain_crf",
    classes="Label",
    outputs="Alpha EmissionExps TransitionExps LogLikelihood",
    differentiable="Emission Transition",
    lod="",
    infer=_infer_likelihood,
)
def linear_chain_crf(
    Emission: Tensor,
    Transition: Tensor,
    Label: Tensor,
    Length: Tensor | None = None,
    *,
    lod_Emission: Levels,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """-log of the probability of each sequence's labels, as LogLikelihood (sequences, 1).

    Emission (rows, tags) with a LoD, or (sequences, longest, tags) with Length (sequences, 1);
    Transition (tags + 2, tags); Label int64, one per row. An empty sequence gives 0. Alpha (each
    row scaled to a sum of 1) and EmissionExps (over the row's largest) are shaped as Emission.
    """
    if loops := crf_loops(Emission, Transition, Label, Length, most=_MOST):
        places = crf_places(Emission, Length, lod_Emission, "linear_chain_crf")
        made: tuple[Tensor, Tensor, Tensor, Tensor] = loops.likelihoods(
            Emission, Transition, Label, *places
        )
        return made
    layout = crf_layout(Emission, Length, lod_Emission, "linear_chain_crf")
    tags = Emission.shape[-1]
    x = Emission.reshape(-1, tags)
    top = x.amax(1, keepdim=True) if x.numel() else x.new_empty(x.shape[0], 1)
    exps, weights = torch.exp(x - top), torch.exp(Transition)
    alpha, scale = _forward(weights, layout.to_steps(exps), layout.sizes)
    rows, labels = layout.to_steps(x), layout.to_steps(Label.reshape(-1, 1).long())
    gained = rows.gather(1, labels).view(-1) - layout.to_steps(top).add_(scale.log()).view(-1)
    first, last = layout.ends.numel(), layout.ends
    arriving = labels[first:, 0]
    gained[:first] += Transition[0][labels[:first, 0]]
    gained[first:] += Transition[2:].reshape(-1)[labels[layout.before, 0] * tags + arriving]
    gained[last] += Transition[1][labels[last, 0]] - (alpha[last] @ weights[1]).log()
    total = x.new_zeros(first).index_add_(0, layout.owners, gained)
    cost = layout.unsorted(total.neg_().view(-1, 1), len(layout.order))
    shaped = layout.to_rows(alpha, x.shape[0]).view(Emission.shape)
    return shaped, exps.view(Emission.shape), weights, cost


@gradient("linear_chain_crf")
def linear_chain_crf_grad(
    Emission: Tensor,
    Transition: Tensor,
    Label: Tensor,
    Length: Tensor | None,
    Alpha: Tensor,
    EmissionExps: Tensor,
    TransitionExps: Tensor,
    d_LogLikelihood: Tensor,
    *,
    lod_Emission: Levels,
) -> Grads:
    """Expected minus observed counts of tags and transitions, times d_LogLikelihood."""
    if loops := crf_loops(Alpha, TransitionExps, Label, Length, EmissionExps, most=_MOST):
        places = crf_places(Emission, Length, lod_Emission, "linear_chain_crf_grad")
        grad = d_LogLikelihood.contiguous()
        if len(grad) == len(places[1]) and are_plain(torch.float32, grad):
            found: Grads = loops.slopes(Alpha, EmissionExps, TransitionExps, Label, grad, *places)
            return found
    layout = crf_layout(Emission, Length, lod_Emission, "linear_chain_crf_grad")
    tags, weights = Emission.shape[-1], TransitionExps
    if not layout.total:
        return torch.zeros_like(Emission), torch.zeros_like(Transition)
    alpha = layout.to_steps(Alpha.reshape(-1, tags))
    exps = layout.to_steps(EmissionExps.reshape(-1, tags))
    labels = layout.to_steps(Label.reshape(-1, 1).long())
    first, last = layout.ends.numel(), layout.ends
    leaving = alpha[layout.before]
    entering = exps[first:] / ((leaving @ weights[2:]) * exps[first:]).sum(1, keepdim=True)
    ends = weights[1] / (alpha[last] @ weights[1]).unsqueeze(1)
    beta = _backward(weights, torch.cat((exps[:first], entering)), layout, ends)
    each = layout.sorted(d_LogLikelihood)[layout.owners]
    counts = (alpha * beta).scatter_add_(1, labels, -torch.ones_like(each)).mul_(each)
    moved = leaving.t() @ (entering * beta[first:] * each[first:])
    moved.mul_(weights[2:])
    pairs = labels[layout.before, 0] * tags + labels[first:, 0]
    moved.view(-1).index_add_(0, pairs, -each[first:, 0])
    ending = counts[last].sum(0)
    d_transition = torch.cat((counts[:first].sum(0)[None], ending[None], moved))
    d_rows = layout.to_rows(counts, Emission.numel() // tags)
    return d_rows.view(Emission.shape), d_transition
