"""L-BFGS: torch's, which computes the loss again and again within a step."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, NoReturn

import torch

from refluid.core.errors import EnforceNotMet
from refluid.core.notices import tell_once
from refluid.fluid.clipping.gradients import GradientClipBase
from refluid.paddle.optimizer.lr import LRScheduler
from refluid.paddle.optimizer.updating import Optimizer

_KEPT = "state"


class LBFGS(Optimizer):
    """Minimises by gradients and the last `history_size` changes of these; where all runs at once.

    max_iter, max_eval: most iterations and losses of a step (max_eval: 1.25 * max_iter).
    tolerance_grad, tolerance_change: a step ends where the greatest gradient, or the change, is
    less. line_search_fn: "strong_wolfe", or None for steps of the learning rate. weight_decay and
    grad_clip change nothing, as in Paddle 2.6, which the log says.
    """

    def __init__(
        self,
        learning_rate: float | LRScheduler = 1.0,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
        parameters: Sequence[Any] | None = None,
        weight_decay: Any = None,
        grad_clip: GradientClipBase | None = None,
        name: str | None = None,
    ) -> None:
        if parameters is None:
            raise AttributeError(
                "parameters argument given to the Optimizer should not be None in dygraph mode."
            )
        if weight_decay is not None or grad_clip is not None:
            tell_once("LBFGS: weight_decay and grad_clip have no effect, as in Paddle 2.6")
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name)
        self._options: dict[str, Any] = {
            "max_iter": max_iter,
            "max_eval": max_eval,
            "tolerance_grad": tolerance_grad,
            "tolerance_change": tolerance_change,
            "history_size": history_size,
            "line_search_fn": line_search_fn,
        }

    @cached_property
    def _torchs(self) -> torch.optim.LBFGS:
        trained = [one.tensor for one in self._parameter_list or () if one.trainable]
        return torch.optim.LBFGS(trained, lr=self._next_rate(), **self._options)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step; the loss that `closure` gave first.

        closure: forgets the gradients, computes the loss and its gradients, and returns the loss.
        TypeError without one.
        """
        if closure is None:
            raise TypeError("missing a required argument: 'closure'")
        searching: Any = self._torchs
        searching.param_groups[0]["lr"] = self._next_rate()
        return searching.step(closure)

    def minimize(self, loss: Any, *_args: Any, **_options: Any) -> NoReturn:
        """Raises NotImplementedError: a step needs a function for the loss."""
        raise NotImplementedError(
            "LBFGS computes the loss several times in a step: call step(closure), with a function "
            f"that clears the gradients, computes {loss.name!r} and calls its backward"
        )

    def state_dict(self) -> dict[str, Any]:
        """What is known of the function so far, under `state`."""
        known = self._torchs.state[self._torchs.param_groups[0]["params"][0]]
        return {_KEPT: copy.deepcopy(dict(known))}

    def set_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Goes on from what `state_dict` gave; EnforceNotMet for another optimizer's."""
        if _KEPT not in state_dict:
            raise EnforceNotMet(f"LBFGS.set_state_dict: there is no {_KEPT!r}: not LBFGS's")
        searching = self._torchs
        searching.state[searching.param_groups[0]["params"][0]].update(
            copy.deepcopy(state_dict[_KEPT])
        )

    set_dict = set_state_dict
