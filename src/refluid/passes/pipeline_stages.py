"""A program whose operators stand on devices -> what stage N of a pipeline runs of it.

gpu:0  h = fc(x)                      stage 0: h = fc(x); pause(h) -> h@GRAD; w@GRAD = fc_grad(..)
gpu:1  loss = mean(fc(h))       ->    stage 1: loss = mean(fc(h)); pause(); .., h@GRAD = fc_grad(..)
       w = sgd(w, w@GRAD)             then each: its own updates

A stage runs its forward and its backward operators once for each micro-batch, the updates
once for all of them. What other stages make comes before the forward operators, or at the pause.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from refluid.core.dtypes import VarType
from refluid.ir.attributes import OpRole
from refluid.ir.editor import Editor
from refluid.ir.names import GRAD
from refluid.ir.operator import Operator
from refluid.ir.program import Program
from refluid.ops.registry import facts_of
from refluid.passes.pipeline_placing import UPDATING, Names, Placing, owner_of

# Names of variables by the number of a stage.
ByStage = Mapping[int, Names]


@dataclass(frozen=True)
class Crossing:
    """What a stage gets from others, and what it gives them."""

    comes: ByStage
    goes: ByStage


@dataclass(frozen=True)
class Stage:
    """What one of `count` stages runs.

    reading: reads a micro-batch, the variables `read`; None where another stage does. passes: runs
    one forward, pauses, and goes backward. update: runs after all micro-batches, on the sums of
    `gradients`. forward, backward: what crosses between stages for each micro-batch. partial:
    gradients of parameters that several stages have, summed by the first of them; weights: those
    parameters, once it has updated them.
    """

    number: int
    count: int
    reading: Program | None
    read: Names
    passes: Program
    update: Program
    forward: Crossing
    backward: Crossing
    partial: Crossing
    weights: Crossing
    gradients: Names

    @cached_property
    def names(self) -> frozenset[str]:
        """The variables of all that this stage runs."""
        programs = (self.passes, self.update, self.reading)
        return frozenset().union(*(variables(one) for one in programs if one is not None))

    @cached_property
    def of_others(self) -> frozenset[str]:
        """What outlasts a step and only other stages have."""
        if self.count == 1:
            return frozenset()
        named = self.passes.global_block().vars.items()
        return frozenset(name for name, var in named if var.persistable) - self.names


def variables(program: Program) -> set[str]:
    """The variables of a program's operators."""
    return program.derived(_named_in)


def _named_in(program: Program) -> set[str]:
    return {name for block in program.blocks_run() for op in block.ops for name in op.arg_names}


def cut(program: Program, number: int, placing: Placing, divided: float) -> Stage:
    """What stage `number` runs. divided: what the gradient of each micro-batch's loss becomes 1/of.

    The program has only this stage's own updates.
    """
    block = program.global_block()
    forward = [op for op in block.ops if not op.role & (UPDATING | OpRole.BACKWARD)]
    backward = [op for op in block.ops if op.role & OpRole.BACKWARD and not op.role & UPDATING]
    reads = [op for op in forward if facts_of(op.type).reads and placing.at(op) == number]
    ahead = _crossing(placing, number, _uses(forward, placing), _uses(backward, placing))
    back = _crossing(placing, number, {}, _uses(backward, placing), gradients=True)
    own = {op for op in block.ops if placing.at(op) == number}
    deferred, weights = _weights(placing, number)
    late = [op for op in block.ops if op.role & UPDATING or _is_shared_sum(op, placing, number)]
    made = {name for op in backward if op in own for name in op.output_arg_names}
    needed = {name for op in _all(program, late) for name in op.input_arg_names}
    given = {name for names in deferred.goes.values() for name in names}
    gradients = tuple(sorted(made & (needed | given)))
    passes = _passes(program, placing, number, _flat(ahead.goes), _flat(back.comes), divided)
    names = (name for op in reads for name in op.output_arg_names)
    read = tuple(one for one in dict.fromkeys(names) if block.var(one).type != VarType.READER)
    reading = _only(program, [op.idx for op in reads]) if reads else None
    update = _only(program, [op.idx for op in late])
    return Stage(
        number,
        placing.count,
        reading,
        read,
        passes,
        update,
        ahead,
        back,
        deferred,
        weights,
        gradients,
    )


