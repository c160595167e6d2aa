"""Labelling sequences: linear-chain CRF, decoding it, and counting the chunks found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from refluid.core.dtypes import VarType
from refluid.fluid.layer_helper import LayerHelper, check_variables
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
    alpha, exps, weights, likelihood = (
        helper.create_variable_for_type_inference(input.dtype) for _ in range(4)
    )
    inputs = {"Emission": [input], "Transition": transition, "Label": [label]}
    helper.append_op(
        type="linear_chain_crf",
        inputs=inputs | ({} if length is None else {"Length": [length]}),
        outputs={
            "Alpha": [alpha],
            "EmissionExps": [exps],
            "TransitionExps": weights,
            "LogLikelihood": likelihood,
        },
    )
    return likelihood


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
    inputs = {"Emission": [input], "Transition": transition}
    inputs |= {} if label is None else {"Label": label}
    inputs |= {} if length is None else {"Length": length}
    return helper.emit("crf_decoding", inputs, slot="ViterbiPath", dtype=VarType.INT64)


def chunk_eval(
    input: Variable,
    label: Variable,
    chunk_scheme: str,
    num_chunk_types: int,
    excluded_chunk_types: Sequence[int] | None = None,
    seq_length: Variable | None = None,
) -> tuple[Variable, ...]:
    """Precision, recall, F1 of chunks; numbers of chunks inferred, labelled and correct.

    input, label: int64 tags with LoD, or padded with `seq_length`. chunk_scheme: IOB, IOE, IOBES
    or plain. Each result has shape (1,): float32 the first three, int64 the others.
    """
    helper = LayerHelper("chunk_eval")
    kinds = [VarType.FP32] * 3 + [VarType.INT64] * 3
    outs = tuple(helper.create_variable_for_type_inference(kind) for kind in kinds)
    inputs = {"Inference": [input], "Label": [label]}
    inputs |= {} if seq_length is None else {"SeqLength": [seq_length]}
    check_variables("chunk_eval", inputs)
    slots = ("Precision", "Recall", "F1-Score")
    numbers = ("NumInferChunks", "NumLabelChunks", "NumCorrectChunks")
    helper.append_op(
        type="chunk_eval",
        inputs=inputs,
        outputs={slot: [out] for slot, out in zip(slots + numbers, outs, strict=True)},
        attrs={
            "num_chunk_types": num_chunk_types,
            "chunk_scheme": chunk_scheme,
            "excluded_chunk_types": list(excluded_chunk_types or ()),
        },
    )
    return outs
