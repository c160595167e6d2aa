"""Losses that compare embeddings or areas: center_loss, npair_loss, dice_loss."""

from __future__ import annotations

from typing import Any

from refluid.build import op
from refluid.core.dtypes import VarType
from refluid.fluid.functions.math.comparison import equal
from refluid.fluid.functions.math.linear import matmul
from refluid.fluid.functions.math.reduction import reduce_mean, reduce_sum
from refluid.fluid.functions.math.unary import square
from refluid.fluid.functions.nn.embedding import one_hot
from refluid.fluid.functions.tensor.shaping import expand, reshape, transpose
from refluid.fluid.initializer import Constant
from refluid.fluid.layer_helper import LayerHelper
from refluid.ir.variable import Variable


def center_loss(
    input: Variable,
    label: Variable,
    num_classes: int,
    alpha: float | Variable,
    param_attr: Any,
    update_center: bool = True,
) -> Variable:
    """Half the squared distance of each row of `input`, (N, D), to the centre of its label; (N, 1).

    label: (N, 1). alpha: how fast centres move, a number or a variable of shape (1,).
    update_center: whether they move at all.
    """
    helper = LayerHelper("center_loss", param_attr=param_attr)
    shape = [num_classes, input.shape[1]]
    centers = helper.create_parameter(helper.param_attr, shape, input.dtype)
    centers.stop_gradient = True
    rate = alpha if isinstance(alpha, Variable) else _rate(helper, alpha)
    inputs = {
        "X": [input],
        "Label": [label],
        "Centers": [centers],
        "CenterUpdateRate": [rate],
    }
    makes = {"SampleCenterDiff": None, "Loss": None, "CentersOut": centers}
    attrs = {"cluster_num": num_classes, "need_update": update_center}
    loss: Variable = op("center_loss", inputs, attrs, makes, layer=helper)[1]
    return loss


def _rate(helper: LayerHelper, alpha: float) -> Variable:
    """The rate as a variable that the program itself sets each time it runs."""
    rate = helper.create_variable(
        name="centerloss_alpha",
        shape=[1],
        dtype=VarType.FP32,
        persistable=True,
        stop_gradient=True,
    )
    Constant(alpha)(rate, helper.main_program.current_block())
    return rate


def npair_loss(
    anchor: Variable, positive: Variable, labels: Variable, l2_reg: float = 0.002
) -> Variable:
    """How much less alike `anchor` and `positive` rows of one label are than others; shape (1,).

    anchor, positive: (N, D); labels: (N,). l2_reg: weight of the rows' squared lengths.
    """
    from refluid.fluid.functions.loss.losses import softmax_with_cross_entropy

    count = labels.shape[0]
    labels = reshape(labels, shape=[count, 1], inplace=True)
    labels = expand(labels, expand_times=[1, count])
    same = equal(labels, transpose(labels, perm=[1, 0])).astype("float32")
    same = same / reduce_sum(same, dim=1, keep_dim=True)
    lengths = [reduce_mean(reduce_sum(square(one), 1)) for one in (anchor, positive)]
    penalty = (lengths[0] + lengths[1]) * 0.25 * l2_reg
    likeness = matmul(anchor, positive, transpose_x=False, transpose_y=True)
    entropy = softmax_with_cross_entropy(logits=likeness, label=same, soft_label=True)
    loss = reduce_mean(reduce_sum(same * entropy, 0))
    total: Variable = penalty + loss
    return total


def dice_loss(
    input: Variable, label: Variable, epsilon: float = 1e-05, name: str | None = None
) -> Variable:
    """1 - 2 * intersection / total area, averaged over samples.

    input: probabilities (N, ..., classes); label: (N, ..., 1).
    """
    label = one_hot(label, depth=input.shape[-1])
    dims = list(range(1, len(input.shape)))
    common = reduce_sum(input * label, dim=dims)
    areas = reduce_sum(input, dim=dims) + reduce_sum(label, dim=dims)
    score = 1 - common * 2 / (areas + epsilon)
    return reduce_mean(score)
