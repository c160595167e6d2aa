"""`PeerLink`: the connections between processes of a group, and how one finds out who is gone."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, NamedTuple

import torch
from torch import Tensor

from refluid.comm.layouts import bytes_of
from refluid.comm.roll_call import RollCall
from refluid.core.errors import PeerFailed
from refluid.core.interruptible import interruptibly

_AT_ONCE = timedelta(milliseconds=1)
# A member, and what was asked for that needs it; None for nothing.
AskedOf = tuple[int, Any]


class Purpose(NamedTuple):
    """tag: messages of one tag keep their order. doing: the exchange that goes on, for errors."""

    tag: int
    doing: str = ""


class PeerLink:
    """Connections of member `rank` of `size` to each other one.

    group: torch's, None for a group of one. names: what members are called, by rank. sent: what is
    under way without the receiver having asked for it. failure: why there are no connections any
    more; all that ask later are told so.
    """

    def __init__(self, group: Any, rank: int, names: Sequence[int], roll: RollCall) -> None:
        self.group, self.rank, self.size = group, rank, len(names)
        self.sent: list[tuple[int, Any, Tensor]] = []
        self.failure = ""
        self._names, self._roll = names, roll
        self._scratch: list[Tensor] = []

    def swapping(
        self, give: Sequence[Tensor], take: Sequence[Tensor], purpose: Purpose
    ) -> UnderWay:
        """Begins to send give[rank] and to overwrite take[rank] of all others.

        Contiguous tensors, of sizes that both know; what is empty needs no message.
        """
        others = [(self.rank + step) % self.size for step in range(1, self.size)]
        works: list[AskedOf] = []
        try:
            works += [(one, self.receiving(bytes_of(take[one]), one, purpose)) for one in others]
            works += [(one, self.sending(bytes_of(give[one]), one, purpose)) for one in others]
            return UnderWay(self, list(works), purpose.doing)
        finally:
            works.clear()  # an error keeps what this function holds, and so the connections

    def receiving(self, tensor: Tensor, source: int, purpose: Purpose) -> Any:
        """Begins to overwrite a tensor with what a member sends."""
        return self._tried(purpose, "recv", tensor, source) if tensor.numel() else None

    def sending(self, tensor: Tensor, to: int, purpose: Purpose) -> Any:
        """Begins to send a tensor, which must stay as it is."""
        return self._tried(purpose, "send", tensor, to) if tensor.numel() else None

    def _tried(self, purpose: Purpose, method: str, tensor: Tensor, other: int) -> Any:
        if self.failure:
            raise PeerFailed(self.failure)
        try:
            return getattr(self.group, method)([tensor], other, purpose.tag)
        except RuntimeError as error:
            why = said(error)
        raise self._failed([other], why, purpose.doing)

    def finish(self, works: list[AskedOf], doing: str = "") -> None:
        """Waits for what was asked of each member; Ctrl-C leaves the group."""
        begun = UnderWay(self, works, doing)
        interruptibly(begun.wait, "refluid exchange", self.interrupted)

    def interrupted(self) -> None:
        """Ctrl-C came while an exchange went on, whose end nobody waits for any more."""
        own = f"{self._called([self._names[self.rank]])} was interrupted in an exchange"
        self.leave(self._roll.first(own, sure=True))

    def wait(self, works: list[AskedOf], doing: str) -> None:
        """Returns when that has come; PeerFailed names those of whom it doesn't come."""
        other = self.rank
        try:
            for other, work in works:  # noqa: B007  (used after it)
                if work is not None:
                    work.wait()
            return
        except RuntimeError as error:
            why = said(error)
        missing = {one for one, work in works if work is not None and not _has_come(work)}
        works.clear()
        raise self._failed(sorted(missing | {other}), why, doing)

    def _failed(self, others: Sequence[int], why: str, doing: str) -> PeerFailed:
        """Members that are not to be had; the first such error is what all later ones say."""
        self._roll.speak()
        names = [self._names[one] for one in others]
        where = f" (to {doing})" if doing else ""
        if "timed out" in why.lower():
            found, how = self._roll.silent(names), "did not come, or did nothing for too long"
        else:
            found, how = self._roll.gone(self._names), "went away"
        own = f"{self._called(found or names[:1])} {how}{where}: {why}"
        self.leave(self._roll.first(own, sure=bool(found)))
        return PeerFailed(self.failure)

    def _called(self, ranks: Sequence[int]) -> str:
        """Members as errors call them."""
        several = "s" if len(ranks) > 1 else ""
        return f"trainer{several} {', '.join(map(str, ranks))} of {self._roll.size}"

    def leave(self, why: str) -> None:
        """Drops the connections: those who wait for this process see it go."""
        self.failure = self.failure or why
        self.group, self.sent, self._scratch = None, [], []

    @contextmanager
    def scratch(self, like: Tensor, count: int) -> Iterator[list[Tensor]]:
        """So many tensors as flat as `like`, in memory that the next ones get again."""
        need = like.nbytes * count
        try:
            whole = self._scratch.pop()
        except IndexError:
            whole = torch.empty(0, dtype=torch.uint8)
        if whole.numel() < need:
            whole = torch.empty(need, dtype=torch.uint8)
        yield list(whole[:need].view(like.dtype).view(count, -1)) if need else [like] * count
        self._scratch.append(whole)


class UnderWay(NamedTuple):
    """Messages that were begun."""

    link: PeerLink
    works: list[AskedOf]
    doing: str = ""

    def wait(self) -> None:
        """Returns when they have come."""
        self.link.wait(self.works, self.doing)


def _has_come(work: Any) -> bool:
    """Whether a message had come when its link failed; torch only says so where it is asked."""
    try:
        return bool(work.wait(_AT_ONCE))
    except RuntimeError:
        return False


def said(error: RuntimeError) -> str:
    """What torch says, without the place in its source, and without advice."""
    return re.sub(r"\[\S+\.(cc|h):\d+\] ", "", str(error)).split(". ")[0]
