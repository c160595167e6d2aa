"""Boxes as differences from other boxes, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.core.offsets import Levels
from refluid.ir.checks import Check, one_of
from refluid.ir.operator import Operator
from refluid.ops.bounded import Boxes, Matrix, MaybeBoxes
from refluid.ops.detection.overlaps import sides
from refluid.ops.detection.shapes import infer_by
from refluid.ops.infer import InputSpec
from refluid.ops.reading import is_unknown
from refluid.ops.registry import OperatorDef, operator
from refluid.ops.required import require_equal

ENCODE, DECODE = "encode_center_size", "decode_center_size"


def _center(boxes: Tensor, normalized: bool) -> tuple[Tensor, Tensor]:
    """Center and size (..., 2) of boxes (..., 4)."""
    size = torch.stack(sides(boxes, normalized), -1)
    return boxes[..., :2] + size / 2, size


def encode(prior: Tensor, target: Tensor, normalized: bool) -> Tensor:
    """Differences (N, M, 4) of target boxes (N, 4) from prior boxes (M, 4)."""
    center, size = _center(prior, normalized)
    middle = (target[:, None, :2] + target[:, None, 2:]) / 2
    wanted = torch.stack(sides(target, normalized), -1)[:, None]
    return torch.cat(((middle - center) / size, (wanted / size).abs().log()), -1)


def decode(prior: Tensor, difference: Tensor, normalized: bool) -> Tensor:
    """The boxes that are so different from the prior boxes, (..., 4) each."""
    center, size = _center(prior, normalized)
    out = torch.empty_like(prior[..., :1] * difference)
    for axis in (0, 1):
        middle = torch.addcmul(center[..., axis], difference[..., axis], size[..., axis])
        half = difference[..., axis + 2].exp().mul_(size[..., axis] / 2)
        torch.sub(middle, half, out=out[..., axis])
        high = middle.add_(half)
        out[..., axis + 2] = high if normalized else high.sub_(1)
    return out


def _infer_coder(op: Operator, inputs: Mapping[str, InputSpec]) -> dict[str, InputSpec]:
    shape, dtype = inputs["TargetBox"]
    if op.attrs["code_type"] == ENCODE:
        shape = (shape[0], inputs["PriorBox"][0][0], 4)
    return {"OutputBox": (shape, dtype)}


def _describe_coded(definition: OperatorDef, op: Operator) -> None:
    along_rows = op.attrs["code_type"] != ENCODE and op.attr("axis")
    infer_by(_infer_coder, OutputBox="PriorBox" if along_rows else "TargetBox")(definition, op)


@operator(
    "box_coder",
    outputs="OutputBox",
    uses=None,
    makes_lod="OutputBox",
    infer=_describe_coded,
)
def box_coder(
    PriorBox: Boxes,
    PriorBoxVar: MaybeBoxes,
    TargetBox: Tensor,
    *,
    lod_PriorBox: Levels = (),
    lod_TargetBox: Levels = (),
    code_type: str = ENCODE,
    box_normalized: bool = True,
    axis: Annotated[int, one_of(0, 1)] = 0,
    variance: Annotated[
        Sequence[float], Check("no numbers or 4", lambda given: len(given) in (0, 4))
    ] = (),
) -> tuple[Tensor, Levels]:
    """Encodes boxes (N, 4) by priors (M, 4), or decodes (N, M, 4); (N, M, 4).

    The differences are divided, or multiplied when decoding, by PriorBoxVar (of the shape of
    the priors) or by `variance` (4). axis: of the target that the priors run along in decoding.
    """
    wanted = {ENCODE: 2, DECODE: 3}.get(code_type)
    if wanted is None:
        raise EnforceNotMet(f"box_coder: code_type is {code_type!r}; give {ENCODE!r} or {DECODE!r}")
    if TargetBox.dim() != wanted or TargetBox.shape[-1] != 4:
        raise EnforceNotMet(
            f"{code_type} takes a TargetBox of {wanted} dimensions, the last of 4, not "
            f"{list(TargetBox.shape)}"
        )
    if PriorBoxVar is not None:
        require_equal("PriorBoxVar", PriorBoxVar, "PriorBox", PriorBox.shape)
    scale = PriorBoxVar
    if variance:
        scale = PriorBox.new_tensor(variance).reshape(1, 4)
    if code_type == ENCODE:
        out = encode(PriorBox, TargetBox, box_normalized)
        return out if scale is None else out / scale, lod_TargetBox
    if TargetBox.shape[1 - axis] != len(PriorBox):
        raise EnforceNotMet(
            f"PriorBox has {len(PriorBox)} rows, but TargetBox is {list(TargetBox.shape)}: "
            f"with axis={axis} its dimension {1 - axis} has to be as large"
        )
    prior = PriorBox.unsqueeze(axis)
    target = TargetBox if scale is None else TargetBox * scale.unsqueeze(axis)
    return decode(prior, target, box_normalized), lod_PriorBox if axis else lod_TargetBox


@operator(
    "box_decoder_and_assign",
    outputs="DecodeBox OutputAssignBox",
    uses=None,
    follows={"DecodeBox": "TargetBox"},
    lod="TargetBox",
)
def box_decoder_and_assign(
    PriorBox: Boxes,
    PriorBoxVar: Tensor | None,
    TargetBox: Matrix,
    BoxScore: Matrix,
    *,
    box_clip: float = 4.135,
) -> tuple[Tensor, Tensor]:
    """Boxes (N, classes * 4) decoded per class, and (N, 4) that of the best class but class 0.

    PriorBoxVar: 4 factors. box_clip: the highest logarithm of a change in size. A box whose
    scores are all at most -1 stays the prior box.
    """
    numbers, scores = TargetBox.shape[1], BoxScore.shape[1]
    unknown = is_unknown(numbers) or is_unknown(scores)
    if len(TargetBox) != len(BoxScore) or (numbers != 4 * scores and not unknown):
        raise EnforceNotMet(
            f"TargetBox {list(TargetBox.shape)} has to have 4 numbers for each score of BoxScore "
            f"{list(BoxScore.shape)}"
        )
    difference = TargetBox.reshape(TargetBox.shape[0], -1, 4)
    if PriorBoxVar is not None:
        difference = difference * PriorBoxVar.reshape(-1, 1, 4)
    difference = torch.cat((difference[..., :2], difference[..., 2:].clamp(max=box_clip)), -1)
    boxes = decode(PriorBox[:, None], difference, False)
    if BoxScore.shape[1] < 2:
        return boxes.flatten(1), PriorBox.clone()
    score, best = BoxScore[:, 1:].max(1)
    chosen = boxes.gather(1, (best + 1).reshape(-1, 1, 1).expand(-1, 1, 4)).squeeze(1)
    return boxes.flatten(1), torch.where(score[:, None] > -1, chosen, PriorBox)
