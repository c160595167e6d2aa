"""The three ways to clip gradients, as operators of the program."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from refluid.build import at_once, op
from refluid.core.dtypes import VarType
from refluid.fluid import layers
from refluid.ir.ambient import name_scope
from refluid.ir.attributes import NAMESCOPE, ROLE_VAR
from refluid.ir.defaults import default_main_program
from refluid.ir.variable import Parameter, Variable

ParamGrad = tuple[Parameter, Variable | None]
NeedClip = Callable[[Parameter], bool]
_SCOPE = "gradient_clip"


@dataclass
class ClippedGroup:
    """Parameters clipped by their common norm."""

    limit: float
    limit_var: Variable
    squares: list[Variable] = field(default_factory=list)
    factor: Variable | None = None


Groups = dict[str, ClippedGroup]


class GradientClipBase:
    """Base of gradient clips: called with (parameter, gradient) pairs, returns clipped ones.

    Clips of users override `_dygraph_clip` for operators that run at once, `_static_clip` for
    programs, or both; each takes and returns the pairs. need_clip: takes a parameter, says whether
    it is clipped; all are by default. Raises TypeError where it can't be called.
    """

    def __init__(self, need_clip: NeedClip | None = None) -> None:
        if need_clip is not None and not callable(need_clip):
            raise TypeError(
                "need_clip should be a function that takes a parameter and returns bool, "
                f"not {type(need_clip).__name__}"
            )
        self._need_clip_func = need_clip

    def __str__(self) -> str:
        raise NotImplementedError

    def __call__(self, params_grads: Sequence[ParamGrad]) -> list[ParamGrad]:
        """Appends the operators that clip, or runs them; returns the pairs, gradients clipped."""
        return (self._dygraph_clip if at_once() else self._static_clip)(params_grads)

    def _clipped(self, params_grads: Sequence[ParamGrad]) -> list[ParamGrad]:
        chosen = [
            (param, grad) for param, grad in params_grads if grad is not None and self.wants(param)
        ]
        with name_scope(_SCOPE):
            new_grads = self.clip_all(chosen)
        point_roles_at_clipped({name: grad.name for name, grad in new_grads.items()})
        return [(param, new_grads.get(param.name, grad)) for param, grad in params_grads]

    _dygraph_clip = _static_clip = _clipped

    def wants(self, param: Parameter) -> bool:
        """Whether this parameter's gradient is clipped."""
        return self._need_clip_func is None or bool(self._need_clip_func(param))

    def clip_all(self, pairs: Sequence[tuple[Parameter, Variable]]) -> dict[str, Variable]:
        """Clips all gradients; the new ones by parameter name."""
        new_grads: dict[str, Variable] = {}
        for param, grad in pairs:
            with _about(param, grad):
                new_grads[param.name] = self.finish({}, grad)
        return new_grads

    def prepare(self, groups: Groups, grad: Variable) -> None:
        """Appends what has to be known of this gradient before any can be clipped."""

    def finish(self, groups: Groups, grad: Variable) -> Variable:
        """Appends the clipping of this gradient and returns the new one."""
        raise NotImplementedError(
            f"{type(self).__name__} must define _dygraph_clip(self, params_grads), or _static_clip "
            "for programs"
        )


class GradientClipByValue(GradientClipBase):
    """Clips every element to [min, max].

    max: upper bound. min: lower bound, `-max` by default. need_clip: as in the base class.
    """

    def __init__(
        self, max: float, min: float | None = None, need_clip: NeedClip | None = None
    ) -> None:
        super().__init__(need_clip)
        if min is None and max <= 0:
            raise ValueError(f"max={max} should be positive where min is not given")
        self.max = float(max)
        self.min = -self.max if min is None else float(min)

    def __str__(self) -> str:
        return f"GradientClipByValue, min={self.min:f}, max={self.max:f}"

    def finish(self, groups: Groups, grad: Variable) -> Variable:
        return _same_kind(layers.clip(x=grad, min=self.min, max=self.max), grad)


class GradientClipByNorm(GradientClipBase):
    """Scales each gradient whose L2 norm exceeds `clip_norm` down to that norm."""

    def __init__(self, clip_norm: float, need_clip: NeedClip | None = None) -> None:
        super().__init__(need_clip)
        self.clip_norm = float(clip_norm)

    def __str__(self) -> str:
        return f"GradientClipByNorm, clip_norm={self.clip_norm:f}"

    def clip_all(self, pairs: Sequence[tuple[Parameter, Variable]]) -> dict[str, Variable]:
        found = super().clip_all([pair for pair in pairs if not pair[0].split_in])
        for param, grad in pairs:
            if param.split_in:
                with _about(param, grad):
                    limit = layers.fill_constant(shape=[1], dtype=grad.dtype, value=self.clip_norm)
                    norm = layers.sqrt(over_members(_sum_of_squares(grad), param.split_in))
                    found[param.name] = _scaled(grad, _factor(limit, norm))
        return found

    def finish(self, groups: Groups, grad: Variable) -> Variable:
        return _same_kind(layers.clip_by_norm(x=grad, max_norm=self.clip_norm), grad)


