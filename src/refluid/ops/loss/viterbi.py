"""The most likely tags of a linear-chain CRF, all sequences decoded together."""

from __future__ import annotations

import torch
from torch import Tensor

from refluid.core.dtypes import VarType
from refluid.core.offsets import Levels
from refluid.ir.operator import Operator
from refluid.ops.loss.tagged import crf_layout, crf_loops, crf_places
from refluid.ops.registry import OperatorDef, operator
from refluid.ops.sequence.batching import TimeMajor, cut


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
    if loops := crf_loops(Emission, Transition, Label, Length):
        places = crf_places(Emission, Length, lod_Emission, "crf_decoding")
        found: Tensor = loops.best_paths(Emission, Transition, Label, *places)
        return found.view(-1, 1) if Length is None else found.view(Emission.shape[:2])
    layout = crf_layout(Emission, Length, lod_Emission, "crf_decoding")
    tags = Emission.shape[-1]
    x = Emission.reshape(-1, tags)
    path = layout.to_rows(_viterbi(layout.to_steps(x), Transition, layout), x.shape[0])
    if Label is not None:
        right = (path == Label.reshape(-1)).long()
        path = right if Length is None else right * _inside(layout, x.shape[0])
    return path.view(-1, 1) if Length is None else path.view(Emission.shape[:2])


def _inside(layout: TimeMajor, height: int) -> Tensor:
    """1 for rows of sequences, 0 for padding."""
    return layout.to_rows(torch.ones_like(layout.rows), height)


def _viterbi(rows: Tensor, transition: Tensor, layout: TimeMajor) -> Tensor:
    """The best tag at each place of the steps."""
    sizes = layout.sizes
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
