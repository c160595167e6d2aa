"""Layers for matching texts: embeddings of sequences, and matrices of one against another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from refluid.build import How, op
from refluid.fluid.layer_helper import LayerHelper
from refluid.ir.variable import Variable

__all__ = [
    "fused_embedding_seq_pool",
    "match_matrix_tensor",
    "sequence_topk_avg_pooling",
    "var_conv_2d",
]


def fused_embedding_seq_pool(
    input: Variable,
    size: Sequence[int],
    is_sparse: bool = False,
    padding_idx: int | None = None,
    combiner: str = "sum",
    param_attr: Any = None,
    dtype: Any = "float32",
) -> Variable:
    """Rows of a table (rows, width), added up over each sequence of ids: (sequences, width).

    input: int64 (n, 1) with sequences. padding_idx: ids that count as zeros; negative ones from
    the end. combiner: "sum".
    """
    helper = LayerHelper("fused_embedding_seq_pool", param_attr=param_attr)
    table = helper.create_parameter(attr=helper.param_attr, shape=list(size), dtype=dtype)
    if padding_idx is None:
        padding_idx = -1
    elif padding_idx < 0:
        padding_idx += size[0]
    attrs = {"is_sparse": is_sparse, "combiner": combiner, "padding_idx": padding_idx}
    inputs = {"Ids": input, "W": table}
    return op("fused_embedding_seq_pool", inputs, attrs, dtype=dtype, layer=helper)


def match_matrix_tensor(
    x: Variable,
    y: Variable,
    channel_num: int,
    act: str | None = None,
    param_attr: Any = None,
    dtype: Any = "float32",
    name: str | None = None,
) -> tuple[Variable, Variable]:
    """x W y for each row of sequence i of `x` and of `y`, in `channel_num` ways.

    x (n, d), y (m, e). Result: matrices (channel_num, rows of x, rows of y), flat, one sequence
    each, (elements, 1); and x W, flat.
    """
    helper = LayerHelper("match_matrix_tensor", param_attr=param_attr, act=act, name=name)
    size = [x.shape[-1], channel_num, y.shape[-1]]
    weights = helper.create_parameter(attr=helper.param_attr, shape=size, dtype=dtype)
    inputs, attrs = {"X": x, "Y": y, "W": weights}, {"dim_t": channel_num}
    how: How = {"dtype": dtype, "stop_gradient": ("Tmp",), "layer": helper}
    out, product = op("match_matrix_tensor", inputs, attrs, ("Out", "Tmp"), **how)
    return helper.append_activation(out), product


def sequence_topk_avg_pooling(
    input: Variable, row: Variable, col: Variable, topks: Sequence[int], channel_num: int
) -> Variable:
    """The means of the k greatest elements of each row of matrices, for each k of `topks`.

    input: matrices (channel_num, rows, columns), flat, whose sizes are the lengths of the
    sequences of `row` and `col`. Result: (rows, channel_num * len(topks)) in the sequences of
    `row`; elements that are missing count as 0.
    """
    inputs = {"X": input, "ROW": row, "COLUMN": col}
    attrs = {"topks": list(topks), "channel_num": channel_num}
    return op("sequence_topk_avg_pooling", inputs, attrs, stop_gradient=("pos",))


def _pair(size: int | Sequence[int]) -> list[int]:
    return [size, size] if isinstance(size, int) else list(size)


def var_conv_2d(
    input: Variable,
    row: Variable,
    col: Variable,
    input_channel: int,
    output_channel: int,
    filter_size: int | Sequence[int],
    stride: int | Sequence[int] = 1,
    param_attr: Any = None,
    act: str | None = None,
    dtype: Any = "float32",
    name: str | None = None,
) -> Variable:
    """Convolution of images that all have sizes of their own, zeros around them.

    input: images (input_channel, rows, columns), flat, whose sizes are the lengths of the
    sequences of `row` and `col`. Result: images of `output_channel`, flat, (elements, 1).
    """
    helper = LayerHelper("var_conv_2d", param_attr=param_attr, act=act, name=name)
    (height, width), (down, across) = _pair(filter_size), _pair(stride)
    size = [int(output_channel), int(input_channel) * height * width]
    filters = helper.create_parameter(attr=helper.param_attr, shape=size, dtype=dtype)
    attrs = {
        "InputChannel": input_channel,
        "OutputChannel": output_channel,
        "StrideH": down,
        "StrideW": across,
        "KernelH": height,
        "KernelW": width,
    }
    inputs = {"X": input, "ROW": row, "COLUMN": col, "W": filters}
    out = op("var_conv_2d", inputs, attrs, dtype=dtype, stop_gradient=("Col",), layer=helper)
    return helper.append_activation(out)
