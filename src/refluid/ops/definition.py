"""What is known of an operator: its slots, its attributes, its bodies, and facts about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from refluid.core.causes import PYTHONS
from refluid.core.errors import EnforceNotMet
from refluid.ir.names import GRAD
from refluid.ir.operator import Operator
from refluid.ir.schema import Attribute, Slot
from refluid.ops.declared_lods import declare_lods
from refluid.ops.effects import OUTSIDE
from refluid.ops.facts import Facts
from refluid.ops.infer import Infer, infer_by_probing, refuse_pythons, say_where
from refluid.ops.nested import Nested
from refluid.ops.signature import Body


@dataclass(frozen=True)
class GradOp:
    """A gradient operator to be appended: type and slots; attributes None mean the forward's."""

    type: str
    inputs: Mapping[str, Sequence[str]]
    outputs: Mapping[str, Sequence[str]]
    attrs: Mapping[str, Any] | None = None


Maker = Callable[[Operator], list[GradOp]]


@dataclass(frozen=True, kw_only=True, eq=False)
class OperatorDef(Facts):
    """An operator type: its schema, what runs it, its gradient, and the facts.

    - `keywords`: attribute -> keyword of the body. `context`: keywords that the plan supplies.
    - `levels`: keyword of the body -> input slot whose LoD it is given (see `signature`).
    - `many`: a body for several operators of the type at once; it writes in place. `many_rows`:
      of those whose gradients are rows, too.
    - `reusing`: input slot -> variant of the body that overwrites it and returns it first.
    - `starting`: variant of the body that gives its outputs and the `Work` that fills them.
    - `of_ranks`: gives a body that is quicker to call for tensors of known ranks, or None.
    - `steady`: prepares calls of `many` for tensors that stay from call to call (`ops/drafts.py`);
      `steady_rows`: those with rows as gradients.
    - `uses`: forward slots that the gradient operator takes besides gradients of outputs.
    - `maker`: gives the gradient operators where they are not one `type_grad`.
    - `nested`: of an operator that runs a block, what it does with it.
    - `forward`: of a gradient operator without body of its own, the operator it derives from.
    """

    type: str
    inputs: tuple[Slot, ...]
    outputs: tuple[Slot, ...]
    attributes: dict[str, Attribute]
    body: Body | None = None
    keywords: Mapping[str, str] = field(default_factory=dict)
    context: frozenset[str] = frozenset()
    levels: Mapping[str, str] = field(default_factory=dict)
    many: Body | None = None
    many_rows: bool = False
    reusing: Mapping[str, Body] = field(default_factory=dict)
    starting: Body | None = None
    of_ranks: Callable[..., Body | None] | None = None
    steady: Callable[..., Callable[[list[Tensor], float], None] | None] | None = None
    steady_rows: Callable[..., Callable[[list[Any], list[Tensor]], bool] | None] | None = None
    uses: tuple[str, ...] | None = None
    maker: Maker | None = None
    forward: OperatorDef | None = None
    infer_rule: Infer = infer_by_probing
    nested: Nested | None = None

    def gradient_slots(self) -> tuple[Slot, ...]:
        """Output slots of the gradient operator."""
        inputs = {slot.name: slot for slot in self.inputs}
        names = tuple(inputs) if self.differentiable is None else self.differentiable
        return tuple(Slot(name + GRAD, inputs[name].many, True) for name in names)

    def is_plain(self, context: Set[str]) -> bool:
        """Whether a call of its body takes tensors and gives tensors, writes to none and has no
        effect outside; of the context it is given no more than this."""
        lods = self.levels or self.makes_lod
        acts = self.mutates or self.effects & OUTSIDE
        return self.body is not None and not (lods or acts) and self.context <= context

    @property
    def inline(self) -> bool:
        """Whether plans write it as Python of their own: control flow, arrays, readers."""
        return self.body is None and self.forward is None

    def lod_source(self, op: Operator, slot: str = "", position: int = 0) -> str | None:
        """The variable whose LoD an output takes: the first of the slot `lod`.

        Of several outputs of as many inputs each takes that of its own.
        """
        source = self.lod if isinstance(self.lod, str) else self.lod(op)
        names = op.input(source) if source else []
        if position and len(names) == len(op.output(slot)):
            return names[position]
        return names[0] if names else None

    def infer(self, op: Operator) -> None:
        """Sets what is declared of the outputs; EnforceNotMet where the inputs have no such."""
        try:
            self.infer_rule(self, op)
        except EnforceNotMet as error:
            say_where(op, error)
            raise
        except PYTHONS as error:
            refuse_pythons(op, error)
            raise
        declare_lods(self, op)

    @property
    def doc(self) -> str:
        """What the operator computes."""
        return (self.body.__doc__ or "").strip() if self.body else ""
