"""How values that Fluid saves lie in PyTorch's modules, and the way back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Weight:
    """A part of a saved variable as a module's parameter.

    begin, shape: which of its elements, one after the other in memory, and how they are arranged;
    no shape: all, as they are. turned: (inputs, outputs) of Fluid as (outputs, inputs). zeroed: a
    row that is 0 in PyTorch, -1 for none.
    """

    name: str
    turned: bool = False
    shape: tuple[int, ...] | None = None
    begin: int = 0
    zeroed: int = -1

    @property
    def plain(self) -> bool:
        """Whether PyTorch's parameter is the variable itself."""
        return not self.turned and self.shape is None and self.zeroed < 0

    def of(self, value: Tensor) -> Tensor:
        """The parameter's value."""
        if self.shape is not None:
            count = torch.Size(self.shape).numel()
            value = value.flatten()[self.begin : self.begin + count].reshape(self.shape)
        if self.turned:
            value = value.t()
        if self.zeroed >= 0:
            value = value.clone()
            value[self.zeroed] = 0.0
        return value.contiguous()


@dataclass(frozen=True)
class Origin:
    """What a key of a state_dict is in Fluid: a weight, and the shape of its variable."""

    weight: Weight
    whole: tuple[int, ...]

    def to_json(self) -> dict[str, Any]:
        """As names.json has it."""
        return {"fluid": self.weight.name, "shape": list(self.whole), **self._part()}

    def _part(self) -> dict[str, Any]:
        part = asdict(self.weight)
        part["part"] = part.pop("shape")
        return {key: one for key, one in part.items() if key != "name" and one}

    @classmethod
    def of_json(cls, saved: dict[str, Any]) -> Origin:
        """The inverse of `to_json`."""
        part = saved.get("part")
        weight = Weight(
            saved["fluid"],
            bool(saved.get("turned")),
            None if part is None else tuple(part),
            saved.get("begin", 0),
        )
        return cls(weight, tuple(saved["shape"]))


def to_variable(parts: Sequence[tuple[Weight, Tensor]], whole: tuple[int, ...]) -> Tensor:
    """The saved variable that these parameters are the parts of."""
    flat = parts[0][1].new_zeros(torch.Size(whole).numel())
    for weight, value in parts:
        laid = (value.t() if weight.turned else value).reshape(-1)
        flat[weight.begin : weight.begin + laid.numel()] = laid
    return flat.reshape(whole)
