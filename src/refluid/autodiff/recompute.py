"""A backward pass that keeps only checkpoints: what lies between is computed a second time.

    a = f(x); c = g(a); d = h(c)   ->   .. = h_grad(..)
    checkpoint: c                       a.subprog_0 = f(x); .. = g_grad(a.subprog_0); ..

The forward operators up to the last checkpoint form segments, each of which ends where a
checkpoint is computed. The backward pass of a segment starts with a copy of its operators.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from refluid.analysis.uses import DefUse, uses_of
from refluid.autodiff.accumulation import accumulate
from refluid.autodiff.checks import as_names
from refluid.autodiff.making import GradientDraft
from refluid.autodiff.naming import GradientNames
from refluid.autodiff.nested import BackwardPass
from refluid.core import names as generated
from refluid.core.dtypes import VarType
from refluid.ir.attributes import DEVICE, NAMESCOPE, ROLE, ROLE_VAR, OpRole
from refluid.ir.block import Block
from refluid.ir.editor import Editor
from refluid.ir.operator import Operator
from refluid.ops.effects import Effect
from refluid.ops.registry import facts_of

Renames = Mapping[str, str]


@dataclass(frozen=True)
class Segments:
    """Forward operators split at checkpoints; `tail` is what comes after the last one.

    held: variables that stay from the forward pass, all others of a segment are made again.
    """

    parts: list[list[Operator]]
    tail: list[Operator]
    held: set[str]


def split(path: Sequence[Operator], checkpoints: Sequence[str]) -> Segments:
    """Parts a path. Held are checkpoints, what another segment reads, and what runs only once.

    Raises ValueError for a checkpoint that the path doesn't compute.
    """
    uses = uses_of(path)
    missing = [name for name in checkpoints if name not in uses.writers]
    if missing:
        raise ValueError(
            f"checkpoints {missing} are not computed on the way to the loss; "
            "choose variables that are"
        )
    places = [0, *sorted({uses.writers[name][-1] + 1 for name in checkpoints})]
    parts = [list(path[start:end]) for start, end in pairwise(places)]
    held = set(checkpoints)
    rewritten = _rewritten(path, uses)
    for part, (start, end) in zip(parts, pairwise(places), strict=True):
        own = {name for op in part for name in op.output_arg_names}
        held |= {name for name in own if uses.readers.get(name, (-1,))[-1] >= end}
        private = {name for name in own.difference(checkpoints) if uses.within(name, start, end)}
        lost = rewritten - {name for name in private if uses.made_here(name)}
        held |= _kept(part, lost, rewritten)
    return Segments(parts, list(path[places[-1] :]), held)


def _kept(part: Sequence[Operator], lost: set[str], rewritten: set[str]) -> set[str]:
    """What stays from the forward pass because an operator of the part can't run again."""
    # Blocks name what they read; it stays what they read in the forward pass.
    kept = {name for op in part if op.has_sub_blocks for name in op.input_arg_names}
    while True:
        more = {name for op in part if _once(op, lost) for name in op.output_arg_names} | kept
        # One version of what is kept is left, so no operator on another version can run again.
        if more & rewritten <= lost:
            return more
        lost = lost | (more & rewritten)


def _once(op: Operator, lost: set[str]) -> bool:
    """Whether it can't run again.

    Random results differ, a loop's gradient needs its own steps, and what an operator read or
    wrote may be `lost`, overwritten by another segment.
    """
    facts = facts_of(op.type)
    differs = facts.effects & Effect.RANDOM and not (facts.seeded and op.input(facts.seeded))
    touched = not lost.isdisjoint((*op.input_arg_names, *op.output_arg_names))
    return bool(differs) or touched or op.has_sub_blocks


def _rewritten(path: Sequence[Operator], uses: DefUse[Operator]) -> set[str]:
    """Variables that are overwritten on the path, but for those that outlive the run."""
    found = filter(uses.overwritten, uses.writers)
    return {name for name in found if not path[0].block.var_recursive(name).persistable}


