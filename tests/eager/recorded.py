"""A recorded program run at once: its operators one by one, or its forward part and autograd."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch

from refluid.build.backend import MISSED
from refluid.core.lod import lengths_to_offsets
from refluid.core.places import CPUPlace
from refluid.eager import Eager, VarBase
from refluid.ir.attributes import OpRole
from refluid.ir.names import EMPTY, GRAD
from refluid.ir.operator import Operator
from refluid.ir.program import Program
from refluid.ops.registry import defined
from refluid.verify.recordings import RecordedValue, Recording
from tests.golden import GOLDEN

CASES = sorted((GOLDEN / "ops").glob("*/*.npz"))
_PLAN = {"feed", "fetch"}


class AtOnce:
    """The variables of a program, which its operators fill one by one.

    direct: each is called a second time, without a plan where that can be.
    """

    def __init__(self, recording: Recording, *, direct: bool = False) -> None:
        self.direct = direct
        (self.step,) = recording.steps
        self.program: Program = recording.programs[self.step.program]
        self.block = self.program.global_block()
        self.backend = Eager(CPUPlace())
        self.vars: dict[str, VarBase] = {}
        for given in (recording.state, self.step.feeds):
            for name, value in given.items():
                self.vars[name] = variable(name, value)

    @property
    def ops(self) -> list[Operator]:
        return [op for op in self.block.ops if op.type not in _PLAN]

    def run(self, op: Operator) -> None:
        given, made = (
            {
                slot: [*self._of(names)]
                for slot, names in slots.items()
                if names and EMPTY not in names
            }
            for slots in (op.inputs, op.outputs)
        )
        attrs = {name: value for name, value in op.attrs.items() if not name.startswith("op_")}
        makes: dict[str, Any] = {slot: [None] * len(one) for slot, one in made.items()}
        call = self.backend.direct
        found = call(op.type, given, attrs, makes, {}) if self.direct else MISSED
        if found is MISSED:
            self.backend.run(op.type, given, made, attrs)
            overwritten = set(op.input_arg_names) & set(op.output_arg_names)
            if self.direct and not overwritten and not defined(op.type).mutates:
                found = call(op.type, given, attrs, makes, {})
        if found is MISSED:
            return
        for variables, values in zip(made.values(), found, strict=True):
            for var, value in zip(variables, values, strict=True):
                self.vars[var.name] = value
                value.name = var.name

    def _of(self, names: list[str]) -> Iterator[VarBase]:
        for name in names:
            if name not in self.vars:
                self.vars[name] = VarBase(name=name)
            yield self.vars[name]

    def value(self, name: str) -> np.ndarray:
        return self.vars[name].numpy()


def variable(name: str, value: RecordedValue) -> VarBase:
    made = VarBase(torch.from_numpy(np.array(value.array)), name, stop_gradient=True)
    made.lod = lengths_to_offsets(value.lengths)
    return made


def plain(recording: Recording) -> bool:
    """Whether all its operators take and give tensors, in one block."""
    if recording.parallel is not None or recording.random or len(recording.steps) != 1:
        return False
    (program,) = recording.programs.values()
    kinds = {str(var.type) for var in program.global_block().vars.values()}
    return len(program.blocks) == 1 and kinds <= {
        "VarType.LOD_TENSOR",
        "VarType.FEED_MINIBATCH",
        "VarType.FETCH_LIST",
    }


def loss_of(ops: list[Operator]) -> tuple[int, str] | None:
    """Where the backward part begins, and the name of the loss."""
    for position, op in enumerate(ops):
        outs = op.output_arg_names
        if op.type == "fill_constant" and op.role & OpRole.BACKWARD and outs[0].endswith(GRAD):
            return position, outs[0].removesuffix(GRAD)
    return None


def expected(recording: Recording) -> Mapping[str, RecordedValue]:
    (step,) = recording.steps
    return {
        name: step.expected[str(n)]
        for n, name in enumerate(step.fetches)
        if str(n) in step.expected
    }
