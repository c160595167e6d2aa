"""`LayerVariables`: what layers of dygraph and their optimizers hold, as variables of a program."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from refluid.core.dtypes import as_dtype
from refluid.core.scope import Scope
from refluid.eager.parameter import ParamBase
from refluid.ir.program import Program


class LayerVariables:
    """holders: layers and optimizers, by what their variables' names begin with.

    program, scope: its variables, as of the last `take`. What has no tensor's form, such as where
    a schedule is, is in `rest`, as JSON has it.
    """

    def __init__(self, layers: Sequence[Any], optimizers: Sequence[Any]) -> None:
        self.holders = {
            **{f"layer{number}": one for number, one in enumerate(layers)},
            **{f"optimizer{number}": one for number, one in enumerate(optimizers)},
        }
        self.program, self.scope = Program(), Scope()
        self.rest: dict[str, Any] = {}

    def take(self, besides: Iterable[str] = ()) -> None:
        """The values of now; besides: names of variables that a checkpoint has as well."""
        self.program, self.scope, self.rest = Program(), Scope(), {}
        block = self.program.global_block()
        for holder, one in self.holders.items():
            for name, value in one.state_dict().items():
                tensor = _tensor(value)
                if tensor is None:
                    self.rest[f"{holder}/{name}"] = value
                    continue
                self.scope.var(f"{holder}/{name}").value = tensor
        for name in {*self.scope.local_var_names(), *besides}:
            value = self.scope.var(name).value
            shape = [] if value is None else list(value.shape)
            kind = as_dtype(torch.float32 if value is None else value.dtype)
            block.create_var(name=name, shape=shape, dtype=kind, persistable=True)

    def trained(self, names: Iterable[str]) -> list[str]:
        """Those of these variables that training changes, unlike buffers."""
        params = {
            f"{holder}/{name}"
            for holder, one in self.holders.items()
            for name, value in one.state_dict().items()
            if isinstance(value, ParamBase) and value.trainable
        }
        return sorted(one for one in names if one in params or one.startswith("optimizer"))

    def put(self, rest: Mapping[str, Any]) -> None:
        """Has layers and optimizers go on from the scope's values, and from the rest."""
        for holder, one in self.holders.items():
            begin = f"{holder}/"
            state = {
                name.removeprefix(begin): self.scope.var(name).value.numpy(force=True).copy()
                for name in self.scope.local_var_names()
                if name.startswith(begin) and self.scope.var(name).value is not None
            }
            told = {key.removeprefix(begin): rest[key] for key in rest if key.startswith(begin)}
            one.set_dict({**state, **told})


def _tensor(value: Any) -> Tensor | None:
    """A copy-free tensor of what a state has; None where it is none."""
    held = getattr(value, "tensor", value)
    if isinstance(held, Tensor):
        return held.detach()
    return torch.as_tensor(held) if isinstance(held, np.ndarray | np.generic) else None
