"""Recurrent networks in PyTorch. Sequences with LoD come padded (see `padding`)."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.suite.networks.torch_modules import (
    Batch,
    LodLstm,
    Lstm,
    LstmCell,
    Parameter,
)


class LstmModel(nn.Module):
    def __init__(self, words: int = 10000, width: int = 650) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.lstm0 = Lstm(width, width)
        self.lstm1 = Lstm(width, width)
        self.out = nn.Linear(width, words)

    def forward(self, feed: Batch) -> Tensor:
        hidden, _ = self.lstm0(self.words(feed["words"]))
        hidden, _ = self.lstm1(hidden)
        return functional.cross_entropy(self.out(hidden).flatten(0, 1), feed["next"].flatten())


class LstmLodModel(nn.Module):
    """Logits are computed for real words only."""

    def __init__(self, words: int = 10000, width: int = 256) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.lstm = LodLstm(width, width)
        self.out = nn.Linear(width, words)

    def forward(self, feed: Batch) -> Tensor:
        hidden, _ = self.lstm(self.words(feed["words"]))
        hidden = hidden.flatten(0, 1).index_select(0, feed["rows"])
        return functional.cross_entropy(self.out(hidden), feed["next_rows"])


class Gru(nn.Module):
    """Fluid's `dynamic_gru`: the reset gate acts before the product, so nn.GRU would differ."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.input = nn.Linear(width, 3 * width)
        self.gates = nn.Linear(width, 2 * width, bias=False)
        self.candidate = nn.Linear(width, width, bias=False)

    def take(self, weights: Mapping[str, Tensor]) -> None:
        width = self.candidate.in_features
        self.input.weight.copy_(weights["input.weight"].T)
        self.input.bias.copy_(weights["bias"].reshape(-1))
        # Fluid's weight is two matrices in one memory: (width, 2 width), then (width, width).
        memory = weights["weight"].reshape(-1)
        self.gates.weight.copy_(memory[: 2 * width * width].reshape(width, -1).T)
        self.candidate.weight.copy_(memory[2 * width * width :].reshape(width, -1).T)

    def forward(self, x: Tensor) -> Tensor:
        """Hidden states [batch, time, width] of x alike, from first to last."""
        width = self.candidate.in_features
        steps = self.input(x).unbind(1)
        hidden = x.new_zeros(x.shape[0], width)
        found = []
        for step in steps:
            gates, fresh = step.split((2 * width, width), 1)
            update, reset = torch.sigmoid(gates + self.gates(hidden)).chunk(2, 1)
            candidate = torch.tanh(fresh + self.candidate(reset * hidden))
            hidden = torch.lerp(hidden, candidate, update)
            found.append(hidden)
        return torch.stack(found, 1)


def crf_loss(scores: Tensor, tags: Tensor, mask: Tensor, weight: Tensor) -> Tensor:
    """Mean negative log-likelihood of `tags` under a CRF, all sequences at once."""
    start, end, move = weight[0], weight[1], weight[2:]
    alpha = start + scores[:, 0]
    for step in range(1, scores.shape[1]):
        sums = torch.logsumexp(alpha.unsqueeze(2) + move, 1) + scores[:, step]
        alpha = torch.where(mask[:, step, None], sums, alpha)
    total = torch.logsumexp(alpha + end, 1)
    real = mask.to(scores.dtype)
    own = (scores.gather(2, tags.unsqueeze(2)).squeeze(2) * real).sum(1)
    moves = (move[tags[:, :-1], tags[:, 1:]] * real[:, 1:]).sum(1)
    last = tags.gather(1, mask.sum(1, keepdim=True) - 1).squeeze(1)
    return (total - own - moves - start[tags[:, 0]] - end[last]).mean()


class Tagger(nn.Module):
    def __init__(self, words: int = 20000, width: int = 128, tags: int = 57) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.ahead = Gru(width)
        self.back = Gru(width)
        self.scores = nn.Linear(2 * width, tags)
        self.crf = Parameter(tags + 2, tags)

    def forward(self, feed: Batch) -> Tensor:
        x = self.words(feed["words"])
        turned = feed["turned"].unsqueeze(2).expand_as(x)
        back = self.back(x.gather(1, turned)).gather(1, turned)
        scores = self.scores(torch.cat([self.ahead(x), back], 2))
        return crf_loss(scores, feed["tags"], feed["mask"], self.crf.weight)


class Seq2Seq(nn.Module):
    def __init__(self, words: int = 10000, width: int = 256) -> None:
        super().__init__()
        self.source = nn.Embedding(words, width)
        self.encoder = Lstm(width, width)
        self.target = nn.Embedding(words, width)
        self.decoder = LstmCell(2 * width, width)
        self.attend = nn.Linear(2 * width, width)
        self.out = nn.Linear(width, words)

    def forward(self, feed: Batch) -> Tensor:
        memory, (hidden, cell) = self.encoder(self.source(feed["source"]))
        hidden, cell = hidden[0], cell[0]
        bias = feed["source_bias"].squeeze(1)
        attended = torch.zeros_like(hidden)
        found = []
        for step in self.target(feed["target"]).unbind(1):
            hidden, cell = self.decoder(torch.cat([step, attended], 1), (hidden, cell))
            scores = torch.baddbmm(bias, hidden.unsqueeze(1), memory.transpose(1, 2))
            context = torch.bmm(scores.softmax(2), memory).squeeze(1)
            attended = torch.tanh(self.attend(torch.cat([context, hidden], 1)))
            found.append(attended)
        logits = self.out(torch.stack(found, 1)).flatten(0, 1)
        return functional.cross_entropy(logits, feed["next"].flatten())
