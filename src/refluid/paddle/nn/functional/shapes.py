"""Linear maps, dropout, padding, tables and attention."""

from __future__ import annotations

from typing import Any

from refluid.build import backend, op
from refluid.core.dtypes import VarType, as_dtype
from refluid.fluid.functions.sequence.rows import sequence_mask as fluid_sequence_mask
from refluid.fluid.layer_helper import LayerHelper
from refluid.ir.variable import Variable
from refluid.paddle.nn.functional.activation import softmax
from refluid.paddle.tensor.linalg import matmul
from refluid.paddle.tensor.making import cast_to, rank_of


def linear(
    x: Variable, weight: Variable, bias: Variable | None = None, name: str | None = None
) -> Variable:
    """x · weight + bias over the last dimension; the weight is (in, out)."""
    if bias is not None and backend().fuses:
        attrs = {"x_num_col_dims": -1, "activation": ""}
        return op("fused_gemm_epilogue", {"X": x, "Y": weight, "Bias": bias}, attrs)
    out = op("matmul", {"X": x, "Y": weight}, {"alpha": 1.0})
    if bias is None:
        return out
    return op("elementwise_add", {"X": out, "Y": bias}, {"axis": rank_of(x) - 1}, name=name)


def bilinear(
    x1: Variable,
    x2: Variable,
    weight: Variable,
    bias: Variable | None = None,
    name: str | None = None,
) -> Variable:
    """x1 · weight[i] · x2 + bias[i]."""
    inputs = {"X": x1, "Y": x2, "Weight": weight, "Bias": bias}
    return op("bilinear_tensor_product", inputs, name=name)


def dropout(
    x: Variable,
    p: float = 0.5,
    axis: Any = None,
    training: bool = True,
    mode: str = "upscale_in_train",
    name: str | None = None,
) -> Variable:
    """Elements set to 0 with probability p in training.

    axis: the dimensions in which they differ, along the others all or none. mode:
    `upscale_in_train` divides what is kept, `downscale_in_infer` multiplies in inference.
    """
    if mode not in ("upscale_in_train", "downscale_in_infer"):
        raise ValueError("mode argument should be 'downscale_in_infer' or 'upscale_in_train'")
    if axis is not None:
        return _whole_parts(x, p, axis, training, mode)
    if p == 0 or not training:
        keeps = p == 0 or mode == "upscale_in_train"
        return x if keeps else op("scale", {"X": x}, {"scale": 1.0 - p}, name=name)
    helper = LayerHelper("dropout", name=name)
    seed = helper.main_program.random_seed
    way = "downgrade_in_infer" if mode == "downscale_in_infer" else mode
    attrs = {
        "dropout_prob": p,
        "is_test": False,
        "fix_seed": bool(seed),
        "seed": seed,
        "dropout_implementation": way,
    }
    makes = {"Out": x.dtype, "Mask": VarType.UINT8}
    return op("dropout", {"X": x}, attrs, makes, stop_gradient=("Mask",), layer=helper)[0]


def _whole_parts(x: Variable, p: float, axis: Any, training: bool, mode: str) -> Variable:
    """Dropout by a mask of ones that is 1 long in all dimensions but some."""
    if not training:
        return dropout(x, p, None, False, mode)
    axes = {one % rank_of(x) for one in ([axis] if isinstance(axis, int) else axis)}
    sizes = op("shape", {"Input": x}, dtype=VarType.INT32)
    parts: list[Any] = []
    for place in range(rank_of(x)):
        size: Any = 1
        if place in axes:
            size = x.shape[place]
            if size < 0:
                bounds = {"axes": [0], "starts": [place], "ends": [place + 1]}
                size = op("slice", {"Input": sizes}, bounds)
        parts.append(size)
    from refluid.paddle.tensor.creation import ones

    mask = dropout(ones(parts, x.dtype), p, None, True, mode)
    return op("elementwise_mul", {"X": x, "Y": mask})