def repeated(
    segment: Sequence[Operator], number: int, held: set[str]
) -> tuple[list[GradientDraft], Renames]:
    """Copies of a segment's operators, and the new names of what they make.

    Persistable variables, as statistics of batch norms, change in the first pass alone: the
    copies write elsewhere.
    """
    block = segment[0].block
    # In the order of the program: all processes that run it make the same variables.
    outputs = dict.fromkeys(name for op in segment for name in op.output_arg_names)
    lasting = [name for name in outputs if block.var_recursive(name).persistable]
    made = outputs.keys() - held - set(lasting)
    renames = {name: f"{name}.subprog_{number}" for name in outputs if name in made}
    elsewhere = renames | {name: f"{name}.subprog_{number}" for name in lasting}
    copies = []
    for op in segment:
        if not made.isdisjoint(op.output_arg_names):
            copy = as_backward(op, op.block)
            rename(copy.inputs, renames)
            rename(copy.outputs, elsewhere)
            copies.append(GradientDraft(copy))
    for name, new in elsewhere.items():
        _declare(block, name, new)
    return copies, renames


def as_backward(op: Operator, block: Block) -> Operator:
    """A copy of an operator as part of the backward pass."""
    attrs = {**op.attrs, ROLE: int(OpRole.BACKWARD)}
    return Operator(block, op.type, op.inputs, op.outputs, attrs, op.attr_types)


def rename(slots: dict[str, list[str]], renames: Renames) -> None:
    """Puts new names into the slots of an operator."""
    for slot, arguments in slots.items():
        slots[slot] = [renames.get(name, name) for name in arguments]


def _declare(block: Block, name: str, new: str) -> None:
    origin = block.var_recursive(name)
    block.create_var(
        name=new,
        type=origin.type,
        shape=origin.shape if origin.has_description() else None,
        dtype=origin.dtype,
        lod_level=origin.lod_level,
        persistable=False,
        stop_gradient=origin.stop_gradient,
    )


def give_seeds(block: Block) -> None:
    """dropout(X) -> dropout(X, seed()), so that a second run drops the same elements."""
    for op in list(block.ops):
        slot = facts_of(op.type).seeded
        if not slot or op.input(slot) or op.attr("fix_seed"):
            continue
        out = block.create_var(
            name=generated.generate(f"{op.output('Out')[0]}.seed"),
            dtype=VarType.INT32,
            shape=[1],
            stop_gradient=True,
        )
        block.insert_op(op.idx, type="seed", outputs={"Out": out}, attrs={"seed": 0})
        seed = block.ops[op.idx - 1]
        for name in (ROLE, ROLE_VAR, DEVICE):
            if name in op.attrs:
                seed.set_attr(name, op.attrs[name])
        op.set_input(slot, [out.name])


def checkpoint_names(checkpoints: Iterable[object]) -> list[str]:
    """Names of checkpoints given as variables or names, each once."""
    return list(dict.fromkeys(as_names("checkpoints", list(checkpoints))))


def recomputed_drafts(
    run: BackwardPass,
    path: Sequence[Operator],
    names: GradientNames,
    seeds: Sequence[GradientDraft],
    checkpoints: Sequence[str],
) -> list[GradientDraft]:
    """The gradient operators of a path, complete, with what has to be computed again for them."""
    segments = split(path, checkpoints)
    live = {name for seed in seeds for name in seed.op.output_arg_names}
    tail = run.without_sums(segments.tail, names, live)
    drafts, copies = [*seeds, *tail], []
    for number, segment in enumerate(reversed(segments.parts)):
        again, renames = repeated(segment, number, segments.held)
        made = run.without_sums(segment, names, live)
        for draft in made:
            rename(draft.op.inputs, renames)
        drafts += again + made
        copies += again
    for draft in drafts[len(seeds) :]:
        _forget_device(draft.op)
    complete = accumulate(drafts, names)
    forward = [op for segment in reversed(segments.parts) for op in segment]
    _leave([draft.op for draft in tail if draft.useful] + forward, copies, names)
    return complete


def _forget_device(op: Operator) -> None:
    """Fluid names no device for such an operator, unless it has all its forward's attributes."""
    if NAMESCOPE not in op.attrs:
        del op.attrs[DEVICE], op.attr_types[DEVICE]


def _leave(
    first: Iterable[Operator], copies: Iterable[GradientDraft], names: GradientNames
) -> None:
    """Adds the two blocks that Fluid's programs have after recomputing and that nothing runs.

    The first holds the gradient operators of the tail and the forward operators of all
    segments, the second what is computed again. With them program files are Fluid's.
    """
    program = names.block.program
    former = program.current_block_idx
    outer = program.create_block(names.block.idx)
    inner = program.create_block(outer.idx)
    program.current_block_idx = former
    Editor(outer).append(*(as_backward(op, outer) for op in first))
    Editor(inner).append(*(as_backward(draft.op, inner) for draft in copies))
