"""`LayerGradients`: gradients of dygraph's parameters, summed over processes in buckets while the
backward pass goes on.

Buckets hold gradients in the order in which the first process had them in its first step. One is
exchanged as soon as it and those before it are complete, so all processes exchange the same ones in
the same order; what is not complete when the pass has ended is exchanged then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from weakref import WeakMethod

import torch
from torch import Tensor

from refluid.collective.gradient_buckets import (
    GradientBucket,
    dense,
    gather_rows,
    give,
    only_rows,
    parted,
)
from refluid.comm import Communicator
from refluid.comm.attendance import number_of
from refluid.comm.reducing import side_by_side
from refluid.comm.values import gather_values
from refluid.comm.world import attendance, world
from refluid.core import flags
from refluid.core.data_ends import follow
from refluid.core.errors import EnforceNotMet
from refluid.eager.handed import handed
from refluid.eager.parameter import ParamBase
from refluid.eager.shared_weights import shared_weights

# Megabytes of a bucket, and of the last one, for which nothing else is left to compute.
LARGEST, LAST = 25.0, 1.0
_MEGA = 1 << 20


@dataclass
class _Pass:
    """came: the parameters whose gradients have come, in order. launched: how many buckets were.
    again: whether gradients came once more after they were exchanged."""

    came: list[int] = field(default_factory=list)
    launched: int = 0
    begun: bool = False
    again: bool = False


class LayerGradients:
    """params: of all processes alike. largest, last: megabytes of a bucket, and of the last one.

    unused: whether a process may lack gradients that others have; they are zeros there. early:
    whether gradients are exchanged as soon as they come; until `exchange`. comm: the processes that
    have these parameters, all of the job where None; others have other ones, then.
    """

    def __init__(
        self,
        params: Sequence[ParamBase],
        *,
        largest: float,
        last: float,
        unused: bool = False,
        comm: Communicator | None = None,
    ) -> None:
        self._given = comm
        self._params, self._unused = list(dict.fromkeys(params)), unused
        self._largest, self._last = largest * _MEGA, last * _MEGA
        self._watched: list[Tensor | None] = [None] * len(self._params)
        self._trained: list[int] = []
        self._number, self.early = 0, False
        self.look()
        self._watch()

    @property
    def _comm(self) -> Communicator:
        return self._given or world()

    def look(self) -> None:
        """Looks which parameters are trained now; to be called before each step."""
        trained = [number for number, one in enumerate(self._params) if one.trainable]
        if trained == self._trained:
            return
        self._trained, self._number, self._pass = trained, 0, _Pass()
        self._buckets: list[GradientBucket] = []
        self._bucket_of: dict[int, GradientBucket] = {}
        self._rows: list[int] = []
        self._presence = torch.empty(0)

    def has_new(self) -> bool:
        """Whether gradients have come that weren't exchanged."""
        return bool(self._pass.came) or any(
            one.rows is not None or one.tensor.grad is not None for one in self._params
        )

    def forget(self) -> None:
        """Begins anew: gradients that came so far are not part of the next exchange's order."""
        self._pass = _Pass()

    def exchange(self, divisor: int) -> None:
        """The gradients become their sums over processes, divided.

        A process without data repeats this along with the others, and the updates that follow.
        EnforceNotMet at all processes where they have gradients of different parameters.
        """
        there, updates = attendance(), list[Callable[[], Any]]()
        if not self._number:
            self._arrange()
        try:
            self._begin()
            self._sum(divisor)
        except BaseException:
            if there is not None:
                there.abandon()
            raise
        finally:
            self._pass, self.early = _Pass(), False
        if there is not None:
            there.end(partial(self._repeat, divisor, updates))
            follow(updates.append)
        self._watch()

    def _begin(self) -> None:
        there, step = attendance(), self._pass
        if there is not None and not step.begun:
            there.begin(self._number)
        step.begun = True

    def _repeat(self, divisor: int, updates: Sequence[Callable[[], Any]]) -> None:
        """What a process without data does in a step of the others: it has no gradients."""
        follow(None)
        self._clear()
        self._sum(divisor)
        self._pass = _Pass()
        for update in updates:
            update()
        self._clear()

    def _clear(self) -> None:
        for one in self._params:
            one.clear_gradient()

    # -- which gradients go together --------------------------------------------------------------

    def _watch(self) -> None:
        """Is told when gradients come to the values that parameters have now."""
        told = WeakMethod(self._came)

        def came(number: int, tensor: Tensor) -> None:
            does = told()
            if does is not None:
                does(number, tensor)

        for number, one in enumerate(self._params):
            value = one.tensor
            if self._watched[number] is not value and value.is_leaf and value.requires_grad:
                hook: Any = value.register_post_accumulate_grad_hook
                hook(partial(came, number))
                self._watched[number] = value

    def _arrange(self) -> None:
        """Parts the parameters in buckets, once all have had gradients."""
        held = [self._params[one] for one in self._trained]
        what = [f"{one.name} {one.dtype.name} {one.shape}" for one in held]
        self._comm.agree(["sum the gradients of", *what])
        rows = [number for number, one in enumerate(self._params) if only_rows(one)]
        everyone = gather_values(self._comm, {"order": self._pass.came, "rows": rows})
        self._rows = sorted({number for one in everyone for number in one["rows"]})
        order = list(dict.fromkeys([*everyone[0]["order"], *reversed(self._trained)]))
        order = [one for one in order if one in self._trained and one not in self._rows]
        sizes = [self._params[one].tensor.nbytes for one in order]
        self._presence = torch.zeros(len(order))
        parts = parted(order, sizes, self._largest, self._last)
        for params in parts:
            like = [self._params[one].tensor.detach() for one in params]
            like += [self._presence] if params is parts[-1] else []
            bucket = GradientBucket(params, side_by_side(like), len(params))
            self._buckets.append(bucket)
            self._bucket_of |= dict.fromkeys(params, bucket)
        if parts:
            self._presence = self._buckets[-1].views[-1]
        told = [*what, *map(str, self._rows)] if self._given is None else ["the parts of a model"]
        self._number = number_of(["sum", *told])

    # -- exchanges --------------------------------------------------------------------------------

    def _came(self, number: int, tensor: Tensor) -> None:
        """A gradient is there; it may complete a bucket."""
        step, bucket = self._pass, self._bucket_of.get(number)
        if number in step.came:
            step.again = True
            return
        step.came.append(number)
        if bucket is None or not self.early or not flags.value("refluid_overlap_exchange"):
            return
        grad, view = tensor.grad, bucket.views[bucket.params.index(number)]
        own = grad is None or grad.data_ptr() == view.data_ptr()
        if own or handed.promised(tensor) or shared_weights.awaits(tensor):
            return  # it isn't all there yet, or may change while it is exchanged
        bucket.left -= 1
        while step.launched < len(self._buckets) and not self._buckets[step.launched].left:
            self._begin()
            self._launch()

    def _launch(self) -> None:
        """Begins to exchange the next bucket."""
        bucket = self._buckets[self._pass.launched]
        self._pass.launched += 1
        found = [dense(self._params[one]) for one in bucket.params]
        with torch.no_grad():
            for view, grad in zip(bucket.views, found, strict=False):
                if grad is None:
                    view.zero_()
                elif grad.data_ptr() != view.data_ptr():
                    view.copy_(grad)
            if self._pass.launched == len(self._buckets):
                held = [dense(self._params[one]) for one in self._ordered()]
                self._presence.copy_(torch.tensor([float(one is not None) for one in held]))
        bucket.work = self._comm.all_reduce(bucket.views, wait=False)

    def _ordered(self) -> list[int]:
        return [one for bucket in self._buckets for one in bucket.params]

    def _sum(self, divisor: int) -> None:
        step = self._pass
        if step.again or any(self._params[one].rows is not None for one in self._bucket_of):
            self._wait()  # what was exchanged isn't all
            step.launched = 0
        while step.launched < len(self._buckets):
            self._launch()
        self._wait()
        present = (self._presence / self._comm.size).tolist()
        if not self._unused and any(0.01 < one < 0.99 for one in present):
            self._refuse()
        with torch.no_grad():
            has = dict(zip(self._ordered(), present, strict=True))
            for bucket in self._buckets:
                for number, view in zip(bucket.params, bucket.views, strict=False):
                    if has[number] > 0.5 / self._comm.size:
                        give(self._params[number], view.div_(divisor) if divisor > 1 else view)
                bucket.left = len(bucket.params)
            for number in self._rows:
                gather_rows(self._params[number], divisor, self._comm)

    def _wait(self) -> None:
        for number, bucket in enumerate(self._buckets):
            names = [self._params[one].name for one in bucket.params]
            bucket.wait(f"bucket {number + 1} of {len(self._buckets)}", names)

    def _refuse(self) -> None:
        """EnforceNotMet with the first gradient that some lack."""
        held = [self._params[one] for one in self._ordered()]
        names = [one.name for one in held if dense(one) is not None]
        self._comm.agree(["sum the gradients of", *names])
        raise EnforceNotMet("processes have gradients of different parameters")
