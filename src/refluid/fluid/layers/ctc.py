"""Labelling sequences without alignment: the CTC loss, decoding, and counting errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from refluid.build import How, op
from refluid.core.dtypes import VarType
from refluid.fluid.layer_helper import LayerHelper
from refluid.fluid.layers.selection import topk
from refluid.fluid.layers.shaping import squeeze
from refluid.ir.variable import Variable


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
    out = helper.create_variable_for_type_inference(VarType.INT64)
    attrs: dict[str, Any] = {"merge_repeated": True, "blank": blank}
    if input_length is None:
        return op("ctc_align", {"Input": [best]}, attrs, out=out, layer=helper)
    attrs["padding_value"] = padding_value
    length = helper.create_variable_for_type_inference(VarType.INT64)
    inputs = {"Input": [squeeze(best, [2])], "InputLength": [input_length]}
    op("ctc_align", inputs, attrs, {"Output": out, "OutputLength": length}, layer=helper)
    return out, length


def edit_distance(
    input: Variable,
    label: Variable,
    normalized: bool = True,
    ignored_tokens: Sequence[int] | None = None,
    input_length: Variable | None = None,
    label_length: Variable | None = None,
) -> tuple[Variable, Variable]:
    """Levenshtein distances of `input` to `label`, float32 (batch, 1), and the batch size (1,).

    Both int64: (n, 1) with sequences, or (batch, longest) with int64 lengths (batch,).
    normalized: divided by the length of the label. ignored_tokens: left out before.
    """
    helper = LayerHelper("edit_distance")
    hyps, refs = input, label
    if ignored_tokens:
        erased = {"tokens": list(ignored_tokens)}
        hyps, refs = (
            op("sequence_erase", {"X": [one]}, erased, dtype=VarType.INT64, layer=helper)
            for one in (input, label)
        )
    inputs: dict[str, Any] = {"Hyps": [hyps], "Refs": [refs]}
    if input_length is not None and label_length is not None:
        inputs |= {"HypsLength": [input_length], "RefsLength": [label_length]}
    how: How = {"dtype": VarType.INT64, "layer": helper}
    attrs, makes = {"normalized": normalized}, ("Out", "SequenceNum")
    out, number = op("edit_distance", inputs, attrs, makes, **how)
    return out, number
