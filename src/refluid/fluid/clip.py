"""Gradient clipping: `grad_clip=` of an optimizer, or `set_gradient_clip` for parameters."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Mapping, Sequence

from refluid.build import at_once
from refluid.core.errors import EnforceNotMet
from refluid.fluid.clipping.errors import BaseErrorClipAttr, ErrorClipByValue, error_clip_callback
from refluid.fluid.clipping.gradients import (
    GradientClipBase,
    GradientClipByGlobalNorm,
    GradientClipByNorm,
    GradientClipByValue,
    Groups,
    ParamGrad,
    point_roles_at_clipped,
)
from refluid.ir.ambient import name_scope
from refluid.ir.attributes import OpRole
from refluid.ir.defaults import default_main_program
from refluid.ir.program import Program
from refluid.ir.variable import Parameter, Variable

__all__ = [
    "BaseErrorClipAttr",
    "ErrorClipByValue",
    "GradientClipBase",
    "GradientClipByGlobalNorm",
    "GradientClipByNorm",
    "GradientClipByValue",
    "append_gradient_clip_ops",
    "error_clip_callback",
    "set_gradient_clip",
]

ClipByValue = GradientClipByValue
ClipByNorm = GradientClipByNorm
ClipByGlobalNorm = GradientClipByGlobalNorm

# Programs written by Fluid spell the second scope this way; passes and tools look for it.
_PREPARE, _CLIP = "gradient_clip_@CLIP", "graident_clip_@CLIP"


def set_gradient_clip(
    clip: GradientClipBase,
    param_list: Sequence[Parameter | str] | None = None,
    program: Program | None = None,
) -> None:
    """Clips the gradients of parameters when an optimizer is applied to them later.

    Passing `grad_clip` to the optimizer is the better way; it goes before this one.

    clip: how. param_list: parameters or their names, all by default. program: the default
    main program unless given. Raises TypeError for anything else. In dygraph nothing is clipped by
    this, as a warning says.
    """
    warnings.warn(
        "set_gradient_clip is not recommended: set grad_clip when the optimizer is made. "
        "It says in one place what is clipped.",
        stacklevel=2,
    )
    if not isinstance(clip, GradientClipBase):
        raise TypeError(
            "'clip' should be an instance of GradientClipBase's derived class, "
            f"not {type(clip).__name__}"
        )
    if at_once():
        warnings.warn(
            "set_gradient_clip is for programs: in dygraph it has no effect, grad_clip has",
            stacklevel=2,
        )
    program = default_main_program() if program is None else program
    if any(op.role == OpRole.OPTIMIZE for op in program.global_block().ops):
        warnings.warn(
            "'minimize' has been called before: this 'set_gradient_clip' is for the next one; "
            "call it before 'minimize'",
            stacklevel=2,
        )
    for param in _parameters(param_list, program):
        param.gradient_clip_attr = copy.deepcopy(clip)


def _parameters(
    param_list: Sequence[Parameter | str] | None, program: Program
) -> Sequence[Parameter]:
    if param_list is None:
        return program.global_block().all_parameters()
    found = []
    for one in param_list:
        param = program.global_block().var(one) if isinstance(one, str) else one
        if not isinstance(param, Parameter):
            raise TypeError(
                "'param_list' should be a list of Parameter or of parameter names, "
                f"but it holds {one!r}"
            )
        found.append(param)
    return found


def append_gradient_clip_ops(param_grads: Sequence[ParamGrad]) -> list[ParamGrad]:
    """Clips by what `set_gradient_clip` (or ParamAttr) said for each parameter.

    Returns the parameters with their new gradients.
    """
    groups: Groups = {}
    new_grads: dict[str, Variable] = {}
    _each_clipped(param_grads, _PREPARE, lambda clip, _param, grad: clip.prepare(groups, grad))

    def finish(clip: GradientClipBase, param: Parameter, grad: Variable) -> None:
        new_grads[param.name] = clip.finish(groups, grad)

    _each_clipped(param_grads, _CLIP, finish)
    point_roles_at_clipped({name: grad.name for name, grad in new_grads.items()})
    return [(param, new_grads.get(param.name, grad)) for param, grad in param_grads]


def _correct_clip_op_role_var(
    params_grads: Sequence[ParamGrad], param_new_grad_name_dict: Mapping[str, str] | None = None
) -> None:
    """For clips of users: operators that clip count as being about the clipped gradients.

    params_grads: the clipped pairs. param_new_grad_name_dict: the same by names, where not all
    were clipped.
    """
    pairs = {param.name: grad.name for param, grad in params_grads if grad is not None}
    point_roles_at_clipped(pairs if param_new_grad_name_dict is None else param_new_grad_name_dict)


def _each_clipped(
    param_grads: Sequence[ParamGrad],
    scope: str,
    action: Callable[[GradientClipBase, Parameter, Variable], None],
) -> None:
    for param, grad in param_grads:
        clip = param.gradient_clip_attr
        if grad is None or clip is None or not clip.wants(param):
            continue
        if param.split_in:
            raise EnforceNotMet(
                f"{param.name} is split among workers: give the optimizer grad_clip, which knows it"
            )
        with param.block.program.optimized_guard([param, grad]), name_scope(scope):
            action(clip, param, grad)
