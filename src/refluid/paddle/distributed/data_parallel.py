"""`paddle.DataParallel`: a layer whose gradients are means over processes after each `backward`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from refluid.collective.layer_gradients import LARGEST, LAST
from refluid.comm.world import attended
from refluid.core.errors import EnforceNotMet
from refluid.eager.backward_ends import tell
from refluid.fluid.dygraph.parallel import ParallelStrategy, TrainedTogether

__all__ = ["DataParallel"]


class DataParallel(TrainedTogether):
    """All processes begin with the parameters and buffers of the first one.

    Gradients are exchanged while `backward` goes on (FLAGS_refluid_overlap_exchange), at most
    comm_buffer_size MB at a time, of which those that come last last_comm_buffer_size.
    find_unused_parameters: whether a process may lack gradients that others have; else that is
    EnforceNotMet at all processes. group: the processes that do so, None for all of the job.

        dist.init_parallel_env()
        layer = paddle.DataParallel(layer)
        loss_fn(layer(x), y).backward()
        optimizer.step()
    """

    def __init__(
        self,
        layers: Any,
        strategy: Any = None,
        comm_buffer_size: int = int(LARGEST),
        last_comm_buffer_size: float = LAST,
        find_unused_parameters: bool = False,
        group: Any = None,
    ) -> None:
        if group is not None and group.comm is None:
            raise EnforceNotMet("DataParallel trains in a group that this process is in")
        self.find_unused_parameters = find_unused_parameters
        super().__init__(
            layers,
            strategy or ParallelStrategy(),
            largest=float(comm_buffer_size),
            last=float(last_comm_buffer_size),
            unused=find_unused_parameters,
            comm=None if group is None or group.id == 0 else attended(group.comm),
        )
        self._syncs = True
        if self._gradients is not None:
            self._gradients.early = True
            tell(self._ended)

    def _ended(self) -> None:
        """A backward pass has ended."""
        gradients = self._gradients
        if gradients is None or not gradients.has_new():
            return
        if self._syncs:
            gradients.exchange(self._count)
            gradients.early = True
        else:
            gradients.forget()

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Within the block gradients stay those of this process, and add up."""
        self._set_syncs(False)
        try:
            yield
        finally:
            self._set_syncs(True)

    def _set_syncs(self, syncs: bool) -> None:
        self._syncs = syncs
        if self._gradients is not None:
            self._gradients.early = syncs

    def scale_loss(self, loss: Any) -> Any:
        """The loss: gradients are divided by the number of processes as they are exchanged."""
        return loss

    def apply_collective_grads(self) -> None:
        """Nothing: `backward` has exchanged them."""
