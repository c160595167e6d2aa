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


def _shapes(width: int, heads: int, wide: int, turned: bool) -> dict[str, list[int]]:
    """Of those that aren't (width)."""
    of_heads = [3, heads, width // heads]
    return {
        "qkv_weight": [*of_heads, width] if turned else [width, *of_heads],
        "qkv_bias": of_heads,
        "linear_weight": [width, width],
        "ffn1_weight": [width, wide],
        "ffn1_bias": [wide],
        "ffn2_weight": [wide, width],
    }


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
        self._lists: dict[str, Any] = {_plural(kind): [] for kind in _KINDS}
        shapes = _shapes(embed_dim, num_heads, dim_feedforward, trans_qkvw)
        for n in range(count):
            for kind in _KINDS:
                attr = given[f"{kind}_attrs"]
                attr = attr[n] if isinstance(attr, list | tuple) else attr
                self._add(f"{kind}_{n}", kind, shapes.get(kind, [embed_dim]), attr)

    def _add(self, name: str, kind: str, shape: list[int], attr: Any) -> None:
        """A parameter of a layer."""
        usual = Constant(1.0) if kind.endswith("scale") else None
        made = self.create_parameter(shape, attr, is_bias=_KINDS[kind], default_initializer=usual)
        self.add_parameter(name, made)
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
