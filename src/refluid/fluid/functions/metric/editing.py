"""edit_distance: how many changes lie between two sequences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from refluid.build import How, op
from refluid.core.dtypes import VarType
from refluid.fluid.layer_helper import LayerHelper
from refluid.ir.variable import Variable


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
