"""Labelling sequences without alignment: the CTC loss, and decoding."""

from __future__ import annotations

from typing import Any

from refluid.build import op
from refluid.core.dtypes import VarType
from refluid.core.former import formerly
from refluid.fluid.functions.math.ordering import topk
from refluid.fluid.functions.tensor.shaping import squeeze
from refluid.fluid.layer_helper import LayerHelper
from refluid.ir.variable import Variable


@formerly("use_cudnn")
def warpctc(
    input: Variable,
    label: Variable,
    blank: int = 0,
    norm_by_times: bool = False,
    input_length: Variable | None = None,
    label_length: Variable | None = None,
) -> Variable:
    """-log of the probability of each label sequence over all alignments, (batch, 1).

    input, before softmax: (n, classes) with sequences, or (time, batch, classes) with int64
    lengths (batch,); label: int32 (m, 1) with sequences, or (batch, longest) with lengths.
    norm_by_times: gradients are divided by the number of time steps.
    """
    inputs: dict[str, Any] = {"Logits": [input], "Label": [label]}
    if input_length is not None and label_length is not None:
        inputs |= {"LogitsLength": [input_length], "LabelLength": [label_length]}
    attrs = {"blank": blank, "norm_by_times": norm_by_times}
    return op("warpctc", inputs, attrs, ("Loss", "WarpCTCGrad"))[0]


def ctc_greedy_decoder(
    input: Variable,
    blank: int,
    input_length: Variable | None = None,
    padding_value: int = 0,
    name: str | None = None,
) -> Variable | tuple[Variable, Variable]:
    """The likeliest class of each step, without repetitions and blanks, int64.

    input: probabilities (n, classes) with sequences, which gives (m, 1) with sequences; or
    (batch, time, classes) with `input_length` (batch, 1), which gives (batch, time), padded with
    `padding_value`, and the lengths (batch, 1).
    """
    helper = LayerHelper("ctc_greedy_decoder", name=name)
    _, best = topk(input, k=1)
    attrs: dict[str, Any] = {"merge_repeated": True, "blank": blank}
    if input_length is None:
        return op("ctc_align", {"Input": [best]}, attrs, dtype=VarType.INT64, layer=helper)
    attrs["padding_value"] = padding_value
    inputs = {"Input": [squeeze(best, [2])], "InputLength": [input_length]}
    makes = ("Output", "OutputLength")
    out, length = op("ctc_align", inputs, attrs, makes, dtype=VarType.INT64, layer=helper)
    return out, length
