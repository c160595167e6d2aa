"""The LoD of a plan's variables: known by name when the plan is written, a value when it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from refluid.analysis.liveness import EMPTY, Key, key_of
from refluid.ir.operator import Operator
from refluid.ir.program import Program
from refluid.ops.gradient_lods import Origin, origin
from refluid.ops.registry import OperatorDef, find
from refluid.ops.signature import GRAD

if TYPE_CHECKING:
    from refluid.runtime.codegen import Writer

NONE = "()"


def forward_names(op: Operator, slot: str) -> list[str]:
    """Of a gradient operator that doesn't read `slot` itself: the variables of the forward's."""
    return [name.split(GRAD)[0] for name in op.input(slot + GRAD)]


class Lods:
    """Which Python name holds the LoD of each variable; most share that of another one.

    `fixed` variables are written in several places (a loop's body and before it): they have a
    name of their own, which is assigned.
    """

    def __init__(self) -> None:
        self.names: dict[Key, str] = {}
        self.fixed: set[Key] = set()
        self._count = 0

    def new(self) -> str:
        """A name that nothing has yet."""
        self._count += 1
        return f"l{self._count}"

    def of(self, key: Key) -> str:
        """Source of the LoD of a variable."""
        return self.names.get(key, NONE)

    def fix(self, key: Key) -> str:
        """Gives the variable a name of its own; the line that gives it its present value."""
        present, name = self.of(key), self.new()
        self.names[key] = name
        self.fixed.add(key)
        return f"{name} = {present}"

    def arguments(self, op: Operator, definition: OperatorDef) -> list[str]:
        """`lod_X=l3` for each LoD that the body asks for."""
        many = {slot.name for slot in definition.inputs if slot.many}
        parts = []
        for keyword, slot in definition.levels.items():
            names = op.input(slot) or forward_names(op, slot)
            found = [self.of(key_of(op.block, name)) for name in names]
            if slot in many:
                parts.append(f"{keyword}=[{', '.join(found)}]")
            else:
                parts.append(f"{keyword}={found[0] if found else NONE}")
        return parts

    def made(self, op: Operator, definition: OperatorDef) -> dict[str, list[str]]:
        """New names for the LoD that the body returns: output slot -> one per variable."""
        return {slot: [self.new() for _ in op.output(slot)] for slot in definition.makes_lod}

    def targets(self, definition: OperatorDef, made: dict[str, list[str]]) -> list[str]:
        """What stands left of `=` for the LoD that the body returns."""
        many = {slot.name for slot in definition.outputs if slot.many}
        return [
            (f"[{', '.join(names)}]" if slot in many else names[0]) if names else "_"
            for slot, names in made.items()
        ]

    def note(
        self, writer: Writer, op: Operator, definition: OperatorDef, made: dict[str, list[str]]
    ) -> list[str]:
        """Notes the LoD of all outputs; lines that make it, or assign it to a name of its own."""
        lines: list[str] = []
        rule = definition.lod_by(op) if definition.lod_by is not None else None
        given = self._given(op, definition) if rule is not None else []
        for slot in definition.outputs:
            for position, name in enumerate(op.output(slot.name)):
                if name == EMPTY:
                    continue
                if slot.name in made:
                    source = made[slot.name][position]
                elif any(given) and rule is not None and slot is definition.outputs[0]:
                    source, called = self.new(), writer.source.constant(rule.__name__, rule)
                    lods = ", ".join(one or NONE for one in given)
                    lines.append(f"{source} = {called}([{lods}], {writer.local(op.block, name)})")
                else:
                    source = self._source(op, definition, slot.name, position)
                key = key_of(op.block, name)
                if key in self.fixed:
                    if self.names[key] != source:
                        lines.append(f"{self.names[key]} = {source}")
                elif source != NONE:
                    self.names[key] = source
                else:
                    self.names.pop(key, None)
        return lines

    def pass_on(self, source: Key, target: Key) -> list[str]:
        """Gives `target` the LoD of `source`; the line to write where it has a name of its own."""
        if target in self.fixed:
            return [f"{self.names[target]} = {self.of(source)}"]
        if source in self.names:
            self.names[target] = self.names[source]
        return []

    def _given(self, op: Operator, definition: OperatorDef) -> list[str]:
        """The LoDs of all variables of the slot `lod`, empty for those without."""
        slot = definition.lod if isinstance(definition.lod, str) else definition.lod(op)
        return [self.names.get(key_of(op.block, name), "") for name in op.input(slot)]

    def _source(self, op: Operator, definition: OperatorDef, slot: str, position: int) -> str:
        """The LoD of an output: that of the slot `lod`; of a gradient as Fluid has it."""
        name: str | None
        if slot in definition.without_lod:
            return NONE
        if not slot.endswith(GRAD):
            name = definition.lod_source(op)
        elif (found := origin(op.type)) is Origin.NONE:
            return NONE
        else:
            own = _variables(op, slot.removesuffix(GRAD))
            names = _gradients(op) if found is Origin.GIVEN else own[position:] or own
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
