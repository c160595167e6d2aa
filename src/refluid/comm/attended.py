"""`Attended`: sums over the trainers that still have data."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from refluid.comm.around import Around
from refluid.comm.attendance import Attendance
from refluid.comm.communicator import Communicator, Exchanged, Work
from refluid.comm.sharded import Sharded
from refluid.core.selected_rows import SelectedRows


class Attended(Around):
    """In a step a sum is that of the trainers with data, times all trainers by those.

    So what is divided by the number of trainers is the mean over those with data. Other reductions
    are over those with data. Whole numbers are only added up. What a trainer without data gathers
    for others is zeros, and no sparse rows.
    """

    def __init__(self, inner: Communicator, attendance: Attendance) -> None:
        super().__init__(inner)
        self._attendance = attendance

    def all_reduce(
        self, tensors: Sequence[Tensor], reduction: str = "sum", *, wait: bool = True
    ) -> Work:
        there = self._attendance
        if not there.counts:
            return self._inner.all_reduce(tensors, reduction, wait=wait)
        if there.repeating:
            for one in tensors:
                one.fill_(_nothing(reduction, one.dtype))
        with there.waiting():
            work: Work = self._inner.all_reduce(tensors, reduction, wait=wait)
        scaled = _Scaled(work, tensors if reduction == "sum" else (), there)
        if wait:
            scaled.wait()
        return scaled

    def reduce_scatter(self, tensor: Tensor, reduction: str = "sum") -> Tensor:
        there = self._attendance
        if not there.counts:
            return self._inner.reduce_scatter(tensor, reduction)
        if there.repeating:
            tensor = torch.full_like(tensor, _nothing(reduction, tensor.dtype))
        with there.waiting():
            found = self._inner.reduce_scatter(tensor, reduction)
        return _scaled(found, there.share()) if reduction == "sum" else found

    def all_gather(self, value: Exchanged) -> list[Exchanged]:
        there = self._attendance
        if not there.counts:
            return self._inner.all_gather(value)
        if there.repeating:
            value = _no_rows(value) if isinstance(value, SelectedRows) else torch.zeros_like(value)
        with there.waiting():
            found, share = self._inner.all_gather(value), there.share()
        for one in found:
            if isinstance(one, SelectedRows):
                _scaled(one.value, share)
        return found

    def all_to_all(self, parts: Sequence[Tensor]) -> list[Tensor]:
        with self._attendance.waiting():
            return self._inner.all_to_all(parts)

    def broadcast(self, tensors: Sequence[Tensor], root: int) -> None:
        with self._attendance.waiting():
            self._inner.broadcast(tensors, root)

    def agree(self, what: Sequence[str]) -> None:
        with self._attendance.waiting():
            self._inner.agree(what)

    def barrier(self) -> None:
        with self._attendance.waiting():
            self._inner.barrier()


class AttendedShares(Attended):
    """The same of members that own shares."""

    def __init__(self, inner: Sharded, attendance: Attendance) -> None:
        super().__init__(inner, attendance)
        self._shared = inner
        self.share, self.shares = inner.share, inner.shares

    def reduce_to(self, tensors: Sequence[Tensor], owners: Sequence[int], wait: bool) -> Work:
        there = self._attendance
        if not there.counts:
            return self._shared.reduce_to(tensors, owners, wait)
        pairs = list(zip(tensors, owners, strict=True))
        if there.repeating:
            # Those of others are the program's own values.
            tensors = [
                one.zero_() if owner == self.share else torch.zeros_like(one)
                for one, owner in pairs
            ]
        with there.waiting():
            work: Work = self._shared.reduce_to(tensors, owners, wait)
        scaled = _Scaled(work, [one for one, owner in pairs if owner == self.share], there)
        if wait:
            scaled.wait()
        return scaled

    def spread(
        self, given: Sequence[Tensor], taken: Sequence[Tensor], owners: Sequence[int], wait: bool
    ) -> Work:
        with self._attendance.waiting():
            return self._shared.spread(given, taken, owners, wait)


def attended_by(comm: Communicator, attendance: Attendance) -> Communicator:
    """The communicator, summing over the trainers that still have data."""
    if isinstance(comm, Attended):
        return comm
    if isinstance(comm, Sharded):
        return AttendedShares(comm, attendance)
    return Attended(comm, attendance)


class _Scaled:
    """An exchange whose sums are scaled when it is done."""

    def __init__(self, work: Work, tensors: Sequence[Tensor], attendance: Attendance) -> None:
        self._work, self._tensors, self._attendance = work, tensors, attendance

    def wait(self) -> None:
        with self._attendance.waiting():
            self._work.wait()
            share = self._attendance.share()
        for one in self._tensors:
            _scaled(one, share)
        self._tensors = ()

    def done(self) -> bool:
        return self._work.done()


def _scaled(tensor: Tensor, share: float) -> Tensor:
    whole = not (tensor.is_floating_point() or tensor.is_complex())
    return tensor if share == 1 or whole else tensor.mul_(share)


def _nothing(reduction: str, dtype: torch.dtype) -> float | bool:
    """What changes no reduction of that kind."""
    if reduction in ("sum", "prod"):
        return 0 if reduction == "sum" else 1
    largest = reduction == "min"
    if dtype.is_floating_point:
        return float("inf") if largest else -float("inf")
    if dtype is torch.bool:
        return largest
    info = torch.iinfo(dtype)
    return info.max if largest else info.min


def _no_rows(value: SelectedRows) -> SelectedRows:
    return SelectedRows(value.index[:0], value.height(), value.value[:0])
