"""Optimizers around others, where functions run at once: slow weights, averages of steps.

Programs have `fluid.optimizer.LookaheadOptimizer` and `ModelAverage` for this.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from refluid.build import at_once
from refluid.core.errors import EnforceNotMet
from refluid.ir.variable import Variable

_SPARED = 16384  # steps after which a sum goes over into another one, to keep its digits


class LookAhead:
    """Fast weights by `inner_optimizer`; every k steps slow ones follow, and the fast begin there.

    slow += alpha * (fast - slow); fast = slow. The slow ones begin as the fast are after the
    first step. Functions have to run at once: EnforceNotMet else. AssertionError for an alpha
    outside [0, 1], or a k that isn't a positive whole number.
    """

    def __init__(
        self, inner_optimizer: Any, alpha: float = 0.5, k: int = 5, name: str | None = None
    ) -> None:
        assert inner_optimizer is not None, "inner optimizer can not be None"
        assert 0.0 <= alpha <= 1.0, (
            "alpha should be larger or equal to 0.0, and less or equal than 1.0"
        )
        assert isinstance(k, int) and k > 0, "k should be a positive integer"
        _refuse_programs("LookAhead", "LookaheadOptimizer")
        self.inner_optimizer, self.alpha, self.k, self.type = inner_optimizer, alpha, k, "lookahead"
        self._steps = 0
        self._slow: dict[str, torch.Tensor] = {}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "inner_optimizer":
            raise AttributeError(name)
        return getattr(self.inner_optimizer, name)

    @torch.no_grad()
    def step(self) -> None:
        """One step of the inner optimizer; every k-th one draws the slow weights near."""
        self.inner_optimizer.step()
        self._steps += 1
        for one in self.inner_optimizer._parameter_list:
            slow = self._slow.get(one.name)
            if slow is None:
                slow = self._slow[one.name] = one.tensor.detach().clone()
            if self._steps % self.k == 0:
                slow.lerp_(one.tensor, self.alpha)
                one.tensor.copy_(slow)

    def minimize(
        self,
        loss: Variable,
        startup_program: Any = None,
        parameters: Sequence[Any] | None = None,
        no_grad_set: Iterable[Variable | str] | None = None,
    ) -> tuple[list[Any], list[Any]]:
        """A `step` by the gradients that there are. Returns no operators, and the pairs."""
        chosen = parameters or self.inner_optimizer._parameter_list
        pairs = [(one, one._grad_ivar()) for one in chosen if one.trainable]
        self.step()
        return [], pairs


class ModelAverage:
    """Averages of what parameters were after the last steps, to evaluate with.

    The window is `average_window_rate` of all steps so far, at least `min_average_window` and at
    most `max_average_window`; the average reaches back over the window before, too.

        average.step()            # after the optimizer's own
        with average.apply():     # parameters are their averages here
            evaluate()

    Functions have to run at once: EnforceNotMet else.
    """

    def __init__(
        self,
        average_window_rate: float,
        parameters: Sequence[Any] | None = None,
        min_average_window: int = 10000,
        max_average_window: int = 10000,
        name: str | None = None,
    ) -> None:
        _refuse_programs("ModelAverage", "ModelAverage")
        if parameters is None:
            raise AttributeError("parameters argument given to the Optimizer should not be None")
        self.average_window, self._parameters = average_window_rate, list(parameters)
        self.min_average_window, self.max_average_window = min_average_window, max_average_window
        self._sums = [
            torch.zeros(3, *one.shape, dtype=one.tensor.dtype) for one in self._parameters
        ]
        self._updates = self._count = self._former = 0
        self._own: list[torch.Tensor] | None = None

    @torch.no_grad()
    def step(self) -> None:
        """Adds what the parameters are now."""
        self._updates += 1
        self._count += 1
        for one, (now, long, _) in zip(self._parameters, self._sums, strict=True):
            now += one.tensor
            if self._updates % _SPARED == 0:
                long += now
                now.zero_()
        window = min(self.max_average_window, int(self._updates * self.average_window))
        if self._count >= max(self.min_average_window, window):
            for now, long, last in self._sums:
                last.copy_(now + long)
                now.zero_()
                long.zero_()
            self._former, self._count = self._count, 0

    def minimize(self, loss: Variable, *_given: Any, **_named: Any) -> None:
        """As `step`: the loss changes nothing."""
        self.step()

    @contextmanager
    def _within(self, need_restore: bool) -> Iterator[None]:
        try:
            yield
        finally:
            if need_restore:
                self.restore()

    @torch.no_grad()
    def apply(self, executor: Any = None, need_restore: bool = True) -> Any:
        """The parameters are their averages from now on, until the end of a `with` or `restore`.

        Before the first step they stay as they are.
        """
        self._own = [one.tensor.detach().clone() for one in self._parameters]
        steps = self._count + self._former
        for one, sums in zip(self._parameters, self._sums, strict=True):
            if steps:
                one.tensor.copy_(sums.sum(0) / steps)
        return self._within(need_restore)

    @torch.no_grad()
    def restore(self, executor: Any = None) -> None:
        """Gives the parameters back what they were before `apply`."""
        for one, own in zip(self._parameters, self._own or (), strict=False):
            one.tensor.copy_(own)
        self._own = None

    def clear_grad(self, set_to_zero: bool = True) -> None:
        """Forgets the gradients of its parameters."""
        for one in self._parameters:
            one.clear_gradient()

    def state_dict(self) -> dict[str, Any]:
        """Its sums, and how many steps they are of."""
        sums = {one.name: part for one, part in zip(self._parameters, self._sums, strict=True)}
        return {"sums": sums, "steps": [self._updates, self._count, self._former]}

    def set_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Goes on from what `state_dict` gave."""
        self._sums = [state_dict["sums"][one.name].clone() for one in self._parameters]
        self._updates, self._count, self._former = state_dict["steps"]


def _refuse_programs(name: str, instead: str) -> None:
    if not at_once():
        raise EnforceNotMet(
            f"incubate.{name} is for functions that run at once; programs have "
            f"fluid.optimizer.{instead}"
        )
