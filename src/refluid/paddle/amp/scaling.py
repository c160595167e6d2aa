"""`GradScaler`: the loss scaled, so that small gradients don't vanish in float16."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from enum import Enum
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch

from refluid.comm.world import ring
from refluid.core.data_ends import one_update
from refluid.core.selected_rows import SelectedRows
from refluid.ir.variable import Variable


class Stage(Enum):
    """What was done with an optimizer's gradients since the last `update`."""

    INIT, UNSCALED, STEPPED = range(3)


def _one_has(found: bool, groups: Collection[int]) -> bool:
    """Whether a process of those that have parts of the parameters has found it."""
    for number in sorted(groups):
        told = torch.tensor([float(found)])
        ring(number).all_reduce([told])
        found = bool(told.item())
    return found


class AmpScaler:
    """Scales losses, and has optimizers skip steps whose gradients are inf or nan.

    The scale is multiplied by `incr_ratio` after `incr_every_n_steps` finite steps in a row, and
    by `decr_ratio` after `decr_every_n_nan_or_inf` others, down to 1, unless
    `use_dynamic_loss_scaling` is False. AssertionError for ratios on the wrong side of 1.
    """

    def __init__(
        self,
        enable: bool = True,
        init_loss_scaling: float = 2.0**15,
        incr_ratio: float = 2.0,
        decr_ratio: float = 0.5,
        incr_every_n_steps: int = 1000,
        decr_every_n_nan_or_inf: int = 1,
        use_dynamic_loss_scaling: bool = True,
    ) -> None:
        self._enable, self._dynamic = enable, use_dynamic_loss_scaling
        self._scale = float(init_loss_scaling)
        self.set_incr_ratio(incr_ratio)
        self.set_decr_ratio(decr_ratio)
        self._incr_every_n_steps = incr_every_n_steps
        self._decr_every_n_nan_or_inf = decr_every_n_nan_or_inf
        self._good = self._bad = 0
        self._found_inf = False
        self._stages: WeakKeyDictionary[Any, Stage] = WeakKeyDictionary()

    # -- a step -------------------------------------------------------------------

    def scale(self, var: Variable) -> Variable:
        """A loss times the scale."""
        if not isinstance(var, Variable):
            raise TypeError(
                f"The type of 'var' in AmpScaler.scale() must be Tensor, but received {type(var)}."
            )
        scaled: Variable = var * self._scale if self._enable else var
        return scaled

    def unscale_(self, optimizer: Any) -> None:
        """Divides the gradients of an optimizer's parameters by the scale, once in each step."""
        if not self._enable:
            return
        stage = self._stages.get(optimizer, Stage.INIT)
        if stage is not Stage.INIT:
            raise RuntimeError(
                "unscale_() has already been called on this optimizer since the last update()."
                if stage is Stage.UNSCALED
                else "unscale_() is being called after step()."
            )
        found = [one.gradient_value for one in optimizer._parameter_list or () if one.trainable]
        values = [
            one.value if isinstance(one, SelectedRows) else one for one in found if one is not None
        ]
        with torch.no_grad():
            for value in values:
                value.mul_(1.0 / self._scale)
            finite = all(bool(torch.isfinite(value).all()) for value in values)
        parts = {one.split_in for one in optimizer._parameter_list or ()} - {0}
        self._found_inf = self._found_inf or _one_has(not finite, parts)
        self._stages[optimizer] = Stage.UNSCALED

    def step(self, optimizer: Any) -> None:
        """One step of an optimizer, by gradients that are unscaled if they were not yet."""
        with one_update(partial(self.step, optimizer)):
            self._take(optimizer, optimizer.step)

    def minimize(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """`optimizer.minimize(..)` by unscaled gradients, and `update`; what it returned."""
        with one_update(partial(self.minimize, optimizer, *args, **kwargs)):
            done = self._take(optimizer, lambda: optimizer.minimize(*args, **kwargs))
            self.update()
        return (None, None) if done is None else done

    def _take(self, optimizer: Any, step: Callable[[], Any]) -> Any:
        if not self._enable:
            return step()
        stage = self._stages.get(optimizer, Stage.INIT)
        if stage is Stage.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if stage is Stage.INIT:
            self.unscale_(optimizer)
        done = None if self._found_inf else step()
        self._stages[optimizer] = Stage.STEPPED
        return done

    def update(self) -> None:
        """Adapts the scale to what was found since the last call."""
        if not self._enable:
            return
        with one_update(self.update):
            if self._dynamic:
                self._adapt()
        self._found_inf = False
        self._stages.clear()

    def _adapt(self) -> None:
        if self._found_inf:
            self._good, self._bad = 0, self._bad + 1
            if self._bad >= self._decr_every_n_nan_or_inf:
                self._scale, self._bad = max(self._scale * self._decr_ratio, 1.0), 0
            return
        self._good, self._bad = self._good + 1, 0
        if self._good >= self._incr_every_n_steps:
            grown = np.float32(self._scale * self._incr_ratio)
            self._scale = float(grown) if np.isfinite(grown) else self._scale
            self._good = 0

    # -- settings -----------------------------------------------------------------

    def is_enable(self) -> bool:
        """Whether it does anything."""
        return self._enable

    def is_use_dynamic_loss_scaling(self) -> bool:
        """Whether the scale adapts."""
        return self._dynamic

    def get_init_loss_scaling(self) -> float:
        """The scale that the next loss is multiplied by."""
        return self._scale

    def set_init_loss_scaling(self, new_init_loss_scaling: float) -> None:
        """Sets the scale."""
        self._scale = float(new_init_loss_scaling)

    def get_incr_ratio(self) -> float:
        """What the scale grows by."""
        return self._incr_ratio

    def set_incr_ratio(self, new_incr_ratio: float) -> None:
        """Sets what the scale grows by."""
        assert new_incr_ratio > 1.0, "The new_incr_ratio must be > 1.0."
        self._incr_ratio = new_incr_ratio

    def get_decr_ratio(self) -> float:
        """What the scale shrinks by."""
        return self._decr_ratio

    def set_decr_ratio(self, new_decr_ratio: float) -> None:
        """Sets what the scale shrinks by."""
        assert new_decr_ratio < 1.0, "The new_decr_ratio must be < 1.0."
        self._decr_ratio = new_decr_ratio

    def get_incr_every_n_steps(self) -> int:
        """After how many finite steps in a row the scale grows."""
        return self._incr_every_n_steps

    def set_incr_every_n_steps(self, new_incr_every_n_steps: int) -> None:
        """Sets after how many finite steps in a row the scale grows."""
        self._incr_every_n_steps = new_incr_every_n_steps

    def get_decr_every_n_nan_or_inf(self) -> int:
        """After how many steps with inf or nan the scale shrinks."""
        return self._decr_every_n_nan_or_inf

    def set_decr_every_n_nan_or_inf(self, new_decr_every_n_nan_or_inf: int) -> None:
        """Sets after how many steps with inf or nan the scale shrinks."""
        self._decr_every_n_nan_or_inf = new_decr_every_n_nan_or_inf

    # -- state --------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Its settings, scale and counts; nothing where it is not enabled."""
        if not self._enable:
            return {}
        return {
            "scale": np.array([self._scale], dtype="float32"),
            "incr_ratio": self._incr_ratio,
            "decr_ratio": self._decr_ratio,
            "incr_every_n_steps": self._incr_every_n_steps,
            "decr_every_n_nan_or_inf": self._decr_every_n_nan_or_inf,
            "incr_count": self._good,
            "decr_count": self._bad,
            "use_dynamic_loss_scaling": self._dynamic,
        }

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Goes on from what `state_dict` gave; RuntimeError for an empty one."""
        if not self._enable:
            return
        if not state_dict:
            raise RuntimeError(
                "The input state dict is empty, possibly because it was saved from a disabled "
                "instance of GradScaler."
            )
        self._scale = float(np.asarray(state_dict["scale"]).reshape(-1)[0])
        self._incr_ratio = state_dict["incr_ratio"]
        self._decr_ratio = state_dict["decr_ratio"]
        self._incr_every_n_steps = state_dict["incr_every_n_steps"]
        self._decr_every_n_nan_or_inf = state_dict["decr_every_n_nan_or_inf"]
        self._good, self._bad = state_dict["incr_count"], state_dict["decr_count"]
        self._dynamic = state_dict["use_dynamic_loss_scaling"]


class GradScaler(AmpScaler):
    """`AmpScaler` that begins with another scale and waits longer before it grows."""

    def __init__(
        self,
        enable: bool = True,
        init_loss_scaling: float = 2.0**16,
        incr_ratio: float = 2.0,
        decr_ratio: float = 0.5,
        incr_every_n_steps: int = 2000,
        decr_every_n_nan_or_inf: int = 1,
        use_dynamic_loss_scaling: bool = True,
    ) -> None:
        super().__init__(
            enable,
            init_loss_scaling,
            incr_ratio,
            decr_ratio,
            incr_every_n_steps,
            decr_every_n_nan_or_inf,
            use_dynamic_loss_scaling,
        )
