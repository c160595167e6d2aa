"""Layers of the fused functions."""

from __future__ import annotations

from typing import Any

from refluid.ir.variable import Variable
from refluid.paddle.incubate.nn.functional import attention, products
from refluid.paddle.nn.initializer import Constant
from refluid.paddle.nn.layer.layers import Layer


class FusedLinear(Layer):
    """x · weight + bias, as one operator. transpose_weight: the weight is (out, in)."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        weight_attr: Any = None,
        bias_attr: Any = None,
        transpose_weight: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__()
        shape = [in_features, out_features]
        self.transpose_weight = transpose_weight
        self.weight = self.create_parameter(shape[::-1] if transpose_weight else shape, weight_attr)
        self.bias = self.create_parameter([out_features], bias_attr, is_bias=True)

    def forward(self, input: Variable) -> Variable:
        """(..., in_features) gives (..., out_features)."""
        return products.fused_linear(input, self.weight, self.bias, self.transpose_weight)


class FusedDropoutAdd(Layer):
    """dropout(x) + y."""

    def __init__(
        self, p: float = 0.5, mode: str = "upscale_in_train", name: str | None = None
    ) -> None:
        super().__init__()
        self._p, self._mode = p, mode

    def forward(self, x: Variable, y: Variable) -> Variable:
        """The sum."""
        return products.fused_dropout_add(x, y, self._p, self.training, self._mode)


class _Normed(Layer):
    """A layer with a norm's scale and shift."""

    def _norm(self, size: int, scale_attr: Any, bias_attr: Any) -> tuple[Any, Any]:
        scale = self.create_parameter([size], scale_attr, default_initializer=Constant(1.0))
        return scale, self.create_parameter([size], bias_attr, is_bias=True)


class FusedBiasDropoutResidualLayerNorm(_Normed):
    """layer_norm(residual + dropout(x + bias))."""

    def __init__(
        self,
        embed_dim: int,
        dropout_rate: float = 0.5,
        weight_attr: Any = None,
        bias_attr: Any = None,
        epsilon: float = 1e-5,
        name: str | None = None,
    ) -> None:
        super().__init__()
        self._settings = (dropout_rate, epsilon)
        self.linear_bias = self.create_parameter([embed_dim], bias_attr, is_bias=True)
        self.ln_scale, self.ln_bias = self._norm(embed_dim, weight_attr, bias_attr)

    def forward(self, x: Variable, residual: Variable) -> Variable:
        """The normalised sum."""
        own = (self.linear_bias, self.ln_scale, self.ln_bias)
        return products.fused_bias_dropout_residual_layer_norm(
            x, residual, *own, *self._settings, self.training
        )


class FusedMultiHeadAttention(_Normed):
    """Self-attention with its residual and norm; queries, keys and values by one product."""

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout_rate: float = 0.5,
        attn_dropout_rate: float = 0.5,
        kdim: int | None = None,
        vdim: int | None = None,
        normalize_before: bool = False,
        need_weights: bool = False,
        qkv_weight_attr: Any = None,
        qkv_bias_attr: Any = None,
        linear_weight_attr: Any = None,
        linear_bias_attr: Any = None,
        pre_ln_scale_attr: Any = None,
        pre_ln_bias_attr: Any = None,
        ln_scale_attr: Any = None,
        ln_bias_attr: Any = None,
        epsilon: float = 1e-5,
        nranks: int = 1,
        ring_id: int = -1,
        transpose_qkv_wb: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__()
        assert not need_weights, "Only support need_weight is False now."
        assert embed_dim % num_heads == 0, "embed_dim must be divisible by num_heads"
        self.normalize_before, self.num_heads = normalize_before, num_heads
        self.dropout_rate, self.attn_dropout_rate = dropout_rate, attn_dropout_rate
        self.transpose_qkv_wb, self._ring_id, self._epsilon = transpose_qkv_wb, ring_id, epsilon
        size = embed_dim // num_heads
        columns = ([embed_dim, 3 * embed_dim], [3 * embed_dim])
        of_heads = ([3, num_heads, size, embed_dim], [3, num_heads, size])
        weight, bias = columns if transpose_qkv_wb else of_heads
        self.qkv_weight = self.create_parameter(weight, qkv_weight_attr)
        self.qkv_bias = self.create_parameter(bias, qkv_bias_attr, is_bias=True)
        self.linear_weight = self.create_parameter([embed_dim, embed_dim], linear_weight_attr)
        self.linear_bias = self.create_parameter([embed_dim], linear_bias_attr, is_bias=True)
        self.pre_ln_scale = self.pre_ln_bias = self.ln_scale = self.ln_bias = None
        if normalize_before:
            made = self._norm(embed_dim, pre_ln_scale_attr, pre_ln_bias_attr)
            self.pre_ln_scale, self.pre_ln_bias = made
        else:
            self.ln_scale, self.ln_bias = self._norm(embed_dim, ln_scale_attr, ln_bias_attr)

    def forward(
        self,
        query: Variable,
        key: Any = None,
        value: Any = None,
        attn_mask: Variable | None = None,
        cache: Any = None,
    ) -> Any:
        """(N, length, embed_dim) to the same. key and value are those of `query`."""
        return attention.fused_multi_head_attention(
            query,
            self.qkv_weight,
            self.linear_weight,
            self.normalize_before,
            self.pre_ln_scale,
            self.pre_ln_bias,
            self.ln_scale,
            self.ln_bias,
            self._epsilon,
            self.qkv_bias,
            self.linear_bias,
            cache,
            attn_mask,
            self.dropout_rate,
            self.attn_dropout_rate,
            self._epsilon,
            self.training,
            ring_id=self._ring_id,
            num_heads=self.num_heads,
            transpose_qkv_wb=self.transpose_qkv_wb,
        )


