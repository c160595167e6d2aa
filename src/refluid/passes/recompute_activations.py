"""y = relu(norm(x)) ; .. ; f_grad(y, ..) -> y = .. ; y2 = relu(norm(x)) ; f_grad(y2, ..)

An activation that the backward pass reads is computed a second time there, by the same kernels
and so to the same bits, where all it is made of is kept anyhow: of a convolution, its
normalisation and the activation only the first is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from refluid.analysis.placeholders import values_read
from refluid.analysis.uses import blocks_in_use, shared_names, uses_of
from refluid.ir.attributes import ROLE, OpRole
from refluid.ir.block import Block
from refluid.ir.editor import Editor
from refluid.ir.operator import Operator
from refluid.ir.program import Program
from refluid.ops.registry import facts_of, find
from refluid.passes.data_parallel import gradient_block
from refluid.passes.protocol import Options, Report

AGAIN = "@AGAIN"
_STATISTICS = ("is_test", "use_global_stats")


def recompute_activations(program: Program, options: Options) -> Report:
    """Has such activations computed again, in place. What is kept (fetched) is left alone.

    Does nothing where the backward pass computes from checkpoints again already.
    """
    if len(blocks_in_use(program)) < len(program.blocks):
        return Report()
    found = _Finder(gradient_block(program), options.kept)
    recipes = found.recipes()
    for recipe in recipes:
        _insert(found.block, recipe)
    return Report(changed=bool(recipes))


@dataclass
class Recipe:
    """The operators that make `name` again, and those that read it afterwards."""

    name: str
    ops: list[Operator]
    readers: list[Operator]


class _Finder:
    """Finds activations of a block that can be made again."""

    def __init__(self, block: Block, kept: frozenset[str]) -> None:
        self.block, self.kept = block, kept
        self.dropped: set[str] = set()
        self.shared = shared_names(block)
        self.values = uses_of(block.ops, values_read)
        first = (place for place, op in enumerate(block.ops) if op.role & OpRole.BACKWARD)
        self.backward = next(first, len(block.ops))

    def recipes(self) -> list[Recipe]:
        """All activations to be made again, none of them from another one."""
        found = []
        for op in self.block.ops[: self.backward]:
            recipe = self._recipe(op) if facts_of(op.type).activation else None
            if recipe is not None:
                self.dropped.add(recipe.name)
                found.append(recipe)
        return found

    def _recipe(self, op: Operator) -> Recipe | None:
        """How to make an activation again after the forward pass; None where it isn't worth it."""
        (name,) = _first_output(op)
        readers = [place for place in self.values.readers.get(name, ()) if place >= self.backward]
        if not readers or not self._local(name):
            return None
        ops = self._chain(op, max(readers))
        if ops is None or any(_recorded(self.block.ops[place]) for place in readers):
            return None
        return Recipe(name, ops, [self.block.ops[place] for place in readers])

    def _local(self, name: str) -> bool:
        """Whether it is made once, in the forward pass, and nobody else sees it."""
        var = self.block.vars.get(name)
        made = self.values.writers.get(name, ())
        return (
            var is not None
            and not var.persistable
            and name not in self.kept
            and name not in self.shared
            and len(made) == 1
            and made[0] < self.backward
        )

    def _chain(self, op: Operator, end: int) -> list[Operator] | None:
        """The operators to run again, from values that are kept until `end` anyhow."""
        if any(op.attrs.get(name) for name in _STATISTICS):
            return None
        before: list[Operator] = []
        slots = facts_of(op.type).recomputable
        for source in (name for slot in slots for name in op.input(slot)):
            var = self.block.find_var_recursive(source)
            if (var is not None and var.persistable) or self._kept_until(source, end):
                continue
            if not self._local(source) or source in self.dropped:
                return None
            maker = self.block.ops[self.values.writers[source][0]]
            made_of = self._chain(maker, end) if _is_between(maker) else None
            if made_of is None:
                return None
            before += made_of
        return [*before, op]

    def _kept_until(self, name: str, end: int) -> bool:
        """Whether a later gradient operator reads it in any case."""
        read = max(self.values.readers.get(name, ()), default=-1)
        return self._local(name) and name not in self.dropped and read >= end


def _first_output(op: Operator) -> list[str]:
    definition = find(op.type)
    return [] if definition is None else op.output(definition.outputs[0].name)


def _is_between(op: Operator) -> bool:
    """Whether it may stand between what is kept and an activation."""
    facts = facts_of(op.type)
    return bool(facts.recomputable) and not facts.activation


def _recorded(op: Operator) -> bool:
    """Whether autograd keeps the forward operator's values for it: there is nothing to save."""
    definition = find(op.type)
    return definition is None or definition.body is None


def _insert(block: Block, recipe: Recipe) -> None:
    """Puts copies of the operators before the first reader; their outputs have new names."""
    names: dict[str, str] = {}
    copies = []
    for op in recipe.ops:
        inputs = {
            slot: [names.get(name, name) for name in given] for slot, given in op.inputs.items()
        }
        outputs = {
            slot: [_again(block, name, names) for name in given]
            for slot, given in op.outputs.items()
        }
        made = block.make_op(op.type, inputs, outputs, {**op.attrs, ROLE: int(OpRole.BACKWARD)})
        made.alias = op.title
        copies.append(made)
    place = _position(block.ops, recipe.readers)
    Editor(block).insert(place, *copies)
    for reader in recipe.readers:
        reader.rename_input(recipe.name, names[recipe.name])


def _again(block: Block, name: str, names: dict[str, str]) -> str:
    """A new variable like that one."""
    var = block.var_recursive(name)
    names[name] = new = name + AGAIN
    block.create_var(name=new, shape=var.shape, dtype=var.dtype, persistable=False)
    return new


def _position(ops: Sequence[Operator], readers: Sequence[Operator]) -> int:
    return min(place for place, op in enumerate(ops) if any(op is one for one in readers))