def dropout2d(
    x: Variable,
    p: float = 0.5,
    training: bool = True,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Variable:
    """Whole channels of (N, C, H, W) set to 0."""
    return dropout(x, p, [0, 1] if data_format == "NCHW" else [0, 3], training)


def dropout3d(
    x: Variable,
    p: float = 0.5,
    training: bool = True,
    data_format: str = "NCDHW",
    name: str | None = None,
) -> Variable:
    """Whole channels of (N, C, D, H, W) set to 0."""
    return dropout(x, p, [0, 1] if data_format == "NCDHW" else [0, 4], training)


# What self-normalising networks are cut at: the lower bound of `selu`.
_LOWEST = -1.6732632423543772848170429916717 * 1.0507009873554804934193349852946


def alpha_dropout(
    x: Variable, p: float = 0.5, training: bool = True, name: str | None = None
) -> Variable:
    """Elements set to the lower bound of `selu` with probability p, mean and deviation kept.

    ValueError for a probability beyond 0 and 1.
    """
    if not 0 <= p <= 1:
        raise ValueError("p argument should between 0 and 1")
    if not training or p == 0:
        return x
    if p == 1:
        return op("scale", {"X": x}, {"scale": 0.0}, name=name)
    ones = op("scale", {"X": x}, {"scale": 0.0, "bias": 1.0}, stop_gradient=True)
    kept = dropout(ones, p, mode="downscale_in_infer")
    factor = ((1 - p) * (1 + p * _LOWEST**2)) ** -0.5
    low = op("scale", {"X": kept}, {"scale": -_LOWEST, "bias": _LOWEST})
    both = op("elementwise_add", {"X": op("elementwise_mul", {"X": x, "Y": kept}), "Y": low})
    return op("scale", {"X": both}, {"scale": factor, "bias": -factor * _LOWEST * p}, name=name)


def embedding(
    x: Variable,
    weight: Variable,
    padding_idx: int | None = None,
    sparse: bool = False,
    name: str | None = None,
) -> Variable:
    """The rows of `weight` that the ids name. padding_idx: the id whose row is zeros."""
    ids = cast_to(x, VarType.INT64) if x.dtype == VarType.INT32 else x
    first = -1 if padding_idx is None else padding_idx
    if padding_idx is not None and padding_idx < 0:
        first = weight.shape[0] + padding_idx
    attrs = {
        "is_sparse": sparse,
        "is_distributed": False,
        "remote_prefetch": False,
        "padding_idx": first,
    }
    return op("lookup_table_v2", {"Ids": ids, "W": weight}, attrs, dtype=weight.dtype, name=name)


def one_hot(x: Variable, num_classes: int, name: str | None = None) -> Variable:
    """A row for each id with 1 at its place, float32."""
    return op("one_hot_v2", {"X": x}, {"depth": num_classes}, dtype=VarType.FP32, name=name)


def label_smooth(
    label: Variable,
    prior_dist: Variable | None = None,
    epsilon: float = 0.1,
    name: str | None = None,
) -> Variable:
    """(1 - epsilon) * label + epsilon * prior, which is the same for all classes unless given."""
    inputs = {"X": label, "PriorDist": prior_dist}
    return op("label_smooth", inputs, {"epsilon": float(epsilon)}, name=name)


def sequence_mask(
    x: Variable, maxlen: Any = None, dtype: Any = "int64", name: str | None = None
) -> Variable:
    """1 for the first x places of each row of `maxlen`, else 0."""
    return fluid_sequence_mask(x, maxlen, as_dtype(dtype), name)


_MODES = {"reflect": "reflect", "replicate": "edge"}


def pad(
    x: Variable,
    pad: Any,
    mode: str = "constant",
    value: float = 0.0,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Variable:
    """x with numbers around it.

    pad: before and after each dimension from the first on; or, for fewer numbers, those of the
    last dimensions (left, right, top, bottom, front, back). mode: constant, reflect,
    replicate, circular; the latter three of 3 to 5 dimensions.
    """
    if isinstance(pad, int):
        pad = [pad] * (2 * (rank_of(x) - 2))
    sizes = [int(one) for one in pad]
    rank = rank_of(x)
    if mode == "constant" and len(sizes) == 2 * rank:
        return op("pad", {"X": x}, {"paddings": sizes, "pad_value": float(value)}, name=name)
    last = data_format[-1] == "C"
    pairs = [[0, 0] for _ in range(rank)]
    for number in range(len(sizes) // 2):
        pairs[rank - 1 - number - (1 if last else 0)] = sizes[2 * number : 2 * number + 2]
    if mode == "constant":
        flat = [one for pair in pairs for one in pair]
        return op("pad", {"X": x}, {"paddings": flat, "pad_value": float(value)}, name=name)
    spatial = pairs[1:-1] if last else pairs[2:]
    attrs = {"paddings": [one for pair in spatial for one in pair], "data_format": data_format}
    if rank == 4 and mode in _MODES:
        return op("pad2d", {"X": x}, attrs | {"mode": _MODES[mode]}, name=name)
    return op("pad3d", {"X": x}, attrs | {"mode": mode}, name=name)


def scaled_dot_product_attention(
    query: Variable,
    key: Variable,
    value: Variable,
    attn_mask: Variable | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    training: bool = True,
    name: str | None = None,
) -> Variable:
    """softmax(query · keyᵀ / sqrt(size) + mask) · value, of (N, length, heads, size)."""
    turned = [op("transpose2", {"X": one}, {"axis": [0, 2, 1, 3]}) for one in (query, key, value)]
    scaled = op("scale", {"X": turned[0]}, {"scale": query.shape[-1] ** -0.5})
    scores = matmul(scaled, turned[1], transpose_y=True)
    if attn_mask is not None:
        if as_dtype(attn_mask.dtype) == VarType.BOOL:
            attn_mask = op(
                "scale",
                {"X": cast_to(attn_mask, scores.dtype)},
                {"scale": 1e9, "bias": -1.0, "bias_after_scale": False},
            )
        scores = op("elementwise_add", {"X": scores, "Y": attn_mask})
    if is_causal:
        scores = op("elementwise_add", {"X": scores, "Y": _future(scores)})
    weights = softmax(scores)
    if dropout_p:
        weights = dropout(weights, dropout_p, training=training)
    return op("transpose2", {"X": matmul(weights, turned[2])}, {"axis": [0, 2, 1, 3]}, name=name)


def _future(scores: Variable) -> Variable:
    """0 up to the place of each row, a large negative number after it."""
    ones = op("fill_any_like", {"X": scores}, {"value": -1e9, "dtype": int(scores.dtype)})
    ones.stop_gradient = True
    made: Variable = op("tril_triu", {"X": ones}, {"diagonal": 1, "lower": False})
    return made


def gather_tree(ids: Variable, parents: Variable) -> Variable:
    """The whole sequences of a beam search."""
    return op("gather_tree", {"Ids": ids, "Parents": parents})
