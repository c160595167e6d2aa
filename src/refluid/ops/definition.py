"""What is known of an operator: its slots, its attributes, its bodies and what plans must know."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from refluid.ir.names import GRAD
from refluid.ir.operator import Operator
from refluid.ir.schema import Attribute, Slot
from refluid.ops.declared_lods import declare_lods
from refluid.ops.effects import Effect
from refluid.ops.infer import Infer, infer_by_probing
from refluid.ops.lod_rules import Choice
from refluid.ops.signature import Body


@dataclass(frozen=True)
class GradOp:
    """A gradient operator to be appended: type and slots; attributes None mean the forward's."""

    type: str
    inputs: Mapping[str, Sequence[str]]
    outputs: Mapping[str, Sequence[str]]
    attrs: Mapping[str, Any] | None = None


Maker = Callable[[Operator], list[GradOp]]


@dataclass
class OperatorDef:
    """An operator type. Flags:

    - `mutates`: output slot -> input slot that the body overwrites and returns.
    - `views`: output slot -> input (or other output) slot whose memory the output may share.
    - `lod`: input slot whose LoD the outputs take, empty for none; or a function of the operator.
    - `lod_by`: gives the rule (`ops/lod_rules.py`) that makes the first output's LoD instead.
    - `without_lod`: output slots (`"Mask"`) that have no LoD.
    - `makes_lod`: output slots (`"Out Mask"`) whose LoD the body returns itself, after all outputs.
    - `levels`: keyword of the body -> input slot whose LoD it is given (see `signature`).
    - `amp`: mixed precision class: `fast`, `keep` (float32), `promote` or `follow`.
    - `filter`: input slot of a convolution's filter, which decides the layout of its output.
    - `follows`: output slot -> input slot whose size is declared where another input's is unknown.
    - `starts_without`: input slots (`"Seed"`) whose persistable variable may have no value yet.
    - `untouched`: output slots that programs name and the body leaves as they are.
    - `effects`: what it does besides giving its outputs (`ops/effects.py`).
    - `reusing`: input slot -> variant of the body that overwrites it and returns it first.
    - `uses`: forward slots that the gradient operator takes besides gradients of outputs.
    - `differentiable`: input slots that have a gradient, in the order in which a `@gradient` body
      returns them; None for all inputs.
    - `forward`: of a gradient operator without body of its own, the operator it derives from.
    """

    type: str
    inputs: tuple[Slot, ...]
    outputs: tuple[Slot, ...]
    attributes: dict[str, Attribute]
    body: Body | None = None
    keywords: dict[str, str] = field(default_factory=dict)
    context: frozenset[str] = frozenset()
    mutates: Mapping[str, str] = field(default_factory=dict)
    views: Mapping[str, str] = field(default_factory=dict)
    lod: str | Callable[[Operator], str] = ""
    lod_by: Choice | None = None
    without_lod: str = ""
    makes_lod: str = ""
    levels: Mapping[str, str] = field(default_factory=dict)
    follows: Mapping[str, str] = field(default_factory=dict)
    starts_without: str = ""
    untouched: frozenset[str] = frozenset()
    amp: str = "follow"
    filter: str = ""
    effects: Effect = Effect.NONE
    uses: tuple[str, ...] | None = None
    differentiable: tuple[str, ...] | None = None
    maker: Maker | None = None
    forward: OperatorDef | None = None
    many: Body | None = None
    reusing: dict[str, Body] = field(default_factory=dict)
    infer_rule: Infer = infer_by_probing
    reference: Callable[..., Any] | None = None
    samples: Sequence[Any] = ()

    def gradient_slots(self) -> tuple[Slot, ...]:
        """Output slots of the gradient operator."""
        inputs = {slot.name: slot for slot in self.inputs}
        names = tuple(inputs) if self.differentiable is None else self.differentiable
        return tuple(Slot(name + GRAD, inputs[name].many, True) for name in names)

    @property
    def inline(self) -> bool:
        """Whether plans write it as Python of their own: control flow, arrays, readers."""
        return self.body is None and self.forward is None

    def lod_source(self, op: Operator) -> str | None:
        """The variable whose LoD the outputs take."""
        slot = self.lod if isinstance(self.lod, str) else self.lod(op)
        names = op.input(slot) if slot else []
        return names[0] if names else None

    def infer(self, op: Operator) -> None:
        self.infer_rule(self, op)
        declare_lods(self, op)

    @property
    def doc(self) -> str:
        """What the operator computes."""
        return (self.body.__doc__ or "").strip() if self.body else ""
