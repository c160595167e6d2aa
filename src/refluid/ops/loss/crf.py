"""Linear-chain CRF: the likelihood of label sequences, and the most likely ones.

Sequences are rows with a LoD, or padded to (sequences, longest, tags) with a Length. Compiled loops
take one sequence after the other; else all advance together, step by step. Transition's first row
holds the weights of starting with a tag, its second those of ending with it, the rest those from
tag (row) to tag.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from refluid.core.dtypes import VarType
from refluid.core.errors import EnforceNotMet
from refluid.core.offsets import Levels
from refluid.ir.operator import Operator
from refluid.ops.by_loops import are_plain, loops_pay
from refluid.ops.registry import OperatorDef, gradient, operator
from refluid.ops.sequence.batching import TimeMajor, steps_of
from refluid.ops.sequence.levels import outer_sequences_of

Grads = tuple[Tensor | None, ...]

# So many multiplications are done by loops from the first call on.
_MANY = 2**21
# Products of more tags are faster where all sequences are multiplied at once.
_MOST = 256


def _layout(emission: Tensor, length: Tensor | None, lod: Levels, what: str) -> TimeMajor:
    """The steps of the sequences that a LoD or a Length says; EnforceNotMet if it does not fit."""
    if length is None:
        outer_sequences_of(emission, lod, "Emission")
        return steps_of(lod[:1], what, False, emission.device)
    lengths = _fitting(emission, length, what)
    count, longest = emission.shape[:2]
    return TimeMajor(np.arange(count) * longest, lengths, False, emission.device)


def _places(
    emission: Tensor, length: Tensor | None, lod: Levels, what: str
) -> tuple[Tensor, Tensor]:
    """The same for loops: where sequences begin and how many rows there are, and their lengths."""
    if length is None:
        offsets = outer_sequences_of(emission, lod, "Emission")
        return offsets.tensor().contiguous(), offsets.length_tensor()
    _fitting(emission, length, what)
    count, longest = emission.shape[:2]
    starts = torch.arange(0, (count + 1) * longest, longest)
    return starts, length.reshape(-1).cpu().long().contiguous()


def _fitting(emission: Tensor, length: Tensor, what: str) -> npt.NDArray[np.int64]:
    """The lengths of padded sequences; EnforceNotMet where these aren't of such lengths."""
    if emission.dim() != 3:
        raise EnforceNotMet(
            f"{what}: with a Length, Emission must be (sequences, longest, tags), "
            f"but it is {tuple(emission.shape)}"
        )
    count, longest = emission.shape[:2]
    lengths: npt.NDArray[np.int64] = length.reshape(-1).long().cpu().numpy()
    if len(lengths) != count or (len(lengths) and lengths.max() > longest):
        raise EnforceNotMet(
            f"{what}: Length {lengths.tolist()} does not fit Emission {tuple(emission.shape)}"
        )
    return lengths