def _all(program: Program, ops: Iterable[Operator]) -> Iterable[Operator]:
    """Operators, and those of the blocks that they run."""
    for op in ops:
        yield op
        for block in op.sub_blocks():
            yield from _all(program, block.ops)


def _uses(ops: Iterable[Operator], placing: Placing) -> dict[str, set[int]]:
    """The stages that read each variable."""
    found: defaultdict[str, set[int]] = defaultdict(set)
    for op in ops:
        stage = placing.at(op)
        if stage is not None:
            for one in _all(op.block.program, [op]):
                for name in one.input_arg_names:
                    found[name].add(stage)
    return found


def _crossing(
    placing: Placing,
    number: int,
    forward: Mapping[str, set[int]],
    backward: Mapping[str, set[int]],
    *,
    gradients: bool = False,
) -> Crossing:
    """What crosses to and from a stage: gradients, or what the forward pass makes."""
    comes, goes = defaultdict(list), defaultdict(list)
    for name, source in placing.made.items():
        if placing.persistable(name) or (GRAD in name) is not gradients:
            continue
        readers = forward.get(name, set()) | backward.get(name, set())
        for reader in sorted(readers - {source}):
            if reader == number:
                comes[source].append(name)
            elif source == number:
                goes[reader].append(name)
    return Crossing(_frozen(comes), _frozen(goes))


def _frozen(names: Mapping[int, Sequence[str]]) -> ByStage:
    return {stage: tuple(names[stage]) for stage in sorted(names)}


def _flat(names: ByStage) -> Names:
    return tuple(dict.fromkeys(name for several in names.values() for name in several))


# -- parameters of several stages --------------------------------------------------------------


def _is_shared_sum(op: Operator, placing: Placing, number: int) -> bool:
    if op.role & UPDATING or placing.at(op) is not None or not op.role & OpRole.BACKWARD:
        return False
    return owner_of(placing, op.output_arg_names[0].partition(GRAD)[0]) == number


def _weights(placing: Placing, number: int) -> tuple[Crossing, Crossing]:
    """What crosses of parameters that several stages have: parts of gradients, and new values."""
    parts: tuple[defaultdict[int, list[str]], ...] = defaultdict(list), defaultdict(list)
    values: tuple[defaultdict[int, list[str]], ...] = defaultdict(list), defaultdict(list)
    for parameter, gradients in placing.shared.items():
        owner = owner_of(placing, parameter)
        for other in sorted(placing.read[parameter] - {owner}):
            theirs = [name for name in gradients if placing.made[name] == other]
            if owner == number:
                parts[0][other] += theirs
                values[1][other].append(parameter)
            elif other == number:
                parts[1][owner] += theirs
                values[0][owner].append(parameter)
    return Crossing(*map(_frozen, parts)), Crossing(*map(_frozen, values))


# -- programs -------------------------------------------------------------------------------------


def _only(program: Program, places: Sequence[int]) -> Program:
    """A copy with the operators at these places of block 0."""
    copy, wanted = program.clone(), set(places)
    main = copy.global_block()
    Editor(main).assign([op for place, op in enumerate(main.ops) if place in wanted])
    return copy


def _passes(
    program: Program, placing: Placing, number: int, given: Names, asked: Names, divided: float
) -> Program:
    """The stage's forward operators, a pause at which others give their gradients, its backward."""
    block = program.global_block()
    own = [place for place, op in enumerate(block.ops) if placing.at(op) == number]
    own = [place for place in own if not facts_of(block.ops[place].type).reads]
    turn = sum(not block.ops[place].role & OpRole.BACKWARD for place in own)
    copy = _only(program, own)
    main = copy.global_block()
    for op in main.ops:
        if op.role == OpRole.BACKWARD | OpRole.LOSS and "value" in op.attrs:
            op.set_attr("value", float(op.attr("value")) / divided)
    pause = Operator(main, "pause", {"X": list(given)}, {"Out": list(asked)})
    ops = sorted(main.ops, key=lambda op: bool(op.role & OpRole.BACKWARD))
    Editor(main).assign([*ops[:turn], pause, *ops[turn:]])
    return copy
