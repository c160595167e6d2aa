"""Backward passes that Fluid 1.8.5 appended, taken apart: the forward program and the answer.

A program file keeps neither `stop_gradient` nor which variables are parameters. They are
derived: a variable stops gradients where Fluid computed none of its gradient, and parameters
are those that `op_role_var` names.
"""

from __future__ import annotations

import gzip
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from refluid.ir.attributes import ROLE, ROLE_VAR
from refluid.ir.block import Block
from refluid.ir.editor import Editor
from refluid.ir.operator import Operator
from refluid.ir.program import Program
from refluid.ir.variable import Variable
from tests.golden import GOLDEN

GRAD = "@GRAD"
SEED = 257
BACKWARD = 1


@dataclass
class Recorded:
    """A forward program, the backward passes Fluid appended to it, one after the other."""

    program: Program
    passes: list[list[Operator]]
    gradient_blocks: list[Block] = field(default_factory=list)

    @property
    def block(self) -> Block:
        return self.program.global_block()

    @property
    def recomputed(self) -> bool:
        """Whether forward operators run again in the backward pass."""
        operators = [op for one in self.passes for op in one]
        return any(".subprog_" in name for op in operators for name in op.output_arg_names)

    def target(self, number: int = 0) -> Variable:
        """The loss, or what `gradients` was asked for."""
        first = self.passes[number][0]
        names = first.input("Input") or [first.output("Out")[0].rsplit(GRAD, 1)[0]]
        return self.block.var(names[0])

    def parameters(self, number: int = 0) -> list[str]:
        """Parameters in an order that explains the recorded `op_role_var`."""
        marks = [op.attrs.get(ROLE_VAR, [])[0::2] for op in self.passes[number]]
        return [name for names in marks for name in names][::-1]

    def stopped(self, number: int = 0) -> set[str]:
        """Variables of which Fluid computed no gradient, or filled it with zeros."""
        zeros: set[str] = set()
        known: set[str] = set()
        for op in self.passes[number]:
            (zeros if op.type == "fill_zeros_like" else known).update(op.output_arg_names)
            known.update(name for name in op.input_arg_names if GRAD in name)
        prefix = "grad/" * (number + 1)
        wanted = {name.rsplit(GRAD, 1)[0].removeprefix(prefix) for name in known - zeros}
        return set(self.block.vars) - wanted

    def sources(self) -> list[Variable]:
        """Variables with a gradient that no operator computes."""
        written = {name for op in self.block.ops for name in op.output_arg_names}
        names = sorted(set(self.block.vars) - self.stopped() - written)
        return [self.block.var(name) for name in names]


def read_program(path: Path) -> Program:
    """A program file, gzipped or not, or the program of a recorded run."""
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as arrays:
            return Program.parse_from_string(arrays["program"].tobytes())
    data = path.read_bytes()
    return Program.parse_from_string(gzip.decompress(data) if path.suffix == ".gz" else data)


def zoo_programs() -> list[Path]:
    """The main programs of all recorded models."""
    return sorted((GOLDEN / "zoo").glob("*/main*.pb*"))


def recorded_runs() -> list[Path]:
    """The recorded runs of whole networks and of the gradients of single operators."""
    runs = (GOLDEN / "ops").glob("*/*.npz")
    return sorted(path for path in runs if not path.name.startswith("op."))


def take_apart(program: Program) -> Recorded:
    """Splits a recorded program at the first operator of its backward passes."""
    block = program.global_block()
    seeds = [i for i, op in enumerate(block.ops) if op.attrs.get(ROLE) == SEED]
    starts = seeds or [i for i, op in enumerate(block.ops) if op.attrs.get(ROLE) == BACKWARD][:1]
    ends = [*starts, len(block.ops)][1:]
    passes = [
        [op for op in block.ops[start:end] if op.attrs.get(ROLE) in (BACKWARD, SEED)]
        for start, end in zip(starts, ends, strict=True)
    ]
    if starts:
        Editor(block).assign(block.ops[: starts[0]])
    used = {name for op in block.ops for name in op.output_arg_names + op.input_arg_names}
    Editor(block).forget_variables(n for n in list(block.vars) if GRAD in n and n not in used)
    return Recorded(program, passes, _take_gradient_blocks(program))


def _take_gradient_blocks(program: Program) -> list[Block]:
    """Removes the gradient blocks, and whatever blocks were made after the first of them.

    The variables of the forward blocks stop gradients unless some gradient block has theirs.
    """
    gradient = [one for one in program.blocks if one.forward_block_idx]
    if gradient:
        del program.blocks[gradient[0].idx :]
    for block in gradient:
        known = {
            name.split(GRAD)[0]
            for op in block.ops
            for name in op.input_arg_names + op.output_arg_names
            if GRAD in name
        }
        assert block.forward_block_idx is not None
        if block.forward_block_idx < len(program.blocks):
            for var in program.block(block.forward_block_idx).vars.values():
                var.stop_gradient = var.name not in known
    return gradient
