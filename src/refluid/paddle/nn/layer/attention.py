"""Attention of several heads."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

from refluid.core.dtypes import as_dtype
from refluid.ir.variable import Variable
from refluid.paddle.nn.functional import activation, shapes
from refluid.paddle.nn.layer.layers import Layer
from refluid.paddle.nn.layer.parameters import Linear
from refluid.paddle.tensor import creation, linalg, manipulation, math
from refluid.paddle.tensor.making import cast_to


def as_added(mask: Variable | None, dtype: Any) -> Variable | None:
    """A mask that is added to scores: of bool and whole numbers, where 0 means hidden."""
    if mask is None or as_dtype(mask.dtype) == as_dtype(dtype):
        return mask
    kept = cast_to(mask, dtype)
    return math.scale(kept, 1e9, -1.0, bias_after_scale=False)


def each(attr: Any, count: int) -> list[Any]:
    """An attribute for each of several layers: given as a list, or one for all."""
    if isinstance(attr, list | tuple):
        if len(attr) == 1:
            return list(attr) * count
        assert len(attr) == count, f"length of attributes should be {count} when it is a list/tuple"
        return list(attr)
    return [copy.copy(attr) for _ in range(count)]


class MultiHeadAttention(Layer):
    """Attention of several heads: (N, length, embed_dim) to (N, length, embed_dim)."""

    class Cache(NamedTuple):
        """Keys and values of the places before."""

        k: Variable
        v: Variable

    class StaticCache(NamedTuple):
        """Keys and values of another sequence, made once."""

        k: Variable
        v: Variable

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        kdim: int | None = None,
        vdim: int | None = None,
        need_weights: bool = False,
        weight_attr: Any = None,
        bias_attr: Any = None,
    ) -> None:
        super().__init__()
        self.embed_dim, self.num_heads = embed_dim, num_heads
        self.head_dim = embed_dim // num_heads
        assert self.head_dim * num_heads == embed_dim, "embed_dim must be divisible by num_heads"
        self.dropout, self.need_weights = dropout, need_weights
        attrs = (weight_attr, bias_attr)
        self.q_proj = Linear(embed_dim, embed_dim, *attrs)
        self.k_proj = Linear(kdim or embed_dim, embed_dim, *attrs)
        self.v_proj = Linear(vdim or embed_dim, embed_dim, *attrs)
        self.out_proj = Linear(embed_dim, embed_dim, *attrs)

    def _heads(self, x: Variable) -> Variable:
        parted = manipulation.reshape(x, [0, 0, self.num_heads, self.head_dim])
        return manipulation.transpose(parted, [0, 2, 1, 3])

    def compute_kv(self, key: Variable, value: Variable) -> tuple[Variable, Variable]:
        """Keys and values of all heads."""
        return self._heads(self.k_proj(key)), self._heads(self.v_proj(value))

    def gen_cache(self, key: Variable, value: Any = None, type: Any = None) -> Any:
        """A cache: of another sequence, or an empty one that grows place by place."""
        if type is MultiHeadAttention.StaticCache:
            return self.StaticCache(*self.compute_kv(key, key if value is None else value))
        if value is not None:
            return self.Cache(key, value)
        shape = [key.shape[0], self.num_heads, 0, self.head_dim]
        return self.Cache(*(creation.zeros(shape, key.dtype) for _ in range(2)))

    def forward(
        self,
        query: Variable,
        key: Variable | None = None,
        value: Variable | None = None,
        attn_mask: Variable | None = None,
        cache: Any = None,
    ) -> Any:
        """What the heads see. key, value: as `query` where None. attn_mask: added to the scores."""
        key = query if key is None else key
        value = key if value is None else value
        q = self._heads(self.q_proj(query))
        if isinstance(cache, self.StaticCache):
            k, v = cache.k, cache.v
        else:
            k, v = self.compute_kv(key, value)
        if isinstance(cache, self.Cache):
            k = manipulation.concat([cache.k, k], 2)
            v = manipulation.concat([cache.v, v], 2)
            cache = self.Cache(k, v)
        scores = linalg.matmul(math.scale(q, self.head_dim**-0.5), k, transpose_y=True)
        added = as_added(attn_mask, scores.dtype)
        if added is not None:
            scores = math.add(scores, added)
        weights = activation.softmax(scores)
        if self.dropout:
            weights = shapes.dropout(weights, self.dropout, training=self.training)
        seen = manipulation.transpose(linalg.matmul(weights, v), [0, 2, 1, 3])
        out = self.out_proj(manipulation.reshape(seen, [0, 0, self.embed_dim]))
        found = [out]
        if self.need_weights:
            found.append(weights)
        if cache is not None:
            found.append(cache)
        return out if len(found) == 1 else tuple(found)
