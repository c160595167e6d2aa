"""ExponentialMovingAverage: parameters averaged with weights that decay."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from refluid.core import names
from refluid.core.dtypes import VarType
from refluid.fluid import layers
from refluid.fluid.optimizer.copying import averaged_parameters, copy_back, twin
from refluid.fluid.optimizer.stepping import only_in_programs
from refluid.ir.ambient import name_scope
from refluid.ir.block import Block
from refluid.ir.defaults import default_main_program, program_guard
from refluid.ir.program import Program
from refluid.ir.variable import Parameter, Variable

_STEPS = "@EMA_STEP_COUNTER@"
# Before the first update the averages are 0, and the correction would divide by 0.
_LEAST = 1e-10


class ExponentialMovingAverage:
    """average = decay * average + (1 - decay) * param after each step, from 0.

    `apply` uses average / (1 - decay ** steps), which doesn't lean towards 0.

    decay: close to 1. thres_steps: a variable of steps so far; the decay is then at most
    (1 + thres_steps) / (10 + thres_steps). name: prefix of the averages' names.

        ema = fluid.optimizer.ExponentialMovingAverage(0.999)
        ema.update()  # after minimize
        ...
        with ema.apply(exe):
            ...  # runs here use the averages
    """

    def __init__(
        self, decay: float = 0.999, thres_steps: Variable | None = None, name: str | None = None
    ) -> None:
        only_in_programs("ExponentialMovingAverage")
        self._decay = decay
        self._thres_steps = thres_steps
        self._name = "" if name is None else name
        self._decay_var = self._get_ema_decay()
        self._params_tmps = [(param, self._spare(param)) for param in averaged_parameters()]
        self._ema_vars = {
            param.name: self._create_ema_vars(param) for param, _ in self._params_tmps
        }
        self.apply_program, self.restore_program = Program(), Program()
        with program_guard(self.apply_program):
            self._write_apply(self.apply_program)
        copy_back(self.restore_program, self._params_tmps)

    def update(self) -> None:
        """Appends the update of the averages to the default main program."""
        layers.autoincreased_step_counter(counter_name=_STEPS)
        self._schedule()
        for param, spare in self._params_tmps:
            average = self._ema_vars[param.name]
            with param.block.program.optimized_guard([param, spare]), name_scope("moving_average"):
                rest = layers.elementwise_mul(param, 1.0 - self._decay_var)
                moved = layers.elementwise_mul(average, self._decay_var) + rest
                layers.assign(moved, output=average)

    @contextmanager
    def apply(self, executor: Any, need_restore: bool = True) -> Iterator[None]:
        """The parameters hold their averages, until the end of the `with` if `need_restore`."""
        executor.run(self.apply_program)
        try:
            yield
        finally:
            if need_restore:
                self.restore(executor)

    def restore(self, executor: Any) -> None:
        """Gives the parameters back what they held before `apply`."""
        executor.run(self.restore_program)

    def _get_ema_decay(self) -> Variable:
        """The variable that holds the decay."""
        return layers.create_global_var(
            [1], self._decay, "float32", persistable=True, name="scheduled_ema_decay_rate"
        )

    def _get_decay_pow(self, block: Block) -> Variable:
        """decay ** steps, in a program that applies the averages.

        The default startup program sets the steps to 0: what only applies them never counts any.
        """
        steps = layers.create_global_var([1], 0, "int64", persistable=True, name=_STEPS)
        decay = twin(block, self._decay_var)
        return layers.elementwise_pow(decay, layers.cast(steps, "float32"))

    def _spare(self, param: Parameter) -> Variable:
        return param.block.create_var(
            name=names.generate(f"{self._name}{param.name}.ema_tmp"),
            dtype=param.dtype,
            persistable=False,
            stop_gradient=True,
        )

    def _create_ema_vars(self, param: Parameter) -> Variable:
        return layers.create_global_var(
            list(param.shape),
            0.0,
            param.dtype,
            persistable=True,
            name=names.generate(f"{self._name}{param.name}_ema"),
        )

    def _schedule(self) -> None:
        if self._thres_steps is None:
            return
        with default_main_program().lr_schedule_guard():
            steps = layers.cast(self._thres_steps, "float32")
            limit = layers.fill_constant([1], "float32", self._decay)
            decay = layers.elementwise_min((steps + 1.0) / (steps + 10.0), limit)
            layers.assign(decay, output=self._decay_var)

    def _write_apply(self, program: Program) -> None:
        block = program.global_block()
        power = self._get_decay_pow(block)
        least = layers.fill_constant([1], "float32", _LEAST)
        weight = layers.elementwise_max(1.0 - power, least)
        for param, spare in self._params_tmps:
            target = twin(block, param)
            layers.assign(target, output=twin(block, spare))
            average = twin(block, self._ema_vars[param.name])
            factor = weight if param.dtype == VarType.FP32 else layers.cast(weight, param.dtype)
            layers.assign(layers.elementwise_div(average, factor), output=target)
