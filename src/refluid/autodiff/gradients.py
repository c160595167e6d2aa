"""gradients: derivatives of any variables by any variables, appended to the program."""

from __future__ import annotations

from typing import Any

from refluid.autodiff.appending import append_drafts
from refluid.autodiff.checks import names_without_gradient, of_a_program
from refluid.autodiff.making import GradientDraft, MakeGradients, bare_op, registered_gradients
from refluid.autodiff.naming import GradientNames
from refluid.autodiff.nested import BackwardPass
from refluid.autodiff.path import backward_path, depending_on
from refluid.core.dtypes import VarType
from refluid.ir.block import Block
from refluid.ir.variable import Variable


def gradients(
    targets: Any,
    inputs: Any,
    target_gradients: Any = None,
    no_grad_set: Any = None,
    *,
    make_gradients: MakeGradients = registered_gradients,
) -> list[Variable | None]:
    """Appends the operators that compute the gradients of `targets` by `inputs`.

    targets, inputs: a Variable or a list of them, all of one program.
    target_gradients: what flows into each target, of the target's shape; None stands for ones.
    no_grad_set: variables (or names) that no gradient leads through.

    Returns for each input the gradient, of the input's shape, summed over the targets; None
    for an input that no target depends on, or that has stop_gradient set.

    Raises TypeError for arguments that are no variables, ValueError where `target_gradients`
    has another length or another shape than `targets`, or where programs differ.
    """
    targets, inputs = _variables("targets", targets), _variables("inputs", inputs)
    given = _target_gradients(targets, target_gradients)
    block = _common_block(targets + inputs)
    run = BackwardPass(make_gradients, names_without_gradient(no_grad_set))
    stopped = run.stopped(block)
    path = backward_path(block, [target.name for target in targets], stopped)
    sources = [var.name for var in inputs if var.name not in stopped]
    path = depending_on(sources, path, stopped)
    names = GradientNames(block)
    seeds: list[GradientDraft] = []
    for target, gradient in zip(targets, given, strict=True):
        seeds += _seed(block, names.of(target.name), target, gradient)
    drafts = run.drafts(path, names, seeds)
    append_drafts(drafts, names)
    written = {name for draft in drafts for name in draft.op.output_arg_names}
    found = [names.known(var.name) for var in inputs]
    return [block.var(name) if name in written and name else None for name in found]


def _seed(block: Block, name: str, target: Variable, given: Variable | None) -> list[GradientDraft]:
    """What flows into a target: the given gradient, or ones of the target's actual shape."""
    if given is not None:
        return [GradientDraft(bare_op(block, "assign", {"X": [given]}, {"Out": [name]}))]
    shape = block.create_var(name=target.name + "_shape", shape=[1], dtype=VarType.INT32)
    shape.stop_gradient = True
    attrs = {"shape": list(target.shape), "value": 1.0, "dtype": int(target.dtype)}
    return [
        GradientDraft(bare_op(block, "shape", {"Input": [target]}, {"Out": [shape]})),
        GradientDraft(
            bare_op(block, "fill_constant", {"ShapeTensor": [shape]}, {"Out": [name]}, attrs)
        ),
    ]


def _variables(argument: str, values: Any) -> list[Variable]:
    found: list[Variable] = list(values) if isinstance(values, list | tuple) else [values]
    for value in found:
        if not isinstance(value, Variable):
            raise TypeError(
                f"The type of '{argument}' in fluid.backward.gradients must be Variable or a "
                f"list of them, but received {type(value).__name__}."
            )
        of_a_program("gradients", value)
    return found


def _target_gradients(targets: list[Variable], values: Any) -> list[Variable | None]:
    if values is None:
        return [None] * len(targets)
    given: list[Any] = list(values) if isinstance(values, list | tuple) else [values]
    if len(given) != len(targets):
        raise ValueError(
            f"Should have the same number of target_gradients as targets, but there are "
            f"{len(given)} for {len(targets)}"
        )
    for target, value in zip(targets, given, strict=True):
        if value is not None:
            _variables("target_gradients", value)
            if value.shape != target.shape:
                raise ValueError(
                    f"The shapes of target and grad are different: {target.name} "
                    f"{target.shape}, {value.name} {value.shape}"
                )
    return given


def _common_block(variables: list[Variable]) -> Block:
    programs = {id(var.block.program) for var in variables}
    if len(programs) > 1:
        raise ValueError("all targets and inputs must be in the same program")
    return variables[0].block