class FusedFeedForward(_Normed):
    """Two linear maps with their activation, residual and norm."""

    def __init__(
        self,
        d_model: int,
        dim_feedforward: int,
        dropout_rate: float = 0.1,
        epsilon: float = 1e-05,
        activation: str = "relu",
        act_dropout_rate: float | None = None,
        normalize_before: bool = False,
        linear1_weight_attr: Any = None,
        linear1_bias_attr: Any = None,
        linear2_weight_attr: Any = None,
        linear2_bias_attr: Any = None,
        ln1_scale_attr: Any = None,
        ln1_bias_attr: Any = None,
        ln2_scale_attr: Any = None,
        ln2_bias_attr: Any = None,
        nranks: int = 1,
        ring_id: int = -1,
        name: str | None = None,
    ) -> None:
        super().__init__()
        self._rates = (dropout_rate if act_dropout_rate is None else act_dropout_rate, dropout_rate)
        self._activation, self._before = activation, normalize_before
        self._epsilon, self._ring_id = epsilon, ring_id
        wide = dim_feedforward
        self._linear1_weight = self.create_parameter([d_model, wide], linear1_weight_attr)
        self._linear1_bias = self.create_parameter([wide], linear1_bias_attr, is_bias=True)
        self._linear2_weight = self.create_parameter([wide, d_model], linear2_weight_attr)
        self._linear2_bias = self.create_parameter([d_model], linear2_bias_attr, is_bias=True)
        self._ln1_scale = self._ln1_bias = self._ln2_scale = self._ln2_bias = None
        if normalize_before:
            self._ln1_scale, self._ln1_bias = self._norm(d_model, ln1_scale_attr, ln1_bias_attr)
        else:
            self._ln2_scale, self._ln2_bias = self._norm(d_model, ln2_scale_attr, ln2_bias_attr)

    def forward(self, src: Variable, cache: Any = None) -> Variable:
        """(..., d_model) to the same."""
        return attention.fused_feedforward(
            src,
            self._linear1_weight,
            self._linear2_weight,
            self._linear1_bias,
            self._linear2_bias,
            self._ln1_scale,
            self._ln1_bias,
            self._ln2_scale,
            self._ln2_bias,
            *self._rates,
            self._activation,
            self._epsilon,
            self._epsilon,
            self._before,
            self.training,
            ring_id=self._ring_id,
        )


class FusedTransformerEncoderLayer(Layer):
    """`FusedMultiHeadAttention` and `FusedFeedForward`."""

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int,
        dropout_rate: float = 0.1,
        activation: str = "relu",
        attn_dropout_rate: float | None = None,
        act_dropout_rate: float | None = None,
        normalize_before: bool = False,
        weight_attr: Any = None,
        bias_attr: Any = None,
    ) -> None:
        super().__init__()
        inside = dropout_rate if attn_dropout_rate is None else attn_dropout_rate
        self.fused_attn = FusedMultiHeadAttention(
            *(d_model, nhead, dropout_rate, inside),
            normalize_before=normalize_before,
            qkv_weight_attr=weight_attr,
            qkv_bias_attr=bias_attr,
            linear_weight_attr=weight_attr,
            linear_bias_attr=bias_attr,
        )
        self.ffn = FusedFeedForward(
            *(d_model, dim_feedforward, dropout_rate, 1e-05, activation, act_dropout_rate),
            normalize_before,
            linear1_weight_attr=weight_attr,
            linear1_bias_attr=bias_attr,
            linear2_weight_attr=weight_attr,
            linear2_bias_attr=bias_attr,
        )

    def forward(self, src: Variable, src_mask: Any = None, cache: Any = None) -> Variable:
        """(N, length, d_model) to the same."""
        made: Variable = self.ffn(self.fused_attn(src, attn_mask=src_mask))
        return made
