"""Asynchronous training: gradients wait in a queue, and a thread pushes several as one."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from refluid.comm.communicator import Exchanged
from refluid.core.selected_rows import SelectedRows
from refluid.core.whole_threads import Waiters, outcome, submitted
from refluid.kernels.rows.dealing import KnownRows
from refluid.pserver.links import TableLink, overwrite, together
from refluid.pserver.table_client import TableClient

_PAUSE = 0.001


@dataclass(frozen=True)
class Merging:
    """How gradients become pushes.

    most: of so many steps one is made at most. waiting: so many steps may wait to be pushed, then
    training waits. patience: how often to look for more before fewer are pushed. pulls_after: after
    so many steps parameters are pulled. own_thread: by a thread that does nothing else. sums:
    gradients of several steps are added up, else their mean is taken.
    """

    most: int = 20
    waiting: int = 20
    patience: int = 5
    pulls_after: int = 20
    own_thread: bool = True
    sums: bool = True


class SendingLink(TableLink):
    """A step hands its gradients on and continues with parameters that came last.

    Rows of ids that were announced are asked for by another thread while the step before computes.
    """

    def __init__(self, client: TableClient, merging: Merging) -> None:
        super().__init__(client)
        self._merging = merging
        # Steps that wait, and those of the next push. Ctrl-C within a `queue.Queue` would keep its
        # lock; here a step is handed on by one `append`, and what was sent follows from the rest.
        self._steps: deque[Mapping[str, Exchanged]] = deque()
        self._taken: list[Mapping[str, Exchanged]] = []
        self._state, self._waiting = threading.Lock(), Waiters()
        self._filled, self._emptied = Waiters(), Waiters()
        self._pushed = self._pulled_at = 0
        self._fresh: dict[str, Tensor] | None = None
        self._error: BaseException | None = None
        self._ended = False
        client.figures.lag = lambda: (self.depth, self._pushed + self.depth - self._pulled_at)
        self._ahead = ThreadPoolExecutor(1, thread_name_prefix="refluid ahead")
        self._known = _KnownAhead()
        self._threads = [threading.Thread(target=self._push, name="refluid sender", daemon=True)]
        if merging.own_thread:
            self._threads.append(
                threading.Thread(target=self._pull, name="refluid receiver", daemon=True)
            )
        for thread in self._threads:
            thread.start()

    # -- what a step does -----------------------------------------------------

    def send(self, gradients: Mapping[str, Exchanged]) -> None:
        self._raise_error()
        given = {name: value.clone() for name, value in gradients.items()}
        while True:
            with self._state:
                self._raise_error()
                if self._ended or not 0 < self._merging.waiting <= len(self._steps):
                    self._filled.wake()
                    self._steps.append(given)
                    return
                emptied = self._emptied.join()
            emptied.acquire()

    def send_barrier(self) -> None:
        """A step waits for nothing."""

    def receive(self, parameters: Mapping[str, Tensor], *, wait: bool) -> None:
        self._raise_error()
        if wait:
            overwrite(parameters, self.client.pull())
            return
        with self._state:
            fresh, self._fresh = self._fresh, None
        if fresh is not None:
            overwrite(parameters, fresh)

    def fetch_barrier(self) -> None:
        """A step waits for nothing."""

    def announce(self, ids: Mapping[str, Sequence[Tensor]]) -> None:
        flat = {table: together(one).clone() for table, one in ids.items()}
        asked = submitted(self._ahead, self._asked, flat)
        self._known.steps.append(_Announcement(flat.copy(), asked))

    def _asked(self, ids: Mapping[str, Tensor]) -> Mapping[str, KnownRows]:
        return self.client.known_rows(ids)

    def _rows(self, table: str, ids: Tensor) -> Tensor:
        for step in self._known.steps:
            guess = step.left.get(table)
            if guess is not None and torch.equal(guess, ids.reshape(-1)):
                del step.left[table]
                return outcome(step.rows)[table].of(ids)
        return super()._rows(table, ids)

    def flush(self) -> None:
        self._known.steps.clear()  # those rows lack what is pushed until then
        goal = self._pushed + self.depth
        while True:
            with self._state:
                if self._pushed >= goal or self._error is not None:
                    break
                changed = self._waiting.join()
            changed.acquire()
        self._raise_error()

    def end(self) -> None:
        with self._state:
            self._ended = True
            self._wake()
        self._ahead.shutdown()
        for thread in self._threads:
            thread.join(5.0)

    @property
    def depth(self) -> int:
        """How many steps wait to be pushed."""
        return len(self._steps) + len(self._taken)

    # -- threads --------------------------------------------------------------

    def _push(self) -> None:
        try:
            while steps := self._gathered():
                merged = merge_steps(steps, sums=self._merging.sums)
                wants = not self._merging.own_thread
                fresh = self.client.push(merged, len(steps), wants=wants)
                with self._state:
                    self._pushed += len(steps)
                    self._taken = []
                    if wants:
                        self._fresh, self._pulled_at = fresh, self._pushed
                    self._waiting.wake()
        except BaseException as error:
            self._fail(error)

    def _gathered(self) -> list[Mapping[str, Exchanged]]:
        """Waits for the gradients of steps that are pushed as one; none at the link's end."""
        while True:
            with self._state:
                if self._take() or self._ended:
                    break
                filled = self._filled.join()
            filled.acquire()
        left = self._merging.patience
        while left and len(self._taken) < self._merging.most:
            with self._state:
                found, ended = self._take(), self._ended
            if ended and not found:
                break
            if not found:
                left -= 1
                time.sleep(_PAUSE)
        return self._taken

    def _take(self) -> bool:
        """Takes steps for the next push, as many as it may have; whether there were any."""
        room = self._merging.most - len(self._taken)
        found = [self._steps.popleft() for _ in range(min(room, len(self._steps)))]
        self._taken += found
        if found:
            self._emptied.wake()
        return bool(found)

    def _wake(self) -> None:
        for one in (self._waiting, self._filled, self._emptied):
            one.wake()

    def _pull(self) -> None:
        after = self._merging.pulls_after
        try:
            while True:
                with self._state:
                    if self._ended:
                        return
                    pushed = self._pushed
                    early = pushed - self._pulled_at < after
                    changed = self._waiting.join() if early else None
                if changed is not None:
                    changed.acquire()
                    continue
                fresh = self.client.pull()
                with self._state:
                    self._fresh, self._pulled_at = fresh, pushed
        except BaseException as error:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        with self._state:
            if not self._ended:
                self._error = self._error or error
            self._wake()

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error


