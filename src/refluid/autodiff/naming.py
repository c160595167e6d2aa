"""Names of gradient variables, and which variable each of them belongs to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from refluid.core import names
from refluid.ir.attributes import OpRole
from refluid.ir.block import Block
from refluid.ir.names import GRAD, without_part
from refluid.ir.variable import Variable


class GradientNames:
    """Hands out one gradient name per variable of `block`, for one backward pass.

    That is `x@GRAD`, with `grad/` in front as often as backward passes for a loss were
    appended, from the second on; a name that is taken already gets a number. `variables` maps
    the names handed out back to the variables.

    The gradient operators go to the block `target`: `block` itself, or for a sub-block its
    gradient block, where names are always the plain ones.
    """

    def __init__(self, block: Block, passes: int = 0, target: Block | None = None) -> None:
        self.block, self.target = block, target or block
        self._taken = set(self.block.vars) if target is None else set()
        self._prefix = "grad/" * (passes + 1) if passes else ""
        self._names: dict[str, str] = {}
        self.variables: dict[str, str] = {}

    def of(self, variable: str, *, seed: bool = False) -> str:
        """Name of the gradient of `variable`; that of a loss (`seed`) is never prefixed."""
        if variable not in self._names:
            name = ("" if seed else self._prefix) + variable + GRAD
            name = names.generate(name) if name in self._taken else name
            self._names[variable] = name
            self.variables[name] = variable
        return self._names[variable]

    def known(self, variable: str) -> str | None:
        """The gradient name handed out for `variable`, if any."""
        return self._names.get(variable)

    def variable(self, name: str) -> str:
        """The variable that `name`, perhaps one part of a sum, is the gradient of."""
        return self.variables[without_part(name)]

    def forward(self, name: str) -> Variable | None:
        """What `name` is the gradient of; None where it isn't one of these gradients."""
        variable = self.variables.get(without_part(name))
        return None if variable is None else self.block.var_recursive(variable)


def count_passes(block: Block) -> int:
    """How many backward passes for a loss the block has already."""
    return sum(op.role == OpRole.BACKWARD | OpRole.LOSS for op in block.ops)


def names_in(slots: Mapping[str, Sequence[str]]) -> list[str]:
    """All names of all slots, slots in alphabetical order as program files have them."""
    return [name for slot in sorted(slots) for name in slots[slot]]
