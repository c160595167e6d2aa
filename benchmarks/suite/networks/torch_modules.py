"""Modules of the PyTorch networks that take their weights in Fluid's layout."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from benchmarks.suite.networks.lstm_weights import Array, cell_parts, lod_parts

Weights = Mapping[str, npt.NDArray[np.generic]]
Batch = Mapping[str, Tensor]


@runtime_checkable
class Taking(Protocol):
    """A module that knows how Fluid keeps its weights."""

    def take(self, weights: Mapping[str, Tensor]) -> None: ...


class Parameter(nn.Module):
    """One weight of its own."""

    def __init__(self, *shape: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(shape))

    def take(self, weights: Mapping[str, Tensor]) -> None:
        self.weight.copy_(weights["weight"])


class Lstm(nn.Module):
    """nn.LSTM from Fluid's `LSTMCell`.

    Fluid has one bias where PyTorch has two; the second stays zero.
    """

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(inputs, width, batch_first=True)
        self.lstm.bias_hh_l0.requires_grad_(False)

    def parts(self, weights: Mapping[str, Array]) -> dict[str, Array]:
        return cell_parts(weights["weight"], weights["bias"])

    def take(self, weights: Mapping[str, Tensor]) -> None:
        parts = self.parts({name: value.numpy() for name, value in weights.items()})
        self.lstm.weight_ih_l0.copy_(torch.from_numpy(parts["ih"]))
        self.lstm.weight_hh_l0.copy_(torch.from_numpy(parts["hh"]))
        self.lstm.bias_ih_l0.copy_(torch.from_numpy(parts["bias"]))
        self.lstm.bias_hh_l0.zero_()

    def forward(self, x: Tensor) -> Any:
        return self.lstm(x)


class LodLstm(Lstm):
    """nn.LSTM from `dynamic_lstm` after its fc."""

    def parts(self, weights: Mapping[str, Array]) -> dict[str, Array]:
        return lod_parts(weights["input.weight"], weights["weight"], weights["bias"])


class LstmCell(nn.LSTMCell):
    """nn.LSTMCell from Fluid's `LSTMCell`, with one bias as in `Lstm`."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__(inputs, width)
        self.bias_hh.requires_grad_(False)

    def take(self, weights: Mapping[str, Tensor]) -> None:
        parts = cell_parts(weights["weight"].numpy(), weights["bias"].numpy())
        self.weight_ih.copy_(torch.from_numpy(parts["ih"]))
        self.weight_hh.copy_(torch.from_numpy(parts["hh"]))
        self.bias_ih.copy_(torch.from_numpy(parts["bias"]))
        self.bias_hh.zero_()


def _take_linear(module: nn.Linear, weights: Mapping[str, Tensor]) -> None:
    module.weight.copy_(weights["weight"].T)
    if module.bias is not None:
        module.bias.copy_(weights["bias"])


def _take_alike(module: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Every weight lies in PyTorch as it does in Fluid."""
    state = module.state_dict()
    for name, value in weights.items():
        state[name].copy_(value)


TAKERS: Mapping[type[nn.Module], Callable[[Any, Mapping[str, Tensor]], None]] = {
    nn.Linear: _take_linear,
    nn.Embedding: _take_alike,
    nn.Conv2d: _take_alike,
    nn.BatchNorm2d: _take_alike,
    nn.LayerNorm: _take_alike,
}


@torch.no_grad()
def take(module: nn.Module, weights: Weights) -> None:
    """Gives the network Fluid's weights. ValueError where some are left over or missing."""
    left = {name: torch.from_numpy(np.asarray(value)) for name, value in weights.items()}
    for prefix, part in module.named_modules():
        taker = part.take if isinstance(part, Taking) else None
        if taker is None and type(part) in TAKERS:
            known = TAKERS[type(part)]
            taker = lambda found, part=part, known=known: known(part, found)  # noqa: E731
        if taker is None:
            continue
        start = f"{prefix}."
        mine = [name for name in left if name.startswith(start)]
        if mine:
            taker({name.removeprefix(start): left.pop(name) for name in mine})
    if left:
        raise ValueError(f"weights that the network lacks: {sorted(left)[:5]} ({len(left)})")
