"""`Watched`: an operator as reports speak of it: its type, layer and the user's line."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from refluid.core.events import EventKind
from refluid.ir.attributes import NAMESCOPE
from refluid.ir.names import GRAD
from refluid.ir.operator import Operator
from refluid.ops.effects import Effect
from refluid.ops.registry import facts_of

_FRAME = re.compile(r'\s*File "(?P<file>.*)", line (?P<line>\d+)')


@dataclass(frozen=True)
class Watched:
    """Operators that a plan runs as one, and the names of the variables that they assign."""

    ops: tuple[Operator, ...]
    outputs: tuple[str, ...]

    @property
    def name(self) -> str:
        """The operators' type."""
        return self.ops[0].type

    @cached_property
    def kind(self) -> EventKind:
        """Whether it computes, exchanges with other replicas, or reads data."""
        facts = facts_of(self.name)
        if facts.reads:
            return EventKind.READER
        if facts.effects & Effect.COMM:
            return EventKind.COMMUNICATION
        return EventKind.OPERATOR

    @property
    def result(self) -> str:
        """The first variable that it assigns."""
        names = self.outputs or tuple(self.ops[0].output_arg_names)
        return names[0] if names else ""

    @cached_property
    def subject(self) -> str:
        """The variable that it is about: of a gradient operator that of the forward operator, of
        an update the parameter."""
        op = self.ops[0]
        grads = [name for slot, names in op.inputs.items() if GRAD in slot for name in names]
        names = op.input("Param") or grads or [self.result]
        return names[0].split("@")[0]

    @cached_property
    def layer(self) -> str:
        """The layer: `fc_0` for all that makes `fc_0.tmp_1`, its gradients and updates of
        `fc_0.w_0`, after the name scope if there is one."""
        if len(self.ops) > 1:
            return f"{self.name} of {len(self.ops)} variables"
        op, layer = self.ops[0], self.subject.split(".")[0]
        scope = str(op.attr(NAMESCOPE) or "").strip("/")
        return f"{scope}/{layer}" if scope and not op.input("Param") else layer

    @cached_property
    def line(self) -> str:
        """The user's line that made it, as `train.py:12  source text`; empty where unknown.

        Of gradient operators without a line of their own that of the forward operator.
        """
        op = self.ops[0]
        if not op.callstack:
            makers = (one for one in op.block.ops if self.subject in one.output_arg_names)
            op = next(makers, op)
        lines = list(op.callstack)
        for position in range(len(lines) - 1, -1, -1):
            found = _FRAME.match(lines[position])
            if found:
                text = lines[position + 1].strip() if position + 1 < len(lines) else ""
                place = f"{found['file'].rsplit('/', 1)[-1]}:{found['line']}"
                return f"{place}  {text}".strip()
        return ""
