"""Ways through sequences, which Paddle 2 has beside Fluid's losses.

The loss of recurrent transducers (Graves, 2012) sums all that emit the labels; Viterbi's decoding
takes the best.
"""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor

from refluid.core.dtypes import VarType
from refluid.ir.checks import rank
from refluid.ir.operator import Operator
from refluid.ops.registry import OperatorDef, operator


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


def _infer(definition: OperatorDef, op: Operator) -> None:
    given = op.block.var_recursive(op.input("Input")[0])
    if not given.has_description():
        return
    examples = given.shape[0]
    op.block.var_recursive(op.output("Scores")[0]).describe(shape=(examples,), dtype=given.dtype)
    path = op.block.var_recursive(op.output("Path")[0])
    path.describe(shape=(examples, -1), dtype=VarType.INT64)


@operator("viterbi_decode", outputs="Scores Path", uses=None, lod="", infer=_infer)
def viterbi_decode(
    Input: Annotated[Tensor, rank(3)],
    Transition: Annotated[Tensor, rank(2)],
    Length: Annotated[Tensor, rank(1)],
    *,
    include_bos_eos_tag: bool = True,
) -> tuple[Tensor, Tensor]:
    """The score (N,) and tags (N, longest), int64, of the best way through each sequence.

    Input: (N, times, tags), of which Length (N,) times count; tags after them are 0. Transition:
    from tag to tag. include_bos_eos_tag: its last row is added to what comes first, its last but
    one to what comes last.
    """
    examples, _, tags = Input.shape
    longest = int(Length.max()) if examples else 0
    bounds = torch.zeros(2, tags, dtype=Input.dtype, device=Input.device)
    if include_bos_eos_tag:
        bounds[0], bounds[1] = Transition[-1], Transition[-2]
    score, choices = Input[:, 0] + bounds[0], []
    for time in range(1, longest):
        best, choice = (score.unsqueeze(2) + Transition).max(1)
        choices.append(choice)
        # Of the first of equal ones the number is what it was, as in Paddle.
        score = torch.where((Length > time).unsqueeze(1), best + Input[:, time], score)
    scores, last = (score + bounds[1]).max(1)
    path = torch.zeros(examples, longest, dtype=torch.int64, device=Input.device)
    for time in range(longest - 1, -1, -1):
        path[:, time] = torch.where(Length > time, last, path[:, time])
        if time:
            before = choices[time - 1].gather(1, last.unsqueeze(1)).squeeze(1)
            last = torch.where(Length > time, before, last)
    return scores, path