class GradientClipByGlobalNorm(GradientClipBase):
    """Scales all gradients by `clip_norm / max(global_norm, clip_norm)`.

    global_norm is the L2 norm of all of them together; with `set_gradient_clip`, of those
    with the same `group_name`, which must have the same `clip_norm` (ValueError). Those of split
    parameters count with all their parts. stages: number of the group of processes that have the
    other parameters, 0 where this one has all.
    """

    stages = 0

    def __init__(
        self,
        clip_norm: float,
        group_name: str = "default_group",
        need_clip: NeedClip | None = None,
    ) -> None:
        super().__init__(need_clip)
        if not isinstance(group_name, str):
            raise TypeError(f"group_name should be a str, not {type(group_name).__name__}")
        self.clip_norm = float(clip_norm)
        self.group_name = group_name

    def __str__(self) -> str:
        return f"GradientClipByGlobalNorm, global_norm={self.clip_norm:f}"

    def clip_all(self, pairs: Sequence[tuple[Parameter, Variable]]) -> dict[str, Variable]:
        if not pairs:
            return {}
        squares: dict[int, list[Variable]] = {0: []}
        new_grads: dict[str, Variable] = {}
        for param, grad in pairs:
            if param.counted_elsewhere:
                continue
            with _about(param, grad):
                squares.setdefault(param.split_in, []).append(_sum_of_squares(grad))
        with _about(param, grad):
            whole = _whole(squares) or [layers.fill_constant([1], grad.dtype, 0.0)]
            norm = _norm(whole, self.stages)
            factor = _factor(self._limit(norm.dtype), norm)
        for param, grad in pairs:
            with _about(param, grad):
                new_grads[param.name] = _scaled(grad, factor)
        return new_grads

    def prepare(self, groups: Groups, grad: Variable) -> None:
        group = groups.get(self.group_name)
        if group is None:
            group = ClippedGroup(self.clip_norm, self._limit(grad.dtype))
            groups[self.group_name] = group
        elif group.limit != self.clip_norm:
            raise ValueError(
                "all parameters of a group should have the same clip_norm: group "
                f"{self.group_name!r} has {group.limit} and {self.clip_norm}"
            )
        group.squares.append(_sum_of_squares(grad))

    def finish(self, groups: Groups, grad: Variable) -> Variable:
        group = groups[self.group_name]
        if group.factor is None:
            group.factor = _factor(group.limit_var, _norm(group.squares))
        return _scaled(grad, group.factor)

    def _limit(self, dtype: VarType) -> Variable:
        return layers.fill_constant(shape=[1], dtype=dtype, value=self.clip_norm)


def _about(param: Parameter, grad: Variable) -> AbstractContextManager[None]:
    """What is appended within it updates that parameter; values at hand are in no program."""
    block: Any = param.block
    guard: AbstractContextManager[None] = (
        nullcontext() if block is None else block.program.optimized_guard([param, grad])
    )
    return guard


def _sum_of_squares(grad: Variable) -> Variable:
    if grad.type == VarType.SELECTED_ROWS:
        grad = layers.get_tensor_from_selected_rows(layers.merge_selected_rows(grad))
    return layers.reduce_sum(layers.square(grad))


def _norm(squares: list[Variable], stages: int = 0) -> Variable:
    total = over_all(layers.sums(squares))
    return layers.sqrt(over_members(total, stages) if stages else total)


def _whole(squares: Mapping[int, list[Variable]]) -> list[Variable]:
    """The sums of all parameters, of those that are split over all their parts."""
    return squares[0] + [
        over_members(layers.sums(found), number) for number, found in squares.items() if number
    ]


def over_members(value: Variable, number: int) -> Variable:
    """The sum over the processes of a group."""
    summed: Variable = op("mp_allreduce_sum", {"X": value}, {"ring_id": number})
    return summed


def _factor(limit: Variable, norm: Variable) -> Variable:
    return layers.elementwise_div(x=limit, y=layers.elementwise_max(x=limit, y=norm))


def _scaled(grad: Variable, factor: Variable) -> Variable:
    return _same_kind(layers.elementwise_mul(x=grad, y=factor), grad)


def _same_kind(clipped: Variable, grad: Variable) -> Variable:
    """A sparse gradient stays sparse."""
    clipped.type = grad.type
    return clipped


def point_roles_at_clipped(new_names: Mapping[str, str]) -> None:
    """Operators that clip count as being about the parameter and its clipped gradient.

    new_names: name of a parameter -> that of its clipped gradient.
    """
    for one in default_main_program().global_block().ops:
        about = one.attr(ROLE_VAR)
        if about and about[0] in new_names and _SCOPE in (one.attr(NAMESCOPE) or ""):
            one.set_attr(ROLE_VAR, [about[0], new_names[about[0]]])


# -- parameters that are dealt among processes ---------------------------------

_dealt = False


@contextmanager
def dealt_parameters() -> Iterator[None]:
    """Within the block optimizers append updates of some parameters; other processes have others.

    Those that exchange something are the group by which the program then runs.
    """
    global _dealt
    former, _dealt = _dealt, True
    try:
        yield
    finally:
        _dealt = former


def over_all(value: Variable, reduction: str = "sum") -> Variable:
    """The `sum` or `max` of a value over all processes, where parameters are dealt among them.

    Of truth values `max` is whether one is true.
    """
    if not _dealt:
        return value
    if value.dtype == VarType.BOOL:
        return layers.cast(over_all(layers.cast(value, "int32"), reduction), "bool")
    found: Variable = op(f"c_allreduce_{reduction}", {"X": value}, {"use_calc_stream": True})
    return found
