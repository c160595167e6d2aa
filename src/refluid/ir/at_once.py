"""What only variables of networks that run at once (dygraph) have: each an error that says so."""

from __future__ import annotations

from typing import Any, NoReturn


def only_at_once(name: str) -> NoReturn:
    """Refuses a method that means nothing in a program."""
    raise NotImplementedError(
        f"{name} belongs to networks that run at once, within fluid.dygraph.guard(); "
        "in a program, fetch the value: executor.run(program, fetch_list=[variable])"
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
