"""`fluid.dygraph.base`: where operators run at once, variables with values, and gradients."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ContextDecorator, ExitStack, contextmanager
from typing import Any

import numpy as np
import torch

from refluid import eager
from refluid.core import names
from refluid.core.arrays import as_array
from refluid.core.errors import EnforceNotMet, NothingReached, explain_freed
from refluid.core.places import (
    CPUPlace,
    CUDAPlace,
    Place,
    is_compiled_with_cuda,
    require_available,
)
from refluid.core.values import LoDTensor
from refluid.eager import VarBase
from refluid.eager.handed import handed
from refluid.eager.live import live
from refluid.ir.complex_variable import ComplexVariable
from refluid.ir.defaults import program_guard
from refluid.ir.program import Program
from refluid.kernels.settings import WithoutGradients, without_gradients

__all__ = [
    "disable_dygraph",
    "disable_imperative",
    "enable_dygraph",
    "enable_imperative",
    "enabled",
    "grad",
    "guard",
    "no_grad",
    "to_variable",
]

_VARIABLES = (VarBase, ComplexVariable)
_in_force: list[guard] = []  # what they changed would be changed back as the last of them is freed


class guard(ContextDecorator):
    """Operators run at once within the `with`, on `place`; names start anew.

    `guard(place).__enter__()` alone stays in force though nobody keeps the guard. Entering
    raises EnforceNotMet where this machine lacks `place`, TypeError where it is no place.
    """

    def __init__(self, place: Place | None = None) -> None:
        self._place = place
        self._entered: list[ExitStack] = []

    def __enter__(self) -> None:
        stack = ExitStack()
        with stack:
            stack.enter_context(program_guard(Program(), Program()))
            stack.enter_context(names.guard())
            stack.enter_context(eager.eager(_place(self._place)))
            self._entered.append(stack.pop_all())
        _in_force.append(self)

    def __exit__(self, *error: Any) -> bool | None:
        _in_force.remove(self)
        return self._entered.pop().__exit__(*error)


def enable_dygraph(place: Place | None = None) -> None:
    """Operators run at once from here on."""
    eager.enter(_place(place))


def disable_dygraph() -> None:
    """Operators are appended to programs again."""
    eager.leave()


enable_imperative, disable_imperative = enable_dygraph, disable_dygraph


def enabled() -> bool:
    """Whether operators run at once."""
    return eager.current() is not None


def to_variable(value: Any, name: str | None = None, zero_copy: bool | None = None) -> Any:
    """A variable that holds an array, or a LoDTensor's with its LoD. No gradient reaches it.

    A variable stays as it is, complex numbers become a `ComplexVariable`. name: one of its own by
    default. zero_copy: shares the array's memory where it can, as on a CPU. Else a TypeError.
    """
    now = _current("to_variable")
    if isinstance(value, _VARIABLES):
        return value
    if isinstance(value, np.ndarray) and value.dtype.kind == "c":
        parts = [to_variable(np.ascontiguousarray(one)) for one in (value.real, value.imag)]
        made = ComplexVariable(*parts)
        if name is not None:
            made.name = name
        return made
    if isinstance(value, LoDTensor):
        given = VarBase(value.tensor.detach(), name, stop_gradient=True)
        given.lod = value.lod()
        return given
    if not isinstance(value, np.ndarray):
        raise TypeError(
            "The type of 'value' in fluid.dygraph.to_variable must be numpy.ndarray or Variable, "
            f"but received {type(value)}."
        )
    array = value if value.__class__ is np.ndarray else as_array(value, "to_variable")
    tensor = torch.from_numpy(array if zero_copy in (None, True) else array.copy())
    found = VarBase._plain(tensor if now.on_cpu else tensor.to(now.device), stops=True)
    if name is not None:
        found.name = name
    return found


def _place(place: Place | None) -> Place:
    if place is not None:
        require_available(place)
        return place
    return CUDAPlace(0) if is_compiled_with_cuda() else CPUPlace()


def _current(what: str) -> eager.Eager:
    now = eager.current()
    if now is None:
        raise AssertionError(
            f"fluid.dygraph.{what} runs operators at once; call it within fluid.dygraph.guard() or "
            "after fluid.enable_dygraph()"
        )
    return now


@contextmanager
def _switch_tracer_mode_guard_(is_train: bool = True) -> Iterator[None]:
    """What is computed within takes gradients, or doesn't."""
    with torch.set_grad_enabled(is_train):
        yield


