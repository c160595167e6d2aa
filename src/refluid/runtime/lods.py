"""The LoD of a plan's variables: known by name when the plan is written, a value when it runs."""

from __future__ import annotations

from refluid.analysis.liveness import EMPTY, Key, key_of
from refluid.ir.operator import Operator
from refluid.ir.program import Program
from refluid.ops.registry import OperatorDef, find
from refluid.ops.signature import GRAD

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
        return {
            slot: [self.new() for _ in op.output(slot)] for slot in definition.makes_lod.split()
        }

    def targets(self, definition: OperatorDef, made: dict[str, list[str]]) -> list[str]:
        """What stands left of `=` for the LoD that the body returns."""
        many = {slot.name for slot in definition.outputs if slot.many}
        return [
            (f"[{', '.join(names)}]" if slot in many else names[0]) if names else "_"
            for slot, names in made.items()
        ]

    def passed_on(self, op: Operator, definition: OperatorDef, slot: str) -> str:
        """The LoD of an output: that of the slot `lod`, for a gradient that of its variable."""
        if slot.endswith(GRAD):
            name = next(iter(_variables(op, slot.removesuffix(GRAD))), None)
        else:
            name = definition.lod_source(op)
        return self.of(key_of(op.block, name)) if name else NONE

    def note(self, op: Operator, definition: OperatorDef, made: dict[str, list[str]]) -> list[str]:
        """Notes the LoD of all outputs; lines that assign it to those with a name of their own."""
        lines = []
        for slot in definition.outputs:
            for position, name in enumerate(op.output(slot.name)):
                if name == EMPTY:
                    continue
                own = made.get(slot.name)
                source = own[position] if own else self._source(op, definition, slot.name, position)
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

    def _source(self, op: Operator, definition: OperatorDef, slot: str, position: int) -> str:
        """As `passed_on`; of a gradient slot of many variables each one's own."""
        origins = _variables(op, slot.removesuffix(GRAD)) if slot.endswith(GRAD) else []
        if position < len(origins):
            return self.of(key_of(op.block, origins[position]))
        return self.passed_on(op, definition, slot)


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
