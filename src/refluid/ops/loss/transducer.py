"""The loss of recurrent transducers (Graves, 2012), which Paddle 2 has beside Fluid's losses."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor

from refluid.ir.checks import rank
from refluid.ops.registry import operator


@operator(
    "warprnnt", outputs="Loss", uses="X Label XLengths LabelLengths", differentiable="X", lod=""
)
def warprnnt(
    X: Annotated[Tensor, rank(4)],
    Label: Annotated[Tensor, rank(2)],
    XLengths: Tensor,
    LabelLengths: Tensor,
    *,
    blank: int = 0,
    fastemit_lambda: float = 0.0,
) -> Tensor:
    """-log of the probability of each example's labels over all ways to emit them, (N,).

    X: log probabilities (N, times, labels + 1, classes). A way goes on in time by `blank`, in
    Label (N, labels) by the next label. fastemit_lambda: by so much more labels' gradients count.
    """
    images, times, places, _ = X.shape
    wanted = Label[:, None, :, None].expand(images, times, places - 1, 1).long()
    label = X[:, :, :-1].gather(-1, wanted)[..., 0]
    label = label * (1 + fastemit_lambda) - (label * fastemit_lambda).detach()
    waits = X[..., blank]
    # Sums of labels' log probabilities: what is added to a way from one place to another.
    along = torch.cat([label.new_zeros(images, times, 1), label.cumsum(-1)], -1)
    ways = [along[:, 0]]
    for time in range(1, times):
        arriving = ways[-1] + waits[:, time - 1] - along[:, time]
        ways.append(arriving.logcumsumexp(-1) + along[:, time])
    last, end = XLengths.long() - 1, LabelLengths.long()
    example = torch.arange(images, device=X.device)
    return -(torch.stack(ways, 1)[example, last, end] + waits[example, last, end])
