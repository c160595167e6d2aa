"""Lookahead: slow parameters that follow the fast ones of another optimizer."""

from __future__ import annotations

from typing import Any

from refluid.build import apply
from refluid.fluid import layers
from refluid.fluid.optimizer.base import Optimizer
from refluid.fluid.optimizer.stepping import only_in_programs
from refluid.ir.ambient import name_scope
from refluid.ir.block import Block
from refluid.ir.defaults import default_startup_program, program_guard
from refluid.ir.program import Program
from refluid.ir.variable import Parameter, Variable


class LookaheadOptimizer:
    """Lookahead (Zhang et al., 2019). Every k steps:

        slow = slow + alpha * (fast - slow)
        fast = slow

    inner_optimizer: updates the fast parameters, which are the program's own, at every step.
    alpha: between 0 and 1. k: a positive whole number. AssertionError for others.
    """

    def __init__(self, inner_optimizer: Optimizer, alpha: float = 0.5, k: int = 5) -> None:
        only_in_programs("LookaheadOptimizer")
        assert inner_optimizer is not None, "inner optimizer can not be None"
        assert 0.0 <= alpha <= 1.0, "alpha should be larger or equal to 0.0, and less or equal to 1"
        assert isinstance(k, int) and k > 0, "k should be a positive integer"
        self.inner_optimizer = inner_optimizer
        self.alpha = alpha
        self.k = k
        self.type = "lookahead"

    def minimize(self, loss: Variable, startup_program: Program | None = None) -> Any:
        """Appends the inner optimizer's `minimize` and what moves the slow parameters.

        The slow ones start as copies of the fast ones, made by the startup program. Returns
        what the inner optimizer returned.
        """
        startup = default_startup_program() if startup_program is None else startup_program
        result = self.inner_optimizer.minimize(loss, startup_program=startup)
        program = loss.block.program
        pairs = [(param, _slow(param, startup)) for param in program.all_parameters()]
        with program_guard(program, startup), program.optimized_guard([]), name_scope("lookahead"):
            self._append_sync(pairs)
        return result

    def _append_sync(self, pairs: list[tuple[Parameter, Variable]]) -> None:
        every = _kept("lookahead_k", self.k, "int32")
        alpha = _kept("lookahead_alpha", self.alpha, "float32")
        steps = layers.increment(_kept("lookahead_step", 0, "int32"), value=1.0)
        none = layers.fill_constant([1], "int32", 0)
        with layers.Switch() as switch, switch.case(layers.elementwise_mod(steps, every) == none):
            for fast, slow in pairs:
                moved = slow + layers.elementwise_mul(fast - slow, alpha)
                layers.assign(moved, output=slow)
                layers.assign(moved, output=fast)


def _kept(name: str, value: float, dtype: str) -> Variable:
    """State of the optimizer in a variable of one element."""
    return layers.create_global_var([1], value, dtype, persistable=True, name=name)


def _slow(fast: Parameter, startup: Program) -> Variable:
    def declare(block: Block) -> Variable:
        return block.create_var(
            name=f"{fast.name}@SLOW",
            shape=fast.shape,
            dtype=fast.dtype,
            persistable=True,
            stop_gradient=True,
        )

    start = startup.global_block()
    apply("assign", {"X": fast.name}, {"Out": declare(start)}, block=start)
    return declare(fast.block)
