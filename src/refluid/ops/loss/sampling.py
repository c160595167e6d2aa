"""Sampled softmax, and drawing ids from distributions."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from refluid.core.dtypes import VarType
from refluid.core.errors import EnforceNotMet
from refluid.ir.operator import Operator
from refluid.ops.loss.class_sampling import LogUniform, draw_unique, engine_of
from refluid.ops.registry import OperatorDef, gradient, operator
from refluid.ops.required import require_rows
from refluid.ops.signature import Random
from refluid.ops.unknown import reckoned

_HIT = 1e20


def _infer_samples(definition: OperatorDef, op: Operator) -> None:
    logits = op.block.var_recursive(op.input("Logits")[0])
    labels = op.block.var_recursive(op.input("Labels")[0])
    if not (logits.has_description() and labels.has_description()):
        return
    rows, true = logits.shape[0], reckoned(labels.shape)[1]
    wide = (rows, true + op.attrs["num_samples"])
    described = {
        "Samples": (wide, VarType.INT64),
        "Probabilities": (wide, logits.dtype),
        "LogitsDim": ((*logits.shape, 0), None),
        "LabelsDim": ((*labels.shape, 0), None),
        "SampledLogits": (wide, logits.dtype),
        "SampledLabels": ((rows, true), VarType.INT64),
    }
    for slot, (shape, dtype) in described.items():
        for name in op.output(slot):
            var = op.block.var_recursive(name)
            var.shape = shape
            if dtype is not None:
                var.dtype = dtype


def _draw(
    labels: Tensor, classes: int, count: int, unique: bool, seed: int, random: Random
) -> tuple[Tensor, Tensor]:
    """Samples, the same for all rows after each row's labels, and their expected counts."""
    source = LogUniform(classes)
    engine = engine_of(source, seed, random)
    if unique and count > classes:
        raise EnforceNotMet(
            f"sample_logits: {count} different samples of {classes} classes cannot be drawn"
        )
    drawn, tries = (
        draw_unique(source, engine, count) if unique else (source.draw(engine, count), count)
    )
    negative = torch.from_numpy(np.ascontiguousarray(drawn)).to(labels.device)
    samples = torch.cat((labels.long(), negative.expand(labels.shape[0], -1)), 1)
    chance = source.probability(samples, torch.float64)
    expected = chance * count if tries == count else -torch.expm1(tries * torch.log1p(-chance))
    return samples, expected


@operator(
    "sample_logits",
    gradient_lod="none",
    outputs="Samples Probabilities LogitsDim LabelsDim SampledLogits SampledLabels",
    differentiable="Logits",
    lod="",
    infer=_infer_samples,
)
def sample_logits(
    Logits: Tensor,
    Labels: Tensor,
    CustomizedSamples: Tensor | None = None,
    CustomizedProbabilities: Tensor | None = None,
    *,
    use_customized_samples: bool = False,
    uniq: bool = True,
    remove_accidental_hits: bool = True,
    num_samples: int,
    seed: int = 0,
    random: Random,
) -> tuple[Tensor, ...]:
    """SampledLogits (rows, true + num_samples): logits of the labels, then of drawn classes.

    Logits (rows, classes), Labels int64 (rows, true). Classes are drawn log-uniformly, uniq for
    different ones; the log of how often each is expected is subtracted. Samples that are labels
    of their row are suppressed by 1e20 where remove_accidental_hits. SampledLabels are 0, 1, ...
    """
    require_rows("Labels", Labels, "Logits", len(Logits))
    rows, true = Labels.shape
    if use_customized_samples:
        if CustomizedSamples is None or CustomizedProbabilities is None:
            raise EnforceNotMet("sample_logits: customized samples need their probabilities")
        samples, chance = CustomizedSamples, CustomizedProbabilities
    else:
        samples, chance = _draw(Labels, Logits.shape[1], num_samples, uniq, seed, random)
    chance = chance.to(Logits.dtype)
    out = Logits.gather(1, samples)
    if remove_accidental_hits:
        hits = (samples[:, true:].unsqueeze(2) == samples[:, :true].unsqueeze(1)).any(2)
        out[:, true:] -= hits.to(out.dtype) * _HIT
    out = out - torch.log(chance)
    dims = Logits.new_empty((*Logits.shape, 0)), Labels.new_empty((*Labels.shape, 0))
    hard = torch.arange(true, device=Labels.device).expand(rows, true).contiguous()
    return samples, chance, *dims, out, hard


@gradient("sample_logits")
def sample_logits_grad(
    Samples: Tensor, LogitsDim: Tensor, LabelsDim: Tensor, d_SampledLogits: Tensor
) -> Tensor:
    """The gradients added up at the classes that were sampled."""
    grad = d_SampledLogits.new_zeros(LogitsDim.shape[:-1])
    return grad.scatter_add_(1, Samples, d_SampledLogits)


def _infer_id(definition: OperatorDef, op: Operator) -> None:
    source = op.block.var_recursive(op.input("X")[0])
    if source.has_description():
        op.block.var_recursive(op.output("Out")[0]).shape = source.shape[:1]


@operator("sampling_id", outputs="Out", uses=None, lod="", infer=_infer_id)
def sampling_id(
    X: Tensor, *, min: float = 0.0, max: float = 1.0, seed: int = 0, random: Random
) -> Tensor:
    """One id per row of the probabilities X (rows, ids), int64 (rows,).

    It is the first at which the sum of probabilities exceeds a uniform number of [min, max).
    """
    drawn = torch.empty_like(X[:, :1]).uniform_(min, max, generator=random(seed))
    return (X.cumsum(1) <= drawn).sum(1).clamp(max=X.shape[1] - 1)
