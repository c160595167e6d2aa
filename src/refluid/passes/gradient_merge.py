"""w@GRAD = mul_grad(...); sgd(w, w@GRAD)  ->  an update every k runs, of the summed gradients.

    w@GRAD = mul_grad(...)
    w@GRAD@SUM += w@GRAD
    if ++steps >= k:
        w@GRAD@MERGED = w@GRAD@SUM / k
        sgd(w, w@GRAD@MERGED)
        w@GRAD@SUM, steps = 0, 0

Whatever isn't part of the forward and backward pass moves into the branch: clipping, decay, loss
scaling, the learning-rate schedule, the exchange between replicas.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from refluid.core import names
from refluid.core.dtypes import VarType
from refluid.ir.attributes import ROLE, ROLE_VAR, OpRole
from refluid.ir.block import Block
from refluid.ir.editor import Editor
from refluid.ir.names import EMPTY, GRAD
from refluid.ir.operator import Operator
from refluid.ir.program import Program, copy_op
from refluid.ir.variable import Variable
from refluid.ops.registry import facts_of
from refluid.passes.protocol import Report

_LATE = OpRole.OPTIMIZE | OpRole.LR_SCHED


@dataclass(frozen=True)
class GradientMerge:
    """every: runs per update, at least 1. average: the mean of the gradients, else their sum.

    startup: the program that is to set the sums to zero.
    """

    every: int
    average: bool = True
    startup: Program = field(default_factory=Program, compare=False)

    def __post_init__(self) -> None:
        if self.every < 1:
            raise ValueError(f"gradients are merged over 1 or more runs, not {self.every}")


@dataclass
class Merged(Report):
    """updates: the operators of the branch."""

    updates: list[Operator] = field(default_factory=list)


def gradient_merge(program: Program, merge: GradientMerge) -> Merged:
    """Has a training program merge its gradients, in place. Nothing to do for one run."""
    if merge.every == 1:
        updates = [op for op in program.global_block().ops if op.role & OpRole.OPTIMIZE]
        return Merged(updates=updates)
    return Merged(changed=True, updates=_Merging(program, merge).rewrite())


class _Merging:
    """Rewrites the global block of one program."""

    def __init__(self, program: Program, merge: GradientMerge) -> None:
        self.program, self.startup, self.merge = program, merge.startup, merge
        self.block = program.global_block()

    def rewrite(self) -> list[Operator]:
        late = _late(self.block.ops)
        moved = [op for op in self.block.ops if op in late]
        Editor(self.block).remove(*moved)
        gradients = self._gradients(moved)
        for op in self.block.ops:
            if op.attrs.get(ROLE_VAR):
                op.set_attr(ROLE_VAR, [])
        sums = {name: self._accumulate(name) for name in gradients}
        steps, reached = self._count()
        inside = self._branch(moved, sums, steps)
        self._append_branch(inside, reached)
        return list(inside.ops)

    def _gradients(self, moved: Sequence[Operator]) -> list[str]:
        """What the backward pass makes and the branch uses."""
        made = {
            name
            for op in self.block.ops
            if op.role & OpRole.BACKWARD
            for name in op.output_arg_names
            if name != EMPTY and not self.block.var_recursive(name).persistable
        }
        used = dict.fromkeys(name for op in moved for name in op.input_arg_names)
        return [name for name in used if name in made]

    # -- every run ------------------------------------------------------------

    def _accumulate(self, name: str) -> Variable:
        gradient = self.block.var_recursive(name)
        shape = gradient.shape
        if not gradient.has_description() or min(shape, default=1) < 0:
            raise ValueError(f"the gradient {name} has no fixed shape {shape}: it can't be merged")
        total = self._persistable(f"{name}@SUM", shape, gradient.dtype)
        self._append(
            self.block,
            "sum",
            {"X": [total, gradient]},
            {"Out": total},
            OpRole.BACKWARD,
        )
        return total

    def _persistable(self, name: str, shape: Sequence[int], dtype: VarType) -> Variable:
        """A variable that the startup program sets to zero."""
        options = {"name": name, "shape": shape, "dtype": dtype, "persistable": True}
        twin = self.startup.global_block().create_var(**options)
        self._fill(self.startup.global_block(), twin, 0.0, OpRole.FORWARD)
        return self.block.create_var(**options, stop_gradient=True)

    def _count(self) -> tuple[Variable, Variable]:
        """The number of runs since the last update, and whether it is time for one."""
        steps = self._persistable(names.generate("gradient_merge_steps"), [1], VarType.INT64)
        every = self._temporary("gradient_merge_every", VarType.INT64)
        reached = self._temporary("gradient_merge_reached", VarType.BOOL)
        self._append(self.block, "increment", {"X": steps}, {"Out": steps}, step=1.0)
        self._fill(self.block, every, float(self.merge.every), OpRole.OPTIMIZE)
        self._append(self.block, "greater_equal", {"X": steps, "Y": every}, {"Out": reached})
        return steps, reached

    def _temporary(self, name: str, dtype: VarType) -> Variable:
        return self.block.create_var(
            name=names.generate(name), shape=[1], dtype=dtype, stop_gradient=True
        )

    # -- every k runs ---------------------------------------------------------

    def _branch(
        self, moved: Sequence[Operator], sums: dict[str, Variable], steps: Variable
    ) -> Block:
        inside = self.program.create_block(self.block.idx)
        self.program.rollback()
        renamed = {name: self._merged(inside, name, total) for name, total in sums.items()}
        dense = set(renamed.values())
        for op in moved:
            copy = copy_op(op, inside)
            _rename(copy, renamed)
            if facts_of(op.type).rows_only and dense.issuperset(copy.input_arg_names):
                self._pass_on(inside, copy)
                dense.update(copy.output_arg_names)
                continue
            for nested in copy.sub_blocks():
                nested.parent_idx = inside.idx
            Editor(inside).append(copy)
        for total in (*sums.values(), steps):
            self._fill(inside, total, 0.0, OpRole.OPTIMIZE)
        return inside

    def _pass_on(self, inside: Block, op: Operator) -> None:
        """Appends what gives the operator's output its dense input as it is."""
        (given,), (made,) = op.input_arg_names, op.output_arg_names
        source, out = inside.var_recursive(given), inside.var_recursive(made)
        out.type = VarType.LOD_TENSOR
        out.describe(shape=source.shape, dtype=source.dtype)
        self._append(inside, "scale", {"X": source}, {"Out": out}, scale=1.0)

    def _merged(self, inside: Block, name: str, total: Variable) -> str:
        """Appends the merged gradient, with the role of a parameter's gradient."""
        out = inside.create_var(name=f"{name}@MERGED", shape=total.shape, dtype=total.dtype)
        factor = 1.0 / self.merge.every if self.merge.average else 1.0
        op = self._append(
            inside, "scale", {"X": total}, {"Out": out}, OpRole.BACKWARD, scale=factor
        )
        parameter = name.split(GRAD)[0]
        if parameter in self.block.vars and self.block.vars[parameter].persistable:
            op.set_attr(ROLE_VAR, [parameter, out.name])
        return out.name

    def _append_branch(self, inside: Block, reached: Variable) -> None:
        read: dict[str, None] = {}
        written: dict[str, None] = {}
        for op in inside.ops:
            read |= dict.fromkeys(one for one in op.input_arg_names if one not in written)
            written |= dict.fromkeys(op.output_arg_names)
        outer = {name for name in self.block.vars if name not in inside.vars}
        self._start([name for name in written if name in outer and name not in read])
        scope = self.block.create_var(
            name=names.generate("_generated_var"), type=VarType.STEP_SCOPES
        )
        self._append(
            self.block,
            "conditional_block",
            {"Cond": [reached], "Input": [name for name in read if name in outer]},
            {"Out": [name for name in written if name in outer], "Scope": [scope]},
            sub_block=inside,
            is_scalar_condition=True,
        )

    def _start(self, names: Sequence[str]) -> None:
        """Zero until the first update for what only updates set, as a scheduled learning rate."""
        start = self.startup.global_block()
        known = {name for op in start.ops for name in op.output_arg_names}
        for name in names:
            var = self.block.vars[name]
            fixed = var.has_description() and min(var.shape, default=1) >= 0
            if var.persistable and name not in known and fixed:
                twin = start.create_var(
                    name=name, shape=var.shape, dtype=var.dtype, persistable=True
                )
                self._fill(start, twin, 0.0, OpRole.FORWARD)

    # -- operators ------------------------------------------------------------

    @staticmethod
    def _append(
        block: Block,
        op_type: str,
        inputs: dict[str, object],
        outputs: dict[str, object],
        role: int = OpRole.OPTIMIZE,
        **attrs: object,
    ) -> Operator:
        attrs |= {ROLE: int(role), ROLE_VAR: []}
        return block.insert_op(
            len(block.ops), type=op_type, inputs=inputs, outputs=outputs, attrs=attrs
        )

    def _fill(self, block: Block, var: Variable, value: float, role: int) -> None:
        attrs = {"shape": list(var.shape), "dtype": int(var.dtype), "value": value}
        self._append(block, "fill_constant", {}, {"Out": var}, role, **attrs)


