"""A function's program with the gradient operators of some of what it takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from refluid.build import Blocks, apply, using
from refluid.fluid.backward import gradients
from refluid.ir.block import Block
from refluid.ir.defaults import program_guard
from refluid.ir.program import Program

_FLOATS = ("FP16", "BF16", "FP32", "FP64")


@dataclass
class Variant:
    """The program for gradients of some of what it takes; it pauses where its results are.

    gives: the gradients' names. feeds, held: positions of what is fed, and names of variables,
    that gradients are wanted of. reached: whether each result depends on any of these. given:
    which gradients come back.
    """

    program: Program
    gives: tuple[str, ...]
    feeds: tuple[int, ...]
    held: tuple[str, ...]
    reached: tuple[bool, ...]
    given: tuple[int | None, ...]


def vary(
    program: Program,
    feeds: Sequence[str],
    fetches: Sequence[str],
    takes: Sequence[str],
    wanted: tuple[tuple[int, ...], tuple[str, ...]],
) -> Variant:
    """The variant for `wanted`: positions of feeds and names of held variables. takes: all held."""
    program = program.clone()
    block = program.global_block()
    names = [*(feeds[n] for n in wanted[0]), *wanted[1]]
    for name in (*feeds, *takes):
        block.var(name).stop_gradient = name not in names
    reached = reachable(block, names)
    flags = tuple(name in reached for name in fetches)
    results = [block.var(name) for name in fetches]
    with program_guard(program, Program()), using(Blocks()):
        given = [
            block.create_var(name=f"{one.name}@GIVEN", dtype=one.dtype, shape=one.shape)
            for one, flag in zip(results, flags, strict=True)
            if flag
        ]
        for one in given:
            one.stop_gradient = True
        apply("pause", {"X": results}, {"Out": given})
        targets = [one for one, flag in zip(results, flags, strict=True) if flag]
        found = gradients(targets, [block.var(name) for name in names], given) if given else []
    made = [one.name for one in found or [None] * len(names) if one is not None]
    places = iter(range(len(made)))
    given_back = tuple(
        None if one is None else next(places) for one in found or [None] * len(names)
    )
    return Variant(program, tuple(made), *wanted, flags, given_back)


def reachable(block: Block, names: Sequence[str]) -> set[str]:
    """The variables that depend on some of these by what has gradients."""
    found = set(names)
    for op in block.ops:
        if found.isdisjoint(op.input_arg_names):
            continue
        for name in op.output_arg_names:
            var = block.find_var_recursive(name)
            if var is not None and not var.stop_gradient and var.dtype.name in _FLOATS:
                found.add(name)
    return found
