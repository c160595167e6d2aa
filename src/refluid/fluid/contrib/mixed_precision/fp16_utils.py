"""The steps of `decorate` as functions: rewriting a program, and adapting the loss scale."""

from __future__ import annotations

from collections.abc import Sequence

from refluid.build import How, op
from refluid.core.dtypes import VarType
from refluid.engine.pipeline import build
from refluid.engine.setting import Setting
from refluid.fluid.contrib.mixed_precision.fp16_lists import AutoMixedPrecisionLists
from refluid.ir.attributes import ROLE_VAR, OpRole
from refluid.ir.block import Block
from refluid.ir.editor import Editor
from refluid.ir.operator import Operator
from refluid.ir.program import Program
from refluid.ir.variable import Parameter, Variable
from refluid.passes.mixed_precision import HalfPrecision

Pairs = Sequence[tuple[Parameter, Variable | None]]


def find_op_index(block_desc: Block, cur_op_desc: Operator) -> int:
    """The position of an operator in its block, -1 where it isn't there."""
    return next((at for at, op in enumerate(block_desc.ops) if op is cur_op_desc), -1)


def find_true_prev_op(ops: Sequence[Operator], cur_op: Operator, var_name: str) -> Operator | None:
    """The last operator before `cur_op` that writes the variable; None where none does.

    Raises ValueError where several do: the program doesn't say which is meant.
    """
    before = ops[: list(ops).index(cur_op)]
    writers = [op for op in before if var_name in op.output_arg_names]
    if len(writers) > 1:
        raise ValueError(f"There must be only one previous op that outputs {var_name} variable")
    return writers[0] if writers else None


def find_true_post_op(ops: Sequence[Operator], cur_op: Operator, var_name: str) -> list[Operator]:
    """The operators after `cur_op` that read the variable."""
    after = ops[list(ops).index(cur_op) + 1 :]
    return [op for op in after if var_name in op.input_arg_names]


def rewrite_program(main_prog: Program, amp_lists: AutoMixedPrecisionLists) -> None:
    """Inserts the casts to float16 into a program that has its forward pass only."""
    rewrite_for(main_prog, amp_lists, VarType.FP16)


def rewrite_for(program: Program, amp_lists: AutoMixedPrecisionLists, half: VarType) -> None:
    """As `rewrite_program`, for float16 or bfloat16."""
    kept = frozenset(amp_lists.black_varnames)
    build(program, Setting(precision=HalfPrecision(half, amp_lists.classify, kept)))


def update_role_var_grad(main_prog: Program, params_grads: Pairs) -> None:
    """Lets replicas exchange half-precision gradients.

    The operator that writes the half gradient, not the cast of it to float32, gets the role of
    making the parameter's gradient; the casts move after the backward pass, where the exchange
    is done. A gradient that is a sum of several stays float32.
    """
    block = main_prog.global_block()
    writers: dict[str, list[Operator]] = {}
    for one in block.ops:
        for name in one.output_arg_names:
            writers.setdefault(name, []).append(one)
    casts: list[Operator] = []
    for param, grad in params_grads:
        made = [] if grad is None else writers.get(grad.name, [])
        if len(made) != 1 or made[0].type != "cast":
            continue
        (half,) = made[0].input("X")
        source = writers.get(half, [])
        if len(source) == 1 and source[0].role & OpRole.BACKWARD:
            source[0].set_attr(ROLE_VAR, [*(source[0].attr(ROLE_VAR) or []), param.name, half])
            made[0].set_attr(ROLE_VAR, [])
            casts.append(made[0])
    _move_after_backward(block, casts)


def _move_after_backward(block: Block, moved: Sequence[Operator]) -> None:
    backward = [at for at, op in enumerate(block.ops) if op.role & OpRole.BACKWARD]
    if moved:
        end = backward[-1] + 1
        before = [op for op in block.ops[:end] if op not in moved]
        Editor(block).assign([*before, *moved, *block.ops[end:]])


def update_loss_scaling(
    is_overall_finite: Variable,
    prev_loss_scaling: Variable,
    num_good_steps: Variable,
    num_bad_steps: Variable,
    incr_every_n_steps: int,
    decr_every_n_nan_or_inf: int,
    incr_ratio: float,
    decr_ratio: float,
) -> None:
    """Appends what adapts the loss scale after a step.

    is_overall_finite: bool, shape (1,), whether all gradients were finite. prev_loss_scaling:
    float32, num_good_steps and num_bad_steps: int32, all persistable of shape (1,), overwritten.
    """
    how: How = {"dtype": VarType.BOOL, "stop_gradient": True, "layer": "update_loss_scaling"}
    found = op("logical_not", {"X": is_overall_finite}, **how)
    append_scale_update(
        [],
        found,
        (prev_loss_scaling, num_good_steps, num_bad_steps),
        (incr_every_n_steps, decr_every_n_nan_or_inf, incr_ratio, decr_ratio),
        adapt=True,
    )


def append_scale_update(
    grads: Sequence[Variable],
    found_infinite: Variable,
    state: tuple[Variable, Variable, Variable],
    how: tuple[int, int, float, float],
    *,
    adapt: bool,
) -> None:
    """Appends `update_loss_scaling`; `adapt` False leaves the scale, gradients are zeroed still."""
    scale, good, bad = state
    names = ("incr_every_n_steps", "decr_every_n_nan_or_inf", "incr_ratio", "decr_ratio")
    inputs = {
        "X": list(grads),
        "FoundInfinite": found_infinite,
        "PrevLossScaling": scale,
        "InGoodSteps": good,
        "InBadSteps": bad,
    }
    attrs = {**dict(zip(names, how, strict=True)), "stop_update": not adapt}
    op("update_loss_scaling", inputs, attrs)