@dataclass(frozen=True)
class _Announcement:
    """What a step will probably look up in tables: ids, `left` until they are; their rows."""

    left: dict[str, Tensor]
    rows: Future[Mapping[str, KnownRows]]


class _KnownAhead(threading.local):
    """What was announced of the present step of a thread that trains, and of the next one."""

    def __init__(self) -> None:
        self.steps: deque[_Announcement] = deque(maxlen=2)


def merge_steps(steps: Sequence[Mapping[str, Exchanged]], *, sums: bool) -> Mapping[str, Exchanged]:
    """The gradients of several steps as those of one: their sums, or their means."""
    if len(steps) == 1:
        return steps[0]
    merged: dict[str, Any] = {}
    for name in dict.fromkeys(name for step in steps for name in step):
        parts = [step[name] for step in steps if name in step]
        share = 1.0 if sums else 1.0 / len(steps)
        merged[name] = _merged(parts, share)
    return merged


def _merged(parts: Sequence[Exchanged], share: float) -> Exchanged:
    rows = [one for one in parts if isinstance(one, SelectedRows)]
    if len(rows) == len(parts):
        total = SelectedRows.sum(rows)
        return total if share == 1.0 else total.with_value(total.value * share)
    dense = [one.to_dense() if isinstance(one, SelectedRows) else one for one in parts]
    added = torch.stack(dense).sum(0)
    return added if share == 1.0 else added * share
