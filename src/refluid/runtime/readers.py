"""Readers in a plan: `create_py_reader`, `create_double_buffer_reader` and `read`.

A reader is a live object that the scope holds in the variable of its name; its queue's variable
holds the `feed.QueueReader` that the user's program made.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from refluid.analysis.uses import key_of
from refluid.comm import LocalGroup
from refluid.comm.world import attendance
from refluid.core.errors import EnforceNotMet
from refluid.core.offsets import Levels
from refluid.core.scope import Cell, global_scope
from refluid.feed.batches import ReaderBatch
from refluid.feed.portions import ALONE, Turn
from refluid.feed.reader import QueueReader
from refluid.feed.specs import Spec, check_batch, parse_specs
from refluid.feed.staging import Staged, double_buffer
from refluid.ir.operator import Operator
from refluid.ops.effects import Effect
from refluid.runtime.steps import Bind, Call, Store
from refluid.runtime.trees import DEVICE, Known, Name, copied, method, value_of
from refluid.runtime.writing import Writing, handles


@dataclass(frozen=True)
class OpenReader:
    """The value of a reader variable: where batches come from, and what they must be like."""

    reader: QueueReader
    specs: tuple[Spec, ...]
    buffer: Staged | None = None

    def read(self, device: torch.device, turn: Turn) -> tuple[list[Tensor], list[Levels]]:
        """The replica's next batch on its device: tensors and their LoD.

        Raises EOFException at the end of a pass, and what `feed.QueueReader.next` raises.
        """
        batch = self._next(turn)
        tensors = [one.tensor for one in batch]
        check_batch(self.reader.name, self.specs, tensors)
        moved = [one if one.device == device else one.to(device) for one in tensors]
        return moved, [one.levels for one in batch]

    def following(self) -> list[Tensor] | None:
        """The tensors of the batch that is ready to be read next, which stays; None without one."""
        queue = self.reader.queue
        batch = queue.peek(queue.ticket) if self.buffer is None else None
        return None if batch is None else [one.tensor for one in batch]

    def _next(self, turn: Turn) -> ReaderBatch:
        """The next batch; the last one again where this trainer is without data."""
        there = attendance()
        if there is not None and there.repeating:
            latest: ReaderBatch = self.reader.latest[turn]
            return latest
        batch: ReaderBatch = self.reader.next(turn) if self.buffer is None else self.buffer.next()
        if there is not None:
            self.reader.latest[turn] = batch
        return batch


_published: dict[str, weakref.ref[QueueReader]] = {}


def publish(name: str, reader: QueueReader) -> None:
    """Puts a reader into the present scope, as the queue of that name.

    Programs run in another scope find it too, unless a later one has the same name.
    """
    global_scope().var(name).value = reader
    for other in [one for one, found in _published.items() if found() is None]:
        del _published[other]
    _published[name] = weakref.ref(reader)


def open_reader(queue: Cell, present: Any, specs: tuple[Spec, ...]) -> OpenReader:
    """The reader of a queue; the present one where it is already open."""
    reader = queue.value
    if reader is None and queue.name in _published:
        reader = _published[queue.name]()
    if not isinstance(reader, QueueReader):
        raise EnforceNotMet(
            f"there is no reader {queue.name!r}: the program reads from a py_reader or DataLoader "
            "that this process did not make; make it, or feed the variables that it would give"
        )
    if isinstance(present, OpenReader) and present.reader is reader and present.specs == specs:
        return present
    return OpenReader(reader, specs)


def buffer_reader(under: OpenReader, device: torch.device, turn: Turn) -> OpenReader:
    """The reader with its double buffer for a device and replica."""
    return OpenReader(under.reader, under.specs, double_buffer(under.reader, device, turn))


def _turn(writer: Writing) -> Known:
    """Which replica of this process the plan is for; other processes have readers of their own."""
    comm = writer.request.comm
    shared = isinstance(getattr(comm, "group", None), LocalGroup)
    return writer.source.constant("turn", Turn(comm.rank, comm.size) if shared else ALONE)


def _place(text: str, own: torch.device) -> torch.device:
    """The device that a double buffer's attribute names: AUTO, CPU, CUDA:1, CUDAPinned, XPU:0."""
    if text == "AUTO":
        return own
    kind = text.upper().partition(":")[0].partition("PLACE")[0]
    if kind == "CPU" or "PINNED" in kind:
        return torch.device("cpu")
    return torch.device(kind.lower(), int("".join(filter(str.isdigit, text)) or 0))


def _keep(writer: Writing, op: Operator, call: Call) -> None:
    """The reader that the call opens becomes the value of the operator's output, in the scope."""
    out = op.output("Out")[0]
    call.target = writer.local(op.block, out)
    writer.source.add(call)
    cell = writer.variables.cell(key_of(op.block, out))
    writer.source.add(Store(cell, call.target, op=op))


@handles("create_py_reader")
def _create_py_reader(writer: Writing, op: Operator) -> None:
    names = ("shape_concat", "ranks", "lod_levels", "dtypes", "need_check_feed")
    specs = writer.source.constant("specs", parse_specs(*(op.attr(name) for name in names)))
    call = writer.source.constant("open_reader", open_reader)
    out, queue = (
        writer.variables.cell(key_of(op.block, name))
        for name in (op.output("Out")[0], op.input("blocking_queue")[0])
    )
    _keep(writer, op, Call(None, call, (queue, value_of(out), specs), op=op))


@handles("create_double_buffer_reader")
def _create_double_buffer_reader(writer: Writing, op: Operator) -> None:
    device = _place(op.attr("place"), writer.request.device)
    place = writer.source.constant("place", device)
    call = writer.source.constant("buffer_reader", buffer_reader)
    under = writer.local(op.block, op.input("UnderlyingReader")[0])
    _keep(writer, op, Call(None, call, (under, place, _turn(writer)), op=op))


@handles("read")
def _read(writer: Writing, op: Operator) -> None:
    """Takes one batch: its tensors become the outputs, their LoD that of the outputs."""
    reader = writer.local(op.block, op.input("Reader")[0])
    outputs = op.output("Out")
    tensors = [writer.local(op.block, name) for name in outputs]
    levels: list[Name] = [writer.lods.set_apart(key_of(op.block, name)) for name in outputs]
    batch = method(reader, "read", DEVICE, _turn(writer))
    writer.source.add(Bind((tensors, levels), batch, op=op, acts=Effect.HOST))
    for name, tensor in zip(outputs, tensors, strict=True):
        key = key_of(op.block, name)
        if key in writer.variables.state:  # a persistable input; the batch's memory comes again
            writer.source.add(Store(writer.variables.cell(key), copied(tensor), op=op))
