"""out = mul(x, w)  ->  out = mul(cast(x), cast(w)), computed in a half-precision element type.

Operators of class `fast` compute in half precision, those of class `keep` in float32. `follow`
takes the precision of what it is given, `promote` is half only where all activations are.
Parameters stay float32, so the optimizer works on float32 master weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from refluid.analysis.uses import shared_names, uses_in
from refluid.core import names
from refluid.core.dtypes import VarType, dtype_name
from refluid.ir.attributes import CALLSTACK, ROLE, OpRole
from refluid.ir.block import Block
from refluid.ir.editor import Editor
from refluid.ir.operator import Operator
from refluid.ir.program import Program
from refluid.ir.variable import Variable
from refluid.ops.registry import facts_of, find
from refluid.passes.protocol import Report

Classify = Callable[[str], str]
FAST, KEEP, FOLLOW, PROMOTE = "fast", "keep", "follow", "promote"
HALVES = frozenset({VarType.FP16, VarType.BF16})
_AFTER_FORWARD = OpRole.BACKWARD | OpRole.OPTIMIZE | OpRole.LR_SCHED


def registered_class(op_type: str) -> str:
    """The precision class that the operator's registry entry gives."""
    definition = find(op_type)
    return definition.amp if definition is not None else KEEP


def wants_half(kind: str, inputs: Iterable[Variable]) -> bool:
    """Whether an operator of a class computes in half precision of these inputs.

    inputs: without those that stay float32 beside half activations.
    """
    floats = [var for var in inputs if var.dtype in {VarType.FP32, *HALVES}]
    if kind == FAST:
        return bool(floats)
    given = [var.dtype in HALVES for var in floats if not var.persistable]
    return {FOLLOW: any(given), PROMOTE: bool(given) and all(given)}.get(kind, False)


@dataclass(frozen=True)
class HalfPrecision:
    """What is to be half.

    half: FP16 or BF16. classify: operator type -> precision class. keep_variables: operators that
    read or write one of these compute in float32.
    """

    half: VarType = VarType.FP16
    classify: Classify = registered_class
    keep_variables: frozenset[str] = frozenset()


def mixed_precision(program: Program, precision: HalfPrecision) -> Report:
    """Has the global block of a forward program compute in half precision where it may, in place.

    Operators of the backward pass and updates must not be there yet. Those in sub-blocks, and
    those that write what a sub-block reads, stay as they are.
    """
    _Caster(program.global_block(), precision).rewrite()
    return Report(changed=True)


class _Caster:
    """Walks one block, converting inputs and describing outputs anew."""

    def __init__(self, block: Block, precision: HalfPrecision) -> None:
        self.block = block
        self.precision = precision
        self.full = shared_names(block) | _written_twice(block)
        self.casts: dict[tuple[str, VarType], str] = {}
        self.ops: list[Operator] = []

    def rewrite(self) -> None:
        for op in self.block.ops:
            if not op.role & _AFTER_FORWARD:
                self._convert(op)
            for name in op.output_arg_names:
                for half in (VarType.FP32, *HALVES):
                    self.casts.pop((name, half), None)
            self.ops.append(op)
        Editor(self.block).assign(self.ops)

    def _convert(self, op: Operator) -> None:
        if facts_of(op.type).casts:
            source = self._variable(op.input("X")[0])
            if source is not None and source.dtype in HALVES:
                op.set_attr("in_dtype", int(source.dtype))
            return
        before = dict(op.inputs)
        if self._is_half(op):
            self._cast_inputs(op, VarType.FP32, self.precision.half)
        else:
            self._cast_inputs(op, self.precision.half, VarType.FP32)
        definition = find(op.type)
        if definition is not None and (op.inputs != before or self._reads_half(op)):
            definition.infer(op)

    # -- which precision ------------------------------------------------------

    def _is_half(self, op: Operator) -> bool:
        if self._must_keep(op):
            return False
        return wants_half(self.precision.classify(op.type), self._inputs(op))

    def _must_keep(self, op: Operator) -> bool:
        if op.has_sub_blocks:
            return True
        written = set(op.output_arg_names)
        if self.precision.keep_variables & {*op.input_arg_names, *written} or self.full & written:
            return True
        if any(var.dtype == VarType.FP64 for var in self._inputs(op)):
            return True
        kept = _state(op)
        outputs = (self._variable(name) for name in op.output_arg_names if name not in kept)
        return any(var is not None and var.persistable for var in outputs)

    def _reads_half(self, op: Operator) -> bool:
        return any(var.dtype in HALVES for var in self._inputs(op))

    def _inputs(self, op: Operator) -> list[Variable]:
        found = (
            self._variable(name)
            for slot, arguments in op.inputs.items()
            if slot not in facts_of(op.type).full_precision
            for name in arguments
        )
        return [var for var in found if var is not None and var.type == VarType.LOD_TENSOR]

    def _variable(self, name: str) -> Variable | None:
        return self.block.find_var_recursive(name)

    # -- casts ----------------------------------------------------------------

    def _cast_inputs(self, op: Operator, source: VarType, target: VarType) -> None:
        kept = facts_of(op.type).full_precision
        for slot, arguments in op.inputs.items():
            wanted = VarType.FP32 if slot in kept else target
            op.set_input(slot, [self._cast(op, name, source, wanted) for name in arguments])

    def _cast(self, op: Operator, name: str, source: VarType, target: VarType) -> str:
        var = self._variable(name)
        if var is None or var.type != VarType.LOD_TENSOR or var.dtype != source != target:
            return name
        key = name, target
        if key not in self.casts:
            self.casts[key] = self._append_cast(op, var, target).name
        return self.casts[key]

    def _append_cast(self, user: Operator, var: Variable, target: VarType) -> Variable:
        name = f"{var.name}.cast_{_SHORT[target]}"
        out = self.block.create_var(
            name=names.generate(name) if name in self.block.vars else name,
            dtype=target,
            shape=var.shape if var.has_description() else None,
            lod_level=var.lod_level,
            persistable=False,
            stop_gradient=var.stop_gradient,
        )
        attrs = {
            "in_dtype": int(var.dtype),
            "out_dtype": int(target),
            ROLE: int(OpRole.FORWARD),
            CALLSTACK: list(user.callstack),
        }
        self.ops.append(self.block.make_op("cast", {"X": var}, {"Out": out}, attrs))
        return out


_SHORT = {
    VarType.FP32: "fp32",
    VarType.FP16: "fp16",
    VarType.BF16: "bf16",
}


def _state(op: Operator) -> set[str]:
    """Outputs that are overwritten inputs, as running statistics are."""
    definition = find(op.type)
    if definition is None or not definition.full_precision:
        return set()
    return {name for slot in definition.mutates for name in op.output(slot)}


def _written_twice(block: Block) -> set[str]:
    """Variables that several operators write: their element type must not change midway."""
    return {
        name
        for name, places in uses_in(block).writers.items()
        if sum(name not in _state(block.ops[place]) for place in places) > 1
    }


def describe_half(half: VarType) -> str:
    """The element type's name; ValueError where it is no half-precision type."""
    if half not in HALVES:
        raise ValueError(f"mixed precision computes in float16 or bfloat16, not {half!r}")
    return dtype_name(half)
