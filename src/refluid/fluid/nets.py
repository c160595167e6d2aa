"""Networks of a few layers that occur often."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from refluid.core.causes import guard
from refluid.fluid import layers
from refluid.ir.variable import Variable

__all__ = [
    "glu",
    "img_conv_group",
    "scaled_dot_product_attention",
    "sequence_conv_pool",
    "simple_img_conv_pool",
]


def simple_img_conv_pool(
    input: Variable,
    num_filters: int,
    filter_size: int | Sequence[int],
    pool_size: int | Sequence[int],
    pool_stride: int | Sequence[int],
    pool_padding: int | Sequence[int] = 0,
    pool_type: str = "max",
    global_pooling: bool = False,
    conv_stride: int | Sequence[int] = 1,
    conv_padding: int | Sequence[int] = 0,
    conv_dilation: int | Sequence[int] = 1,
    conv_groups: int = 1,
    param_attr: Any = None,
    bias_attr: Any = None,
    act: str | None = None,
    use_cudnn: bool = True,
) -> Variable:
    """`conv2d` and `pool2d` of (N, C, H, W)."""
    convolved = layers.conv2d(
        input=input,
        num_filters=num_filters,
        filter_size=filter_size,
        stride=conv_stride,
        padding=conv_padding,
        dilation=conv_dilation,
        groups=conv_groups,
        param_attr=param_attr,
        bias_attr=bias_attr,
        act=act,
        use_cudnn=use_cudnn,
    )
    return layers.pool2d(
        input=convolved,
        pool_size=pool_size,
        pool_type=pool_type,
        pool_stride=pool_stride,
        pool_padding=pool_padding,
        global_pooling=global_pooling,
        use_cudnn=use_cudnn,
    )


def _rows(filters: Sequence[int], settings: Sequence[Any]) -> list[tuple[Any, ...]]:
    """One row of settings per convolution, single values repeated."""
    count = len(filters)
    columns = [list(one) if isinstance(one, list | tuple) else [one] * count for one in settings]
    for column in columns:
        if len(column) != count:
            raise ValueError(f"img_conv_group: {count} convolutions, but settings {column}")
    return list(zip(filters, *columns, strict=True))


def img_conv_group(
    input: Variable,
    conv_num_filter: Sequence[int],
    pool_size: int | Sequence[int],
    conv_padding: int | Sequence[int] = 1,
    conv_filter_size: int | Sequence[int] = 3,
    conv_act: str | None = None,
    param_attr: Any = None,
    conv_with_batchnorm: bool | Sequence[bool] = False,
    conv_batchnorm_drop_rate: float | Sequence[float] = 0.0,
    pool_stride: int | Sequence[int] = 1,
    pool_type: str = "max",
    use_cudnn: bool = True,
) -> Variable:
    """A row of `conv2d`, each optionally with `batch_norm` and `dropout`, and one `pool2d`.

    Lists hold one entry per convolution; a single value is for all. ValueError for lists of
    another length.
    """
    per_convolution = (
        conv_padding,
        conv_filter_size,
        param_attr,
        conv_with_batchnorm,
        conv_batchnorm_drop_rate,
    )
    out = input
    for filters, padding, size, attr, normalised, drop_rate in _rows(
        conv_num_filter, per_convolution
    ):
        out = layers.conv2d(
            input=out,
            num_filters=filters,
            filter_size=size,
            padding=padding,
            param_attr=attr,
            act=None if normalised else conv_act,
            use_cudnn=use_cudnn,
        )
        if normalised:
            out = layers.batch_norm(input=out, act=conv_act)
            if abs(drop_rate) > 1e-5:
                out = layers.dropout(x=out, dropout_prob=drop_rate)
    return layers.pool2d(
        input=out,
        pool_size=pool_size,
        pool_type=pool_type,
        pool_stride=pool_stride,
        use_cudnn=use_cudnn,
    )


def sequence_conv_pool(
    input: Variable,
    num_filters: int,
    filter_size: int,
    param_attr: Any = None,
    act: str = "sigmoid",
    pool_type: str = "max",
    bias_attr: Any = None,
) -> Variable:
    """`sequence_conv` and `sequence_pool` of (n, width): one row per sequence."""
    convolved = layers.sequence_conv(
        input=input,
        num_filters=num_filters,
        filter_size=filter_size,
        param_attr=param_attr,
        bias_attr=bias_attr,
        act=act,
    )
    return layers.sequence_pool(input=convolved, pool_type=pool_type)


def glu(input: Variable, dim: int = -1) -> Variable:
    """Gated linear unit: half of `input` along `dim`, times the sigmoid of the other half."""
    value, gate = layers.split(input, num_or_sections=2, dim=dim)
    return layers.elementwise_mul(x=value, y=layers.sigmoid(x=gate))


def scaled_dot_product_attention(
    queries: Variable,
    keys: Variable,
    values: Variable,
    num_heads: int = 1,
    dropout_rate: float = 0.0,
) -> Variable:
    """Attention of queries (N, Lq, D) over keys (N, L, D) and values (N, L, Dv).

    More than one head: each works on linear projections and a part of the width. Result:
    (N, Lq, Dv). Raises ValueError for shapes that don't fit each other or the number of heads.
    """
    _require_attention(queries, keys, values, num_heads)
    if num_heads > 1:
        queries, keys, values = (
            layers.fc(input=var, size=var.shape[-1], num_flatten_dims=2)
            for var in (queries, keys, values)
        )
    q, k, v = (_split_heads(var, num_heads) for var in (queries, keys, values))
    scaled = layers.scale(x=q, scale=(queries.shape[-1] // num_heads) ** -0.5)
    product = layers.matmul(x=scaled, y=k, transpose_y=True)
    flat = layers.reshape(x=product, shape=[-1, product.shape[-1]], act="softmax")
    weights = layers.reshape(x=flat, shape=product.shape)
    if dropout_rate:
        weights = layers.dropout(weights, dropout_prob=dropout_rate, is_test=False)
    return _join_heads(layers.matmul(weights, v))


def _require_attention(queries: Variable, keys: Variable, values: Variable, num_heads: int) -> None:
    shapes = [list(var.shape) for var in (queries, keys, values)]
    if not (len(shapes[0]) == len(shapes[1]) == len(shapes[2]) == 3):
        raise ValueError(f"attention takes queries, keys and values of 3 dimensions: {shapes}")
    if shapes[0][-1] != shapes[1][-1]:
        raise ValueError(f"The hidden size of queries and keys should be the same: {shapes}")
    if shapes[1][-2] != shapes[2][-2]:
        raise ValueError(f"The length of keys and values should be the same: {shapes}")
    if math.gcd(shapes[1][-1], shapes[2][-1]) % num_heads:
        raise ValueError(f"The widths of {shapes} must be divisible by {num_heads} heads")


def _split_heads(var: Variable, heads: int) -> Variable:
    if heads == 1:
        return var
    width = var.shape[-1] // heads
    parted = layers.reshape(x=var, shape=[*var.shape[:-1], heads, width])
    return layers.transpose(x=parted, perm=[0, 2, 1, 3])


def _join_heads(var: Variable) -> Variable:
    if len(var.shape) == 3:
        return var
    back = layers.transpose(var, perm=[0, 2, 1, 3])
    return layers.reshape(x=back, shape=[*back.shape[:2], back.shape[2] * back.shape[3]])


guard(__all__, globals())
