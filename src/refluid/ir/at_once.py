"""What programs have to do with networks that run at once (dygraph).

Methods that only their variables have are errors that say so. While operators run at once, so do
those that scripts append to a block: `refluid.build`, which knows, provides the function for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from refluid.core.errors import EnforceNotMet
from refluid.ir.callstack import said, user_frames

Takes = Callable[..., Any]


def _nowhere() -> Takes | None:
    return None


_find: Callable[[], Takes | None] = _nowhere


def provide(find: Callable[[], Takes | None]) -> None:
    """find: gives what takes the operators at the moment; None where blocks do."""
    global _find
    _find = find


def takes_operators() -> Takes | None:
    """What takes the arguments of `append_op` instead of the block; None where the block does."""
    return _find()


def only_at_once(name: str) -> NoReturn:
    """Refuses a method that means nothing in a program."""
    raise NotImplementedError(
        f"{name} belongs to networks that run at once, within fluid.dygraph.guard(); "
        "in a program, fetch the value: executor.run(program, fetch_list=[variable])"
    )


def of_a_program(operator: str, name: str) -> TypeError:
    """Of an operator that runs at once and is given a program's variable, which has no value."""
    return TypeError(
        f"operator {operator} runs at once here (fluid.dygraph.guard), and {name!r} belongs to a "
        "program and has no value: make the variable, or the layer that has it, within the guard, "
        "or its value by fluid.dygraph.to_variable(array)"
    )


def of_no_program(operator: str, name: str) -> TypeError:
    """Of a program's operator that is given a variable of dygraph."""
    return TypeError(
        f"operator {operator} is built into a program here, and {name!r} is a value of dygraph: "
        "feed it (executor.run(program, feed={..: variable.numpy()})), or call the layer within "
        "fluid.dygraph.guard()"
    )


def without_value(operator: str, name: str) -> EnforceNotMet:
    """Of an operator that runs at once and is given a variable that nobody gave a value."""
    return EnforceNotMet(
        f"The Tensor in the {operator} Op's Input Variable {name} is not initialized: operators "
        "run at once here (fluid.dygraph.guard), where nothing is fed. Give the value as a "
        "variable, by fluid.dygraph.to_variable(array), or build a program outside the guard\n"
        f"{said(user_frames())}\n  [operator < {operator} > error]"
    )


class AtOnce:
    """Methods of dygraph's variables."""

    def numpy(self) -> Any:
        """The value, in dygraph only."""
        only_at_once("Variable.numpy")

    def set_value(self, value: Any) -> None:  # noqa: ARG002
        """Sets the value, in dygraph only."""
        only_at_once("Variable.set_value")

    def detach(self) -> Any:
        """The value without its history, in dygraph only."""
        only_at_once("Variable.detach")

    def backward(self, backward_strategy: Any = None) -> None:  # noqa: ARG002
        """Computes gradients, in dygraph only; `append_backward` does so in programs."""
        only_at_once("Variable.backward")

    def gradient(self) -> Any:
        """The gradient, in dygraph only; fetch `variable.grad_name` in programs."""
        only_at_once("Variable.gradient")

    def clear_gradient(self) -> None:
        """Forgets the gradient, in dygraph only."""
        only_at_once("Variable.clear_gradient")
