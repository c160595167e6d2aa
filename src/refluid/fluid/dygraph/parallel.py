"""`fluid.dygraph.parallel`: layers that processes train together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from refluid.collective.job import joined_as
from refluid.comm.attendance import number_of
from refluid.comm.world import attendance, world
from refluid.core.data_ends import follow
from refluid.core.flags import environment_int, environment_str
from refluid.core.selected_rows import SelectedRows
from refluid.fluid.dygraph.layers import Layer

__all__ = ["DataParallel", "ParallelEnv", "prepare_context"]


class ParallelEnv:
    """Which process this is, from the launcher's variables of the environment."""

    def __init__(self) -> None:
        self._nranks = environment_int("PADDLE_TRAINERS_NUM", 1) or 1
        self._local_rank = environment_int("PADDLE_TRAINER_ID", 0) or 0
        self._dev_id = int((environment_str("FLAGS_selected_gpus") or "0").split(",")[0])
        self._trainer_endpoints = (environment_str("PADDLE_TRAINER_ENDPOINTS") or "").split(",")
        self._current_endpoint = environment_str("PADDLE_CURRENT_ENDPOINT") or ""

    @property
    def nranks(self) -> int:
        """How many processes train."""
        return self._nranks

    @property
    def local_rank(self) -> int:
        """Number of this one, from 0."""
        return self._local_rank

    @property
    def dev_id(self) -> int:
        """Number of its GPU."""
        return self._dev_id

    @property
    def current_endpoint(self) -> str:
        """Its address."""
        return self._current_endpoint

    @property
    def trainer_endpoints(self) -> list[str]:
        """The addresses of all."""
        return self._trainer_endpoints


Env = ParallelEnv


class ParallelStrategy:
    """What `DataParallel` needs to know of the processes."""

    def __init__(self) -> None:
        env = ParallelEnv()
        self.nranks, self.local_rank = env.nranks, env.local_rank
        self.trainer_endpoints = env.trainer_endpoints
        self.current_endpoint = env.current_endpoint


def prepare_context(strategy: ParallelStrategy | None = None) -> ParallelStrategy:
    """Readies this process for `DataParallel`: joins the others, where it is one of several."""
    made = ParallelStrategy() if strategy is None else strategy
    if made.nranks > 1:
        joined_as(made.local_rank, made.nranks, made.trainer_endpoints)
    return made


class DataParallel(Layer):
    """A layer whose gradients are averaged over processes; of one process they are as they are.

    All begin with the parameters and buffers of the first process.

        loss = parallel.scale_loss(loss)
        loss.backward()
        parallel.apply_collective_grads()
        optimizer.minimize(loss)
    """

    def __init__(self, layers: Any, strategy: ParallelStrategy) -> None:
        super().__init__(layers.full_name() + "_data_parallel")
        self._layers = layers
        self._strategy = prepare_context(strategy)
        if self._strategy.nranks > 1:
            held = self._layers.state_dict()
            world().broadcast([held[name].tensor.detach() for name in sorted(held)], 0)

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """What the layer computes."""
        return self._layers(*inputs, **kwargs)

    def scale_loss(self, loss: Any) -> Any:
        """The loss divided by the number of processes."""
        count = self._strategy.nranks
        return loss if count == 1 else loss * (1.0 / count)

    def apply_collective_grads(self) -> None:
        """Sums the gradients over processes: dense ones together, rows by gathering them.

        A process without data repeats this along with the others, and the updates that followed
        it. EnforceNotMet at all processes where they have gradients of different parameters.
        """
        self._exchange(1)

    def _average_gradients(self) -> None:
        """Gradients become their means over processes, of losses that weren't scaled."""
        self._exchange(self._strategy.nranks)

    def _exchange(self, divisor: int) -> None:
        """Sums the gradients, and divides the sums."""
        if self._strategy.nranks == 1:
            return
        held = [(one, one.gradient_value) for one in self._layers.parameters()]
        held = [(one, grad) for one, grad in held if grad is not None]
        rows = [one.name for one, grad in held if isinstance(grad, SelectedRows)]
        params, updates = [one for one, _ in held], list[Callable[[], Any]]()
        run = partial(_summed, params, divisor)
        there = attendance()
        if there is None:
            run()
            return
        number = number_of(["sum", *(one.name for one in params), *rows, str(divisor)])
        there.step(number, run, partial(_repeated, params, rows, run, updates))
        follow(updates.append)

    def state_dict(
        self,
        destination: dict[str, Any] | None = None,
        include_sublayers: bool = True,
        structured_name_prefix: str = "",
    ) -> dict[str, Any]:
        """The layer's."""
        found: dict[str, Any] = self._layers.state_dict(
            destination, include_sublayers, structured_name_prefix
        )
        return found

    def set_dict(
        self,
        stat_dict: dict[str, Any],
        include_sublayers: bool = True,
        use_structured_name: bool = True,
    ) -> None:
        """Sets the layer's parameters."""
        self._layers.set_dict(stat_dict, include_sublayers, use_structured_name)

    load_dict = set_dict


def _summed(params: Sequence[Any], divisor: int) -> None:
    """The gradients that all processes have of these become their sums, divided."""
    comm = world()
    held = [(one, one.gradient_value) for one in params]
    comm.agree(["sum the gradients of", *(one.name for one, _ in held)])
    with torch.no_grad():
        comm.all_reduce([grad for _, grad in held if isinstance(grad, Tensor)])
        for one, grad in held:
            one.clear_gradient()
            if isinstance(grad, Tensor):
                one.tensor.grad = grad.div_(divisor) if divisor > 1 else grad
                continue
            parts = [part for part in comm.all_gather(grad) if isinstance(part, SelectedRows)]
            total = SelectedRows.sum(parts)
            one.add_rows(total)
            if divisor > 1:
                total.value.div_(divisor)


def _repeated(
    params: Sequence[Any],
    rows: Sequence[str],
    run: Callable[[], None],
    updates: Sequence[Callable[[], Any]],
) -> None:
    """What a process without data does in a step of the others: it has no gradients of its own."""
    follow(None)
    for one in params:
        one.clear_gradient()
        if one.name in rows:
            none = torch.empty(0, dtype=torch.int64, device=one.tensor.device)
            width = one.tensor.shape[1:]
            one.add_rows(SelectedRows(none, one.shape[0], one.tensor.new_empty((0, *width))))
        else:
            one.tensor.grad = torch.zeros_like(one.tensor)
    run()
    for update in updates:
        update()
    for one in params:
        one.clear_gradient()
