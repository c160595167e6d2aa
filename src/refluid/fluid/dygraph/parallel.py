"""`fluid.dygraph.parallel`: layers that processes train together."""

from __future__ import annotations

from typing import Any

from refluid.collective.job import joined_as
from refluid.collective.layer_gradients import LARGEST, LAST, LayerGradients
from refluid.comm import Communicator
from refluid.comm.world import world
from refluid.core.job_variables import job_int, job_str
from refluid.fluid.dygraph.layers import Layer

__all__ = ["DataParallel", "ParallelEnv", "prepare_context"]


class ParallelEnv:
    """Which process this is, from the launcher's variables of the environment."""

    def __init__(self) -> None:
        self._nranks = job_int("PADDLE_TRAINERS_NUM", 1) or 1
        self._local_rank = job_int("PADDLE_TRAINER_ID", 0)
        self._dev_id = int((job_str("FLAGS_selected_gpus") or "0").split(",")[0])
        self._trainer_endpoints = (job_str("PADDLE_TRAINER_ENDPOINTS") or "").split(",")
        self._current_endpoint = job_str("PADDLE_CURRENT_ENDPOINT") or ""

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


class TrainedTogether(Layer):
    """A layer that processes train together; `gradients` is None for a process alone.

    All begin with the parameters and buffers of the first process. largest, last: megabytes of
    gradients that are exchanged at a time, and last. comm: the processes that do so, all of the
    job where None.
    """

    def __init__(
        self,
        layers: Any,
        strategy: ParallelStrategy,
        *,
        largest: float = LARGEST,
        last: float = LAST,
        unused: bool = False,
        comm: Communicator | None = None,
    ) -> None:
        super().__init__(layers.full_name() + "_data_parallel")
        self._layers = layers
        self._strategy = prepare_context(strategy)
        self._gradients: LayerGradients | None = None
        self._count = self._strategy.nranks if comm is None else comm.size
        if self._count > 1:
            held = layers.state_dict()
            values = [held[name].tensor.detach() for name in sorted(held)]
            (comm or world()).broadcast(values, 0)
            self._gradients = LayerGradients(
                layers.parameters(), largest=largest, last=last, unused=unused, comm=comm
            )

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """What the layer computes."""
        if self._gradients is not None:
            self._gradients.look()
        return self._layers(*inputs, **kwargs)

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


class DataParallel(TrainedTogether):
    """A layer whose gradients are summed over processes; of one process they are as they are.

    loss = parallel.scale_loss(loss)
    loss.backward()
    parallel.apply_collective_grads()
    optimizer.minimize(loss)
    """

    def __init__(self, layers: Any, strategy: ParallelStrategy) -> None:
        super().__init__(layers, strategy)

    def scale_loss(self, loss: Any) -> Any:
        """The loss divided by the number of processes.

        Gradients are exchanged while its `backward` goes on (FLAGS_refluid_overlap_exchange).
        """
        if self._gradients is None:
            return loss
        self._gradients.early = True
        return loss * (1.0 / self._strategy.nranks)

    def apply_collective_grads(self) -> None:
        """Sums the gradients over processes: dense ones in buckets, rows by gathering them.

        A process without data repeats this along with the others, and the updates that followed
        it. EnforceNotMet at all processes where they have gradients of different parameters.
        """
        if self._gradients is not None:
            self._gradients.exchange(1)
