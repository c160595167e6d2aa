"""Several steps on sequences at once, as Fluid's inference passes write them."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.core.offsets import Levels
from refluid.ops.registry import operator
from refluid.ops.sequence.context import check_filter, context, shifts_of
from refluid.ops.sequence.levels import infer_from, sequences_of
from refluid.ops.sequence.padded import take_rows
from refluid.ops.sequence.pool import add_up

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "identity": lambda x: x,
    "relu": torch.relu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
}


def _pooled(X: list[Tensor], lods_X: list[Levels], pooltype: str, axis: int) -> list[Tensor]:
    if axis != 1 or pooltype not in ("SUM", "AVERAGE", "SQRT"):
        raise EnforceNotMet(f"can't join {pooltype} along dimension {axis}: it is 1")
    return [
        add_up(pooltype, rows, sequences_of(rows, lod)) for rows, lod in zip(X, lods_X, strict=True)
    ]


def _joined_width(X: list[tuple[int, ...]], axis: int) -> tuple[int, int]:
    return -1, sum(shape[1] for shape in X)


@operator(
    "fusion_seqpool_concat",
    outputs="Out",
    uses=None,
    lod="",
    infer=infer_from({"Out": _joined_width}),
)
def fusion_seqpool_concat(
    X: list[Tensor], *, lods_X: list[Levels], pooltype: str = "SUM", axis: int = 1
) -> Tensor:
    """sequence_pool of all X, side by side."""
    return torch.cat(_pooled(X, lods_X, pooltype, axis), 1)


def _show_and_click(rows: Tensor, use_cvm: bool) -> Tensor:
    if not use_cvm:
        return rows[:, 2:]
    counts = (rows[:, :2] + 1).log()
    show, click = counts[:, :1], counts[:, 1:]
    return torch.cat((show, click - show, rows[:, 2:]), 1)


@operator(
    "fusion_seqpool_cvm_concat",
    outputs="Out",
    uses=None,
    lod="",
    infer=infer_from(
        {"Out": lambda X, use_cvm: (-1, sum(s[1] for s in X) - (0 if use_cvm else 2 * len(X)))}
    ),
)
def fusion_seqpool_cvm_concat(
    X: list[Tensor],
    CVM: Tensor,
    *,
    lods_X: list[Levels],
    pooltype: str = "SUM",
    use_cvm: bool = True,
    axis: int = 1,
) -> Tensor:
    """sequence_pool of all X, whose first columns are shows and clicks, side by side.

    use_cvm: as log(show + 1) and the log of clicks per show; otherwise they are left out.
    """
    pooled = _pooled(X, lods_X, pooltype, axis)
    return torch.cat([_show_and_click(rows, use_cvm) for rows in pooled], 1)


@operator(
    "fusion_seqconv_eltadd_relu",
    outputs="Out ColMat",
    uses=None,
    infer=infer_from(
        {
            "Out": lambda X, Filter: (X[0], Filter[1]),
            "ColMat": lambda X, Filter: (X[0], Filter[0]),
        }
    ),
)
def fusion_seqconv_eltadd_relu(
    X: Tensor,
    Filter: Tensor,
    Bias: Tensor,
    *,
    lod_X: Levels,
    contextLength: int,
    contextStart: int = 0,
    contextStride: int = 1,
) -> tuple[Tensor, Tensor]:
    """relu(sequence_conv(X, Filter) + Bias); ColMat are the contexts."""
    shifts = shifts_of(contextLength, contextStart, contextStride)
    check_filter(X, Filter, shifts)
    contexts = context(X, sequences_of(X, lod_X), shifts).flatten(1)
    return torch.relu(torch.addmm(Bias.reshape(1, -1), contexts, Filter)), contexts


@operator(
    "fusion_seqexpand_concat_fc",
    outputs="Out FCOut",
    uses=None,
    infer=infer_from(
        {
            "Out": lambda X, FCWeight: (-1, FCWeight[1]),
            "FCOut": lambda X, FCWeight: (-1, FCWeight[1]),
        }
    ),
)
def fusion_seqexpand_concat_fc(
    X: list[Tensor],
    FCWeight: Tensor,
    FCBias: Tensor | None = None,
    *,
    lods_X: list[Levels],
    fc_activation: str = "identity",
) -> tuple[Tensor, Tensor]:
    """act(concat(X[0], the others expanded to its sequences) @ FCWeight + FCBias).

    The others have one row per sequence of X[0]. FCOut is what they contribute, (sequences, out).
    """
    if fc_activation not in ACTIVATIONS:
        raise EnforceNotMet(f"no fc_activation {fc_activation!r}; there are {list(ACTIVATIONS)}")
    rows, others = X[0], torch.cat(X[1:], 1)
    sequences = sequences_of(rows, lods_X[0])
    width = rows.shape[1]
    per_sequence = others @ FCWeight[width:]
    if FCBias is not None:
        per_sequence = per_sequence + FCBias.reshape(1, -1)
    expanded = take_rows(per_sequence, sequences.owners(rows.device))
    return ACTIVATIONS[fc_activation](rows @ FCWeight[:width] + expanded), per_sequence
