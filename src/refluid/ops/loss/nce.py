"""Noise-contrastive estimation: telling true classes from a few that were drawn."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from refluid.core.dtypes import VarType
from refluid.core.selected_rows import SelectedRows
from refluid.ir.operator import Operator
from refluid.ops.loss.class_sampling import engine_of, sampler
from refluid.ops.registry import OperatorDef, gradient, operator
from refluid.ops.required import require_rows
from refluid.ops.signature import Longs, Random
from refluid.ops.unknown import reckoned

Custom = tuple[Tensor | None, ...]


def _infer(definition: OperatorDef, op: Operator) -> None:
    source = op.block.var_recursive(op.input("Input")[0])
    label = op.block.var_recursive(op.input("Label")[0])
    if not (source.has_description() and label.has_description()):
        return
    true = reckoned(label.shape)[1] if len(label.shape) == 2 else 1
    columns = op.attrs["num_neg_samples"] + true
    rows = source.shape[0]
    for name in op.output("Cost"):
        op.block.var_recursive(name).describe(shape=(rows, 1), dtype=source.dtype)
    for slot, dtype in (("SampleLogits", source.dtype), ("SampleLabels", VarType.INT64)):
        for name in op.output(slot):
            op.block.var_recursive(name).describe(shape=(rows, columns), dtype=dtype)


def _noise(classes: Tensor, kind: int, total: int, negatives: int, custom: Custom) -> Tensor:
    """How often each class is expected among the negatives."""
    dtype = torch.float32 if custom[0] is None else custom[0].dtype
    return sampler(kind, total, custom).probability(classes, dtype) * negatives


@operator(
    "nce",
    classes="Label",
    outputs="Cost SampleLogits SampleLabels",
    differentiable="Input Weight Bias",
    lod="",
    infer=_infer,
)
def nce(
    Input: Tensor,
    Label: Tensor,
    Weight: Tensor,
    Bias: Tensor | None = None,
    SampleWeight: Tensor | None = None,
    CustomDistProbs: Tensor | None = None,
    CustomDistAlias: Tensor | None = None,
    CustomDistAliasProbs: Tensor | None = None,
    *,
    num_total_classes: int,
    num_neg_samples: int = 10,
    sampler_: int = 0,
    seed: int = 0,
    is_sparse: bool = False,
    remote_prefetch: bool = False,
    trainer_id: int = 0,
    height_sections: Longs = (),
    epmap: Sequence[str] = (),
    table_names: Sequence[str] = (),
    custom_neg_classes: Sequence[int] = (),
    random: Random,
) -> tuple[Tensor, Tensor, Tensor]:
    """Cost (rows, 1) of telling the true classes of each row from num_neg_samples drawn ones.

    Input (rows, width), Label int64 (rows, true classes), Weight (classes, width), Bias
    (classes, 1). SampleLogits is the sigmoid of each class's score, SampleLabels the classes,
    true ones first. sampler: 0 uniform, 1 log-uniform, 2 custom. custom_neg_classes are taken
    instead of drawn ones. A seed other than 0 draws the same classes in every run.
    """
    custom = CustomDistProbs, CustomDistAlias, CustomDistAliasProbs
    rows = Input.shape[0]
    require_rows("Label", Label, "Input", rows)
    true = Label.reshape(rows, Label.shape[1] if Label.dim() == 2 else 1).long()
    negative = torch.tensor(list(custom_neg_classes)).expand(rows, -1)
    if not custom_neg_classes:
        source = sampler(sampler_, num_total_classes, custom)
        drawn = source.draw(engine_of(source, seed, random), rows * num_neg_samples)
        negative = torch.from_numpy(drawn).view(rows, num_neg_samples)
    classes = torch.cat((true, negative.to(Label.device)), 1)
    scores = torch.bmm(torch.embedding(Weight, classes), Input.unsqueeze(2)).squeeze(2)
    if Bias is not None:
        scores = scores + Bias.reshape(-1)[classes]
    chance = torch.sigmoid(scores)
    noise = _noise(classes, sampler_, num_total_classes, num_neg_samples, custom).to(chance.dtype)
    right = torch.cat((chance[:, : true.shape[1]], noise[:, true.shape[1] :]), 1)
    cost = -torch.log(right / (chance + noise)).sum(1, keepdim=True)
    if SampleWeight is not None:
        cost = cost * SampleWeight.reshape(rows, 1)
    return cost, chance, classes


@gradient("nce", sparse="d_Weight")
def nce_grad(
    Input: Tensor,
    Label: Tensor,
    Weight: Tensor,
    Bias: Tensor | None,
    SampleLogits: Tensor,
    SampleLabels: Tensor,
    SampleWeight: Tensor | None,
    CustomDistProbs: Tensor | None,
    CustomDistAlias: Tensor | None,
    CustomDistAliasProbs: Tensor | None,
    d_Cost: Tensor,
    *,
    num_total_classes: int,
    num_neg_samples: int = 10,
    sampler_: int = 0,
    is_sparse: bool = False,
) -> tuple[Tensor, Tensor | SelectedRows, Tensor | None]:
    """Gradients of Input, Weight (rows of the classes seen where is_sparse) and Bias."""
    custom = CustomDistProbs, CustomDistAlias, CustomDistAliasProbs
    noise = _noise(SampleLabels, sampler_, num_total_classes, num_neg_samples, custom)
    noise = noise.to(SampleLogits.dtype)
    count = Label.shape[1] if Label.dim() == 2 else 1
    share = (1.0 - SampleLogits) / (SampleLogits + noise)
    grad = torch.cat((-noise[:, :count], SampleLogits[:, count:]), 1) * share * d_Cost
    if SampleWeight is not None:
        grad = grad * SampleWeight.reshape(-1, 1)
    d_input = torch.bmm(grad.unsqueeze(1), torch.embedding(Weight, SampleLabels)).squeeze(1)
    classes = SampleLabels.reshape(-1)
    values = (grad.unsqueeze(2) * Input.unsqueeze(1)).reshape(-1, Input.shape[1])
    d_bias = None
    if Bias is not None:
        flat = grad.new_zeros(Bias.numel()).index_add_(0, classes, grad.reshape(-1))
        d_bias = flat.view(Bias.shape)
    if is_sparse:
        return d_input, SelectedRows(classes, Weight.shape[0], values), d_bias
    return d_input, torch.zeros_like(Weight).index_add_(0, classes, values), d_bias
