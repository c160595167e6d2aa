"""Attention, and Transformers of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from refluid.build import op
from refluid.ir.variable import Variable
from refluid.paddle.nn.layer.attention import MultiHeadAttention, each
from refluid.paddle.nn.layer.container import LayerList
from refluid.paddle.nn.layer.functions import Dropout
from refluid.paddle.nn.layer.layers import Layer
from refluid.paddle.nn.layer.norm import LayerNorm
from refluid.paddle.nn.layer.parameters import Linear
from refluid.paddle.tensor import creation, math


class _Block(Layer):
    """What encoder and decoder layers share: two linear maps, and where norms stand."""

    _made_with: tuple[tuple[Any, ...], dict[str, Any]]

    def __new__(cls, *args: Any, **settings: Any) -> Any:
        made = super().__new__(cls)
        made.__dict__["_made_with"] = args, settings
        return made

    def _parts(
        self,
        d_model: int,
        width: int,
        dropout: float,
        act: str,
        act_dropout: float | None,
        attrs: tuple[Any, Any],
    ) -> None:
        self.linear1 = Linear(d_model, width, *attrs)
        self.dropout = Dropout(dropout if act_dropout is None else act_dropout)
        self.linear2 = Linear(width, d_model, *attrs)
        self._act = act

    def _widened(self, x: Variable) -> Variable:
        hidden = op(self._act, {"X": self.linear1(x)})
        out: Variable = self.linear2(self.dropout(hidden))
        return out


class TransformerEncoderLayer(_Block):
    """Self-attention and two linear maps, each with its residual and norm."""

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int,
        dropout: float = 0.1,
        activation: str = "relu",
        attn_dropout: float | None = None,
        act_dropout: float | None = None,
        normalize_before: bool = False,
        weight_attr: Any = None,
        bias_attr: Any = None,
    ) -> None:
        super().__init__()
        self._before = normalize_before
        weights, biases = each(weight_attr, 2), each(bias_attr, 2)
        inside = dropout if attn_dropout is None else attn_dropout
        first = (weights[0], biases[0])
        self.self_attn = MultiHeadAttention(
            d_model, nhead, inside, weight_attr=first[0], bias_attr=first[1]
        )
        rest = (weights[1], biases[1])
        self._parts(d_model, dim_feedforward, dropout, activation, act_dropout, rest)
        self.norm1, self.norm2 = LayerNorm(d_model), LayerNorm(d_model)
        self.dropout1, self.dropout2 = Dropout(dropout), Dropout(dropout)

    def forward(self, src: Variable, src_mask: Variable | None = None, cache: Any = None) -> Any:
        """(N, length, d_model) to the same. With a cache also what it has become."""
        residual = src
        src = self.norm1(src) if self._before else src
        if cache is None:
            src = self.self_attn(src, src, src, src_mask)
        else:
            src, cache = self.self_attn(src, src, src, src_mask, cache)
        src = math.add(residual, self.dropout1(src))
        src = src if self._before else self.norm1(src)
        residual = src
        src = self.norm2(src) if self._before else src
        src = math.add(residual, self.dropout2(self._widened(src)))
        src = src if self._before else self.norm2(src)
        return src if cache is None else (src, cache)

    def gen_cache(self, src: Variable) -> Any:
        """An empty cache."""
        return self.self_attn.gen_cache(src)


class TransformerDecoderLayer(_Block):
    """Self-attention, attention to the encoder, and two linear maps."""

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int,
        dropout: float = 0.1,
        activation: str = "relu",
        attn_dropout: float | None = None,
        act_dropout: float | None = None,
        normalize_before: bool = False,
        weight_attr: Any = None,
        bias_attr: Any = None,
    ) -> None:
        super().__init__()
        self._before = normalize_before
        attrs = [*zip(each(weight_attr, 3), each(bias_attr, 3), strict=True)]
        inside = dropout if attn_dropout is None else attn_dropout
        self.self_attn = MultiHeadAttention(
            d_model, nhead, inside, weight_attr=attrs[0][0], bias_attr=attrs[0][1]
        )
        self.cross_attn = MultiHeadAttention(
            d_model, nhead, inside, weight_attr=attrs[1][0], bias_attr=attrs[1][1]
        )
        self._parts(d_model, dim_feedforward, dropout, activation, act_dropout, attrs[2])
        self.norm1, self.norm2, self.norm3 = (LayerNorm(d_model) for _ in range(3))
        self.dropout1, self.dropout2, self.dropout3 = (Dropout(dropout) for _ in range(3))

    def forward(
        self,
        tgt: Variable,
        memory: Variable,
        tgt_mask: Variable | None = None,
        memory_mask: Variable | None = None,
        cache: Any = None,
    ) -> Any:
        """(N, length, d_model) to the same. memory: what the encoder gave."""
        residual = tgt
        tgt = self.norm1(tgt) if self._before else tgt
        if cache is None:
            tgt = self.self_attn(tgt, tgt, tgt, tgt_mask)
        else:
            tgt, grown = self.self_attn(tgt, tgt, tgt, tgt_mask, cache[0])
        tgt = math.add(residual, self.dropout1(tgt))
        tgt = tgt if self._before else self.norm1(tgt)
        residual = tgt
        tgt = self.norm2(tgt) if self._before else tgt
        if cache is None:
            tgt = self.cross_attn(tgt, memory, memory, memory_mask)
        else:
            tgt, kept = self.cross_attn(tgt, memory, memory, memory_mask, cache[1])
        tgt = math.add(residual, self.dropout2(tgt))
        tgt = tgt if self._before else self.norm2(tgt)
        residual = tgt
        tgt = self.norm3(tgt) if self._before else tgt
        tgt = math.add(residual, self.dropout3(self._widened(tgt)))
        tgt = tgt if self._before else self.norm3(tgt)
        return tgt if cache is None else (tgt, (grown, kept))

    def gen_cache(self, memory: Variable) -> Any:
        """An empty cache, and that of what the encoder gave."""
        static = self.cross_attn.gen_cache(memory, memory, MultiHeadAttention.StaticCache)
        return self.self_attn.gen_cache(memory), static


class _Stack(Layer):
    def __init__(self, layer: Any, num_layers: int, norm: Any = None) -> None:
        super().__init__()
        self.layers = LayerList([layer, *(remade(layer) for _ in range(num_layers - 1))])
        self.num_layers, self.norm = num_layers, norm


def remade(layer: Any) -> Any:
    """Another layer made as this one was."""
    args, settings = layer._made_with
    return type(layer)(*args, **settings)


class TransformerEncoder(_Stack):
    """Encoder layers one after another."""

    def __init__(self, encoder_layer: Any, num_layers: int, norm: Any = None) -> None:
        super().__init__(encoder_layer, num_layers, norm)

    def forward(self, src: Variable, src_mask: Variable | None = None, cache: Any = None) -> Any:
        """What the last layer gives."""
        caches = []
        for number, layer in enumerate(self.layers):
            if cache is None:
                src = layer(src, src_mask)
            else:
                src, grown = layer(src, src_mask, cache[number])
                caches.append(grown)
        src = src if self.norm is None else self.norm(src)
        return src if cache is None else (src, caches)

    def gen_cache(self, src: Variable) -> list[Any]:
        """An empty cache for each layer."""
        return [layer.gen_cache(src) for layer in self.layers]


class TransformerDecoder(_Stack):
    """Decoder layers one after another."""

    def __init__(self, decoder_layer: Any, num_layers: int, norm: Any = None) -> None:
        super().__init__(decoder_layer, num_layers, norm)

    def forward(
        self,
        tgt: Variable,
        memory: Variable,
        tgt_mask: Variable | None = None,
        memory_mask: Variable | None = None,
        cache: Any = None,
    ) -> Any:
        """What the last layer gives."""
        caches = []
        for number, layer in enumerate(self.layers):
            if cache is None:
                tgt = layer(tgt, memory, tgt_mask, memory_mask)
            else:
                tgt, grown = layer(tgt, memory, tgt_mask, memory_mask, cache[number])
                caches.append(grown)
        tgt = tgt if self.norm is None else self.norm(tgt)
        return tgt if cache is None else (tgt, caches)

    def gen_cache(self, memory: Variable, do_zip: bool = False) -> Any:
        """A cache for each layer."""
        found = [layer.gen_cache(memory) for layer in self.layers]
        return list(zip(*found, strict=True)) if do_zip else found


class Transformer(Layer):
    """An encoder and a decoder."""

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str = "relu",
        attn_dropout: float | None = None,
        act_dropout: float | None = None,
        normalize_before: bool = False,
        weight_attr: Any = None,
        bias_attr: Any = None,
        custom_encoder: Any = None,
        custom_decoder: Any = None,
    ) -> None:
        super().__init__()
        sizes = (d_model, nhead, dim_feedforward, dropout, activation, attn_dropout, act_dropout)
        rest = (normalize_before, weight_attr, bias_attr)
        self.encoder, self.decoder = custom_encoder, custom_decoder
        if custom_encoder is None:
            layer = TransformerEncoderLayer(*sizes, *rest)
            self.encoder = TransformerEncoder(layer, num_encoder_layers, LayerNorm(d_model))
        if custom_decoder is None:
            one = TransformerDecoderLayer(*sizes, *rest)
            self.decoder = TransformerDecoder(one, num_decoder_layers, LayerNorm(d_model))

    def forward(
        self,
        src: Variable,
        tgt: Variable,
        src_mask: Variable | None = None,
        tgt_mask: Variable | None = None,
        memory_mask: Variable | None = None,
    ) -> Variable:
        """What the decoder gives for `tgt`."""
        memory = self.encoder(src, src_mask)
        out: Variable = self.decoder(tgt, memory, tgt_mask, memory_mask)
        return out

    def generate_square_subsequent_mask(self, length: int) -> Variable:
        """0 up to the place of each row, -inf after it."""
        mask = np.triu(np.full((length, length), -np.inf, dtype="float32"), 1)
        return creation.to_tensor(mask)
