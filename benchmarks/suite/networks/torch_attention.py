"""Transformers in PyTorch."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn
from torch.nn import functional

from benchmarks.suite.networks.torch_modules import Batch


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)

    def forward(self, queries: Tensor, memory: Tensor, bias: Tensor) -> Tensor:
        def parted(x: Tensor) -> Tensor:
            return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

        asked = parted(self.query(queries))
        keys, values = parted(self.key(memory)), parted(self.value(memory))
        mixed = functional.scaled_dot_product_attention(asked, keys, values, attn_mask=bias)
        found: Tensor = self.out(mixed.transpose(1, 2).flatten(2))
        return found


class Block(nn.Module):
    """An encoder's layer, or a decoder's one with `cross`."""

    def __init__(
        self, width: int, heads: int, act: Callable[[Tensor], Tensor], *, cross: bool = False
    ) -> None:
        super().__init__()
        self.act = act
        self.self = Attention(width, heads)
        self.norm1 = nn.LayerNorm(width)
        if cross:
            self.cross = Attention(width, heads)
            self.norm3 = nn.LayerNorm(width)
        self.wide = nn.Linear(width, 4 * width)
        self.narrow = nn.Linear(4 * width, width)
        self.norm2 = nn.LayerNorm(width)

    def forward(
        self,
        x: Tensor,
        bias: Tensor,
        memory: Tensor | None = None,
        memory_bias: Tensor | None = None,
    ) -> Tensor:
        x = self.norm1(x + self.self(x, x, bias))
        if memory is not None:
            x = self.norm3(x + self.cross(x, memory, memory_bias))
        found: Tensor = self.norm2(x + self.narrow(self.act(self.wide(x))))
        return found


class Transformer(nn.Module):
    def __init__(self, width: int = 256, heads: int = 4, depth: int = 3, words: int = 8000) -> None:
        super().__init__()
        relu = functional.relu
        self.source = nn.Embedding(words, width)
        self.source_norm = nn.LayerNorm(width)
        self.encoders = nn.ModuleList(Block(width, heads, relu) for _ in range(depth))
        self.target = nn.Embedding(words, width)
        self.target_norm = nn.LayerNorm(width)
        self.decoders = nn.ModuleList(Block(width, heads, relu, cross=True) for _ in range(depth))
        self.out = nn.Linear(width, words)

    def forward(self, feed: Batch) -> Tensor:
        source_bias = feed["source_bias"]
        memory = self.source_norm(self.source(feed["source"]))
        for encode in self.encoders:
            memory = encode(memory, source_bias)
        x = self.target_norm(self.target(feed["target"]))
        for decode in self.decoders:
            x = decode(x, feed["causal_bias"], memory, source_bias)
        return functional.cross_entropy(self.out(x).flatten(0, 1), feed["next"].flatten())


class Bert(nn.Module):
    def __init__(
        self, width: int = 768, heads: int = 12, depth: int = 12, words: int = 30522
    ) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.positions = nn.Embedding(64, width)
        self.types = nn.Embedding(2, width)
        self.norm = nn.LayerNorm(width)
        self.encoders = nn.ModuleList(Block(width, heads, functional.gelu) for _ in range(depth))
        self.pool = nn.Linear(width, width)
        self.follows = nn.Linear(width, 2)
        self.masked = nn.Linear(width, width)

    def forward(self, feed: Batch) -> Tensor:
        x = self.words(feed["words"]) + self.positions(feed["positions"])
        x = self.norm(x + self.types(feed["types"]))
        for encode in self.encoders:
            x = encode(x, feed["bias"])
        follows = self.follows(self.pool(x[:, 0]).tanh())
        hidden = x.flatten(0, 1).index_select(0, feed["masked"].squeeze(1))
        hidden = functional.gelu(self.masked(hidden))
        logits = functional.linear(hidden, self.words.weight)
        found = functional.cross_entropy(logits, feed["word"].squeeze(1))
        return found + functional.cross_entropy(follows, feed["follows"].squeeze(1))
