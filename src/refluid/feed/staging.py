"""The double buffer: the next batches are brought to the device while the model computes."""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from refluid.core import flags
from refluid.core.errors import EOFException
from refluid.core.values import LoDTensor
from refluid.core.whole_threads import begin
from refluid.feed.batches import ReaderBatch
from refluid.feed.closing import when_gone
from refluid.feed.errors import NotStarted
from refluid.feed.portions import ALONE, Turn
from refluid.feed.queue import BlockingQueue
from refluid.feed.reader import QueueReader

_AHEAD = 2


class Staged:
    """Gives the items of `reader`, each prepared ahead of time by a thread of its own.

    prepare: what the thread does to an item. finish: what the consumer does when it takes one.
    turn: the replica that takes the items. Starts anew by itself when the reader does.
    """

    def __init__(
        self,
        reader: QueueReader,
        prepare: Callable[[Any], Any],
        finish: Callable[[Any], Any],
        turn: Turn = ALONE,
    ) -> None:
        # Weak, because the reader's double buffers are kept as long as it lives.
        self._reader = weakref.ref(reader)
        self._prepare = prepare
        self._finish = finish
        self._turn = turn
        self._ready = BlockingQueue(_AHEAD)
        reader.follow(self._ready)
        self._generation = -1
        self._lock = threading.Lock()
        when_gone(self, self._ready.kill)

    def next(self) -> Any:
        """As `Reader.next`."""
        reader = self._reader()
        if reader is None:
            raise NotStarted("the reader of this double buffer no longer exists")
        with self._lock:
            if self._generation != reader.generation:
                self._restart(reader)
        return reader.timed(self._take, reader.queue.size() + self._ready.size())

    def _take(self) -> Any:
        return self._finish(self._ready.pop(repeating=False))

    def _restart(self, reader: QueueReader) -> None:
        self._generation = reader.generation
        take = functools.partial(reader.portions.pop, self._turn, reader.queue.ticket)
        thread = threading.Thread(
            target=_fill,
            args=(take, self._ready, self._ready.reopen(), self._prepare),
            name=f"refluid double buffer {reader.name}",
            daemon=True,
        )
        begin(thread)


def _fill(
    take: Callable[[], Any], ready: BlockingQueue, ticket: int, prepare: Callable[[Any], Any]
) -> None:
    try:
        while ready.push(prepare(take()), ticket):
            pass
    except EOFException:
        ready.close(ticket)
    except Exception as error:
        reason = error
        ready.fail(lambda: reason, ticket)


@dataclass(frozen=True)
class Sent:
    """A batch on its way to a GPU, and the event that marks its arrival."""

    batch: ReaderBatch
    arrived: torch.cuda.Event


class Sender:
    """Copies batches to one GPU on a stream of its own, from pinned memory."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def send(self, batch: ReaderBatch) -> Sent:
        """Starts the copy of a batch that lies in host memory."""
        with torch.cuda.stream(self._stream):
            there = [LoDTensor(self._copy(one.tensor), one.levels) for one in batch]
            arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
            arrived.record(self._stream)
        return Sent(there, arrived)

    def _copy(self, tensor: torch.Tensor) -> torch.Tensor:
        pinned = tensor.is_cuda or tensor.is_pinned()
        if not pinned and flags.value("use_pinned_memory"):
            tensor = tensor.pin_memory()
        return tensor.to(self.device, non_blocking=True)

    def bring(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Copies on the GPU; neither the caller nor the copy waits for what is computed there."""
        sent = self.send([LoDTensor(tensor) for tensor in tensors])
        return [one.tensor for one in self.receive(sent)]

    def receive(self, sent: Sent) -> ReaderBatch:
        """The batch; what the caller's stream does next waits for its arrival."""
        stream = torch.cuda.current_stream(self.device)
        stream.wait_event(sent.arrived)
        for one in sent.batch:
            one.tensor.record_stream(stream)
        return sent.batch


_making = threading.Lock()


def double_buffer(reader: QueueReader, device: torch.device, turn: Turn) -> Staged | None:
    """The batches of a reader on their way to `device`; None for a CPU, to which none need move.

    A reader has one double buffer per device and replica, whoever asks.
    """
    if device.type != "cuda":
        return None
    with _making:
        found: Staged | None = reader.buffers.get((device, turn))
        if found is None:
            sender = Sender(device)
            found = Staged(reader, sender.send, sender.receive, turn)
            reader.buffers[device, turn] = found
        return found


def double_buffers(reader: QueueReader, devices: Sequence[torch.device]) -> QueueReader | Staged:
    """The items of a reader that hold one batch per device; the reader itself for CPUs."""
    if all(device.type != "cuda" for device in devices):
        return reader
    senders = [Sender(one) if one.type == "cuda" else None for one in devices]

    def send(step: list[ReaderBatch]) -> list[Any]:
        return [
            batch if sender is None else sender.send(batch)
            for sender, batch in zip(senders, step, strict=False)
        ]

    def receive(step: list[Any]) -> list[ReaderBatch]:
        return [
            one if sender is None else sender.receive(one)
            for sender, one in zip(senders, step, strict=False)
        ]

    return Staged(reader, send, receive)
