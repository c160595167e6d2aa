"""append_backward: the gradient of a scalar loss, appended to the loss's program."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from refluid.autodiff.appending import append_drafts
from refluid.autodiff.checks import (
    check_loss,
    checked_callbacks,
    names_without_gradient,
    require_trainable,
    wanted_parameters,
)
from refluid.autodiff.making import GradientDraft, MakeGradients, registered_gradients
from refluid.autodiff.naming import GradientNames, count_passes
from refluid.autodiff.nested import BackwardPass
from refluid.autodiff.path import backward_path
from refluid.autodiff.recompute import checkpoint_names, give_seeds, recomputed_drafts
from refluid.ir.attributes import DEVICE, ROLE, ROLE_VAR, AttrType, OpRole, convert
from refluid.ir.block import Block
from refluid.ir.operator import Operator
from refluid.ir.variable import Variable

ParamGrad = tuple[Variable, Variable]


def append_backward(
    loss: Variable,
    parameter_list: Any = None,
    no_grad_set: Any = None,
    callbacks: Any = None,
    checkpoints: Any = None,
    *,
    make_gradients: MakeGradients = registered_gradients,
) -> list[ParamGrad]:
    """Appends the operators that compute the gradient of `loss` to its program.

    loss: Variable; of several elements the gradients are those of their sum.
    parameter_list: parameters (or names) whose gradients are returned and marked in
        `op_role_var`; all trainable ones by default.
    no_grad_set: variables (or names) that get no gradient, besides those with stop_gradient.
    callbacks: functions called after each appended operator, see `append_drafts`.
    checkpoints: variables (or names) that are kept for the backward pass; what lies between
        them is computed again, which saves memory.
    make_gradients: says which operators compute the gradient of one operator.

    Returns (parameter, gradient) pairs in the order of `parameter_list`, or in the order in
    which the parameters were made. Parameters that the loss doesn't depend on are left out.

    Raises TypeError for arguments of other types, ValueError where no variable on the way to the
    loss wants a gradient, OperatorNotImplemented where an operator on it has no gradient here.
    """
    check_loss(loss)
    block, program = loss.block, loss.block.program
    kept = checkpoint_names(checkpoints or ())
    if kept:
        give_seeds(block)
    asked = names_without_gradient(no_grad_set), checked_callbacks(callbacks)
    run = BackwardPass(make_gradients, *asked)
    stopped = run.stopped(block)
    parameters = wanted_parameters(program, parameter_list)
    path = backward_path(block, [loss.name], stopped)
    producer = _producer(block.ops, loss.name)
    names = GradientNames(block, count_passes(block))
    seed = _seed(block, names.of(loss.name, seed=True), loss, producer)
    if kept:
        drafts = recomputed_drafts(run, path, names, [seed], kept)
    else:
        drafts = run.drafts(path, names, [seed])
    if len(drafts) == 1:
        require_trainable(loss, parameters)
    if producer is not None:
        producer.set_attr(ROLE, producer.role | OpRole.LOSS)
    pairs = _mark_parameters(parameters, drafts, names)
    append_drafts(drafts, names, run.callbacks)
    return [(parameter, block.var(name)) for parameter, name in pairs]


def _seed(block: Block, name: str, loss: Variable, producer: Operator | None) -> GradientDraft:
    """d loss / d loss = 1, for each element of a loss that isn't one number."""
    device = "" if producer is None else producer.attrs.get(DEVICE, "")
    attrs = {"value": 1.0, "dtype": int(loss.dtype), DEVICE: device}
    attrs[ROLE] = OpRole.BACKWARD | OpRole.LOSS
    out = {"Out": [name]}
    if loss.has_description() and loss.shape != (1,):
        return GradientDraft(Operator(block, "fill_any_like", {"X": [loss.name]}, out, attrs))
    attrs |= {"shape": [1], "force_cpu": False}
    types = {"shape": AttrType.LONGS}
    return GradientDraft(Operator(block, "fill_constant", {}, out, attrs, types))


def _producer(ops: Iterable[Operator], name: str) -> Operator | None:
    """The last operator that writes a variable."""
    return next((op for op in reversed(list(ops)) if name in op.output_arg_names), None)


def _mark_parameters(
    parameters: Iterable[Variable], drafts: list[GradientDraft], names: GradientNames
) -> list[tuple[Variable, str]]:
    """Tells operators which parameters' gradients they finish: `op_role_var`, last one first."""
    writers = {name: draft.op for draft in drafts for name in draft.op.output_arg_names}
    pairs: list[tuple[Variable, str]] = []
    for parameter in parameters:
        name = names.known(parameter.name)
        if name is None or name not in writers:
            continue
        op = writers[name]
        marks = [parameter.name, name, *op.attrs.get(ROLE_VAR, [])]
        op.attrs[ROLE_VAR] = convert(marks, AttrType.STRINGS)
        op.attr_types[ROLE_VAR] = AttrType.STRINGS
        pairs.append((parameter, name))
    return pairs
