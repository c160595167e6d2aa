"""Labelling sequences: linear-chain CRF and decoding it."""

from __future__ import annotations

from typing import Any

from refluid.build import check_variables, op
from refluid.core.dtypes import VarType
from refluid.fluid.layer_helper import LayerHelper
from refluid.ir.variable import Variable


def linear_chain_crf(
    input: Variable, label: Variable, param_attr: Any = None, length: Variable | None = None
) -> Variable:
    """-log of the probability of each sequence's labels, (sequences, 1).

    input: scores of each tag, (rows, tags) with LoD, or padded (sequences, longest, tags) with
    `length` (sequences, 1). label: int64, one per row. Makes a parameter (tags + 2, tags):
    weights of starting, of ending, and from tag to tag.
    """
    helper = LayerHelper("linear_chain_crf", param_attr=param_attr)
    check_variables("linear_chain_crf", {"input": input, "label": label})
    tags = input.shape[2] if length is not None else input.shape[1]
    transition = helper.create_parameter(helper.param_attr, [tags + 2, tags], input.dtype)
    inputs = {"Emission": input, "Transition": transition, "Label": label, "Length": length}
    makes = ("Alpha", "EmissionExps", "TransitionExps", "LogLikelihood")
    return op("linear_chain_crf", inputs, None, makes, layer=helper)[-1]


def crf_decoding(
    input: Variable,
    param_attr: Any,
    label: Variable | None = None,
    length: Variable | None = None,
) -> Variable:
    """The most likely tags, int64: (rows, 1) with LoD, or (sequences, longest) with `length`.

    param_attr: names the parameter that `linear_chain_crf` made. With `label`: 1 where the tag
    is right, else 0.
    """
    helper = LayerHelper("crf_decoding", param_attr=param_attr)
    transition = helper.get_parameter(helper.param_attr.name)
    inputs = {"Emission": input, "Transition": transition, "Label": label, "Length": length}
    return op("crf_decoding", inputs, dtype=VarType.INT64, layer=helper)
