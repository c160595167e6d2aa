"""Networks over sparse tables in PyTorch: embeddings with sparse gradients."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.suite.networks.torch_modules import Batch


def table(rows: int, width: int) -> nn.Embedding:
    return nn.Embedding(rows, width, sparse=True)


def yes_loss(logits: Tensor, label: Tensor) -> Tensor:
    return functional.binary_cross_entropy_with_logits(logits, label)


class Ctr(nn.Module):
    """The ids of all slots come as one array [batch, slots], as one lookup wants them."""

    def __init__(self, ids: int = 100_001, width: int = 10, slots: int = 26) -> None:
        super().__init__()
        self.slots = table(ids, width)
        self.fc0 = nn.Linear(slots * width + 13, 400)
        self.fc1 = nn.Linear(400, 400)
        self.fc2 = nn.Linear(400, 400)
        self.out = nn.Linear(400, 2)

    def forward(self, feed: Batch) -> Tensor:
        hidden = torch.cat([self.slots(feed["slots"]).flatten(1), feed["dense"]], 1)
        for layer in (self.fc0, self.fc1, self.fc2):
            hidden = functional.relu(layer(hidden))
        return functional.cross_entropy(self.out(hidden), feed["click"].squeeze(1))


class DeepFm(nn.Module):
    def __init__(self, ids: int = 100_001, width: int = 10, count: int = 39) -> None:
        super().__init__()
        self.first = table(ids, 1)
        self.second = table(ids, width)
        self.fc0 = nn.Linear(count * width, 128)
        self.fc1 = nn.Linear(128, 64)
        self.fc2 = nn.Linear(64, 32)
        self.out = nn.Linear(32, 1)

    def forward(self, feed: Batch) -> Tensor:
        values = feed["values"].unsqueeze(2)
        first = (self.first(feed["ids"]) * values).sum(1)
        rows = self.second(feed["ids"]) * values
        crossed = (rows.sum(1).square() - rows.square().sum(1)).sum(1, keepdim=True)
        hidden = rows.flatten(1)
        for layer in (self.fc0, self.fc1, self.fc2):
            hidden = functional.relu(layer(hidden))
        return yes_loss(self.out(hidden) + first + 0.5 * crossed, feed["click"])


class Ncf(nn.Module):
    def __init__(self, users: int = 6040, items: int = 3706) -> None:
        super().__init__()
        self.user_factors, self.item_factors = table(users, 8), table(items, 8)
        self.user_mlp, self.item_mlp = table(users, 32), table(items, 32)
        self.fc0 = nn.Linear(64, 32)
        self.fc1 = nn.Linear(32, 16)
        self.fc2 = nn.Linear(16, 8)
        self.out = nn.Linear(16, 1)

    def forward(self, feed: Batch) -> Tensor:
        user, item = feed["user"].squeeze(1), feed["item"].squeeze(1)
        hidden = torch.cat([self.user_mlp(user), self.item_mlp(item)], 1)
        for layer in (self.fc0, self.fc1, self.fc2):
            hidden = functional.relu(layer(hidden))
        product = self.user_factors(user) * self.item_factors(item)
        return yes_loss(self.out(torch.cat([product, hidden], 1)), feed["liked"])


class Word2Vec(nn.Module):
    def __init__(self, words: int = 50_000, width: int = 128) -> None:
        super().__init__()
        self.centers, self.contexts = table(words, width), table(words, width)

    def forward(self, feed: Batch) -> Tensor:
        center = self.centers(feed["center"]).transpose(1, 2)
        logits = torch.bmm(self.contexts(feed["context"]), center).squeeze(2)
        return yes_loss(logits, feed["real"])
