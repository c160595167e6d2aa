"""Float32 copies of half parameters, which optimizers update in their place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch

from refluid.eager import ParamBase
from refluid.passes.mixed_precision import HALVES

_SUFFIX = "_fp32_master_0"


def own_name(param: Any) -> str:
    """A parameter's name, that of the one it stands for where it is a master."""
    name: str = param.name
    return name.removesuffix(_SUFFIX)


class MasterWeights:
    """A float32 parameter for each half one, made when it is first updated."""

    def __init__(self) -> None:
        self._made: dict[str, ParamBase] = {}
        self._loaded: dict[str, Any] = {}

    def stand_in(self, gradients: Iterable[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        """(parameter, what is updated): a master that has the gradient, or the parameter itself.

        gradients: of each parameter its gradient's tensor, or None.
        """
        return [
            (one, self._master(one, gradient) if one.dtype in HALVES else one)
            for one, gradient in gradients
            if one.trainable
        ]

    def _master(self, one: Any, gradient: Any) -> ParamBase:
        found = self._made.get(one.name)
        if found is None:
            found = self._made[one.name] = ParamBase(
                one.shape,
                "float32",
                name=one.name + _SUFFIX,
                optimize_attr=one.optimize_attr,
                regularizer=one.regularizer,
                gradient_clip_attr=one.gradient_clip_attr,
                need_clip=one.need_clip,
            )
            start = self._loaded.pop(one.name, None)
            found.held = one.tensor.detach().float() if start is None else start.clone()
        found.tensor.grad = None if gradient is None else gradient.detach().float()
        return found

    @staticmethod
    def write_back(pairs: Iterable[tuple[Any, Any]]) -> None:
        """Rounds masters into the parameters that they stand for."""
        with torch.no_grad():
            for one, master in pairs:
                if master is not one:
                    one.tensor.copy_(master.tensor)
                    master.clear_gradient()

    def state(self) -> dict[str, ParamBase]:
        """The masters by the names of their parameters."""
        return dict(self._made)

    def load(self, state: Mapping[str, Any]) -> None:
        """Goes on with these, by the names of parameters."""
        for name, value in state.items():
            tensor = torch.as_tensor(value.numpy() if hasattr(value, "numpy") else value).float()
            if name in self._made:
                with torch.no_grad():
                    self._made[name].tensor.copy_(tensor)
            else:
                self._loaded[name] = tensor