def _loops_of(
    emission: Tensor,
    transition: Tensor,
    label: Tensor | None,
    length: Tensor | None,
    *others: Tensor,
    most: float = math.inf,
) -> Any:
    """`kernels/labelling/crf.py` where the tags of so many rows are compiled loops; else None.

    They are for up to `most` tags of float32 and labels of int64 on the CPU.
    """
    size, tags = emission.numel(), emission.shape[-1]
    if not size or tags > most or not loops_pay(size * tags, _MANY):
        return None
    if emission.dim() != (2 if length is None else 3) or transition.shape != (tags + 2, tags):
        return None
    if label is not None and label.numel() * tags != size:
        return None
    given = emission, transition, *others
    if not are_plain(torch.int64, label) or not are_plain(torch.float32, *given):
        return None
    from refluid.kernels.labelling import crf  # few programs have tags

    return crf


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
    if loops := _loops_of(Emission, Transition, Label, Length, most=_MOST):
        places = _places(Emission, Length, lod_Emission, "linear_chain_crf")
        made: tuple[Tensor, Tensor, Tensor, Tensor]
        made = loops.likelihoods(Emission, Transition, Label, *places)
        return made
    from refluid.kernels.labelling.steps import forward  # few programs have tags

    layout = _layout(Emission, Length, lod_Emission, "linear_chain_crf")
    tags = Emission.shape[-1]
    x = Emission.reshape(-1, tags)
    top = x.amax(1, keepdim=True) if x.numel() else x.new_empty(x.shape[0], 1)
    exps, weights = torch.exp(x - top), torch.exp(Transition)
    alpha, scale = forward(weights, layout.to_steps(exps), layout.sizes)
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
    if loops := _loops_of(Alpha, TransitionExps, Label, Length, EmissionExps, most=_MOST):
        places = _places(Emission, Length, lod_Emission, "linear_chain_crf_grad")
        given = EmissionExps, TransitionExps, Label, d_LogLikelihood.contiguous()
        found: tuple[Tensor, Tensor] = loops.slopes(Alpha, *given, *places)
        return found
    layout = _layout(Emission, Length, lod_Emission, "linear_chain_crf_grad")
    tags, weights = Emission.shape[-1], TransitionExps
    if not layout.total:
        return torch.zeros_like(Emission), torch.zeros_like(Transition)
    from refluid.kernels.labelling.steps import backward  # few programs have tags

    alpha = layout.to_steps(Alpha.reshape(-1, tags))
    exps = layout.to_steps(EmissionExps.reshape(-1, tags))
    labels = layout.to_steps(Label.reshape(-1, 1).long())
    first, last = layout.ends.numel(), layout.ends
    leaving = alpha[layout.before]
    entering = exps[first:] / ((leaving @ weights[2:]) * exps[first:]).sum(1, keepdim=True)
    ends = weights[1] / (alpha[last] @ weights[1]).unsqueeze(1)
    beta = backward(weights, torch.cat((exps[:first], entering)), layout.sizes, ends)
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


def _infer_path(definition: OperatorDef, op: Operator) -> None:
    emission = op.block.var_recursive(op.input("Emission")[0])
    if not emission.has_description():
        return
    shape = emission.shape[:2] if len(emission.shape) == 3 else (emission.shape[0], 1)
    path = op.block.var_recursive(op.output("ViterbiPath")[0])
    path.describe(shape=shape, dtype=VarType.INT64)
    path.lod_level = emission.lod_level


@operator("crf_decoding", outputs="ViterbiPath", uses=None, lod="Emission", infer=_infer_path)
def crf_decoding(
    Emission: Tensor,
    Transition: Tensor,
    Label: Tensor | None = None,
    Length: Tensor | None = None,
    *,
    lod_Emission: Levels,
) -> Tensor:
    """The most likely tags of each sequence, int64: (rows, 1), or (sequences, longest) padded by 0.

    With Label: 1 where the tag is the label's, else 0. Inputs are those of `linear_chain_crf`.
    """
    if loops := _loops_of(Emission, Transition, Label, Length):
        places = _places(Emission, Length, lod_Emission, "crf_decoding")
        found: Tensor = loops.best_paths(Emission, Transition, Label, *places)
        return found.view(-1, 1) if Length is None else found.view(Emission.shape[:2])
    from refluid.kernels.labelling.steps import best_tags  # few programs have tags

    layout = _layout(Emission, Length, lod_Emission, "crf_decoding")
    x = Emission.reshape(-1, Emission.shape[-1])
    path = layout.to_rows(best_tags(layout.to_steps(x), Transition, layout.sizes), x.shape[0])
    if Label is not None:
        right = (path == Label.reshape(-1)).long()
        path = right if Length is None else right * _inside(layout, x.shape[0])
    return path.view(-1, 1) if Length is None else path.view(Emission.shape[:2])


def _inside(layout: TimeMajor, height: int) -> Tensor:
    """1 for rows of sequences, 0 for padding."""
    return layout.to_rows(torch.ones_like(layout.rows), height)
