"""The LoD of a plan's variables: known by name when the plan is written, a value when it runs."""

from __future__ import annotations

from refluid.analysis.uses import Key, key_of
from refluid.ir.names import EMPTY, GRAD
from refluid.ir.operator import Operator
from refluid.ir.program import Program
from refluid.ops.registry import OperatorDef, find
from refluid.runtime.source import PlanSource
from refluid.runtime.steps import Bind, Call
from refluid.runtime.trees import IGNORED, Name, Tree
from refluid.runtime.variables import Variables

# The local variable that holds a LoD, or the LoD of a variable without sequences.
LodName = Name | tuple[()]
NONE: LodName = ()


def forward_names(op: Operator, slot: str) -> list[str]:
    """Of a gradient operator that doesn't read `slot` itself: the variables of the forward's."""
    return [name.split(GRAD)[0] for name in op.input(slot + GRAD)]


class Lods:
    """Which local variable holds the LoD of each variable; most share that of another one.

    `fixed` variables are written in several places (a loop's body and before it): they have a
    name of their own, which is assigned. ragged: whether there may be LoDs at all.
    """

    def __init__(self, source: PlanSource, variables: Variables, *, ragged: bool) -> None:
        self._source, self._variables, self.ragged = source, variables, ragged
        self.names: dict[Key, Name] = {}
        self.fixed: set[Key] = set()
        self._count = 0

    def new(self) -> Name:
        """A name that nothing has yet."""
        self._count += 1
        return Name(f"l{self._count}")

    def of(self, key: Key) -> LodName:
        """The LoD of a variable."""
        return self.names.get(key, NONE)

    def set_apart(self, key: Key) -> Name:
        """The name of the LoD that a step gives the variable."""
        if key not in self.fixed:
            self.names[key] = self.new()
        return self.names[key]

    def fix(self, key: Key) -> None:
        """Gives the variable a name of its own, with its present value."""
        if key not in self.fixed:
            present = self.of(key)
            self.fixed.add(key)
            self.names[key] = self.new()
            self._source.add(Bind(self.names[key], present))

    def arguments(self, op: Operator, definition: OperatorDef) -> dict[str, Tree]:
        """`lod_X=l3` for each LoD that the body asks for."""
        many = {slot.name for slot in definition.inputs if slot.many}
        given: dict[str, Tree] = {}
        for keyword, slot in definition.levels.items():
            names = op.input(slot) or forward_names(op, slot)
            found = [self.of(key_of(op.block, name)) for name in names]
            given[keyword] = found if slot in many else (found or [NONE])[0]
        return given

    def made(self, op: Operator, definition: OperatorDef) -> dict[str, list[Name]]:
        """New names for the LoD that the body returns: output slot -> one per variable."""
        return {slot: [self.new() for _ in op.output(slot)] for slot in definition.makes_lod}

    def targets(self, definition: OperatorDef, made: dict[str, list[Name]]) -> list[Tree]:
        """What the body's results are assigned to for the LoD that it returns."""
        many = {slot.name for slot in definition.outputs if slot.many}
        return [
            (names if slot in many else names[0]) if names else IGNORED
            for slot, names in made.items()
        ]

    def note(self, op: Operator, definition: OperatorDef, made: dict[str, list[Name]]) -> None:
        """Notes the LoD of all outputs, makes it, or assigns it to a name of its own."""
        rule = definition.lod_by(op) if definition.lod_by is not None else None
        given = self._given(op, definition) if rule is not None else []
        source: LodName
        for slot in definition.outputs:
            for position, name in enumerate(op.output(slot.name)):
                if name == EMPTY:
                    continue
                key = key_of(op.block, name)
                if slot.name in made:
                    source = made[slot.name][position]
                elif any(given) and rule is not None and slot is definition.outputs[0]:
                    source, called = self.new(), self._source.constant(rule.__name__, rule)
                    known = given, self._variables.named(key)
                    self._source.add(Call(source, called, known, op=op))
                else:
                    source = self._source_of(op, definition, slot.name, position)
                if key in self.fixed:
                    if self.names[key] != source:
                        self._source.add(Bind(self.names[key], source, op=op))
                elif isinstance(source, Name):
                    self.names[key] = source
                else:
                    self.names.pop(key, None)

    def pass_on(self, source: Key, target: Key) -> None:
        """Gives `target` the LoD of `source`."""
        if target in self.fixed:
            self._source.add(Bind(self.names[target], self.of(source)))
        elif source in self.names:
            self.names[target] = self.names[source]

    def _given(self, op: Operator, definition: OperatorDef) -> list[LodName]:
        """The LoDs of all variables of the slot `lod`, empty for those without."""
        slot = definition.lod if isinstance(definition.lod, str) else definition.lod(op)
        return [self.of(key_of(op.block, name)) for name in op.input(slot)]

    def _source_of(
        self, op: Operator, definition: OperatorDef, slot: str, position: int
    ) -> LodName:
        """The LoD of an output: that of the slot `lod`; of a gradient as Fluid has it."""
        name: str | None
        if slot in definition.without_lod:
            return NONE
        if not slot.endswith(GRAD):
            name = definition.lod_source(op, slot, position)
        elif definition.gradient_lod == "none":
            return NONE
        else:
            own = _variables(op, slot.removesuffix(GRAD))
            names = _gradients(op) if definition.gradient_lod == "given" else own[position:] or own
            name = names[0] if names else None
        return self.of(key_of(op.block, name)) if name else NONE


def _gradients(op: Operator) -> list[str]:
    """The gradients that a gradient operator is given."""
    return [name for slot, names in op.inputs.items() if slot.endswith(GRAD) for name in names]


def _variables(op: Operator, slot: str) -> list[str]:
    """The variables of a slot; of one that a gradient operator isn't given, those whose gradients
    it is given or makes."""
    grads = op.input(slot + GRAD) or op.output(slot + GRAD)
    return op.input(slot) or [name.split(GRAD)[0] for name in grads]


def has_lod(program: Program) -> bool:
    """Whether some value may have a LoD even if none is fed with one."""
    makes = any(
        definition.makes_lod
        for block in program.blocks
        for op in block.ops
        if (definition := find(op.type)) is not None
    )
    return makes or any(var.persistable and var.lod_level for var in program.list_vars())
