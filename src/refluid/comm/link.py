"""`PeerLink`: the connections between processes of a group, and how one finds out who is gone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from refluid.core.errors import PeerFailed
from refluid.core.joined_thread import interruptibly

# A member, and what was asked for that needs it; None for nothing.
AskedOf = tuple[int, Any]


class PeerLink:
    """Connections of member `rank` of `size` to each other one.

    group: torch's, None for a group of one. sent: what is under way without the receiver having
    asked for it. failure: why there are no connections any more; all that ask later are told so.
    doing, of methods: the exchange that goes on, for errors.
    """

    def __init__(self, group: Any, rank: int, size: int) -> None:
        self.group, self.rank, self.size = group, rank, size
        self.sent: list[tuple[int, Any, Tensor]] = []
        self.failure = ""

    def swap(
        self, give: Sequence[Tensor], take: Sequence[Tensor], tag: int, doing: str = ""
    ) -> None:
        """Sends give[rank] and overwrites take[rank], both flat and contiguous, of known sizes."""
        others = [(self.rank + step) % self.size for step in range(1, self.size)]
        works: list[AskedOf] = []
        try:
            works += [(one, self.receiving(take[one], one, tag, doing)) for one in others]
            works += [(one, self.sending(give[one], one, tag, doing)) for one in others]
            self.finish(works, doing)
        finally:
            works.clear()  # an error keeps what this function holds, and so the connections
        take[self.rank].copy_(give[self.rank])

    def receiving(self, tensor: Tensor, source: int, tag: int, doing: str = "") -> Any:
        """Begins to overwrite a tensor with what a member sends."""
        return self._tried(doing, "recv", tensor, source, tag) if tensor.numel() else None

    def sending(self, tensor: Tensor, to: int, tag: int, doing: str = "") -> Any:
        """Begins to send a tensor, which must stay as it is."""
        return self._tried(doing, "send", tensor, to, tag) if tensor.numel() else None

    def _tried(self, doing: str, method: str, tensor: Tensor, other: int, tag: int) -> Any:
        if self.failure:
            raise PeerFailed(self.failure)
        try:
            return getattr(self.group, method)([tensor], other, tag)
        except RuntimeError as error:
            why = said(error)
        raise self._failed([other], why, doing)

    def finish(self, works: list[AskedOf], doing: str = "") -> None:
        """Waits for what was asked of each member."""
        try:
            interruptibly(lambda: self._wait(works, doing), "refluid exchange")
        except KeyboardInterrupt:
            self.leave("an exchange with the others was interrupted")
            raise

    def _wait(self, works: list[AskedOf], doing: str) -> None:
        other = self.rank
        try:
            for other, work in works:  # noqa: B007  (used after it)
                if work is not None:
                    work.wait()
            return
        except RuntimeError as error:
            why = said(error)
        missing = {one for one, work in works if work is not None and not work.is_completed()}
        works.clear()
        raise self._failed(sorted(missing | {other}), why, doing)

    def _failed(self, others: Sequence[int], why: str, doing: str) -> PeerFailed:
        """Members that are not to be had; the first such error is what all later ones say."""
        late = "timed out" in why.lower()
        gone = others if late else others[:1]
        how = "did not come, or did nothing for too long" if late else "went away"
        names = f"trainer{'s' if len(gone) > 1 else ''} {', '.join(map(str, gone))} of {self.size}"
        where = f" (to {doing})" if doing else ""
        self.leave(f"{names} {how}{where}: {why}")
        return PeerFailed(self.failure)

    def leave(self, why: str) -> None:
        """Drops the connections: those who wait for this process see it go."""
        self.failure = self.failure or why
        self.group, self.sent = None, []


def said(error: RuntimeError) -> str:
    """What torch says, without the place in its source, and without advice."""
    return re.sub(r"\[\S+\.(cc|h):\d+\] ", "", str(error)).split(". ")[0]
