"""On which stage of a pipeline each operator is, by the devices that some of them name.

gpu:0  h = fc(x)             stage 0: h = fc(x), w@GRAD = fc_grad(h@GRAD)
gpu:1  loss = mean(fc(h))    stage 1: loss = mean(fc(h)), h@GRAD = ...
"""

from __future__ import annotations

import re
from collections import defaultdict

from refluid.core.errors import EnforceNotMet
from refluid.ir.attributes import DEVICE, OpRole
from refluid.ir.names import EMPTY, GRAD
from refluid.ir.operator import Operator
from refluid.ir.program import Program

_ON_DEVICE = re.compile(r"gpu:(\d+)")
UPDATING = OpRole.OPTIMIZE | OpRole.LR_SCHED
Names = tuple[str, ...]


def stages_in(program: Program) -> int:
    """How many stages the devices of a program's operators name; EnforceNotMet for none."""
    found = [one for op in program.global_block().ops if (one := _named(op)) is not None]
    if not found:
        raise EnforceNotMet(
            "no operator of the program says on which device of the pipeline it is: build the "
            "layers of stage N within `fluid.device_guard('gpu:N')`, N from 0"
        )
    missing = sorted(set(range(max(found))) - set(found))
    if missing:
        raise EnforceNotMet(f"the pipeline has {max(found) + 1} stages, but none is on {missing}")
    return max(found) + 1


def _named(op: Operator) -> int | None:
    found = _ON_DEVICE.fullmatch(op.attrs.get(DEVICE, ""))
    return int(found[1]) if found else None


class Placing:
    """On which stage of a program each operator of its forward and backward passes is.

    Those that name no device are where what they read is made. EnforceNotMet where data would
    have to go back to a former stage, naming the operator. count: of stages, if devices don't say.
    """

    def __init__(self, program: Program, count: int = 0) -> None:
        block = program.global_block()
        self.count = count or stages_in(program)
        self.made: dict[str, int] = {}
        self.stages: dict[int, int] = {}
        self._block, self._waiting = block, list[Operator]()
        self.read: defaultdict[str, set[int]] = defaultdict(set)
        for op in block.ops:
            if not op.role & UPDATING:
                self._place(op)
        for op in self._waiting:
            self._put(op, self.count - 1)
        self.shared = self._shared()

    def at(self, op: Operator) -> int | None:
        """The stage of an operator; None of an update, and of a sum for several stages' weights."""
        return self.stages.get(id(op))

    def persistable(self, name: str) -> bool:
        """Whether a variable outlasts a step."""
        var = self._block.vars.get(name)
        return var is not None and var.persistable

    def _place(self, op: Operator) -> None:
        stage = _named(op)
        if stage is None and op.role & OpRole.BACKWARD:
            stage = self._of_gradient(op)
            if stage is None:
                return
        elif stage is None:
            sources = [self.made[name] for name in op.input_arg_names if name in self.made]
            if not sources:
                self._waiting.append(op)
                return
            stage = max(sources)
        self._put(op, stage)

    def _put(self, op: Operator, stage: int) -> None:
        for one in [one for one in self._waiting if one is not op]:
            if not set(one.output_arg_names).isdisjoint(op.input_arg_names):
                self._waiting.remove(one)
                self._put(one, stage)
        self.stages[id(op)] = stage
        for name in op.input_arg_names:
            self.read[name].add(stage)
            self._check(op, stage, name)
        for name in op.output_arg_names:
            if name != EMPTY:
                self._check_writing(op, stage, name)
                self.made[name] = stage

    def _of_gradient(self, op: Operator) -> int | None:
        """Where what the gradient is of was made; None where stages share a parameter."""
        sources = {self.made[name] for name in op.input_arg_names if name in self.made}
        for name in op.output_arg_names:
            origin, grad, _ = name.partition(GRAD)
            if grad and len(sources) > 1 and self.persistable(origin):
                return None
            if grad and origin in self.made and not self.persistable(origin):
                return self.made[origin]
        return min(sources, default=self.count - 1)

    def _check(self, op: Operator, stage: int, name: str) -> None:
        source = self.made.get(name)
        if source is None or source == stage or self.persistable(name):
            return
        backward = GRAD in name and bool(op.role & OpRole.BACKWARD)
        if (source < stage) is backward:
            way = "backward" if backward else "forward"
            raise EnforceNotMet(
                f"{op.type} on stage {stage} reads {name!r}, which stage {source} makes: going "
                f"{way}, data can't return to a stage that was left\n{op.made_at}"
            )

    def _check_writing(self, op: Operator, stage: int, name: str) -> None:
        if self.persistable(name):
            return
        others = {self.made.get(name, stage), *self.read[name]} - {stage}
        if others:
            raise EnforceNotMet(
                f"{op.type} on stage {stage} overwrites {name!r}, which stage {min(others)} has "
                f"too: give its result a variable of its own\n{op.made_at}"
            )

    def _shared(self) -> dict[str, Names]:
        """Parameters that several stages read -> the parts of their gradients."""
        parts: dict[str, Names] = {}
        for op in self._block.ops:
            if op.role & OpRole.BACKWARD and not op.role & UPDATING and self.at(op) is None:
                (name,) = op.output_arg_names
                parts[name.partition(GRAD)[0]] = tuple(op.input_arg_names)
        return parts


def owner_of(placing: Placing, parameter: str) -> int:
    """The stage that updates a parameter: the first that reads it."""
    return min(placing.read[parameter], default=0)