def _rename(op: Operator, renamed: dict[str, str]) -> None:
    """Renames variables, also in what the operator runs."""
    for name, merged in renamed.items():
        op.rename_input(name, merged)
        op.rename_output(name, merged)
    if op.attrs.get(ROLE_VAR):
        op.set_attr(ROLE_VAR, [renamed.get(one, one) for one in op.attrs[ROLE_VAR]])
    for nested in op.sub_blocks():
        for inner in nested.ops:
            _rename(inner, renamed)


def _late(ops: Sequence[Operator]) -> set[Operator]:
    """Operators that run once per update, but for what the forward and backward pass reads.

    With them whatever serves the update alone: a schedule that was written without marking it.
    """
    late = {op for op in ops if op.role & _LATE or facts_of(op.type).sums_replicas}
    late |= _serving(ops, late)
    needed: set[str] = set()
    for op in reversed(ops):
        if op in late and not needed & set(op.output_arg_names):
            continue
        late.discard(op)
        needed |= set(op.input_arg_names)
    return late


def _serving(ops: Sequence[Operator], late: set[Operator]) -> set[Operator]:
    """Operators of the forward pass of which only those in `late` read results."""
    serving: set[Operator] = set()
    wanted = {name for op in late for name in op.input_arg_names}
    for op in reversed(ops):
        forward = op not in late and op.role & ~OpRole.LOSS == OpRole.FORWARD
        if forward and wanted & set(op.output_arg_names):
            serving.add(op)
            wanted |= set(op.input_arg_names)
    while True:
        others = [op for op in ops if op not in late and op not in serving]
        kept = {name for op in others for name in op.input_arg_names}
        needed = {op for op in serving if kept & set(op.output_arg_names)}
        if not needed:
            return serving
        serving -= needed
