"""What a recorded training run gives on several places, computed with the plain Executor alone.

Every place's part of the batch runs forward and backward by itself; the gradients of all are
averaged; the updates run once, on those. No strategy, replica or exchange is involved.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from refluid import fluid
from refluid.core.selected_rows import SelectedRows
from refluid.core.values import LoDTensor
from refluid.engine.splitting import split_batch
from refluid.ir.attributes import OpRole
from refluid.ir.editor import Editor
from refluid.ir.operator import Operator
from refluid.ir.program import Program
from refluid.verify.recordings import RecordedStep, RecordedValue, Recording

Arrays = dict[str, Any]


def _updates(op: Operator) -> bool:
    return bool(op.role & (OpRole.OPTIMIZE | OpRole.LR_SCHED))


@dataclass
class ByHand:
    """A recording on `places` places. dense: the mean of sparse gradients is a dense one."""

    recording: Recording
    places: int
    dense: bool = False
    executor: Any = field(default_factory=lambda: fluid.Executor(fluid.CPUPlace()))

    def run(self) -> list[dict[str, list[Any]]]:
        """For each step: fetch -> what every place gives."""
        start = {name: tensor(value) for name, value in self.recording.state.items()}
        states = [dict(start) for _ in range(self.places)]
        return [self._step(step, states) for step in self.recording.steps]

    def _step(self, step: RecordedStep, states: list[Arrays]) -> dict[str, list[Any]]:
        program = self.recording.programs[step.program]
        ops = program.global_block().ops
        read, written = _reads(filter(_updates, ops)), _writes(filter(_updates, ops))
        before = _writes(op for op in ops if not _updates(op))
        given = sorted((read & before) - _persistable(program))
        fetched = [name for name in step.fetches if name in before or name not in written]
        feeds = {name: split_batch(name, tensor(v), self.places) for name, v in step.feeds.items()}
        found = []
        for rank, state in enumerate(states):
            feed = {name: parts[rank] for name, parts in feeds.items()}
            values = self._run(_only(program, False), state, feed, [*fetched, *given])
            found.append(values)
            kept = _persistable(program) & before - written
            state |= {name: values[name] for name in kept if name in values}
        if written:
            named = {name: _mean([one[name] for one in found], self.dense) for name in given}
            update = _only(program, True, persistable=given)
            after = self._run(update, states[0] | named, {}, [])
            for state in states:
                state |= {name: after[name] for name in written if name in after}
        return {name: [one[name] for one in found] for name in fetched}

    def _run(self, program: Program, state: Arrays, feed: Arrays, fetch: list[str]) -> Arrays:
        """What is fetched, and every persistable variable afterwards."""
        scope = fluid.Scope()
        for name, value in state.items():
            cell = scope.var(name)
            if isinstance(value, LoDTensor):
                cell.get_tensor().set(np.array(value), fluid.CPUPlace())
                cell.get_tensor().set_recursive_sequence_lengths(value.recursive_sequence_lengths())
            else:
                cell.value = value
        found = self.executor.run(program, feed, fetch, scope=scope, return_numpy=False)
        values = {
            name: cell.value for name in _persistable(program) if (cell := scope.find_var(name))
        }
        held = {name: _kept(value) for name, value in values.items() if value is not None}
        return held | dict(zip(fetch, found, strict=True))


def _kept(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value


def tensor(value: RecordedValue) -> LoDTensor:
    """A recorded value as something to feed."""
    made = LoDTensor()
    made.set(value.array, fluid.CPUPlace())
    made.set_recursive_sequence_lengths(value.lengths)
    return made


def _only(program: Program, updates: bool, persistable: Iterable[str] = ()) -> Program:
    """The program's updates, or all but them; `persistable` variables come from the scope."""
    copy = program.clone()
    block = copy.global_block()
    Editor(block).keep(lambda op: _updates(op) == updates)
    for name in persistable:
        block.vars[name].persistable = True
    return copy


def _reads(ops: Iterable[Operator]) -> set[str]:
    return {name for op in ops for name in op.input_arg_names}


def _writes(ops: Iterable[Operator]) -> set[str]:
    return {name for op in ops for name in op.output_arg_names}


def _persistable(program: Program) -> set[str]:
    return {var.name for var in program.list_vars() if var.persistable}


def _mean(values: list[Any], dense: bool) -> Any:
    """The mean of gradients; of anything else, which no place has to itself, the first."""
    first = values[0]
    if isinstance(first, SelectedRows):
        index = torch.cat([one.index for one in values])
        rows = torch.cat([one.value for one in values]) / len(values)
        mean = SelectedRows(index, first.height(), rows)
        return mean.to_dense() if dense else mean
    tensors = [one.tensor for one in values]
    if not tensors[0].dtype.is_floating_point:
        return tensors[0]
    return torch.stack(tensors).mean(0)
