"""`FusedMultiTransformer`."""

from __future__ import annotations

from typing import Any

from refluid.ir.variable import Variable
from refluid.paddle.incubate.nn.functional.transformers import fused_multi_transformer
from refluid.paddle.nn.initializer import Constant
from refluid.paddle.nn.layer.layers import Layer

# Kinds of parameters, in the order of the function's arguments, and whether each is a bias.
_KINDS = {
    "ln_scale": False,
    "ln_bias": True,
    "qkv_weight": False,
    "qkv_bias": True,
    "linear_weight": False,
    "linear_bias": True,
    "ffn_ln_scale": False,
    "ffn_ln_bias": True,
    "ffn1_weight": False,
    "ffn1_bias": True,
    "ffn2_weight": False,
    "ffn2_bias": True,
}


def _plural(kind: str) -> str:
    return f"{kind}es" if kind.endswith("bias") else f"{kind}s"


class FusedMultiTransformer(Layer):
    """Layers of attention and feedforward, one after the other.

    num_layers: how many, unless `qkv_weight_attrs` is a list with one for each. Attributes: one for
    all layers, or a list. Others as of `fused_multi_transformer`.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dim_feedforward: int,
        dropout_rate: float = 0.0,
        activation: str = "gelu",
        normalize_before: bool = True,
        ln_scale_attrs: Any = None,
        ln_bias_attrs: Any = None,
        qkv_weight_attrs: Any = None,
        qkv_bias_attrs: Any = None,
        linear_weight_attrs: Any = None,
        linear_bias_attrs: Any = None,
        ffn_ln_scale_attrs: Any = None,
        ffn_ln_bias_attrs: Any = None,
        ffn1_weight_attrs: Any = None,
        ffn1_bias_attrs: Any = None,
        ffn2_weight_attrs: Any = None,
        ffn2_bias_attrs: Any = None,
        epsilon: float = 1e-5,
        num_layers: int = -1,
        nranks: int = 1,
        trans_qkvw: bool = True,
        ring_id: int = -1,
        name: str | None = None,
    ) -> None:
        given = dict(locals())
        super().__init__()
        assert embed_dim > 0, f"Expected embed_dim to be greater than 0, but received {embed_dim}"
        assert embed_dim % num_heads == 0, "embed_dim must be divisible by num_heads"
        several = isinstance(qkv_weight_attrs, list | tuple)
        count = len(qkv_weight_attrs) if several else num_layers
        assert count > 0, "num_layers must be given, or a list of qkv_weight_attrs"
        self._settings: dict[str, Any] = {
            "pre_layer_norm": normalize_before,
            "epsilon": epsilon,
            "dropout_rate": dropout_rate,
            "activation": activation,
            "trans_qkvw": trans_qkvw,
            "ring_id": ring_id,
        }
        size, wide = embed_dim // num_heads, dim_feedforward
        of_heads = [3, num_heads, size, embed_dim]
        shapes = {
            "qkv_weight": of_heads if trans_qkvw else [embed_dim, 3, num_heads, size],
            "qkv_bias": of_heads[:3],
            "linear_weight": [num_heads * size, embed_dim],
            "ffn1_weight": [embed_dim, wide],
            "ffn1_bias": [wide],
            "ffn2_weight": [wide, embed_dim],
        }
        self._lists: dict[str, Any] = {_plural(kind): [] for kind in _KINDS}
        for n in range(count):
            for kind, is_bias in _KINDS.items():
                attr = given[f"{kind}_attrs"]
                attr = attr[n] if isinstance(attr, list | tuple) else attr
                usual = Constant(1.0) if kind.endswith("scale") else None
                shape = shapes.get(kind, [embed_dim])
                made = self.create_parameter(
                    shape, attr, is_bias=is_bias, default_initializer=usual
                )
                setattr(self, f"{kind}_{n}", self.add_parameter(f"{kind}_{n}", made))
                self._lists[_plural(kind)].append(made)

    def forward(
        self,
        src: Variable,
        attn_mask: Variable | None = None,
        caches: Any = None,
        pre_caches: Any = None,
        rotary_embs: Variable | None = None,
        rotary_emb_dims: int = 0,
        seq_lens: Variable | None = None,
        time_step: Variable | None = None,
    ) -> Variable:
        """(N, length, embed_dim) to the same."""
        generating: dict[str, Any] = {
            "cache_kvs": caches,
            "pre_caches": pre_caches,
            "rotary_embs": rotary_embs,
            "rotary_emb_dims": rotary_emb_dims,
            "seq_lens": seq_lens,
            "time_step": time_step,
        }
        return fused_multi_transformer(
            src,
            attn_mask=attn_mask,
            training=self.training,
            **self._lists,
            **generating,
            **self._settings,
        )