class no_grad(WithoutGradients):
    """Nothing computed within takes a gradient. A `with`, a decorator, or `no_grad()` as one."""

    def __new__(cls, func: Callable[..., Any] | None = None) -> Any:
        """The decorated function, or the context."""
        made = super().__new__(cls)
        return made if func is None else made(func)

    def __init__(self, func: Callable[..., Any] | None = None) -> None:
        super().__init__()

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        """`func` without gradients."""

        @functools.wraps(func)
        def run(*args: Any, **kwargs: Any) -> Any:
            return without_gradients(func, *args, **kwargs)

        return run


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool = False,
    no_grad_vars: Any = None,
    backward_strategy: Any = None,
) -> list[VarBase | None]:
    """The gradients of the sum of `outputs` with respect to each of `inputs`.

    grad_outputs: what each output's gradient starts with; ones for None. create_graph: gradients
    reach the results too. allow_unused: None for an input that no output depends on, which is
    NothingReached otherwise. no_grad_vars: variables that count as constants. Raises GraphFreed
    where gradients of these outputs were computed before without retain_graph, AssertionError for
    what is no variable.
    """
    if not only_inputs:
        raise AssertionError("fluid.dygraph.grad gives the gradients of its inputs alone")
    targets, sources = _variables("outputs", outputs), _variables("inputs", inputs)
    given = _starts(targets, grad_outputs)
    fixed = {id(one): one for one in _variables("no_grad_vars", no_grad_vars)}
    wanted = [one.tensor for one in sources if id(one) not in fixed]
    for one in sources:
        if not one.tensor.requires_grad:
            raise EnforceNotMet(
                f"grad: {one.name!r} has stop_gradient set, so nothing reaches it; set it to False "
                "before the outputs are computed"
            )
    with live.dense(), handed.collected() as directly, _constant(fixed.values()):
        gradients = _derived(
            [one.tensor for one in targets],
            [*wanted, *handed.leads_to(wanted)],
            given,
            create_graph if retain_graph is None else retain_graph,
            create_graph,
        )
    found = _sums(gradients, [directly.get(id(one)) for one in wanted])
    reached = dict(zip([id(one) for one in sources if id(one) not in fixed], found, strict=True))
    made = [_made(one, reached.get(id(one)), create_graph) for one in sources]
    for one, result in zip(sources, made, strict=True):
        if result is None and not allow_unused:
            raise NothingReached(_unreached(one, targets))
    return made


def _starts(targets: list[VarBase], given: Any) -> list[torch.Tensor]:
    """What the gradient of each target starts with."""
    starts = [None] * len(targets) if given is None else _listed(given)
    if len(_variables("grad_outputs", starts, type(None))) != len(targets):
        raise AssertionError("grad_outputs must be as many as outputs")
    for one, start in zip(targets, starts, strict=True):
        if start is not None and start.tensor.shape != one.tensor.shape:
            raise EnforceNotMet(
                f"grad: what the gradient of {one.name!r} starts with, {start.name!r}, must be of "
                f"its shape {list(one.tensor.shape)} but is {list(start.tensor.shape)}"
            )
    return [
        torch.ones_like(one.tensor) if start is None else start.tensor.clone()
        for one, start in zip(targets, starts, strict=True)
    ]


def _unreached(one: VarBase, targets: Sequence[VarBase]) -> str:
    """That no target depends on a variable, and which of them depend on nothing."""
    stopped = [target.name for target in targets if not target.tensor.requires_grad]
    why = f" ({', '.join(stopped)}: stop_gradient is set, or no_grad was in force)"
    problem = f"grad: no output depends on {one.name!r}{why if stopped else ''}"
    return f"{problem}; pass allow_unused=True to get None"


@contextmanager
def _constant(fixed: Iterable[VarBase]) -> Iterator[None]:
    """What leads through these variables is zero."""
    watched: list[Any] = [one.tensor for one in fixed if one.tensor.requires_grad]
    with ExitStack() as hooks:
        for tensor in watched:
            hooks.enter_context(tensor.register_hook(torch.zeros_like))
        yield


def _derived(
    outputs: Sequence[torch.Tensor],
    inputs: Sequence[torch.Tensor],
    starts: Sequence[torch.Tensor],
    keeps: bool,
    again: bool,
) -> Sequence[torch.Tensor | None]:
    """Gradients of outputs by inputs. keeps: the graph stays. again: they have one themselves."""
    pairs = [pair for pair in zip(outputs, starts, strict=True) if pair[0].requires_grad]
    if not pairs or not inputs:
        return [None] * len(inputs)
    outputs, starts = zip(*pairs, strict=True)
    try:
        return torch.autograd.grad(outputs, inputs, starts, keeps, again, allow_unused=True)
    except RuntimeError as error:
        explain_freed(error, "grad")
        raise


def _sums(some: Sequence[Any], others: Sequence[Any]) -> list[Any]:
    return [
        other if one is None else one if other is None else one + other
        for one, other in zip(some, others, strict=False)
    ]


def _made(one: VarBase, value: torch.Tensor | None, takes: bool) -> VarBase | None:
    return None if value is None else VarBase(value, one.grad_name, stop_gradient=not takes)


def _variables(argument: str, given: Any, *others: type) -> list[Any]:
    """The variables (or others) of an argument; AssertionError for anything else."""
    found = list(_listed(given))
    if other := [type(one) for one in found if not isinstance(one, (VarBase, *others))]:
        raise AssertionError(f"grad: {argument} must be variables, but hold a {other[0]}")
    return found


def _listed(given: Any) -> Sequence[Any]:
    if given is None:
        return []
    return list(given) if isinstance(given, list | tuple | set) else [given]
